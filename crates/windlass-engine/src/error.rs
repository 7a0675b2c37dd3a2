//! Errors for the caller. What the model should see is never one of these.
//!
//! Each says whose fault it is and whether to try again.

use std::fmt;

use windlass_machine::{Reject, RunId, ThreadId, ToolName};

use crate::port::journal::StoreError;
use crate::port::model::ModelError;

/// Why a call of the library failed.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum EngineError {
    /// The input was refused; nothing changed.
    #[error(transparent)]
    Rejected(#[from] Reject),
    /// The store failed.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// The model cannot be called as configured.
    #[error(transparent)]
    Model(#[from] ModelError),
    /// There is no such run.
    #[error("run `{0}` does not exist in this store")]
    NoRun(RunId),
    /// There is no such thread.
    #[error("thread `{0}` does not exist in this store")]
    NoThread(ThreadId),
    /// There is no such tool.
    #[error("there is no tool `{0}`")]
    NoTool(ToolName),
    /// The journal cannot be folded.
    #[error(transparent)]
    Journal(#[from] windlass_machine::CorruptJournal),
    /// Whoever drives the thread has not answered in time; what was asked is kept for it.
    #[error("thread `{thread}` is driven by {driver}, which has not answered yet; the input is kept")]
    Pending {
        /// The thread.
        thread: ThreadId,
        /// Who drives it.
        driver: SlowDriver,
    },
    /// The thread's driver stopped before it could answer.
    #[error("driving thread `{thread}` stopped: {why}")]
    Stopped {
        /// The thread.
        thread: ThreadId,
        /// Why.
        why: String,
    },
    /// A run is active in the thread, and what was asked for needs its files to stay as they are.
    #[error("a run is active in this thread and may change files; wait for it, or cancel it")]
    Active {
        /// The thread.
        thread: ThreadId,
    },
    /// A run was started with a model's address or key that this process does not use.
    #[error("run `{run}` was started with {how}, which this process does not use")]
    NotReached {
        /// The run.
        run: RunId,
        /// The address or the name of the variable with the key.
        how: String,
    },
    /// The configuration makes no sense.
    #[error("{0}")]
    Config(String),
}

/// Who drives a thread and takes long to answer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum SlowDriver {
    /// This process itself, for example because its disk is slow.
    ThisProcess,
    /// Another one.
    AnotherProcess {
        /// Its node.
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

/// Whose fault an error is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fault {
    /// The caller's.
    Caller,
    /// Something outside: disk, network, another process.
    Outside,
    /// Ours.
    Engine,
}

/// Whether to try again.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TryAgain {
    /// It will fail again.
    Never,
    /// It may work later.
    Later,
}

impl EngineError {
    /// Whose fault it is, and whether to try again.
    pub fn judge(&self) -> (Fault, TryAgain) {
        match self {
            // A run ends, and a queue empties.
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
