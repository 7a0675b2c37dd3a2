//! Why an input was refused: typed, and without any change to the thread.
//!
//! A reject is for the sender; the model never sees one.

use serde::{Deserialize, Serialize};

use crate::id::Seq;

/// Why an input was refused. Nothing was changed.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, thiserror::Error)]
#[serde(tag = "reject", rename_all = "snake_case")]
pub enum Reject {
    /// A run is active, and the sender asked not to wait.
    #[error("a run is active in this thread; queue, steer or replace instead")]
    Busy,
    /// The queue is full.
    #[error("{limit} messages already wait in this thread; withdraw one or wait")]
    QueueFull {
        /// The limit.
        limit: u32,
    },
    /// The thing is already over: the run ended, the interrupt was answered.
    #[error("too late: {what} is closed")]
    Closed {
        /// What.
        what: String,
    },
    /// A run is active at a place where a thread is to be forked.
    #[error("a run is active at event {at}; event {nearest} is the last before it where none is")]
    RunActive {
        /// The place.
        at: Seq,
        /// The last place before it where no run is active.
        nearest: Seq,
    },
    /// It speaks of something that is no longer so: an older try, a call that has not started.
    #[error("stale: {what}")]
    Stale {
        /// What.
        what: String,
    },
    /// There is no such thing here.
    #[error("{what} does not exist in this thread")]
    NotFound {
        /// What.
        what: String,
    },
    /// The sender may not do this.
    #[error("{what}")]
    Forbidden {
        /// Why, and who may.
        what: String,
    },
    /// The input makes no sense.
    #[error("{what}")]
    Invalid {
        /// Why.
        what: String,
    },
}
