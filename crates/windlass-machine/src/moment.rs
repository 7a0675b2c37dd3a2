//! The moment at which an input is decided.
//!
//! A driver reads it from its clocks; the machine stamps events with it.

use crate::id::Timestamp;

/// Maximum difference in milliseconds between thread time and wall clock that is not recorded. The difference arises
/// because both times are rounded to milliseconds and read one after the other.
const WALL_ROUNDING_MS: u64 = 10;

/// The thread time and the wall-clock time of a decision.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Moment {
    /// Thread time, see [`ThreadClock::now`](crate::ThreadClock::now).
    pub at: Timestamp,
    /// Wall-clock time.
    pub wall: Timestamp,
}

impl Moment {
    /// Returns the wall-clock time to record with an event: only if it differs from the thread's time.
    pub(crate) fn wall_stamp(self) -> Option<Timestamp> {
        Some(self.wall).filter(|wall| wall.plus_ms(WALL_ROUNDING_MS) < self.at)
    }
}

/// A moment at which the wall clock equals the thread's time.
impl From<Timestamp> for Moment {
    fn from(at: Timestamp) -> Self {
        Self { at, wall: at }
    }
}
