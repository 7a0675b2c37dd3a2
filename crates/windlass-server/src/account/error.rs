//! Why something about accounts was not done. Whose fault it is follows from the kind; words are for people.

use windlass::port::journal::StoreError;
use windlass::port::records::RecordError;

use super::Unknown;

/// Why something about accounts was not done.
#[derive(Debug, thiserror::Error)]
pub enum AccountError {
    /// Nobody is known to ask.
    #[error(transparent)]
    Unknown(#[from] Unknown),
    /// The address, the password, or both are wrong; which one is not said.
    #[error("the address or the password is wrong")]
    WrongLogin,
    /// The present password of an account is another one.
    #[error("the current password is wrong")]
    WrongPassword,
    /// Too many attempts in a short time.
    #[error("too many attempts; the next one is taken in {retry_after_s} s")]
    TooMany {
        /// Seconds until the next one.
        retry_after_s: u64,
    },
    /// Too many passwords are being checked at this moment.
    #[error("too many people are signing in at this moment")]
    Busy,
    /// What was sent cannot be.
    #[error("{0}")]
    Invalid(String),
    /// Whoever asks may not.
    #[error("{0}")]
    Forbidden(String),
    /// Another account was registered first.
    #[error("another account was registered first; an administrator can invite you")]
    NotFirst,
    /// A one-time link that was used, has expired, was taken back, or never was one.
    #[error("the link is not valid: it was used, has expired, or was taken back")]
    Link,
    /// The address belongs to somebody.
    #[error("the address `{email}` belongs to an account")]
    Taken {
        /// The address.
        email: String,
    },
    /// Not in the present state.
    #[error("{detail}")]
    Refused {
        /// The code for programs.
        code: &'static str,
        /// What stands against it.
        detail: String,
    },
    /// There is no such thing in the workspace.
    #[error("{0} does not exist")]
    Missing(String),
    /// Something else was found than the request was made for.
    #[error("{what} was changed by somebody else")]
    Changed {
        /// What was changed.
        what: String,
    },
    /// A sign-in elsewhere failed, there or on the way.
    #[error("{0}")]
    Provider(String),
    /// The store refused or failed.
    #[error(transparent)]
    Store(#[from] StoreError),
}

impl From<RecordError> for AccountError {
    fn from(error: RecordError) -> Self {
        match error {
            RecordError::Conflict { kind, key, .. } => Self::Changed { what: format!("{kind} `{key}`") },
            RecordError::Store(error) => Self::Store(error),
        }
    }
}

/// Which kind of record a change found otherwise than it expected.
pub(super) fn conflict(error: &RecordError) -> Option<&str> {
    match error {
        RecordError::Conflict { kind, .. } => Some(kind),
        RecordError::Store(_) => None,
    }
}
