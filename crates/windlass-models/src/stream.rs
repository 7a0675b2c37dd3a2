//! A reply as it arrives: server-sent events, and the decoders that read them.
//!
//! A wire supplies its decoder; `events.rs` owns the connection.

pub(crate) mod decoder;
pub(crate) mod events;
pub(crate) mod lenient;
pub(crate) mod sse;
