//! An observer sees the state before and after each event of a decision.
//!
//! A driver uses it to derive what it stores beside the journal: rows of lists, reservations, measurements.

use crate::event::Event;
use crate::state::State;

/// Sees the state around each event that [`Machine::handle_observed`](crate::Machine::handle_observed) records.
pub trait Observer {
    /// Called when the event is recorded but not applied yet.
    fn before(&mut self, state: &State, event: &Event);

    /// Called after the event was applied.
    fn after(&mut self, state: &State, event: &Event);
}

/// Observes nothing.
impl Observer for () {
    fn before(&mut self, _: &State, _: &Event) {}

    fn after(&mut self, _: &State, _: &Event) {}
}
