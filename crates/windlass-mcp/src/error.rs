//! What can go wrong with servers, for whoever asked for them.
//!
//! What a model should see is a result, never one of these.

use thiserror::Error;

/// Why a server or something of it cannot be had.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum McpError {
    /// The caller's fault; trying again does not help.
    #[error("the server `{server}` is not configured well: {problem}")]
    Config {
        /// The server.
        server: String,
        /// What is wrong, with the value.
        problem: String,
    },
    /// There is no such server.
    #[error("there is no server named `{0}`")]
    Unknown(String),
    /// Two servers have one name.
    #[error("there are two servers named `{0}`")]
    Duplicate(String),
    /// The server cannot be reached now; it is tried again.
    #[error("the server `{server}` is not available: {why}")]
    Unavailable {
        /// The server.
        server: String,
        /// Why.
        why: String,
    },
    /// Somebody has to sign in first.
    #[error("somebody has to sign in at the server `{server}` first")]
    SignIn {
        /// The server.
        server: String,
    },
    /// A start needs the server, and it did not come up. (SK-A12)
    #[error(
        "the server `{server}` is required and did not answer in {attempts} attempt{}: {why}",
        if *attempts == 1 { "" } else { "s" }
    )]
    Required {
        /// The server.
        server: String,
        /// How often it was tried.
        attempts: u32,
        /// Why the last one failed.
        why: String,
    },
    /// The server answered with an error.
    #[error("the server `{server}` refused: {message} ({code})")]
    Refused {
        /// The server.
        server: String,
        /// The protocol's code.
        code: i32,
        /// The server's words.
        message: String,
    },
    /// The prompt wants input before it is given, and nobody is asked in the middle of one.
    #[error(
        "the prompt `{prompt}` of the server `{server}` wants input before it is given; nobody is asked in the middle of \
         a prompt, only in the middle of a call"
    )]
    WantsInput {
        /// The server.
        server: String,
        /// The prompt.
        prompt: String,
    },
    /// The sign-in failed; a new one may succeed.
    #[error("the sign-in at the server `{server}` failed: {why}")]
    SignInFailed {
        /// The server.
        server: String,
        /// Why.
        why: String,
    },
}
