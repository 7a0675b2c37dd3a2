//! The guard for HTTP calls. It keeps no cookies and retries no request.
//!
//! Every request states its limits ([`Limits`]). The rules ([`Reach`]) check every address as given,
//! as resolved, and again at each redirect. The client connects to the checked address without a
//! second lookup, which could return another address. Proxy settings of the environment are ignored,
//! because a proxy would resolve the name itself.

mod address;
mod body;
mod error;
mod host;
mod reach;
mod redirect;
mod resolve;
mod send;

pub use body::{Body, End};
pub use error::{OutboundError, Refusal, Sent};
pub use host::Host;
pub use reach::{Ports, Reach};
pub use redirect::{HopCheck, Redirects};
pub use reqwest::Url;
pub use resolve::{Resolver, SystemResolver};
pub use send::{Limits, Outbound, Request, Response};
