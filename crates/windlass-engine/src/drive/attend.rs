//! Finds threads that need a driver, and opens a bounded number of them at once.
//!
//! A thread that cannot be opened or driven is retried after a growing delay. Nothing here drives a thread.

use std::collections::{HashMap, HashSet, VecDeque};
use std::sync::{Arc, Weak};

use futures_util::StreamExt;
use futures_util::stream::{self, Stream};
use tokio::task::{Id, JoinSet};
use windlass_machine::ThreadId;

use super::background::Noted;
use super::backoff::{LASTING_MS, OPENINGS, PASSING_MS};
use super::{Deps, Mail};
use crate::error::{EngineError, TryAgain};

/// How often the store is searched for threads that need a driver, and for inbox rows of threads driven here.
const SWEEP_EVERY_MS: u64 = 1_000;

/// Threads that need a driver, read from the store at a time.
const BATCH: usize = 256;

/// State of the sweep between rounds.
struct Sweep {
    attends: bool,
    swept_ms: u64,
    pruned_ms: Option<u64>,
    noted: Noted,
    /// Threads to open, in this order.
    due: VecDeque<ThreadId>,
    /// Whether the last batch read from the store was not full.
    is_drained: bool,
    openings: JoinSet<()>,
    /// The threads of `openings`.
    opening: HashMap<Id, ThreadId>,
    /// Threads tried since the last sweep: each is tried once per sweep, whatever its row says afterwards.
    tried: HashSet<ThreadId>,
}

/// Threads that wait to be opened at most. A thread beyond that is found by a later sweep.
const DUE_MAX: usize = 2 * BATCH;

/// Why a round of the sweep begins.
enum Wake {
    Time,
    /// An opening has ended.
    Opening(Id),
    /// The thread's inbox has a row.
    Thread(ThreadId),
}

impl Sweep {
    fn new(attends: bool, swept_ms: u64) -> Self {
        Self {
            attends,
            swept_ms,
            pruned_ms: None,
            noted: Noted::default(),
            due: VecDeque::new(),
            is_drained: true,
            openings: JoinSet::new(),
            opening: HashMap::new(),
            tried: HashSet::new(),
        }
    }

    /// Puts a thread that was woken before those that wait to be opened.
    fn put_first(&mut self, thread: ThreadId) {
        if self.due.len() < DUE_MAX && !self.due.contains(&thread) {
            self.due.push_front(thread);
        }
    }

    /// Waits for the time of the next sweep, the end of an opening, or a wake of a thread.
    async fn next(
        &mut self,
        time: impl Future<Output = ()>,
        mut wakes: impl Stream<Item = ThreadId> + Unpin,
    ) -> Wake {
        tokio::select! {
            biased;
            () = time => Wake::Time,
            Some(opened) = self.openings.join_next_with_id() => match opened {
                Ok((id, ())) => Wake::Opening(id),
                Err(error) => Wake::Opening(error.id()),
            },
            Some(thread) = wakes.next() => Wake::Thread(thread),
        }
    }
}

impl Deps {
    /// Serves the inboxes of the threads that this process drives, until the engine is dropped; with `attends`, also
    /// opens threads that no process drives.
    pub(crate) async fn sweep(deps: Weak<Self>, attends: bool) {
        let Some(this) = deps.upgrade() else { return };
        let (mut wakes, swept_ms) = (this.bus.wakes(), this.clock.monotonic_ms());
        drop(this);
        let mut sweep = Sweep::new(attends, swept_ms);
        loop {
            let Some(this) = deps.upgrade() else { return };
            let clock = this.clock.clone();
            drop(this);
            // Wakes do not delay the sweep.
            let since_ms = clock.monotonic_ms().saturating_sub(sweep.swept_ms);
            let time = clock.sleep_ms(SWEEP_EVERY_MS.saturating_sub(since_ms));
            let wake = sweep.next(time, &mut wakes).await;
            let Some(this) = deps.upgrade() else { return };
            match wake {
                Wake::Opening(id) => drop(sweep.opening.remove(&id)),
                Wake::Time => this.begin_sweep(&mut sweep).await,
                Wake::Thread(thread) => this.serve_wake(&mut sweep, thread).await,
            }
            if !this.leaving.is_cancelled() {
                this.open_due(&mut sweep).await;
            }
        }
    }

    async fn begin_sweep(self: &Arc<Self>, sweep: &mut Sweep) {
        sweep.swept_ms = self.clock.monotonic_ms();
        self.maintain(sweep).await;
        self.prune_now_and_then(&mut sweep.pruned_ms).await;
        if self.leaving.is_cancelled() {
            // Drivers of this process finish without new work.
            return;
        }
        if !self.actors().is_empty() {
            if let Err(error) = self.look_at_changes().await {
                tracing::warn!(%error, "the store's changes could not be read");
            }
            match self.journal.waiting_inboxes().await {
                Ok(threads) => {
                    for thread in &threads {
                        self.notify_driver(thread);
                    }
                }
                Err(error) => tracing::warn!(%error, "the inboxes could not be read"),
            }
        }
        if sweep.due.is_empty() {
            sweep.is_drained = !sweep.attends;
            sweep.tried.clear();
        }
    }

    async fn serve_wake(self: &Arc<Self>, sweep: &mut Sweep, thread: ThreadId) {
        self.maintain(sweep).await;
        let is_driven = self.notify_driver(&thread);
        if !is_driven && sweep.attends && !self.is_backing_off(&thread) {
            sweep.put_first(thread);
        }
    }

