//! The guard for calls over HTTP. It keeps no cookies and retries nothing.
//!
//! Every request states its limits ([`Limits`]). Every address is judged ([`Reach`]) as given, as resolved, and again
//! at each redirect. The connection goes to the judged address: there is no second lookup that could differ. Proxy
//! settings of the environment are ignored, because a proxy would resolve the name itself.

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
