//! Limits for the generation of titles.

use std::collections::HashSet;
use std::sync::{Mutex, MutexGuard, PoisonError};

use tokio::sync::Semaphore;
use windlass::machine::ThreadId;

/// Maximum number of titles generated concurrently, so that users' runs have priority.
const AT_ONCE: usize = 4;

/// Limits for the generation of titles.
pub struct Titles {
    pub(in crate::http) at_once: Semaphore,
    /// Threads whose title is being generated or queued.
    waiting: Mutex<HashSet<ThreadId>>,
}

impl Default for Titles {
    fn default() -> Self {
        Self { at_once: Semaphore::new(AT_ONCE), waiting: Mutex::default() }
    }
}

impl Titles {
    pub(in crate::http) fn waiting(&self) -> MutexGuard<'_, HashSet<ThreadId>> {
        // Invariant: each change is a single insertion or removal, so a poisoned lock guards a consistent set.
        self.waiting.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
