//! The errors of a store, shared by its ports.
//!
//! Callers match on the variant to decide whether to retry.

use windlass_machine::{Seq, ThreadId, UnreadableEvent};

use crate::port::journal::epoch::Epoch;

/// Why the store could not do something.
#[derive(Debug, thiserror::Error)]
pub enum StoreError {
    /// There is no such thing.
    #[error("{what} does not exist")]
    NotFound {
        /// What.
        what: String,
    },
    /// Not possible in the present state.
    #[error("{why}")]
    Refused {
        /// Why, and the way out.
        why: String,
    },
    /// An event cannot be read; the journal is left as it is.
    #[error("thread `{thread}`, event {seq}: {source}")]
    Unreadable {
        /// The thread.
        thread: ThreadId,
        /// The position.
        seq: Seq,
        /// Why.
        #[source]
        source: UnreadableEvent,
    },
    /// The file or database is damaged.
    #[error("the store is damaged: {why}")]
    Corrupt {
        /// What was found, and the way out.
        why: String,
    },
    /// No room, no permission, too busy, or gone: outside's fault; trying again may help.
    #[error("the store is not available: {why}")]
    Unavailable {
        /// Why, and the way out.
        why: String,
    },
}

/// Why an append did not certainly happen.
#[derive(Debug, thiserror::Error)]
pub enum AppendError {
    /// Another owner has raised the epoch: nothing was written, and this owner stops.
    #[error("another process drives the thread now (epoch {current:?})")]
    Fenced {
        /// The present epoch.
        current: Epoch,
    },
    /// The journal's head is another than expected: nothing was written.
    #[error("the journal stands at {head}, not where this batch begins")]
    Conflict {
        /// The present head.
        head: Seq,
    },
    /// A budget has no room for what the batch needs of it: nothing was written.
    #[error("{wanted} more of `{budget}` is beyond its limit: {taken} of {cap} are taken")]
    Limit {
        /// The budget.
        budget: String,
        /// What may be taken of it altogether.
        cap: u64,
        /// What was used or reserved.
        taken: u64,
        /// What was needed.
        wanted: u64,
    },
    /// A record is another than expected: nothing was written.
    #[error("{kind} `{key}` was changed by another writer")]
    Record {
        /// The kind of the record.
        kind: String,
        /// Its key.
        key: String,
    },
    /// Nothing was written, for certain.
    #[error(transparent)]
    Failed(StoreError),
    /// It may or may not have been written.
    #[error("the append's outcome is unknown: {0}")]
    Unknown(String),
}
