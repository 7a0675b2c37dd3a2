//! The live bus of one process.
//!
//! A signal is stored once for all followers, for a limited time, and only in memory.

mod channel;
mod local;
mod ring;

pub use self::local::LocalBus;
