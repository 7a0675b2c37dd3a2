//! Outbound HTTP calls of tools, webhooks and clients (feature `client`), and secrets.
//!
//! This crate does not interpret the purpose of a request.

#[cfg(feature = "client")]
mod client;
pub mod secret;

#[cfg(feature = "client")]
pub use self::client::{
    Body, End, HopCheck, Host, Limits, Outbound, OutboundError, Ports, Reach, Redirects, Refusal, Request,
    Resolver, Response, Sent, SystemResolver, Url,
};
