//! What every request passes on its way to a handler: its address, origin, limits, body and id.

pub mod body;
pub mod idempotency;
pub mod limit;
pub mod origin;
pub mod peer;
pub mod request;
mod trace_context;
