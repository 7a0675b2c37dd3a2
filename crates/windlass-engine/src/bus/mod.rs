//! The live bus of one process.
//!
//! A signal is kept once for all followers, for a bounded time. Nothing here outlives the process.

mod channel;
mod local;
mod ring;

pub use self::local::LocalBus;
