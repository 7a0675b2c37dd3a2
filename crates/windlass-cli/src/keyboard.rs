//! Reads lines from the terminal while a command does other work.
//!
//! A dedicated thread reads the lines. It stops between two lines, so that the line editor can use the terminal again.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;

use tokio::sync::mpsc;

/// Capacity of the queue of typed lines: more than a person types while one question is open.
const LINES: usize = 16;

/// Maximum time in milliseconds until the thread notices a request to stop.
const NOTICE_MS: i32 = 50;

/// Reads lines on a thread until it is dropped.
pub struct Keyboard {
    lines: mpsc::Receiver<Typed>,
    stop: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Typed {
    /// A line, without its line break.
    Line(String),
    /// Ctrl-D. On a terminal, more input may follow.
    End,
    /// Ctrl-C, if the terminal delivers it as a key instead of a signal.
    Interrupt,
    /// The terminal was closed.
    Gone,
}

impl Keyboard {
    /// Starts the reading thread.
    pub fn open() -> Self {
        let (sender, lines) = mpsc::channel(LINES);
        let stop = Arc::new(AtomicBool::new(false));
        let told = stop.clone();
        let thread = std::thread::spawn(move || read(&sender, &told));
        Self { lines, stop, thread: Some(thread) }
    }

    /// Waits for the next line. The future never completes after the terminal was closed.
    pub async fn next(&mut self) -> Typed {
        match self.lines.recv().await {
            Some(typed) => typed,
            None => std::future::pending().await,
        }
    }
}

impl Drop for Keyboard {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
        self.lines.close();
        if let Some(thread) = self.thread.take() {
            // The thread polls the flag every `NOTICE_MS`.
            let _ = thread.join();
        }
    }
}

fn read(sender: &mpsc::Sender<Typed>, stop: &AtomicBool) {
    while !stop.load(Ordering::Relaxed) {
        let gone = match look() {
            Look::Nothing => continue,
            Look::Line => false,
            Look::Gone => true,
        };
        let mut line = String::new();
        let (typed, gone) = match std::io::stdin().read_line(&mut line) {
            Ok(0) => (Typed::End, gone),
            Ok(_) => (Typed::Line(line.trim_end_matches(['\n', '\r']).to_owned()), false),
            Err(_) => (Typed::End, true),
        };
        if sender.blocking_send(typed).is_err() || gone {
            return;
        }
    }
}

/// The state of standard input after one poll.
enum Look {
    Nothing,
    Line,
    /// The terminal was closed. Input typed before may remain.
    Gone,
}

/// Polls standard input for up to `NOTICE_MS`. In a terminal's line mode, one read returns one whole line.
#[cfg(unix)]
fn look() -> Look {
    let mut wanted = libc::pollfd { fd: libc::STDIN_FILENO, events: libc::POLLIN, revents: 0 };
    // SAFETY: the pointer refers to one valid `pollfd`, and the count is 1.
    let ready = unsafe { libc::poll(&mut wanted, 1, NOTICE_MS) };
    match ready {
        ..=0 => Look::Nothing,
        _ if wanted.revents & (libc::POLLHUP | libc::POLLERR | libc::POLLNVAL) != 0 => Look::Gone,
        _ => Look::Line,
    }
}

#[cfg(not(unix))]
fn look() -> Look {
    Look::Line
}
