//! The text of a PDF's pages, from a parser that is not trusted.
//!
//! A hostile file can make it panic, loop or recurse without end. It runs in a thread of its own
//! with a time limit, panics are caught page by page, and the two known endless recursions (a page
//! tree and drawn forms that contain themselves) are looked for first, because a stack that
//! overflows ends the process. What streams unpack to is bounded before the parser unpacks them
//! (`pdf/unpack.rs`), in an encrypted file too (`pdf/locked.rs`). No text recognition: a scanned page has no text.

mod locked;
mod unpack;

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Condvar, Mutex, PoisonError, mpsc};
use std::thread;
use std::time::Duration;

use pdf_extract::content::Content;
use pdf_extract::{Dictionary, Document, Object, ObjectId, PlainTextOutput, Stream, output_doc_page};
use tokio_util::sync::CancellationToken;

use super::{Answer, Refusal};
use crate::port::tool::ToolOutput;
use crate::tool::FolderPath;

const DEFAULT_PAGES: u64 = 20;
/// A page takes milliseconds; a file that needs longer than this does not end.
const TIME_LIMIT: Duration = Duration::from_secs(30);
/// A reader that never ends keeps its thread; beyond this many no more are started.
const MAX_READERS: usize = 4;
/// The parser recurses deeply on honest files too; the memory is only reserved.
const STACK_BYTES: usize = 64 * 1024 * 1024;
const MAX_PAGE_TREE_DEPTH: usize = 64;
const MAX_FORM_DEPTH: usize = 12;
/// Forms drawn on one page, counted as often as they are drawn.
const MAX_FORMS: usize = 2000;
/// A page's drawing is a few hundred kilobytes; that of a dense map is some megabytes.
const MAX_DRAWN_BYTES: usize = 16 * 1024 * 1024;
const MAX_TEXT_BYTES: usize = 2 * 1024 * 1024;

static READERS: Mutex<usize> = Mutex::new(0);
static READER_ENDED: Condvar = Condvar::new();
/// How often a wait looks at the cancel signal.
const POLL: Duration = Duration::from_millis(100);
const POLLS: u128 = TIME_LIMIT.as_millis() / POLL.as_millis();

/// Shows the text of some pages.
pub(super) fn show(
    bytes: Vec<u8>,
    path: &FolderPath,
    first: u64,
    count: Option<u64>,
    cancel: &CancellationToken,
) -> Answer {
    let slot = Slot::wait(cancel)?;
    let (sender, receiver) = mpsc::sync_channel(1);
    let stop = cancel.child_token();
    let _stop_guard = stop.clone().drop_guard();
    let work = move || {
        let _slot = slot;
        let text = catch_unwind(AssertUnwindSafe(|| extract(&bytes, first, count, &stop)));
        // Nobody listens any more after the time limit.
        let _ = sender.send(text.unwrap_or_else(|_| Err("it is damaged".to_owned())));
    };
    thread::Builder::new()
        .name("pdf".to_owned())
        .stack_size(STACK_BYTES)
        .spawn(work)
        .map_err(|error| Refusal::io("read", path, error))?;
    for _ in 0..POLLS {
        if cancel.is_cancelled() {
            return Err(Refusal::cancelled());
        }
        match receiver.recv_timeout(POLL) {
            Ok(Ok(text)) => return Ok(ToolOutput::text(text)),
            Ok(Err(problem)) => return Err(Refusal(format!("cannot read the PDF `{path}`: {problem}"))),
            Err(mpsc::RecvTimeoutError::Timeout) => {}
            Err(mpsc::RecvTimeoutError::Disconnected) => break,
        }
    }
    Err(Refusal(format!("cannot read the PDF `{path}` within {} s", TIME_LIMIT.as_secs())))
}

/// The right to run a reader; given back when its thread ends, however late.
struct Slot;

impl Slot {
    fn wait(cancel: &CancellationToken) -> Result<Self, Refusal> {
        // Nothing panics while it holds the lock, and a count cannot be left half changed.
        let mut readers = READERS.lock().unwrap_or_else(PoisonError::into_inner);
        for _ in 0..POLLS {
            if cancel.is_cancelled() {
                return Err(Refusal::cancelled());
            }
            if *readers < MAX_READERS {
                *readers += 1;
                return Ok(Self);
            }
            let woken = READER_ENDED.wait_timeout(readers, POLL).unwrap_or_else(PoisonError::into_inner);
            readers = woken.0;
        }
        Err(Refusal::new("too many PDFs are being read; try again later"))
    }
}

impl Drop for Slot {
    fn drop(&mut self) {
        *READERS.lock().unwrap_or_else(PoisonError::into_inner) -= 1;
        READER_ENDED.notify_one();
    }
}

