//! Opens threads that need a driver and have none, and delays the next try of those that cannot be opened.
//!
//! A bounded number is opened at once. Nothing here drives a thread.

use std::sync::Arc;

use futures_util::StreamExt;
use futures_util::stream;
use windlass_machine::ThreadId;

use super::backoff::{LASTING, OPENINGS, PASSING};
use super::mail::Mail;
use super::registry::ThreadRegistry;
use super::sweep::BATCH;
use crate::error::{EngineError, TryAgain};

impl ThreadRegistry {
    /// Reports to a thread's driver in this process that the inbox has rows; returns whether there is a driver.
    pub(super) fn notify_driver(&self, thread: &ThreadId) -> bool {
        // If the mailbox is full, the next sweep notifies again.
        self.actor(thread).map(|mailbox| mailbox.try_send(Mail::Inbox)).is_some()
    }

    /// How many more threads the sweep may open.
    pub(super) fn room(&self, opening: usize) -> usize {
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
            let limit = if self.services.attends { BATCH.min(self.room(0)) } else { BATCH };
            if limit == 0 {
                return Ok(all);
            }
            let batch = self.journal().unattended(&except, limit).await?;
            let is_last = batch.len() < limit;
            let open = |thread: ThreadId| {
                let registry = self.clone();
                async move {
                    let opened = registry.open_or_back_off(&thread).await;
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

    pub(super) async fn open_or_back_off(self: &Arc<Self>, thread: &ThreadId) -> Result<(), EngineError> {
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
        let delays = if may_pass { PASSING } else { LASTING };
        self.backoffs.add(thread, delays, self.services.clock.monotonic_ms())
    }

    /// Forgets the failures of a thread whose driver has finished its work.
    pub(super) fn end_backoff(&self, thread: &ThreadId) {
        self.backoffs.clear(thread);
    }

    /// Whether the next try of a thread that failed is still to come.
    pub(super) fn is_backing_off(&self, thread: &ThreadId) -> bool {
        self.backoffs.is_waiting(thread, self.services.clock.monotonic_ms())
    }
}
