//! The reader process: limits itself, reads one request from stdin, and writes the answer to stdout.
//!
//! This module does not interpret a crash (`mod.rs` does).

use std::io::{self, Read, Write};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;

use super::wire::{Format, Line, Request};
use super::{bare, confine, html, results, word};

/// The argument that starts a program as a reader.
pub(super) const ARGUMENT: &str = "__read-document";
/// Stack size in bytes. Parsers recurse deeply even on ordinary files. The memory is only reserved.
const STACK_BYTES: usize = 64 * 1024 * 1024;
/// Maximum size of a request, in bytes: the largest file that a tool
/// reads whole, and the head of the request.
const MAX_REQUEST_BYTES: u64 = 64 * 1024 * 1024;

/// Whether this program can be started as a reader.
static IS_READER: AtomicBool = AtomicBool::new(false);

/// If the program was started as a document reader, serves as the reader and does not return. Otherwise
/// enables [`Reader::this_program`](super::Reader::this_program). Call this function first in `main`, before
/// the program starts threads or opens files.
pub fn reader_main() {
    IS_READER.store(true, Ordering::Relaxed);
    if std::env::args_os().nth(1).is_some_and(|argument| argument == ARGUMENT) {
        let is_served = confine::confine().and_then(|()| serve()).is_ok();
        std::process::exit(if is_served { 0 } else { 1 });
    }
}

/// Returns the path of this program if it can be a reader.
pub(super) fn own_program() -> Option<PathBuf> {
    if !IS_READER.load(Ordering::Relaxed) {
        return None;
    }
    // The link refers to this program even if an upgrade has replaced its file.
    let link = Path::new("/proc/self/exe");
    if link.exists() { Some(link.to_owned()) } else { std::env::current_exe().ok() }
}

fn serve() -> io::Result<()> {
    // The message of a panic is not printed, because it could contain text of the document.
    std::panic::set_hook(Box::new(|_| {}));
    let reading = thread::Builder::new().stack_size(STACK_BYTES).spawn(read_request)?;
    reading.join().unwrap_or_else(|_| Err(io::Error::other("the parser panicked")))
}

fn read_request() -> io::Result<()> {
    let mut all = Vec::new();
    io::stdin().lock().take(MAX_REQUEST_BYTES).read_to_end(&mut all)?;
    let head = all.iter().position(|byte| *byte == b'\n').ok_or(io::ErrorKind::UnexpectedEof)?;
    let request: Request = serde_json::from_slice(&all[..head])?;
    let mut output = io::stdout().lock();
    let mut write = |line: Line| {
        let mut bytes = serde_json::to_vec(&line)?;
        bytes.push(b'\n');
        output.write_all(&bytes)?;
        output.flush()
    };
    let outcome = parse(&request, &all[head + 1..], &mut write)?;
    write(outcome.map_or_else(Line::Refused, |()| Line::End))
}

/// Parses a document in this process. The inner error is the reason for a rejection.
fn parse(
    request: &Request,
    bytes: &[u8],
    write: &mut dyn FnMut(Line) -> io::Result<()>,
) -> io::Result<Result<(), String>> {
    let text = || String::from_utf8_lossy(bytes);
    let answer = match request.format {
        #[cfg(feature = "pdf")]
        Format::Pdf => return super::pdf::extract(bytes, request, write),
        #[cfg(not(feature = "pdf"))]
        Format::Pdf => {
            Err("this build does not support PDF files: build it with the cargo feature `pdf`".to_owned())
        }
        Format::Word => word::extract(bytes),
        Format::Html => match html::convert(&text(), request.base.as_deref()) {
            Some((title, text)) => {
                write(Line::Title(title))?;
                Ok(text)
            }
            None => Err("it is nested too deeply".to_owned()),
        },
        Format::BareHtml => Ok(bare::text(&text())),
        Format::Results => results::results(&text()),
        #[cfg(feature = "testing")]
        Format::Rights => Ok(confine::rights()),
    };
    match answer {
        Ok(text) => write(Line::Text(text)).map(Ok),
        Err(why) => Ok(Err(why)),
    }
}

/// Parses a document in this process, which a hostile document may
/// end. Returns whether the document was read.
#[cfg(feature = "testing")]
pub(crate) fn is_readable(request: &Request, bytes: &[u8]) -> bool {
    matches!(parse(request, bytes, &mut |_| Ok(())), Ok(Ok(())))
}
