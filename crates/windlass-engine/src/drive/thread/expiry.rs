//! Automatic approvals on expiry: the time for which this process has seen each interrupt open.
//!
//! Thread time follows the wall clock, which may jump ahead. An automatic approval therefore also requires that the
//! monotonic clock confirms the term. The monotonic clock belongs to the process, so a restart of the process
//! restarts the term. This table outlives a thread's driver.

use std::collections::HashMap;
use std::sync::{Mutex, MutexGuard, PoisonError};

use windlass_machine::{Asked, Expiry, Fact, InterruptId, State, Terms, ThreadId};

/// Maximum number of tracked approvals. The term of an approval that is dropped from the table restarts.
const KNOWN_MAX: usize = 10_000;

/// Tolerance in milliseconds: the two clocks are read one after the other and rounded to milliseconds.
const ROUNDING_MS: u64 = 1_000;

/// Monotonic time at which this process first saw each interrupt open.
#[derive(Default)]
pub(crate) struct Expiries {
    seen: Mutex<HashMap<(ThreadId, InterruptId), u64>>,
}

fn approves(terms: &Terms) -> bool {
    terms.on_expiry == Expiry::Approve && terms.expires_in_ms.is_some()
}

fn open(state: &State) -> impl Iterator<Item = &Asked> {
    let open = state.run.iter().flat_map(|run| run.open()).map(|(_, asked)| asked);
    open.filter(|asked| approves(&asked.terms))
}

impl Expiries {
    fn seen(&self) -> MutexGuard<'_, HashMap<(ThreadId, InterruptId), u64>> {
        // No code panics while the lock is held.
        self.seen.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Records the interrupts that a round opens, and removes the
    /// interrupts that it closes. `now_ms` is the start of the round.
    pub(super) fn note(&self, thread: &ThreadId, fact: &Fact, now_ms: u64) {
        match fact {
            Fact::InterruptOpened { interrupt, terms, .. } if approves(terms) => {
                self.put((thread.clone(), interrupt.clone()), now_ms);
            }
            Fact::InterruptClosed { interrupt, .. } => {
                let mut seen = self.seen();
                if !seen.is_empty() {
                    seen.remove(&(thread.clone(), interrupt.clone()));
                }
            }
            _ => {} // tidy: nothing else opens or closes an interrupt
        }
    }

    /// Records the open interrupts of a thread that this process starts to drive. Interrupts that are already
    /// recorded keep their time.
    pub(super) fn note_open(&self, thread: &ThreadId, state: &State, now_ms: u64) {
        for asked in open(state) {
            let key = (thread.clone(), asked.interrupt.clone());
            if !self.seen().contains_key(&key) {
                self.put(key, now_ms);
            }
        }
    }

    /// Returns the open approvals of a thread whose whole term this process has seen pass.
    pub(super) fn passed(&self, thread: &ThreadId, state: &State, now_ms: u64) -> Vec<InterruptId> {
        let seen = self.seen();
        let has_passed = |asked: &&Asked| {
            let since_ms = seen.get(&(thread.clone(), asked.interrupt.clone()));
            let term_ms = asked.terms.expires_in_ms.unwrap_or(u64::MAX);
            since_ms.is_some_and(|since| now_ms.saturating_sub(*since).saturating_add(ROUNDING_MS) >= term_ms)
        };
        open(state).filter(has_passed).map(|asked| asked.interrupt.clone()).collect()
    }

    fn put(&self, key: (ThreadId, InterruptId), now_ms: u64) {
        let mut seen = self.seen();
        if seen.len() >= KNOWN_MAX
            && let Some(oldest) = seen.iter().min_by_key(|(_, at)| **at).map(|(key, _)| key.clone())
        {
            seen.remove(&oldest);
        }
        seen.insert(key, now_ms);
    }
}
