//! The clock port: the only source of times and random numbers.
//!
//! The machine has no clock; it receives times as arguments.

use std::future::Future;
use std::pin::Pin;

use windlass_machine::Timestamp;

/// Time and randomness.
pub trait Clock: Send + Sync {
    /// Returns the wall-clock time, which may jump.
    fn now(&self) -> Timestamp;

    /// Returns milliseconds of a monotonic clock, for durations.
    fn monotonic_ms(&self) -> u64;

    /// Completes after `ms` milliseconds of the monotonic clock.
    fn sleep_ms(&self, ms: u64) -> Pin<Box<dyn Future<Output = ()> + Send>>;

    /// Returns a new random number, for ids.
    fn random(&self) -> u64;
}
