//! Finds threads that need a driver, and opens a limited number of them concurrently.
//!
//! A thread that cannot be opened or driven is retried after a growing delay. This module drives no threads.

use std::collections::VecDeque;
use std::sync::{Arc, Weak};

use futures_util::StreamExt;
use futures_util::stream::Stream;
use tokio::task::JoinSet;
use windlass_machine::ThreadId;

use super::backoff::OPENINGS;
use super::recover::Tried;
use super::registry::ThreadRegistry;
use crate::drive::command::background::Noted;

/// Interval in milliseconds of the searches for threads that need a
/// driver, and for inbox rows of threads that this process drives.
const SWEEP_EVERY_MS: u64 = 1_000;

struct Sweep {
    swept_ms: u64,
    pruned_ms: Option<u64>,
    noted: Noted,
    /// Woken threads that wait to be opened, in this order.
    woken: VecDeque<ThreadId>,
    /// Whether the store has returned all threads that need a driver.
    is_drained: bool,
    openings: JoinSet<()>,
    tried: Tried,
}

/// Maximum number of woken threads in the queue. A later sweep finds further threads.
const WOKEN_MAX: usize = 512;

/// The reason why the sweep loop wakes.
enum Wake {
    Time,
    /// A thread has been opened, or opening it has failed.
    Opening,
    /// The thread's inbox has a row.
    Thread(ThreadId),
}

impl Sweep {
    fn new(swept_ms: u64) -> Self {
        Self {
            swept_ms,
            pruned_ms: None,
            noted: Noted::default(),
            woken: VecDeque::new(),
            is_drained: true,
            openings: JoinSet::new(),
            tried: Tried::default(),
        }
    }

    /// Queues a woken thread before all others.
    fn put_first(&mut self, thread: ThreadId) {
        if self.woken.len() < WOKEN_MAX && !self.woken.contains(&thread) {
            self.woken.push_front(thread);
        }
    }

    /// Waits for the next sweep, the end of an opening, or a wake-up of a thread.
    async fn next(
        &mut self,
        time: impl Future<Output = ()>,
        mut wakes: impl Stream<Item = ThreadId> + Unpin,
    ) -> Wake {
        tokio::select! {
            biased;
            () = time => Wake::Time,
            Some(_) = self.openings.join_next() => Wake::Opening,
            Some(thread) = wakes.next() => Wake::Thread(thread),
        }
    }

    async fn begin(&mut self, registry: &Arc<ThreadRegistry>) {
        let services = &registry.services;
        self.swept_ms = services.clock.monotonic_ms();
        self.maintain(registry).await;
        registry.pruner.prune_now_and_then(&mut self.pruned_ms).await;
        if registry.leaving.is_cancelled() {
            // Drivers of this process finish without new work.
            return;
        }
        if !registry.actors().is_empty() {
            if let Err(error) = services.policy.look_at_changes().await {
                tracing::warn!(%error, "the store's changes could not be read");
            }
            match registry.journal().waiting_inboxes().await {
                Ok(threads) => {
                    for thread in &threads {
                        registry.notify_driver(thread);
                    }
                }
                Err(error) => tracing::warn!(%error, "the inboxes could not be read"),
            }
        }
        self.is_drained = !services.attends;
        self.tried = Tried::default();
    }

    async fn serve_wake(&mut self, registry: &Arc<ThreadRegistry>, thread: ThreadId) {
        self.maintain(registry).await;
        let is_driven = registry.notify_driver(&thread);
        if !is_driven && registry.services.attends && !registry.is_backing_off(&thread) {
            self.put_first(thread);
        }
    }

    async fn maintain(&mut self, registry: &Arc<ThreadRegistry>) {
        registry.give_back_kept().await;
        if let Err(error) = registry.services.background.look_after(&mut self.noted).await {
            tracing::warn!(%error, "commands in the background could not be looked after");
        }
    }

    /// Opens threads up to the limit: woken threads first, then those that the store returns.
    async fn open_due(&mut self, registry: &Arc<ThreadRegistry>) {
        while self.openings.len() < OPENINGS {
            if let Some(thread) = self.woken.pop_front() {
                // A later sweep retries a thread that is set aside, so that the other threads do not wait for it.
                if registry.actor(&thread).is_none() && !registry.claims.opening.is_under_way(&thread) {
                    let registry = registry.clone();
                    self.openings.spawn(async move { drop(registry.open_or_back_off(&thread).await) });
                }
            } else if self.is_drained {
                return;
            } else {
                self.claim_due(registry).await;
            }
        }
    }

    /// Claims only as many threads as this process can open at once, so that other processes can claim the rest.
    async fn claim_due(&mut self, registry: &Arc<ThreadRegistry>) {
        let room = registry.room(self.openings.len());
        let limit = room.min(OPENINGS - self.openings.len());
        if limit == 0 {
            // The next sweep retries the claim.
            self.is_drained = true;
            return;
        }
        let now_ms = registry.services.clock.monotonic_ms();
        let mut except = self.tried.except();
        except.extend(registry.backoffs.waiting(now_ms));
        except.extend(registry.services.catalog.own.all_put_by(now_ms));
        match registry.claim_due(except, limit).await {
            Ok(claims) => {
                self.is_drained = claims.len() < limit;
                for claim in claims.into_iter().filter(|claim| self.tried.add(claim)) {
                    let registry = registry.clone();
                    self.openings.spawn(async move { drop(registry.open_due_or_back_off(claim).await) });
                }
            }
            Err(error) => {
                self.is_drained = true;
                tracing::warn!(%error, "the threads that need a driver could not be claimed");
            }
        }
    }
}

/// Serves the inboxes of the threads that this process drives, until the engine and its drivers are dropped. An
/// engine that attends all threads also opens threads that no process drives.
pub(crate) async fn sweep(registry: Weak<ThreadRegistry>) {
    let Some(this) = registry.upgrade() else { return };
    let (mut wakes, swept_ms) = (this.services.bus.wakes(), this.services.clock.monotonic_ms());
    drop(this);
    let mut sweep = Sweep::new(swept_ms);
    loop {
        let Some(this) = registry.upgrade() else { return };
        let clock = this.services.clock.clone();
        drop(this);
        // Wake-ups do not delay the sweep.
        let since_ms = clock.monotonic_ms().saturating_sub(sweep.swept_ms);
        let time = clock.sleep_ms(SWEEP_EVERY_MS.saturating_sub(since_ms));
        let wake = sweep.next(time, &mut wakes).await;
        let Some(this) = registry.upgrade() else { return };
        match wake {
            Wake::Opening => {}
            Wake::Time => sweep.begin(&this).await,
            Wake::Thread(thread) => sweep.serve_wake(&this, thread).await,
        }
        if !this.leaving.is_cancelled() {
            sweep.open_due(&this).await;
        }
    }
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use super::*;

    #[test]
    fn wakes_of_threads_that_wait_to_be_opened_are_bounded() {
        let mut sweep = Sweep::new(0);
        for number in 0..2_000 {
            sweep.put_first(format!("t{}", number % 600).into());
        }
        assert_eq!(sweep.woken.len(), WOKEN_MAX);
        assert_eq!(sweep.woken.iter().collect::<HashSet<_>>().len(), WOKEN_MAX);
    }
}
