//! Reads PDF, HTML, Word and search results in a separate process. The reason: a hostile file can make a
//! parser overflow the stack, abort, or exhaust the memory.
//!
//! The reader process drops its rights before it reads a byte (`confine.rs`). If the process crashes or
//! exceeds a limit, one read fails. A program that embeds the library must call [`reader_main`] first in
//! `main`, or name another program that does so. Without a reader, tools reject these formats.

mod bare;
mod confine;
mod html;
#[cfg(feature = "pdf")]
mod pdf;
mod process;
mod results;
mod tree;
mod wire;
mod word;

use std::ffi::OsString;
use std::io;
use std::path::PathBuf;
use std::process::{ExitStatus, Stdio};
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use thiserror::Error;
use tokio::io::{AsyncBufReadExt, AsyncReadExt, AsyncWriteExt, BufReader};
use tokio::process::{Child, Command};
use tokio::runtime::Handle;
use tokio::sync::Semaphore;
use tokio_util::sync::CancellationToken;

use self::process::ARGUMENT;
#[cfg(feature = "testing")]
pub(crate) use self::process::is_readable;
pub use self::process::reader_main;
pub(crate) use self::results::{Found, RIDDLE, is_page};
pub(crate) use self::wire::{Document, Format, Request};
use self::wire::{Line, MAX_ANSWER_BYTES};

/// Maximum number of concurrent reader processes. Each may use [`MAX_MEMORY_BYTES`].
const MAX_READERS: usize = 4;
/// Maximum address space of a reader process, in bytes. A text document of the
/// largest accepted size needs a tenth of it.
const MAX_MEMORY_BYTES: u64 = 1024 * 1024 * 1024;
/// Maximum time to read a document. A typical document takes milliseconds, so
/// a reader that exceeds the limit is stuck.
const TIME_LIMIT: Duration = Duration::from_secs(20);

/// Starts reader processes.
#[derive(Clone, Debug)]
pub struct Reader {
    program: Option<Arc<Program>>,
}

#[derive(Debug)]
struct Program {
    path: PathBuf,
    slots: Semaphore,
}

/// Why a document was not read.
#[derive(Debug, Error)]
pub(crate) enum ReadError {
    /// The call was cancelled.
    #[error("the call was cancelled")]
    Cancelled,
    /// The program has no reader.
    #[error(
        "this program has no document reader: call `windlass::reader::reader_main()` first in `main`, or set \
         one with `Reader::program`"
    )]
    Absent,
    /// The reader process could not be started.
    #[error("cannot start the document reader `{}`: {error}", path.display())]
    Start { path: PathBuf, error: io::Error },
    /// The parser rejected the document.
    #[error("{0}")]
    Refused(String),
    /// The reader process ended early.
    #[error("it is damaged, or requires more than {} MiB of memory ({status})", MAX_MEMORY_BYTES >> 20)]
    Crashed { status: ExitStatus },
    /// The time limit was exceeded.
    #[error("reading it took longer than {} s", TIME_LIMIT.as_secs())]
    Slow,
}

impl Reader {
    /// Starts this program as the reader. Rejects every document unless the program called [`reader_main`]
    /// before. All readers of a process share the limit of concurrent reader processes.
    pub fn this_program() -> Self {
        static OWN: OnceLock<Option<Arc<Program>>> = OnceLock::new();
        Self { program: OWN.get_or_init(|| process::own_program().map(Program::new)).clone() }
    }

    /// Starts another program as the reader. That program must call [`reader_main`] first.
    pub fn program(path: impl Into<PathBuf>) -> Self {
        Self { program: Some(Program::new(path.into())) }
    }

    /// Creates a reader that rejects every document.
    pub fn none() -> Self {
        Self { program: None }
    }

