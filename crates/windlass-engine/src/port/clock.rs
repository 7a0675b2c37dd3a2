//! The clock port: the only place from which times and fresh ids come.
//!
//! The machine never sees it; times reach it as arguments.

use std::future::Future;
use std::pin::Pin;

use windlass_machine::Timestamp;

/// Time and dice.
pub trait Clock: Send + Sync {
    /// The wall clock.
    fn now(&self) -> Timestamp;

    /// Milliseconds of a clock that never jumps, for durations.
    fn monotonic_ms(&self) -> u64;

    /// Completes after some milliseconds of the clock that never jumps.
    fn sleep_ms(&self, ms: u64) -> Pin<Box<dyn Future<Output = ()> + Send>>;

    /// A fresh random number, for ids.
    fn random(&self) -> u64;
}
