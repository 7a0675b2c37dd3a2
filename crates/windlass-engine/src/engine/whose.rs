//! The scope of an auto-run choice: a user or a thread.
//!
//! A thread's choice takes precedence over its user's.

use windlass_machine::{Principal, ThreadId};

use crate::drive::policy::service::{AutoRunOf, auto_run_key};

/// The scope of an auto-run choice.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Whose {
    /// A user's choice, for all threads without their own choice.
    User(Principal),
    /// The choice for a single thread.
    Thread(ThreadId),
}

impl Whose {
    /// Returns the scope for the key of the record.
    pub(crate) fn of(&self) -> AutoRunOf<'_> {
        match self {
            Self::User(user) => AutoRunOf::User(user),
            Self::Thread(thread) => AutoRunOf::Thread(thread),
        }
    }

    /// Returns the owner of the record.
    pub(crate) fn owner(&self) -> String {
        match self {
            Self::User(user) => user.to_string(),
            // No caller lists records by this owner; the owner distinguishes the change numbers of threads.
            Self::Thread(_) => auto_run_key(self.of()),
        }
    }
}
