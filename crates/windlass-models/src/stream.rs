//! A reply as it arrives: server-sent events, and the decoders that read them.
//!
//! A wire brings its decoder; the connection is owned by `events.rs`.

pub(crate) mod decoder;
pub(crate) mod events;
pub(crate) mod lenient;
pub(crate) mod sse;
