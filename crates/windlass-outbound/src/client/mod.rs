//! The guard for calls over HTTP.
//!
//! Every request states what it may cost ([`Limits`]). Every address is judged ([`Reach`]) when it is typed, when its name
//! is resolved, and again at each redirect. The connection goes to the address that was judged: there is no second
//! look-up that could give another answer. Proxies of the environment are not used, because a proxy would resolve the
//! name itself.
//!
//! It keeps no cookies and repeats nothing.

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
