//! Work with a parser that is not trusted: a thread of its own with a deep stack, a time limit, panics caught.
//!
//! A thread cannot be killed: one that never ends keeps its place, and there are few places.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Condvar, Mutex, PoisonError, mpsc};
use std::thread;
use std::time::Duration;

use tokio_util::sync::CancellationToken;

/// A reader that never ends keeps its thread; beyond this many no more are started.
const MAX_READERS: usize = 4;
/// Parsers recurse deeply on honest files too; the memory is only reserved.
const STACK_BYTES: usize = 64 * 1024 * 1024;
/// How often a wait looks at the cancel signal.
const POLL: Duration = Duration::from_millis(100);

static READERS: Mutex<usize> = Mutex::new(0);
static READER_ENDED: Condvar = Condvar::new();

/// Why work brought nothing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Confined {
    /// Nobody wants it any more.
    Cancelled,
    /// Too much of the kind is under way.
    Busy,
    /// It panicked.
    Crashed,
    /// It took too long.
    Slow,
}

/// Does work that may panic, recurse deeply, or never end. Blocks its own thread until then.
pub(crate) fn confined<T: Send + 'static>(
    name: &str,
    within: Duration,
    cancel: &CancellationToken,
    work: impl FnOnce(&CancellationToken) -> T + Send + 'static,
) -> Result<T, Confined> {
    let polls = within.as_millis() / POLL.as_millis();
    let slot = Slot::wait(cancel, polls)?;
    let (sender, receiver) = mpsc::sync_channel(1);
    let stop = cancel.child_token();
    let _stop_guard = stop.clone().drop_guard();
    let work = move || {
        let _slot = slot;
        // Nobody listens any more after the time limit.
        let _ = sender.send(catch_unwind(AssertUnwindSafe(|| work(&stop))));
    };
    let spawned = thread::Builder::new().name(name.to_owned()).stack_size(STACK_BYTES).spawn(work);
    spawned.map_err(|_| Confined::Busy)?;
    for _ in 0..polls {
        if cancel.is_cancelled() {
            return Err(Confined::Cancelled);
        }
        match receiver.recv_timeout(POLL) {
            Ok(done) => return done.map_err(|_| Confined::Crashed),
            Err(mpsc::RecvTimeoutError::Timeout) => {}
            Err(mpsc::RecvTimeoutError::Disconnected) => break,
        }
    }
    Err(Confined::Slow)
}

/// The right to run a reader; given back when its thread ends, however late.
struct Slot;

impl Slot {
    fn wait(cancel: &CancellationToken, polls: u128) -> Result<Self, Confined> {
        // Nothing panics while it holds the lock, and a count cannot be left half changed.
        let mut readers = READERS.lock().unwrap_or_else(PoisonError::into_inner);
        for _ in 0..polls {
            if cancel.is_cancelled() {
                return Err(Confined::Cancelled);
            }
            if *readers < MAX_READERS {
                *readers += 1;
                return Ok(Self);
            }
            let woken = READER_ENDED.wait_timeout(readers, POLL).unwrap_or_else(PoisonError::into_inner);
            readers = woken.0;
        }
        Err(Confined::Busy)
    }
}

impl Drop for Slot {
    fn drop(&mut self) {
        *READERS.lock().unwrap_or_else(PoisonError::into_inner) -= 1;
        READER_ENDED.notify_one();
    }
}
