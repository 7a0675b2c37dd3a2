//! Lines that a person types while something else goes on. Only for a terminal.
//!
//! A thread of its own reads them and stops between two lines, so that the line editor gets the terminal back.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;

use tokio::sync::mpsc;

/// Lines kept until someone takes them: more than a person types while one question is open.
const LINES: usize = 16;

/// How long the thread takes to notice that it is to stop, in milliseconds.
const NOTICE_MS: i32 = 50;

/// Reads lines until dropped.
pub struct Keyboard {
    lines: mpsc::Receiver<Typed>,
    stop: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
}

/// What was typed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Typed {
    /// A line, without its end.
    Line(String),
    /// Ctrl-D. On a terminal more may come after it.
    End,
    /// Ctrl-C, where it comes as a key and not as a signal.
    Interrupt,
    /// The terminal is gone.
    Gone,
}

impl Keyboard {
    /// Starts to read.
    pub fn open() -> Self {
        let (sender, lines) = mpsc::channel(LINES);
        let stop = Arc::new(AtomicBool::new(false));
        let told = stop.clone();
        let thread = std::thread::spawn(move || read(&sender, &told));
        Self { lines, stop, thread: Some(thread) }
    }

    /// The next line; once the terminal is gone it never comes.
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
            // It looks up within `NOTICE_MS`.
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

/// What there is to read.
enum Look {
    Nothing,
    Line,
    /// At most what was typed before the terminal went.
    Gone,
}

/// Whether a line can be read without waiting. In a terminal's line mode a read brings one whole line.
#[cfg(unix)]
fn look() -> Look {
    let mut wanted = libc::pollfd { fd: libc::STDIN_FILENO, events: libc::POLLIN, revents: 0 };
    // SAFETY: one valid `pollfd`, and the count says one.
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
