//! Why a request was not sent or failed, each with a remedy.
//!
//! The caller decides whether to retry.

use std::net::IpAddr;

use thiserror::Error;

/// The rule that rejected a request. No byte was sent, and a retry does not help.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum Refusal {
    /// The URL cannot be parsed.
    #[error("`{text}` is not a valid URL: {why}")]
    Unreadable {
        /// The given text, shortened.
        text: String,
        /// The parser's reason.
        why: String,
    },
    /// The protocol is not HTTP.
    #[error("`{scheme}` URLs are not allowed; use http or https")]
    Scheme {
        /// The URL's scheme.
        scheme: String,
    },
    /// The URL contains a user or a password.
    #[error("the URL contains a user name or password, which would end up in logs; remove it")]
    Credentials,
    /// The URL has no host.
    #[error("the URL has no host")]
    NoHost,
    /// The port is not allowed.
    #[error(
        "port {port} of `{host}` is not allowed; the setting `ports` lists the allowed ports (default: 80 \
         and 443)"
    )]
    Port {
        /// The URL's host.
        host: String,
        /// The rejected port.
        port: u16,
    },
    /// The host is on the deny list.
    #[error("`{host}` is not allowed: the setting `deny_hosts` contains it")]
    Denied {
        /// The URL's host.
        host: String,
    },
    /// The client has an allow list that does not contain the host.
    #[error("`{host}` is not allowed: the setting `allow_hosts` does not contain it")]
    NotAllowed {
        /// The URL's host.
        host: String,
    },
    /// The host's address is not public.
    #[error(
        "`{host}` is not allowed: it resolves to the {kind} address {address}, and the setting \
         `internal_hosts` contains neither"
    )]
    Internal {
        /// The URL's host.
        host: String,
        /// An address of the host.
        address: IpAddr,
        /// The kind of the address, as text for users.
        kind: &'static str,
    },
    /// Credentials would be sent over the network unencrypted.
    #[error(
        "credentials are not sent to `{host}` unencrypted; use https, or add it to the setting \
         `internal_hosts`"
    )]
    Clear {
        /// The URL's host.
        host: String,
    },
}

/// Whether a request may have reached the server.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Sent {
    /// No byte was sent.
    Nothing,
    /// The server may have processed the request.
    Perhaps,
}

/// Why a request produced no response.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum OutboundError {
    /// A rule rejected the request.
    #[error(transparent)]
    Refused(#[from] Refusal),
    /// No connection could be made. A later retry may help.
    #[error("cannot reach `{host}`: {why}")]
    Unreachable {
        /// The URL's host.
        host: String,
        /// The innermost cause.
        why: String,
    },
    /// The time limit was exceeded.
    #[error("`{host}` did not respond within {within_ms} ms")]
    Timeout {
        /// The URL's host.
        host: String,
        /// The time limit in milliseconds.
        within_ms: u64,
        /// Whether the server may have processed the request.
        sent: Sent,
    },
    /// The connection broke, or the response is not HTTP.
    #[error("the connection to `{host}` was lost before it responded: {why}")]
    Broken {
        /// The URL's host.
        host: String,
        /// The innermost cause.
        why: String,
    },
    /// There were too many redirects.
    #[error("more than {max} redirects, the last one to `{to}`")]
    Redirects {
        /// Maximum number of redirects that are followed.
        max: usize,
        /// The target of the last redirect.
        to: String,
    },
}

impl OutboundError {
    /// Whether the server may have processed the request.
    pub fn sent(&self) -> Sent {
        match self {
            Self::Refused(_) | Self::Unreachable { .. } => Sent::Nothing,
            Self::Timeout { sent, .. } => *sent,
            Self::Broken { .. } | Self::Redirects { .. } => Sent::Perhaps,
        }
    }
}
