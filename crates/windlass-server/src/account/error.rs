//! Errors of account operations. Their messages are shown to users.

use windlass::port::journal::StoreError;
use windlass::port::records::RecordError;

use super::Unknown;

/// An account operation failed.
#[derive(Debug, thiserror::Error)]
pub enum AccountError {
    /// The request is not authenticated.
    #[error(transparent)]
    Unknown(#[from] Unknown),
    /// The email address or the password is wrong. The error does not reveal which.
    #[error("the address or the password is wrong")]
    WrongLogin,
    /// The given current password is wrong.
    #[error("the current password is wrong")]
    WrongPassword,
    /// Too many attempts in a short time.
    #[error("too many attempts; try again in {retry_after_s} s")]
    TooMany {
        /// Seconds until the next attempt is accepted.
        retry_after_s: u64,
    },
    /// Too many password checks are in progress.
    #[error("too many sign-ins are in progress")]
    Busy,
    /// The input is invalid.
    #[error("{0}")]
    Invalid(String),
    /// The caller lacks permission.
    #[error("{0}")]
    Forbidden(String),
    /// Another account was registered first.
    #[error("another account was registered first; ask an administrator for an invitation")]
    NotFirst,
    /// The one-time link was used, has expired, was revoked, or never existed.
    #[error("the link is invalid: it was used, has expired, or was revoked")]
    Link,
    /// Another account has the email address.
    #[error("the address `{email}` already belongs to an account")]
    Taken {
        /// The address.
        email: String,
    },
    /// The current state does not allow the operation.
    #[error("{detail}")]
    Refused {
        /// Code for programs.
        code: &'static str,
        /// The state that prevents the operation.
        detail: String,
    },
    /// The object does not exist in the workspace.
    #[error("{0} does not exist")]
    Missing(String),
    /// A concurrent change conflicts with the operation.
    #[error("{what} was changed by another request")]
    Changed {
        /// The object that was changed.
        what: String,
    },
    /// A sign-in at an OpenID Connect provider failed.
    #[error("{0}")]
    Provider(String),
    /// The store rejected the operation or failed.
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

/// Returns the record kind that caused a conflict, or `None` if the error is not a conflict.
pub(super) fn conflict(error: &RecordError) -> Option<&str> {
    match error {
        RecordError::Conflict { kind, .. } => Some(kind),
        RecordError::Store(_) => None,
    }
}
