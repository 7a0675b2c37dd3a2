//! The time of a thread, as computed by the driver that has the thread in memory.
//!
//! This module reads no clock: the driver passes the readings of the wall clock and of a monotonic clock.

use crate::event::Event;
use crate::id::Timestamp;
use crate::machine::Machine;
use crate::moment::Moment;

/// Minimum number of milliseconds by which a thread's last event is ahead of a wall clock that was set back. The
/// clocks of two machines may differ by less.
pub const CLOCK_SET_BACK_MS: u64 = 60_000;

/// A driver's clock for one thread: a moment of thread time, and the reading of the monotonic clock at that moment.
///
/// Thread time follows the wall clock, even if the wall clock jumps ahead, and never runs backwards. If the wall
/// clock is set back, thread time continues by the monotonic clock, so the correction delays no deadline of a thread
/// in memory. A thread without a driver is opened when the wall clock reaches its deadline (see
/// [`Machine::wall_deadline`]). A correction below [`CLOCK_SET_BACK_MS`] delays the deadline by at most the
/// correction. After a larger correction, a driver records a note, which recomputes the deadline.
#[derive(Clone, Copy, Debug)]
pub struct ThreadClock {
    at: Timestamp,
    monotonic_ms: u64,
}

impl ThreadClock {
    /// Creates the clock for a driver that opens a thread. The reading of the previous driver's monotonic clock is
    /// unknown. In an active run, thread time includes the wall time since the last event, even if it is ahead of the
    /// wall clock. Otherwise a thread that was opened because the wall clock reached its deadline would not be due.
    pub fn open(machine: &Machine, wall: Timestamp, monotonic_ms: u64) -> Self {
        let state = machine.state();
        let ahead_ms = state.run.as_ref().map_or(0, |_| state.ahead_ms);
        Self { at: wall.plus_ms(ahead_ms).max(state.at), monotonic_ms }
    }

    /// Returns the thread's time.
    pub fn now(&self, wall: Timestamp, monotonic_ms: u64) -> Timestamp {
        wall.max(self.at.plus_ms(monotonic_ms.saturating_sub(self.monotonic_ms)))
    }

    /// Returns the moment of these readings: the second argument of [`Machine::handle`].
    pub fn moment(&self, wall: Timestamp, monotonic_ms: u64) -> Moment {
        Moment { at: self.now(wall, monotonic_ms), wall }
    }

    /// Continues from an event that was decided at this reading of the monotonic clock.
    pub fn advance(&mut self, event: &Event, monotonic_ms: u64) {
        *self = Self { at: event.at, monotonic_ms };
    }
}
