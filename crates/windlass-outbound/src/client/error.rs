//! Why a request was not sent or came to nothing, each with the way out.
//!
//! Whether a call is made again is for others to decide.

use std::net::IpAddr;

use thiserror::Error;

/// Which rule refused a request. Nothing was sent; trying again does not help.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum Refusal {
    /// It is no address.
    #[error("`{text}` is no address: {why}")]
    Unreadable {
        /// What was written, shortened.
        text: String,
        /// Why.
        why: String,
    },
    /// Another protocol.
    #[error("`{scheme}` addresses are not called; only http and https are")]
    Scheme {
        /// The protocol.
        scheme: String,
    },
    /// It says a user or a password.
    #[error("the address has a user or a password in it, which would end up in logs; leave them out")]
    Credentials,
    /// It names no host.
    #[error("the address names no host")]
    NoHost,
    /// The port.
    #[error(
        "port {port} of `{host}` is not called; the setting `ports` names those that are (80 and 443 by default)"
    )]
    Port {
        /// The host.
        host: String,
        /// The port.
        port: u16,
    },
    /// The host is on the list of those never called.
    #[error("`{host}` is not called: the setting `deny_hosts` names it")]
    Denied {
        /// The host.
        host: String,
    },
    /// There is a list of hosts, and this one is not on it.
    #[error("`{host}` is not called: the setting `allow_hosts` does not name it")]
    NotAllowed {
        /// The host.
        host: String,
    },
    /// The address is not public.
    #[error(
        "`{host}` is not called: it is at the {kind} address {address}, and the setting `internal_hosts` names neither"
    )]
    Internal {
        /// The host.
        host: String,
        /// Where it is.
        address: IpAddr,
        /// What that is.
        kind: &'static str,
    },
    /// Credentials would go over the network in clear.
    #[error(
        "credentials are not sent to `{host}` in clear; use https, or name it in the setting `internal_hosts`"
    )]
    Clear {
        /// The host.
        host: String,
    },
}

/// Whether a request may have reached the other side.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Sent {
    /// No byte of it left.
    Nothing,
    /// It may have been acted upon.
    Perhaps,
}

/// Why a request brought no answer.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum OutboundError {
    /// A rule refused it.
    #[error(transparent)]
    Refused(#[from] Refusal),
    /// No connection came about. Trying again later may help.
    #[error("`{host}` cannot be reached: {why}")]
    Unreachable {
        /// The host.
        host: String,
        /// Why.
        why: String,
    },
    /// It took too long.
    #[error("`{host}` did not answer within {within_ms} ms")]
    Timeout {
        /// The host.
        host: String,
        /// How long it was waited for.
        within_ms: u64,
        /// Whether it may have been acted upon.
        sent: Sent,
    },
    /// The connection broke, or what came is no HTTP.
    #[error("the connection to `{host}` broke before it answered: {why}")]
    Broken {
        /// The host.
        host: String,
        /// Why.
        why: String,
    },
    /// Redirects without end.
    #[error("more than {max} redirects, the last one to `{to}`")]
    Redirects {
        /// How many are followed.
        max: usize,
        /// Where the last one led.
        to: String,
    },
}

impl OutboundError {
    /// Whether the other side may have acted upon the request.
    pub fn sent(&self) -> Sent {
        match self {
            Self::Refused(_) | Self::Unreachable { .. } => Sent::Nothing,
            Self::Timeout { sent, .. } => *sent,
            Self::Broken { .. } | Self::Redirects { .. } => Sent::Perhaps,
        }
    }
}
