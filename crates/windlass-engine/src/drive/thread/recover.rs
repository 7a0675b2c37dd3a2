//! Opens threads that need a driver and have none, and delays the retry of threads that cannot be opened.
//!
//! The number of concurrent openings is limited. This module drives no threads.

use std::collections::HashSet;
use std::sync::Arc;

use futures_util::StreamExt;
use futures_util::stream;
use windlass_machine::ThreadId;

use super::backoff::{LASTING, OPENINGS, PASSING};
use super::claim::OwnClaim;
use super::mail::Mail;
use super::registry::ThreadRegistry;
use crate::error::{EngineError, TryAgain};

/// Threads that a sweep has claimed. The sweep opens each thread once, even if its row is still due.
///
/// The store itself skips threads that a process holds. The sweep only passes a thread
/// to the store as an exception if the thread needs a driver again right after its
/// driver has ended. The list therefore does not grow with the number of threads.
#[derive(Default)]
pub(super) struct Tried {
    claimed: HashSet<ThreadId>,
    except: HashSet<ThreadId>,
}

impl Tried {
    /// Adds a claim. Returns whether the thread should be opened.
    pub(super) fn add(&mut self, claim: &OwnClaim) -> bool {
        let is_first = self.claimed.insert(claim.thread().clone());
        if !is_first {
            self.leave_out(claim.thread());
        }
        is_first
    }

    /// Excludes a thread from further claims.
    pub(super) fn leave_out(&mut self, thread: &ThreadId) {
        self.except.insert(thread.clone());
    }

    /// Returns the excluded threads.
    pub(super) fn except(&self) -> Vec<ThreadId> {
        self.except.iter().cloned().collect()
    }
}

impl ThreadRegistry {
    /// Notifies a thread's driver in this process of inbox rows.
    /// Returns whether this process has a driver for the thread.
    pub(super) fn notify_driver(&self, thread: &ThreadId) -> bool {
        // If the mailbox is full, the next sweep notifies again.
        self.actor(thread).map(|mailbox| mailbox.try_send(Mail::Inbox)).is_some()
    }

    /// Returns the number of further threads that the sweep may open.
    pub(super) fn room(&self, opening: usize) -> usize {
        self.openings.driven_max.saturating_sub(self.actors().len() + opening)
    }

    /// Opens every thread that needs a driver and has none, with limited concurrency. Returns the result of each.
    /// Ignores backoff, because the caller requested the retry. With [`Attend::All`](crate::Attend::All), stops at
    /// the limit of driven threads; the sweep opens the rest later.
    pub(crate) async fn open_all(
        self: &Arc<Self>,
    ) -> Result<Vec<(ThreadId, Result<(), EngineError>)>, EngineError> {
        let mut all: Vec<(ThreadId, Result<(), EngineError>)> = Vec::new();
        let mut tried = Tried::default();
        loop {
            let limit = if self.services.attends { OPENINGS.min(self.room(0)) } else { OPENINGS };
            if limit == 0 {
                return Ok(all);
            }
            let claims = self.claim_due(tried.except(), limit).await?;
            let is_last = claims.len() < limit;
            let open = |claim: OwnClaim| {
                let registry = self.clone();
                async move {
                    let thread = claim.thread().clone();
                    let opened = registry.open_due_or_back_off(claim).await;
                    (thread, opened)
                }
            };
            let openings: Vec<_> = claims.into_iter().filter(|claim| tried.add(claim)).map(open).collect();
            let opened: Vec<_> = stream::iter(openings).buffered(OPENINGS).collect().await;
            let failed = opened.iter().filter(|(_, opened)| opened.is_err());
            failed.for_each(|(thread, _)| tried.leave_out(thread));
            all.extend(opened);
            if is_last {
                return Ok(all);
            }
        }
    }

    pub(super) async fn open_or_back_off(self: &Arc<Self>, thread: &ThreadId) -> Result<(), EngineError> {
        // The semaphore is never closed.
        let _permit = self.openings.permits.acquire().await;
        let opened = self.open(thread).await.map(drop);
        self.back_off_failed(thread, opened)
    }

    /// Like [`open_or_back_off`](Self::open_or_back_off), for a thread that is already claimed.
    pub(super) async fn open_due_or_back_off(self: &Arc<Self>, claim: OwnClaim) -> Result<(), EngineError> {
        // The semaphore is never closed.
        let _permit = self.openings.permits.acquire().await;
        let thread = claim.thread().clone();
        let opened = self.open_claimed(claim).await;
        self.back_off_failed(&thread, opened)
    }

    fn back_off_failed(&self, thread: &ThreadId, opened: Result<(), EngineError>) -> Result<(), EngineError> {
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

    /// Delays the retry of a thread that cannot be opened or driven. Returns whether this is its first failure in a
    /// row, so that the log reports a thread once.
    pub(super) fn back_off(&self, thread: &ThreadId, may_pass: bool) -> bool {
        let delays = if may_pass { PASSING } else { LASTING };
        self.backoffs.add(thread, delays, self.services.clock.monotonic_ms())
    }

    /// Clears the failures of a thread whose driver has finished its work.
    pub(super) fn end_backoff(&self, thread: &ThreadId) {
        self.backoffs.clear(thread);
    }

    /// Whether a failed thread still waits for its retry.
    pub(super) fn is_backing_off(&self, thread: &ThreadId) -> bool {
        self.backoffs.is_waiting(thread, self.services.clock.monotonic_ms())
    }
}
