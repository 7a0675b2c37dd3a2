//! The claims that this process must renew, if the store's claims expire (have a lease).
//!
//! The thread registry renews them.

use std::collections::HashMap;
use std::sync::{Mutex, MutexGuard, PoisonError};

use windlass_machine::ThreadId;

use crate::port::journal::Epoch;

/// The claims to renew. Empty if claims have no lease.
pub(crate) struct Leases {
    is_leased: bool,
    held: Mutex<HashMap<ThreadId, Epoch>>,
}

impl Leases {
    pub(crate) fn new(is_leased: bool) -> Self {
        Self { is_leased, held: Mutex::default() }
    }

    fn held(&self) -> MutexGuard<'_, HashMap<ThreadId, Epoch>> {
        // No code panics while the lock is held.
        self.held.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Adds a claim to renew.
    pub(in crate::drive) fn hold(&self, thread: &ThreadId, epoch: Epoch) {
        if self.is_leased {
            self.held().insert(thread.clone(), epoch);
        }
    }

    /// Removes a claim.
    pub(in crate::drive) fn let_go(&self, thread: &ThreadId, epoch: Epoch) {
        if self.is_leased {
            let mut held = self.held();
            if held.get(thread) == Some(&epoch) {
                held.remove(thread);
            }
        }
    }

    /// Returns all claims to renew.
    pub(in crate::drive) fn all(&self) -> Vec<(ThreadId, Epoch)> {
        self.held().iter().map(|(thread, epoch)| (thread.clone(), *epoch)).collect()
    }
}