    async fn maintain(self: &Arc<Self>, sweep: &mut Sweep) {
        self.give_back_kept().await;
        if let Err(error) = self.look_after_background(&mut sweep.noted).await {
            tracing::warn!(%error, "commands in the background could not be looked after");
        }
    }

    /// Tells a thread's driver in this process that the inbox has rows; returns whether there is a driver.
    fn notify_driver(&self, thread: &ThreadId) -> bool {
        // If the mailbox is full, the next sweep notifies again.
        self.actor(thread).map(|mailbox| mailbox.try_send(Mail::Inbox)).is_some()
    }

    /// Starts openings up to the bound, and reads further batches once the threads of the last one are under way.
    async fn open_due(self: &Arc<Self>, sweep: &mut Sweep) {
        while sweep.openings.len() < OPENINGS {
            let Some(thread) = sweep.due.pop_front() else {
                if sweep.is_drained {
                    return;
                }
                self.read_due(sweep).await;
                continue;
            };
            // A thread that is set aside is tried again by a later sweep: the others do not wait for it.
            if self.actor(&thread).is_some() || self.opening.is_under_way(&thread) {
                continue;
            }
            let (deps, id) = (self.clone(), thread.clone());
            let opening = sweep.openings.spawn(async move { drop(deps.open_or_back_off(&id).await) });
            sweep.opening.insert(opening.id(), thread);
        }
    }

    async fn read_due(&self, sweep: &mut Sweep) {
        let now_ms = self.clock.monotonic_ms();
        let mut except: HashSet<ThreadId> = self.actors().keys().cloned().collect();
        except.extend(sweep.tried.iter().chain(sweep.opening.values()).cloned());
        except.extend(self.backoffs.waiting(now_ms).into_iter().chain(self.own_tools.all_put_by(now_ms)));
        let except: Vec<ThreadId> = except.into_iter().collect();
        let limit = BATCH.min(self.room(sweep.openings.len()));
        if limit == 0 {
            // The next sweep looks again.
            sweep.is_drained = true;
            return;
        }
        match self.journal.unattended(&except, limit).await {
            Ok(threads) => {
                sweep.is_drained = threads.len() < limit;
                sweep.tried.extend(threads.iter().cloned());
                sweep.due.extend(threads);
            }
            Err(error) => {
                sweep.is_drained = true;
                tracing::warn!(%error, "the threads that need a driver could not be read");
            }
        }
    }

    /// How many more threads the sweep may open.
    fn room(&self, opening: usize) -> usize {
        self.openings.driven_max.saturating_sub(self.actors().len() + opening)
    }

    /// Opens every thread that needs a driver and has none, a bounded number at once. Returns the result of each. A thread
    /// that is backing off is tried as well: the caller asked for it. With
    /// [`Attend::All`](crate::Attend::All), stops at the limit of driven threads; the sweep opens the rest later.
    pub(crate) async fn open_all(
        self: &Arc<Self>,
    ) -> Result<Vec<(ThreadId, Result<(), EngineError>)>, EngineError> {
        let mut all: Vec<(ThreadId, Result<(), EngineError>)> = Vec::new();
        loop {
            let except: Vec<ThreadId> = all.iter().map(|(thread, _)| thread.clone()).collect();
            let limit = if self.attends { BATCH.min(self.room(0)) } else { BATCH };
            if limit == 0 {
                return Ok(all);
            }
            let batch = self.journal.unattended(&except, limit).await?;
            let is_last = batch.len() < limit;
            let open = |thread: ThreadId| {
                let deps = self.clone();
                async move {
                    let opened = deps.open_or_back_off(&thread).await;
                    (thread, opened)
                }
            };
            let openings: Vec<_> = batch.into_iter().map(open).collect();
            let opened: Vec<_> = stream::iter(openings).buffered(OPENINGS).collect().await;
            all.extend(opened);
            if is_last {
                return Ok(all);
            }
        }
    }

    async fn open_or_back_off(self: &Arc<Self>, thread: &ThreadId) -> Result<(), EngineError> {
        // Nothing closes the semaphore.
        let _permit = self.openings.permits.acquire().await;
        let opened = self.open(thread).await.map(drop);
        if let Err(error) = &opened
            && !self.leaving.is_cancelled()
        {
            match self.back_off(thread, error.judge().1 == TryAgain::Later) {
                true => {
                    tracing::warn!(%thread, %error, "the thread cannot be opened; retrying at growing intervals")
                }
                false => tracing::debug!(%thread, %error, "the thread still cannot be opened"),
            }
        }
        opened
    }

    /// Delays the next try of a thread that cannot be opened or driven. Returns whether this is its first failure in a
    /// row, so that the log names a thread once.
    pub(super) fn back_off(&self, thread: &ThreadId, may_pass: bool) -> bool {
        let delays_ms = if may_pass { PASSING_MS } else { LASTING_MS };
        self.backoffs.add(thread, delays_ms, self.clock.monotonic_ms())
    }

    /// Forgets the failures of a thread whose driver has finished its work.
    pub(super) fn end_backoff(&self, thread: &ThreadId) {
        self.backoffs.clear(thread);
    }

    /// Whether the next try of a thread that failed is still to come.
    pub(super) fn is_backing_off(&self, thread: &ThreadId) -> bool {
        self.backoffs.is_waiting(thread, self.clock.monotonic_ms())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn wakes_of_threads_that_wait_to_be_opened_are_bounded() {
        let mut sweep = Sweep::new(true, 0);
        for number in 0..2_000 {
            sweep.put_first(format!("t{}", number % 600).into());
        }
        assert_eq!(sweep.due.len(), DUE_MAX);
        assert_eq!(sweep.due.iter().collect::<HashSet<_>>().len(), DUE_MAX);
    }
}
