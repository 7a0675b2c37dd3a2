//! An observer sees the state before and after each event of a decision.
//!
//! A driver reads off what it keeps beside the journal: rows of lists, reservations, measures.

use crate::event::Event;
use crate::state::State;

/// Sees the state around each event that [`Machine::handle_observed`](crate::Machine::handle_observed) records.
pub trait Observer {
    /// The event is recorded, and not applied yet.
    fn before(&mut self, state: &State, event: &Event);

    /// The event was applied.
    fn after(&mut self, state: &State, event: &Event);
}

/// Observes nothing.
impl Observer for () {
    fn before(&mut self, _: &State, _: &Event) {}

    fn after(&mut self, _: &State, _: &Event) {}
}
