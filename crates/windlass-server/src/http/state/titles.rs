//! What bounds the making of titles.

use std::collections::HashSet;
use std::sync::{Mutex, MutexGuard, PoisonError};

use tokio::sync::Semaphore;
use windlass::machine::ThreadId;

/// Titles that are made at once: people's runs go first.
const AT_ONCE: usize = 4;

/// What bounds the making of titles.
pub struct Titles {
    pub(in crate::http) at_once: Semaphore,
    /// Conversations whose titles are under way, or wait for it.
    waiting: Mutex<HashSet<ThreadId>>,
}

impl Default for Titles {
    fn default() -> Self {
        Self { at_once: Semaphore::new(AT_ONCE), waiting: Mutex::default() }
    }
}

impl Titles {
    pub(in crate::http) fn waiting(&self) -> MutexGuard<'_, HashSet<ThreadId>> {
        // Each change is one insertion or removal.
        self.waiting.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
