//! The clock of this process.

use std::sync::Arc;

use windlass::clock::SystemClock;
use windlass::machine::Timestamp;
use windlass::port::clock::Clock;

/// Returns the current time.
pub fn now() -> Timestamp {
    SystemClock::new().now()
}

pub fn clock() -> Arc<dyn Clock> {
    Arc::new(SystemClock::new())
}