fn extract(bytes: &[u8], first: u64, count: Option<u64>, stop: &CancellationToken) -> Result<String, String> {
    let mut document = unpack::load(bytes)?;
    unpack::empty_oversized(&mut document);
    let pages = document.get_pages();
    let total = pages.len() as u64;
    if total == 0 {
        return Err("it has no pages".to_owned());
    }
    if first > total {
        return Err(format!("page {first} is beyond the end: it has {total} pages"));
    }
    let after = first.saturating_add(count.unwrap_or(DEFAULT_PAGES).max(1));
    let mut text = String::new();
    let mut last = first;
    for (number, id) in pages.iter().filter(|(number, _)| (first..after).contains(&u64::from(**number))) {
        if stop.is_cancelled() || text.len() >= MAX_TEXT_BYTES {
            break;
        }
        last = u64::from(*number);
        text.push_str(&format!("[page {number} of {total}]\n"));
        match page_text(&document, *number, *id) {
            Ok(page) if page.trim().is_empty() => text.push_str("[no text on this page]\n"),
            Ok(page) => {
                text.push_str(page.trim());
                text.push('\n');
            }
            Err(problem) => text.push_str(&format!("[this page cannot be read: {problem}]\n")),
        }
    }
    if last < total {
        text.push_str(&format!("[pages {first}–{last} of {total}; continue with offset {}]\n", last + 1));
    }
    Ok(text)
}

fn page_text(document: &Document, number: u32, id: ObjectId) -> Result<String, String> {
    let extracted = catch_unwind(AssertUnwindSafe(|| {
        refuse_recursion(document, id)?;
        let mut text = String::new();
        output_doc_page(document, &mut PlainTextOutput::new(&mut text), number)
            .map_err(|error| error.to_string())?;
        Ok(text)
    }));
    extracted.unwrap_or_else(|_| Err("it is damaged".to_owned()))
}

/// Refuses a page on which the parser would recurse without end.
fn refuse_recursion(document: &Document, page: ObjectId) -> Result<(), String> {
    let page_dictionary = document.get_dictionary(page).map_err(|error| error.to_string())?;
    let mut resources = None;
    let mut node = page_dictionary;
    for depth in 0.. {
        if depth > MAX_PAGE_TREE_DEPTH {
            return Err("its page tree is too deep".to_owned());
        }
        resources = resources.or_else(|| dictionary(document, node, b"Resources"));
        let parent = node.get(b"Parent").and_then(Object::as_reference);
        match parent.and_then(|parent| document.get_dictionary(parent)) {
            Ok(parent) => node = parent,
            Err(_) => break,
        }
    }
    let mut held = 0;
    for part in document.get_page_contents(page) {
        if let Ok(part) = document.get_object(part).and_then(Object::as_stream) {
            held = hold(held, part)?;
        }
    }
    let content = document.get_page_content(page).map_err(|error| error.to_string())?;
    let mut forms = 0;
    match resources {
        Some(resources) => walk_forms(document, &content, resources, Drawn { depth: 0, held }, &mut forms),
        None => Ok(()),
    }
}

/// What is being drawn at once: forms within each other, and their bytes, which the parser holds many times over.
#[derive(Clone, Copy)]
struct Drawn {
    depth: usize,
    held: usize,
}

fn hold(held: usize, stream: &Stream) -> Result<usize, String> {
    unpack::size(stream, MAX_DRAWN_BYTES)
        .map(|size| held + size)
        .filter(|held| *held <= MAX_DRAWN_BYTES)
        .ok_or_else(|| format!("what it draws unpacks to more than {MAX_DRAWN_BYTES} bytes"))
}

/// Goes through what a content draws, as the parser will, but counts.
fn walk_forms(
    document: &Document,
    content: &[u8],
    resources: &Dictionary,
    outer: Drawn,
    forms: &mut usize,
) -> Result<(), String> {
    let Ok(content) = Content::decode(content) else { return Ok(()) };
    let drawn = content.operations.iter().filter(|operation| operation.operator == "Do");
    for name in drawn.filter_map(|operation| operation.operands.first()?.as_name().ok()) {
        let Some(form) =
            dictionary(document, resources, b"XObject").and_then(|all| stream(document, all, name))
        else {
            continue;
        };
        *forms += 1;
        if outer.depth >= MAX_FORM_DEPTH || *forms > MAX_FORMS {
            return Err("it draws too many forms within each other".to_owned());
        }
        let held = hold(outer.held, form)?;
        let inner = dictionary(document, &form.dict, b"Resources").unwrap_or(resources);
        let bytes = form.decompressed_content().unwrap_or_else(|_| form.content.clone());
        walk_forms(document, &bytes, inner, Drawn { depth: outer.depth + 1, held }, forms)?;
    }
    Ok(())
}

fn dictionary<'a>(document: &'a Document, holder: &'a Dictionary, key: &[u8]) -> Option<&'a Dictionary> {
    document.dereference(holder.get(key).ok()?).ok()?.1.as_dict().ok()
}

fn stream<'a>(document: &'a Document, holder: &'a Dictionary, key: &[u8]) -> Option<&'a Stream> {
    document.dereference(holder.get(key).ok()?).ok()?.1.as_stream().ok()
}
