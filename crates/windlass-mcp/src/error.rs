//! Errors of server operations, for callers.
//!
//! Failures of a tool call are tool results for the model and never one of these.

use thiserror::Error;

/// Why a server operation failed.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum McpError {
    /// The configuration is invalid. Caused by the caller; retrying does not help.
    #[error("the server `{server}` is not configured well: {problem}")]
    Config {
        /// The server's name.
        server: String,
        /// What is wrong, with the offending value.
        problem: String,
    },
    /// No server has this name.
    #[error("there is no server named `{0}`")]
    Unknown(String),
    /// Two servers have this name.
    #[error("there are two servers named `{0}`")]
    Duplicate(String),
    /// The server is not connected now. It is retried automatically.
    #[error("the server `{server}` is not available: {why}")]
    Unavailable {
        /// The server's name.
        server: String,
        /// The reason, redacted.
        why: String,
    },
    /// A person must sign in first.
    #[error("somebody has to sign in at the server `{server}` first")]
    SignIn {
        /// The server's name.
        server: String,
    },
    /// A required server did not connect at startup. (SK-A12)
    #[error(
        "the server `{server}` is required and did not answer in {attempts} attempt{}: {why}",
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
    #[error("the server `{server}` refused: {message} ({code})")]
    Refused {
        /// The server's name.
        server: String,
        /// The JSON-RPC error code.
        code: i32,
        /// The server's message.
        message: String,
    },
    /// The prompt requires input before it is returned. Input is only supported for tool calls.
    #[error(
        "the prompt `{prompt}` of the server `{server}` wants input before it is given; nobody is asked in the middle of \
         a prompt, only in the middle of a call"
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
