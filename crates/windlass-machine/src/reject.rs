//! The reason why an input was rejected, without any change to the thread.
//!
//! A reject is for the sender; the model never sees it.

use serde::{Deserialize, Serialize};

use crate::id::Seq;

/// The reason why an input was rejected. The thread is unchanged.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, thiserror::Error)]
#[serde(tag = "reject", rename_all = "snake_case")]
pub enum Reject {
    /// A run is active, and the sender chose not to queue.
    #[error("a run is active in this thread; queue, steer or replace instead")]
    Busy,
    /// The message queue is full.
    #[error("{limit} messages already wait in this thread; withdraw one or wait")]
    QueueFull {
        /// Maximum length of the queue.
        limit: u32,
    },
    /// The target is already closed: the run ended, or the interrupt was answered.
    #[error("too late: {what} is closed")]
    Closed {
        /// Kind and id of the target.
        what: String,
    },
    /// A run is active at the position of a fork.
    #[error("a run is active at event {at}; event {nearest} is the last before it where none is")]
    RunActive {
        /// The requested position.
        at: Seq,
        /// Last earlier position without an active run.
        nearest: Seq,
    },
    /// The input refers to an outdated state: an older attempt, or a call that has not started.
    #[error("stale: {what}")]
    Stale {
        /// The outdated attempt, call or record.
        what: String,
    },
    /// The target does not exist in this thread.
    #[error("{what} does not exist in this thread")]
    NotFound {
        /// Kind and id of the target.
        what: String,
    },
    /// The sender is not permitted to send this input.
    #[error("{what}")]
    Forbidden {
        /// The reason, and who is permitted.
        what: String,
    },
    /// The input is invalid.
    #[error("{what}")]
    Invalid {
        /// The invalid part of the input, and how to correct it.
        what: String,
    },
}