    /// Reads a document. Waits while the maximum number of reader processes is
    /// running; the time limit begins afterwards.
    pub(crate) async fn read(
        &self,
        request: &Request,
        bytes: &[u8],
        cancel: &CancellationToken,
    ) -> Result<Document, ReadError> {
        let program = self.program.as_ref().ok_or(ReadError::Absent)?;
        let reading = async {
            // The semaphore is never closed. Without a permit, the read
            // would only exceed the limit of processes.
            let _slot = program.slots.acquire().await.ok();
            tokio::time::timeout(TIME_LIMIT, program.read(request, bytes)).await
        };
        tokio::select! {
            biased;
            () = cancel.cancelled() => Err(ReadError::Cancelled),
            read = reading => read.unwrap_or(Err(ReadError::Slow)),
        }
    }

    /// Reads a document on a thread of the runtime's blocking pool.
    pub(crate) fn read_blocking(
        &self,
        request: &Request,
        bytes: &[u8],
        cancel: &CancellationToken,
    ) -> Result<Document, ReadError> {
        Handle::current().block_on(self.read(request, bytes, cancel))
    }
}

impl Program {
    fn new(path: PathBuf) -> Arc<Self> {
        Arc::new(Self { path, slots: Semaphore::new(MAX_READERS) })
    }

    async fn read(&self, request: &Request, bytes: &[u8]) -> Result<Document, ReadError> {
        let failed = |error| ReadError::Start { path: self.path.clone(), error };
        let mut child = self.spawn().map_err(failed)?;
        let (Some(mut input), Some(output)) = (child.stdin.take(), child.stdout.take()) else {
            return Err(failed(io::Error::other("the process has no pipes")));
        };
        let head = request.encode();
        let feeding = async move {
            // A write error is ignored: a reader that ends early closes its input, and
            // its answer or exit status has the reason.
            let _ = async { input.write_all(&head).await.and(input.write_all(bytes).await) }.await;
        };
        let (answer, ()) = tokio::join!(collect(output), feeding);
        finish(child, answer).await
    }

    fn spawn(&self) -> io::Result<Child> {
        let mut command = Command::new(&self.path);
        command.arg(OsString::from(ARGUMENT)).env_clear().current_dir("/");
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::null()).kill_on_drop(true);
        command.spawn()
    }
}

/// The output of the process until it closed its stdout.
#[derive(Default)]
struct Answer {
    document: Document,
    /// The number of the last page begun, and the total.
    page: Option<(u64, u64)>,
    refusal: Option<String>,
    is_complete: bool,
}

async fn collect(output: impl tokio::io::AsyncRead + Unpin) -> Answer {
    let mut answer = Answer::default();
    let mut lines = BufReader::new(output.take(MAX_ANSWER_BYTES)).lines();
    // An unreadable line means that the process crashed or that the answer is too long.
    while let Ok(Some(line)) = lines.next_line().await {
        match serde_json::from_str(&line) {
            Ok(Line::Text(text)) => answer.document.text.push_str(&text),
            Ok(Line::Title(title)) => answer.document.title = title,
            Ok(Line::Page { number, total }) => answer.page = Some((number, total)),
            Ok(Line::Refused(why)) => answer.refusal = Some(why),
            Ok(Line::End) => answer.is_complete = true,
            Err(_) => break,
        }
    }
    answer
}

async fn finish(mut child: Child, answer: Answer) -> Result<Document, ReadError> {
    if let Some(why) = answer.refusal {
        return Err(ReadError::Refused(why));
    }
    let mut document = answer.document;
    if answer.is_complete {
        return Ok(document);
    }
    // The process may still be writing beyond the size limit.
    let _ = child.start_kill();
    let status = child.wait().await.map_err(|error| ReadError::Refused(error.to_string()))?;
    let Some((number, total)) = answer.page else { return Err(ReadError::Crashed { status }) };
    document.text.push_str(&format!("[this page cannot be read: {}]\n", ReadError::Crashed { status }));
    if number < total {
        document.text.push_str(&format!("[page {number} of {total}; continue with offset {}]\n", number + 1));
    }
    Ok(document)
}
