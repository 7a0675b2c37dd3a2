//! The moment in which an input is decided.
//!
//! A driver reads it off its clocks; the machine stamps events with it.

use crate::id::Timestamp;

/// Differences between thread time and the wall clock up to this much are not recorded: both clocks round to
/// milliseconds, and readings are taken one after the other.
const WALL_ROUNDING_MS: u64 = 10;

/// When an input is decided: the time of the thread, and what the wall clock shows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Moment {
    /// The thread's time, see [`ThreadClock::now`](crate::ThreadClock::now).
    pub at: Timestamp,
    /// What the wall clock shows.
    pub wall: Timestamp,
}

impl Moment {
    /// The reading of the wall clock that an event of this moment records: where it differs from the thread's time.
    pub(crate) fn wall_stamp(self) -> Option<Timestamp> {
        Some(self.wall).filter(|wall| wall.plus_ms(WALL_ROUNDING_MS) < self.at)
    }
}

/// A moment at which the wall clock agrees with the thread's time.
impl From<Timestamp> for Moment {
    fn from(at: Timestamp) -> Self {
        Self { at, wall: at }
    }
}
