//! The errors of a store, shared by its ports.
//!
//! Callers match on the variant to decide whether to retry.

use windlass_machine::{Seq, ThreadId, UnreadableEvent};

use crate::port::journal::epoch::Epoch;

/// The reason why a store operation failed.
#[derive(Debug, thiserror::Error)]
pub enum StoreError {
    /// The requested item does not exist.
    #[error("{what} does not exist")]
    NotFound {
        /// Kind and id of the missing item.
        what: String,
    },
    /// The store rejects the operation in its present state.
    #[error("{why}")]
    Refused {
        /// The reason, and what to do instead.
        why: String,
    },
    /// An event cannot be decoded; the journal is left unchanged.
    #[error("thread `{thread}`, event {seq}: {source}")]
    Unreadable {
        /// Thread of the event.
        thread: ThreadId,
        /// Position of the event.
        seq: Seq,
        /// The decoding error.
        #[source]
        source: UnreadableEvent,
    },
    /// The store's file or database is damaged.
    #[error("the store is damaged: {why}")]
    Corrupt {
        /// The damage, and how to recover.
        why: String,
    },
    /// The store is full, busy, missing, or denies access, so the cause is external. A retry may succeed.
    #[error("the store is not available: {why}")]
    Unavailable {
        /// The cause, and what to do about it.
        why: String,
    },
}

/// The reason why an append failed or has an unknown outcome.
#[derive(Debug, thiserror::Error)]
pub enum AppendError {
    /// Another owner has raised the epoch. The batch was not written, and this owner must stop.
    #[error("another process drives the thread now (epoch {current:?})")]
    Fenced {
        /// The thread's current epoch.
        current: Epoch,
    },
    /// The journal's head differs from the expected head. The batch was not written.
    #[error("the journal stands at {head}, not where this batch begins")]
    Conflict {
        /// Current head of the journal.
        head: Seq,
    },
    /// The remaining amount of a budget is too small for a reservation of the batch. The batch was not written.
    #[error("{wanted} more of `{budget}` is beyond its limit: {taken} of {cap} are taken")]
    Limit {
        /// Name of the budget.
        budget: String,
        /// Limit on the sum of the budget's used and reserved amounts.
        cap: u64,
        /// Amount already used or reserved.
        taken: u64,
        /// Amount that the batch needs.
        wanted: u64,
    },
    /// A record has another version than expected. The batch was not written.
    #[error("{kind} `{key}` was changed by another writer")]
    Record {
        /// The kind of the record.
        kind: String,
        /// Key of the record.
        key: String,
    },
    /// The store failed before the write. The batch was not written.
    #[error(transparent)]
    Failed(StoreError),
    /// The batch may or may not have been written.
    #[error("the append's outcome is unknown: {0}")]
    Unknown(String),
}
