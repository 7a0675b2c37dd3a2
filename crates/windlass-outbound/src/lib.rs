//! The one way by which tools, skills, webhooks and servers elsewhere are called over HTTP: the guard.
//!
//! Every request states what it may cost ([`Limits`]); every address is judged ([`Reach`]) when it is typed, when its
//! name is resolved, and again at each redirect. The connection goes to the address that was judged and to no other:
//! there is no second look-up that could give another answer, and no proxy of the environment is used, which would
//! resolve the name anew on its side.
//!
//! It does not know what a request is for, keeps no cookies, and repeats nothing.

mod address;
mod body;
mod error;
mod host;
mod reach;
mod redirect;
mod resolve;
pub mod secret;
mod send;

pub use body::{Body, End};
pub use error::{OutboundError, Refusal, Sent};
pub use host::Host;
pub use reach::{Ports, Reach};
pub use redirect::{HopCheck, Redirects};
pub use reqwest::Url;
pub use resolve::{Resolver, SystemResolver};
pub use send::{Limits, Outbound, Request, Response};
