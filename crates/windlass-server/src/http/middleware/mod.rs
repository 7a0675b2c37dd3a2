//! Middleware of every request: peer address, origin, rate limits, body, idempotency and request id.

pub mod body;
pub mod idempotency;
pub mod limit;
pub mod origin;
pub mod peer;
pub mod request;
mod trace_context;
