//! Maps account errors to problems.

use http::StatusCode;

use crate::account::error::AccountError;
use crate::http::problem::Problem;

impl From<AccountError> for Problem {
    fn from(error: AccountError) -> Self {
        let said = error.to_string();
        match error {
            AccountError::Unknown(_) => Self::unauthenticated(said),
            AccountError::WrongLogin => Self::new(StatusCode::UNAUTHORIZED, "wrong_login", said)
                .hint("an administrator can send you a link to reset your password"),
            AccountError::WrongPassword => Self::new(StatusCode::BAD_REQUEST, "wrong_password", said),
            AccountError::TooMany { retry_after_s } => {
                Self::new(StatusCode::TOO_MANY_REQUESTS, "too_many_attempts", said).retry_after(retry_after_s)
            }
            AccountError::Busy => Self::new(StatusCode::SERVICE_UNAVAILABLE, "busy", said).retry_after(1),
            AccountError::Invalid(_) => Self::invalid(said),
            AccountError::Forbidden(_) | AccountError::NotFirst => Self::forbidden(said),
            AccountError::Link => Self::new(StatusCode::GONE, "link_invalid", said)
                .hint("ask the sender of the link for a new one"),
            AccountError::Taken { .. } => Self::conflict("email_taken", said),
            AccountError::Refused { code, .. } => Self::conflict(code, said),
            AccountError::Missing(_) => Self::new(StatusCode::NOT_FOUND, "not_found", said),
            AccountError::Changed { .. } => Self::new(StatusCode::PRECONDITION_FAILED, "changed", said)
                .hint("read it again, and repeat the change if it still applies"),
            AccountError::Provider(_) => Self::new(StatusCode::BAD_GATEWAY, "provider", said),
            AccountError::Store(error) => error.into(),
        }
    }
}
