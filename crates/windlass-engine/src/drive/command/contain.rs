//! A tool's work, contained: it may panic, hang, block its thread, or be told to stop.
//!
//! It runs in a task of its own and is waited for from outside, so that neither the run nor its time-outs ever depend
//! on it. What its end means, others decide.

use std::future::poll_fn;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use tokio::runtime::{Handle, RuntimeFlavor};
use tokio::sync::Notify;
use tokio::task::{JoinError, JoinSet, block_in_place};
use tokio_util::sync::CancellationToken;

use crate::port::clock::Clock;
use crate::tool::panic_text;

/// How long a stopped tool may take to end by itself. (design: "cancel")
const GRACE_MS: u64 = 5_000;

/// When a tool has to come to an end.
pub(super) struct Patience<'a> {
    /// How long it may take without a sign of progress. (ZE-X7)
    pub timeout_ms: u64,
    /// Told whenever it shows some.
    pub progressed: Arc<Notify>,
    /// The run no longer wants it.
    pub cancel: &'a CancellationToken,
    /// What the tool is told by.
    pub signal: CancellationToken,
    pub clock: &'a dyn Clock,
}

/// Waits for a tool. The error says why it was killed.
///
/// One that blocks its thread cannot be killed: it is left behind, and ends where it next awaits something.
pub(super) async fn attend<T: Send + 'static>(
    tool: impl Future<Output = T> + Send + 'static,
    patience: Patience<'_>,
) -> Result<T, String> {
    let Patience { timeout_ms, progressed, cancel, signal, clock } = patience;
    // The set aborts its task when it is dropped.
    let mut call = JoinSet::new();
    call.spawn(async move {
        let mut called = Box::pin(tool);
        poll_fn(|task| with_a_worker_to_spare(|| called.as_mut().poll(task))).await
    });
    let reason = tokio::select! {
        biased;
        ended = call.join_next() => return contained(ended).await,
        () = cancel.cancelled() => "the run was stopped".to_owned(),
        reason = silence(timeout_ms.max(1), &progressed, clock) => reason,
    };
    signal.cancel();
    // What has not ended by then is dropped where it stands.
    tokio::select! {
        biased;
        ended = call.join_next() => contained(ended).await,
        () = clock.sleep_ms(GRACE_MS) => Err(reason),
    }
}

/// Completes once a tool has shown no progress for too long, and says so.
async fn silence(timeout_ms: u64, progressed: &Notify, clock: &dyn Clock) -> String {
    let mut since = "";
    loop {
        tokio::select! {
            biased;
            () = progressed.notified() => since = " without progress",
            () = clock.sleep_ms(timeout_ms) => return format!("it took longer than {timeout_ms} ms{since}"),
        }
    }
}

/// A tool that panicked may have done its work: whether to call it again is decided by its effect class.
async fn contained<T>(ended: Option<Result<T, JoinError>>) -> Result<T, String> {
    match ended {
        Some(Ok(output)) => Ok(output),
        Some(Err(error)) if error.is_panic() => {
            Err(format!("it crashed: {}", panic_text(&*error.into_panic())))
        }
        // The runtime is ending. Whether the work was done is not known here, so nothing is said: the next process
        // finds the call started, and judges it.
        Some(Err(_)) | None => std::future::pending().await,
    }
}

/// Tools that are being polled in this process. Any of them may block its thread.
static POLLED: AtomicUsize = AtomicUsize::new(0);

/// Polls a tool so that one worker of the runtime is never taken by tools: the last one is handed on to another thread
/// first. That costs some 10 µs, so it is not done for every poll. A runtime of one thread has none to spare.
fn with_a_worker_to_spare<T>(poll: impl FnOnce() -> T) -> T {
    let polled = Polled::new();
    let runtime = Handle::current();
    let can_hand_on = runtime.runtime_flavor() == RuntimeFlavor::MultiThread;
    if can_hand_on && polled.count >= runtime.metrics().num_workers() { block_in_place(poll) } else { poll() }
}

/// One more tool that is being polled, until it is dropped.
struct Polled {
    count: usize,
}

impl Polled {
    fn new() -> Self {
        Self { count: POLLED.fetch_add(1, Ordering::SeqCst) + 1 }
    }
}

impl Drop for Polled {
    fn drop(&mut self) {
        POLLED.fetch_sub(1, Ordering::SeqCst);
    }
}
