//! Forks a thread: reads the origin's history, copies it, and appends the copy as the first batch of the new thread.
//!
//! The machine decides which events are copied. The origin is not changed, and no process drives the new thread. The
//! append creates the thread, so its other parts, such as its folder, must be complete before.

use std::sync::Arc;

use windlass_machine::{Event, Fork, Machine, Reject, Seq, ThreadId, Timestamp};

use super::registry::ThreadRegistry;
use crate::drive::journal::append::{NotAppended, append};
use crate::drive::journal::row;
use crate::error::EngineError;
use crate::port::journal::{Batch, BatchId, Epoch, StoreError};

/// Maximum number of copied events. The copied events form one append, which delays other writers.
const MAX_EVENTS: u64 = 20_000;

/// Approximate maximum size of the copied events in bytes. It is limited because all of them are in memory.
const MAX_BYTES: usize = 64 * 1024 * 1024;

/// Maximum number of events read from a journal at a time.
const PAGE: usize = 512;

/// A validated fork that was not appended yet.
pub(crate) struct PreparedFork {
    origin: ThreadId,
    batch: Batch,
    /// Wall-clock time of the last event of the history.
    pub until_at: Timestamp,
}

impl PreparedFork {
    /// Returns the first events of the new thread.
    pub fn events(&self) -> &[Event] {
        &self.batch.events
    }
}

impl ThreadRegistry {
    /// Creates the new thread atomically.
    pub(crate) async fn fork(&self, origin: &ThreadId, fork: &Fork) -> Result<(), EngineError> {
        let prepared = self.prepare_fork(origin, fork).await?;
        self.commit_fork(prepared).await
    }

    /// Reads the history for a new thread. Fails if no fork is possible at that position.
    pub(crate) async fn prepare_fork(
        &self,
        origin: &ThreadId,
        fork: &Fork,
    ) -> Result<PreparedFork, EngineError> {
        self.journal().head(origin).await?.ok_or_else(|| EngineError::NoThread(origin.clone()))?;
        let history = self.history(origin, fork.until).await?;
        let now = self.services.clock.now();
        let events: Arc<[Event]> = Machine::fork(&history, fork, now)?.into();
        let until_at = history.last().map(|event| event.wall.unwrap_or(event.at)).unwrap_or_default();
        let machine = Machine::restore(fork.thread.clone(), None, events.iter().cloned())?;
        let mut thread_view = row::thread_view(&machine);
        // The history is old, but the thread is new.
        thread_view.updated_at = now.max(thread_view.updated_at);
        let batch = Batch {
            thread: fork.thread.clone(),
            epoch: Epoch(1),
            is_new: true,
            expected: Seq::default(),
            id: BatchId(self.services.clock.random()),
            events,
            blobs: Vec::new(),
            consumed: Vec::new(),
            thread_view,
            unqueued: Vec::new(),
            // The runs of the history belong to the origin; lists and sums count them in the origin.
            runs: Vec::new(),
            settle: Vec::new(),
            reserve: Vec::new(),
            records: Vec::new(),
        };
        Ok(PreparedFork { origin: origin.clone(), batch, until_at })
    }

    /// Creates the thread of a prepared fork.
    pub(crate) async fn commit_fork(&self, prepared: PreparedFork) -> Result<(), EngineError> {
        let PreparedFork { origin, batch, .. } = prepared;
        let thread = batch.thread.clone();
        append(&self.services.store, batch).await.map_err(|error| not_forked(&thread, error))?;
        self.give_back(&thread, Epoch(1)).await;
        // Blobs exist as long as an event references them. If the origin
        // was deleted in the meantime, the blobs may be deleted as well.
        if self.journal().head(&origin).await?.is_none() {
            self.journal().delete(&thread).await?;
            return Err(EngineError::NoThread(origin));
        }
        Ok(())
    }

    /// Returns the events of a thread up to a position.
    async fn history(&self, thread: &ThreadId, until: Seq) -> Result<Vec<Event>, EngineError> {
        if until.0 > MAX_EVENTS {
            return Err(too_long(&format!("{until} events; at most {MAX_EVENTS} are copied")));
        }
        let (mut history, mut bytes) = (Vec::new(), 0);
        while (history.len() as u64) < until.0 {
            let wanted = PAGE.min(until.0 as usize - history.len());
            let page = self.journal().read(thread, Seq(history.len() as u64), wanted).await?;
            if page.is_empty() {
                break;
            }
            bytes += page.iter().map(|recorded| row::weight(&recorded.event)).sum::<usize>();
            if bytes > MAX_BYTES {
                return Err(too_long(&format!("more than {MAX_BYTES} bytes")));
            }
            history.extend(page.into_iter().map(|recorded| recorded.event));
        }
        Ok(history)
    }
}

fn too_long(what: &str) -> EngineError {
    let what = format!("the history has {what}; fork at an earlier event, or start a new thread");
    Reject::Invalid { what }.into()
}

fn not_forked(thread: &ThreadId, error: NotAppended) -> EngineError {
    let error = match error {
        NotAppended::Store(error) => error,
        NotAppended::Fenced => StoreError::Refused { why: format!("thread `{thread}` exists already") },
        NotAppended::Limit { .. } | NotAppended::Record => StoreError::Unavailable {
            why: "a fork was refused for what it does not ask; this is a defect".into(),
        },
    };
    error.into()
}
