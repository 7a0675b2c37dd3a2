//! Containment of a tool: it may panic, hang, block its thread, or need to be cancelled.
//!
//! A tool runs in its own task, so that the run and its timeouts do not depend on it. The machine decides the
//! consequences of a tool's end.

use std::future::poll_fn;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use tokio::runtime::{Handle, RuntimeFlavor};
use tokio::sync::Notify;
use tokio::task::{JoinError, JoinSet, block_in_place};
use tokio_util::sync::CancellationToken;

use crate::port::clock::Clock;
use crate::tool::panic_text;

/// Grace period in milliseconds: a cancelled tool is dropped after it.
const GRACE_MS: u64 = 5_000;

/// The conditions under which a tool is stopped.
pub(super) struct Patience<'a> {
    /// Milliseconds without progress after which the tool is stopped. (ZE-X7)
    pub timeout_ms: u64,
    /// Notified when the tool reports progress.
    pub progressed: Arc<Notify>,
    /// Cancelled when the run no longer needs the call.
    pub cancel: &'a CancellationToken,
    /// The cancellation token that the tool receives.
    pub signal: CancellationToken,
    pub clock: &'a dyn Clock,
}

/// Waits for a tool. Returns an error with the reason if the tool was killed.
///
/// A tool that blocks its thread cannot be killed. Such a tool is abandoned, and ends at its next await point.
pub(super) async fn attend<T: Send + 'static>(
    tool: impl Future<Output = T> + Send + 'static,
    patience: Patience<'_>,
) -> Result<T, String> {
    let Patience { timeout_ms, progressed, cancel, signal, clock } = patience;
    // Dropping the set aborts its task.
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
    // A tool that is still running after the grace period is dropped.
    tokio::select! {
        biased;
        ended = call.join_next() => contained(ended).await,
        () = clock.sleep_ms(GRACE_MS) => Err(reason),
    }
}

/// Completes with the reason when a tool has reported no progress for `timeout_ms`.
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

/// Converts a panic to an error. A tool that panicked may have had
/// effects, so the effect class decides whether it is called again.
async fn contained<T>(ended: Option<Result<T, JoinError>>) -> Result<T, String> {
    match ended {
        Some(Ok(output)) => Ok(output),
        Some(Err(error)) if error.is_panic() => {
            Err(format!("it crashed: {}", panic_text(&*error.into_panic())))
        }
        // The runtime is ending, and the outcome of the tool is unknown. Report no outcome: the next process finds
        // the started call in the journal and handles it as lost.
        Some(Err(_)) | None => std::future::pending().await,
    }
}

/// Number of tools being polled in this process. Each tool may block its thread.
static POLLED: AtomicUsize = AtomicUsize::new(0);

/// Polls a tool such that tools never occupy the runtime's last worker: tokio first
/// moves the worker to another thread. The move takes about 10 µs, so it is only made
/// if all workers are occupied. A single-threaded runtime has no worker to move.
fn with_a_worker_to_spare<T>(poll: impl FnOnce() -> T) -> T {
    let polled = Polled::new();
    let runtime = Handle::current();
    let can_hand_on = runtime.runtime_flavor() == RuntimeFlavor::MultiThread;
    if can_hand_on && polled.count >= runtime.metrics().num_workers() { block_in_place(poll) } else { poll() }
}

/// Guard that counts one tool being polled.
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
