//! Transports to a server: a process, Streamable HTTP, and the older SSE.
//!
//! Messages are parsed only as far as an answer needs to find its request.

pub(super) mod child;
pub(super) mod events;
pub(super) mod http;
pub(super) mod lines;
pub(super) mod pending;
pub(super) mod sse;
