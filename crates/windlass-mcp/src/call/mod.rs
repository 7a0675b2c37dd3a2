//! A call of a tool: the exchange with the server, what it asks people, and where it continues later.
//!
//! Whether a call may run is decided by the engine.

pub(super) mod ask;
pub(super) mod exchange;
pub(super) mod resume;
pub(super) mod task;
