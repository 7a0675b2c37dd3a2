//! Errors for callers of the library. A failure that the model should see is a tool result, never an error.
//!
//! Each error reports who caused it and whether a retry may succeed.

use std::fmt;

use windlass_machine::{Reject, RunId, ThreadId, ToolName};

use crate::port::journal::StoreError;
use crate::port::model::ModelError;

/// The reason why a call of the library failed.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum EngineError {
    /// The machine rejected the input; the thread is unchanged.
    #[error(transparent)]
    Rejected(#[from] Reject),
    /// The store failed.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// The model is unknown or cannot be called as configured.
    #[error(transparent)]
    Model(#[from] ModelError),
    /// No run has this id.
    #[error("run `{0}` does not exist in this store")]
    NoRun(RunId),
    /// No thread has this id.
    #[error("thread `{0}` does not exist in this store")]
    NoThread(ThreadId),
    /// No tool has this name.
    #[error("there is no tool `{0}`")]
    NoTool(ToolName),
    /// The journal's events cannot be folded into a state.
    #[error(transparent)]
    Journal(#[from] windlass_machine::CorruptJournal),
    /// The thread's driver did not respond in time. The input stays in the inbox.
    #[error("thread `{thread}` is driven by {driver}, which has not answered yet; the input is kept")]
    Pending {
        /// The thread that the input is for.
        thread: ThreadId,
        /// The process that drives it.
        driver: SlowDriver,
    },
    /// The thread's driver stopped before it could answer.
    #[error("driving thread `{thread}` stopped: {why}")]
    Stopped {
        /// The thread that was driven.
        thread: ThreadId,
        /// The cause, for display.
        why: String,
    },
    /// A run is active in the thread, and the operation requires that its files do not change.
    #[error("a run is active in this thread and may change files; wait for it, or cancel it")]
    Active {
        /// The thread with the active run.
        thread: ThreadId,
    },
    /// A run requires a model address or key that this process cannot use.
    #[error("run `{run}` was started with {how}, which this process does not use")]
    NotReached {
        /// The run that this process cannot resume.
        run: RunId,
        /// The address, or the name of the environment variable with the key.
        how: String,
    },
    /// The configuration is invalid.
    #[error("{0}")]
    Config(String),
}

/// The process whose driver responds slowly.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum SlowDriver {
    /// This process itself, for example because its disk is slow.
    ThisProcess,
    /// Another process on the same store.
    AnotherProcess {
        /// Name of the process's node.
        node: String,
    },
}

impl fmt::Display for SlowDriver {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::ThisProcess => f.write_str("this process"),
            Self::AnotherProcess { node } => write!(f, "another process (`{node}`)"),
        }
    }
}

/// The party that caused an error.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fault {
    /// The caller: the request cannot succeed as sent.
    Caller,
    /// The environment: disk, network or another process.
    Outside,
    /// The engine itself.
    Engine,
}

/// Whether a retry may succeed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TryAgain {
    /// A retry fails again.
    Never,
    /// A later retry may succeed.
    Later,
}

impl EngineError {
    /// Returns who caused the error, and whether a retry may succeed.
    pub fn judge(&self) -> (Fault, TryAgain) {
        match self {
            // A busy thread, a full queue and an active run are temporary.
            Self::Rejected(Reject::Busy | Reject::QueueFull { .. }) | Self::Active { .. } => {
                (Fault::Caller, TryAgain::Later)
            }
            Self::Rejected(
                Reject::Closed { .. }
                | Reject::RunActive { .. }
                | Reject::Stale { .. }
                | Reject::NotFound { .. }
                | Reject::Forbidden { .. }
                | Reject::Invalid { .. },
            )
            | Self::NoRun(_)
            | Self::NoThread(_)
            | Self::NoTool(_)
            | Self::NotReached { .. }
            | Self::Config(_) => (Fault::Caller, TryAgain::Never),
            Self::Store(StoreError::NotFound { .. } | StoreError::Refused { .. }) => {
                (Fault::Caller, TryAgain::Never)
            }
            Self::Store(StoreError::Unreadable { .. } | StoreError::Corrupt { .. }) | Self::Journal(_) => {
                (Fault::Outside, TryAgain::Never)
            }
            Self::Store(StoreError::Unavailable { .. }) | Self::Pending { .. } | Self::Stopped { .. } => {
                (Fault::Outside, TryAgain::Later)
            }
            Self::Model(_) => (Fault::Outside, TryAgain::Never),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_busy_thread_is_worth_another_try_and_nonsense_is_not() {
        let check = |reject: Reject, again| {
            assert_eq!(EngineError::from(reject).judge(), (Fault::Caller, again));
        };
        let what = || "it".to_owned();
        check(Reject::Busy, TryAgain::Later);
        let active = EngineError::Active { thread: "t".into() };
        assert_eq!(active.judge(), (Fault::Caller, TryAgain::Later));
        check(Reject::QueueFull { limit: 100 }, TryAgain::Later);
        check(Reject::Closed { what: what() }, TryAgain::Never);
        check(Reject::Stale { what: what() }, TryAgain::Never);
        check(Reject::NotFound { what: what() }, TryAgain::Never);
        check(Reject::Forbidden { what: what() }, TryAgain::Never);
        check(Reject::Invalid { what: what() }, TryAgain::Never);
    }
}
