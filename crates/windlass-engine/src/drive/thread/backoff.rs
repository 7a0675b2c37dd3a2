//! Limits for opening threads: concurrency, the number of driven threads, and backoff after failures.
//!
//! `recover.rs` opens the threads.

use std::collections::HashMap;
use std::sync::{Mutex, MutexGuard, PoisonError};

use tokio::sync::Semaphore;
use windlass_machine::ThreadId;

/// Maximum number of threads that the sweep and recoveries open concurrently: enough for their claims to share
/// commits, and few enough for the store's readers.
pub(super) const OPENINGS: usize = 32;

/// The default of [`Builder::driven_max`](crate::Builder::driven_max).
pub(crate) const DRIVEN_MAX: usize = 1_000;

/// Limits for opening threads that need a driver.
pub(crate) struct Openings {
    /// [`OPENINGS`] permits; opening a thread takes one permit.
    pub(super) permits: Semaphore,
    /// Number of driven threads at which the sweep stops opening more.
    pub(super) driven_max: usize,
}

impl Openings {
    pub(crate) fn new(driven_max: usize) -> Self {
        Self { permits: Semaphore::new(OPENINGS), driven_max }
    }
}

/// Delays between retries in milliseconds; each delay is twice the previous one.
#[derive(Clone, Copy)]
pub(super) struct Delays {
    first_ms: u64,
    longest_ms: u64,
}

/// Delays after a temporary failure. The shortest delay is the interval of the sweep.
pub(super) const PASSING: Delays = Delays { first_ms: 1_000, longest_ms: 60_000 };

/// Delays after a failure that a retry is likely to repeat: damage, or an event of a newer build.
pub(super) const LASTING: Delays = Delays { first_ms: 60_000, longest_ms: 3_600_000 };

/// Maximum number of threads with a recorded failure. Above it, the entry
/// that is due next is dropped, so that its thread is retried early.
const BACKOFFS: usize = 4_096;

/// Threads that this process could not open or drive, each with the time of its next retry.
#[derive(Default)]
pub(crate) struct Backoffs(Mutex<HashMap<ThreadId, Backoff>>);

#[derive(Clone, Copy)]
struct Backoff {
    until_ms: u64,
    delay_ms: u64,
}

impl Backoffs {
    fn all(&self) -> MutexGuard<'_, HashMap<ThreadId, Backoff>> {
        // No code panics while the lock is held.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Records a failure. Returns whether it is the thread's first failure in a row.
    pub(super) fn add(&self, thread: &ThreadId, delays: Delays, now_ms: u64) -> bool {
        let Delays { first_ms, longest_ms } = delays;
        let mut all = self.all();
        let known = all.get(thread).copied();
        let delay_ms = known.map_or(first_ms, |known| longest_ms.min(first_ms.max(2 * known.delay_ms)));
        if known.is_none()
            && all.len() >= BACKOFFS
            && let Some(next) =
                all.iter().min_by_key(|(_, backoff)| backoff.until_ms).map(|(id, _)| id.clone())
        {
            all.remove(&next);
        }
        all.insert(thread.clone(), Backoff { until_ms: now_ms.saturating_add(delay_ms), delay_ms });
        known.is_none()
    }

    pub(super) fn clear(&self, thread: &ThreadId) {
        self.all().remove(thread);
    }

    pub(super) fn waiting(&self, now_ms: u64) -> Vec<ThreadId> {
        let all = self.all();
        all.iter().filter(|(_, backoff)| backoff.until_ms > now_ms).map(|(id, _)| id.clone()).collect()
    }

    pub(super) fn is_waiting(&self, thread: &ThreadId, now_ms: u64) -> bool {
        self.all().get(thread).is_some_and(|backoff| backoff.until_ms > now_ms)
    }
}
