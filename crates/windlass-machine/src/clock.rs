//! The time of a thread, as the driver that has the thread in memory computes it.
//!
//! It reads no clock: the driver passes the readings of the wall clock and of a clock that never jumps.

use crate::event::Event;
use crate::id::Timestamp;
use crate::machine::Machine;
use crate::moment::Moment;

/// Rows of threads whose last event lies this far ahead of the wall clock, or further, were written before the clock was
/// set back. Less may be a difference between the clocks of two machines.
pub const CLOCK_SET_BACK_MS: u64 = 60_000;

/// A driver's clock for one thread: a moment of thread time, and the reading of the monotonic clock at that moment.
///
/// Thread time follows the wall clock, also where that jumps ahead, and never runs backwards. If the wall clock is set
/// back, thread time continues by the monotonic clock, so the correction delays no deadline of a thread in memory. A
/// thread without a driver is opened by the wall clock (see [`Machine::wall_deadline`]): a correction of less than
/// [`CLOCK_SET_BACK_MS`] delays its deadline by the correction at most, and after a larger one a driver records a note,
/// by which the deadline is computed again.
#[derive(Clone, Copy, Debug)]
pub struct ThreadClock {
    at: Timestamp,
    monotonic_ms: u64,
}

impl ThreadClock {
    /// The clock of a driver that opens a thread. The monotonic clock of the last driver is unknown here. In a run, the
    /// time that the wall clock has advanced since the last event counts, even if thread time is ahead of it: the
    /// thread may have been opened because its deadline has come by the wall clock.
    pub fn open(machine: &Machine, wall: Timestamp, monotonic_ms: u64) -> Self {
        let state = machine.state();
        let ahead_ms = state.run.as_ref().map_or(0, |_| state.ahead_ms);
        Self { at: wall.plus_ms(ahead_ms).max(state.at), monotonic_ms }
    }

    /// The thread's time.
    pub fn now(&self, wall: Timestamp, monotonic_ms: u64) -> Timestamp {
        wall.max(self.at.plus_ms(monotonic_ms.saturating_sub(self.monotonic_ms)))
    }

    /// The moment that these readings show: the second argument of [`Machine::handle`].
    pub fn moment(&self, wall: Timestamp, monotonic_ms: u64) -> Moment {
        Moment { at: self.now(wall, monotonic_ms), wall }
    }

    /// Continues from an event that was decided when the monotonic clock showed this reading.
    pub fn advance(&mut self, event: &Event, monotonic_ms: u64) {
        *self = Self { at: event.at, monotonic_ms };
    }
}
