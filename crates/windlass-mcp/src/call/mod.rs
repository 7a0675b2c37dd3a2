//! Tool calls: the exchange with the server, its requests for input, and resumption.
//!
//! The engine decides whether a call may run.

pub(super) mod ask;
pub(super) mod exchange;
pub(super) mod resume;
pub(super) mod task;
