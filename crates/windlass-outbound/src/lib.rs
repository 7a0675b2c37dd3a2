//! Outbound HTTP calls of tools, webhooks and clients (feature `client`), and secrets.
//!
//! This crate does not know what a request is for.

#[cfg(feature = "client")]
mod client;
pub mod secret;

#[cfg(feature = "client")]
pub use self::client::{
    Body, End, HopCheck, Host, Limits, Outbound, OutboundError, Ports, Reach, Redirects, Refusal, Request,
    Resolver, Response, Sent, SystemResolver, Url,
};
