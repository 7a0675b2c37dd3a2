//! Whose choice of what runs without asking.
//!
//! A thread's own choice goes before its user's.

use windlass_machine::{Principal, ThreadId};

use crate::drive::policy::service::{AutoRunOf, auto_run_key};

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
    pub(crate) fn owner(&self) -> String {
        match self {
            Self::User(user) => user.to_string(),
            // Nothing lists the choices of threads by owner: it tells them apart where one changes.
            Self::Thread(_) => auto_run_key(self.of()),
        }
    }
}
