//! Errors of server operations, for callers.
//!
//! Failures of a tool call are tool results for the model, never one of these errors.

use thiserror::Error;

/// Why a server operation failed.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum McpError {
    /// The configuration is invalid. The error is the caller's, and a retry does not fix it.
    #[error("invalid configuration of the server `{server}`: {problem}")]
    Config {
        /// The server's name.
        server: String,
        /// Describes the error, with the offending value.
        problem: String,
    },
    /// No server has this name.
    #[error("there is no server named `{0}`")]
    Unknown(String),
    /// Two servers have this name.
    #[error("there are two servers named `{0}`")]
    Duplicate(String),
    /// The server is not connected now. The connection is retried automatically.
    #[error("the server `{server}` is not available: {why}")]
    Unavailable {
        /// The server's name.
        server: String,
        /// The reason, redacted.
        why: String,
    },
    /// A user must sign in first.
    #[error("the server `{server}` requires a sign-in")]
    SignIn {
        /// The server's name.
        server: String,
    },
    /// A required server did not connect at startup. (SK-A12)
    #[error(
        "the required server `{server}` did not connect in {attempts} attempt{}: {why}",
        if *attempts == 1 { "" } else { "s" }
    )]
    Required {
        /// The server's name.
        server: String,
        /// Number of attempts.
        attempts: u32,
        /// The reason of the last failure.
        why: String,
    },
    /// The server answered with an error.
    #[error("the server `{server}` returned an error: {message} ({code})")]
    Refused {
        /// The server's name.
        server: String,
        /// The JSON-RPC error code.
        code: i32,
        /// The server's message.
        message: String,
    },
    /// The prompt requires input before the server returns it. Only tool calls support input.
    #[error(
        "the prompt `{prompt}` of the server `{server}` requires input; servers can request input only \
         during a tool call"
    )]
    WantsInput {
        /// The server's name.
        server: String,
        /// The prompt's name.
        prompt: String,
    },
    /// The sign-in failed. Another attempt may succeed.
    #[error("the sign-in at the server `{server}` failed: {why}")]
    SignInFailed {
        /// The server's name.
        server: String,
        /// The reason.
        why: String,
    },
}
