//! Whose choice of what runs without asking.
//!
//! A thread's own choice goes before its user's.

use windlass_machine::{Principal, ThreadId};

use crate::drive::policy::service::AutoRunOf;

/// Whose choice.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Whose {
    /// That of a user, in all threads that have none of their own.
    User(Principal),
    /// That of one thread.
    Thread(ThreadId),
}

impl Whose {
    /// What its record is found by.
    pub(crate) fn of(&self) -> AutoRunOf<'_> {
        match self {
            Self::User(user) => AutoRunOf::User(user),
            Self::Thread(thread) => AutoRunOf::Thread(thread),
        }
    }

    /// The owner of its record.
    pub(crate) fn owner(&self) -> &str {
        match self {
            Self::User(user) => user.as_str(),
            Self::Thread(_) => "",
        }
    }
}
