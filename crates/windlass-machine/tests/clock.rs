//! A wall clock that is set while a thread lives: its time goes on, and nothing waits for the old time to come again.

use std::sync::Arc;

use windlass_machine::*;

use crate::fixture::{self, failure};

const DAY_MS: u64 = 86_400_000;

/// A driver's clocks: one that people set, and one that never jumps.
struct Clocks {
    wall: Timestamp,
    monotonic_ms: u64,
    /// What the latter showed when the last event was folded, or when the thread was opened.
    event_ms: u64,
}

impl Clocks {
    fn pass(&mut self, ms: u64) {
        self.monotonic_ms += ms;
        self.wall = self.wall.plus_ms(ms);
    }

    fn now(&self, machine: &Machine) -> Timestamp {
        machine.now(self.wall, self.monotonic_ms - self.event_ms)
    }

    fn take(&mut self, machine: &mut Machine, input: &Input) {
        for event in machine.handle(input, self.now(machine)).unwrap() {
            machine.apply(&event);
            self.event_ms = self.monotonic_ms;
        }
    }
}

/// A run whose model call has just failed and is tried again in two seconds, and a clock that was a day ahead and is
/// now corrected.
fn corrected() -> (Machine, Clocks) {
    let mut machine = Machine::restore("t".into(), None, []).unwrap();
    let mut clocks = Clocks { wall: Timestamp(1_000), monotonic_ms: 7_000, event_ms: 7_000 };
    let new = fixture::new_message("m", "Do it", "r", Arc::new(fixture::agent()));
    clocks.wall = clocks.wall.plus_ms(DAY_MS);
    clocks.take(&mut machine, &Input::Message(Box::new(new)));
    let failed = failure(Attempt { step: 1, attempt: 1 }, FailureClass::Transient);
    clocks.take(&mut machine, &Input::ModelFailed(Box::new(failed)));
    clocks.wall = Timestamp(1_000);
    (machine, clocks)
}

#[test]
fn a_retry_comes_in_time_after_the_clock_was_set_back() {
    let (mut machine, mut clocks) = corrected();
    let due = machine.due_in_ms(clocks.now(&machine));
    assert_eq!(due, Some(2_000));
    clocks.pass(1_500);
    assert_eq!(machine.due_in_ms(clocks.now(&machine)), Some(500));
    clocks.pass(500);
    assert_eq!(machine.due_in_ms(clocks.now(&machine)), Some(0));
    clocks.take(&mut machine, &Input::Tick { confirmed: Vec::new() });
    assert!(matches!(
        machine.wants()[..],
        [Command::CallModel { attempt: Attempt { step: 1, attempt: 2 }, .. }]
    ));
}

#[test]
fn a_retry_comes_in_time_where_another_process_opens_the_thread() {
    let (mut machine, mut clocks) = corrected();
    // Its monotonic clock is another one, and nobody knows how long ago the last event was.
    (clocks.monotonic_ms, clocks.event_ms) = (3, 3);
    assert_eq!(machine.due_in_ms(clocks.now(&machine)), Some(2_000));
    clocks.pass(2_000);
    clocks.take(&mut machine, &Input::Tick { confirmed: Vec::new() });
    assert!(matches!(machine.wants()[..], [Command::CallModel { .. }]));
}

#[test]
fn the_wall_clock_counts_where_it_is_ahead() {
    let (machine, mut clocks) = corrected();
    // A machine that slept: the clock that never jumps stood still.
    clocks.wall = machine.state().at.plus_ms(60_000);
    assert_eq!(clocks.now(&machine), clocks.wall);
    assert_eq!(machine.due_in_ms(clocks.now(&machine)), Some(0));
    // A run that waits for people is due at no time.
    let idle = Machine::restore("t".into(), None, []).unwrap();
    assert_eq!(idle.due_in_ms(Timestamp(5)), None);
}

#[test]
fn the_runs_time_is_up_after_the_clock_was_set_back() {
    let (mut machine, mut clocks) = corrected();
    clocks.pass(2_000);
    clocks.take(&mut machine, &Input::Tick { confirmed: Vec::new() });
    let due = machine.due_in_ms(clocks.now(&machine)).unwrap();
    assert_eq!(due, Limits::default().run_timeout_ms - 2_000);
    clocks.pass(due);
    clocks.take(&mut machine, &Input::Tick { confirmed: Vec::new() });
    assert!(machine.state().run.as_ref().is_some_and(|run| run.cancel.is_some()));
}

/// Stamps each event with the wall clock, as a driver does.
fn take_stamped(machine: &mut Machine, clocks: &mut Clocks, input: &Input) {
    for mut event in machine.handle(input, clocks.now(machine)).unwrap() {
        event.wall = Some(clocks.wall).filter(|wall| *wall < event.at);
        assert_eq!(Event::decode(&event.encode()).unwrap(), event);
        machine.apply(&event);
        clocks.event_ms = clocks.monotonic_ms;
    }
}

#[test]
fn a_deadline_is_kept_in_wall_clock_terms() {
    let (mut machine, mut clocks) = corrected();
    // The retry was set as the clock was ahead.
    assert_eq!(machine.wall_deadline(), Some(Timestamp(DAY_MS + 3_000)));
    let titled = Input::Title { title: "t".into(), by: "ann".into() };
    take_stamped(&mut machine, &mut clocks, &titled);
    assert_eq!(machine.wall_deadline(), Some(Timestamp(3_000)));
    // A process opens the thread once that time has come: it is due, although the thread's time is a day ahead.
    clocks.wall = Timestamp(3_000);
    (clocks.monotonic_ms, clocks.event_ms) = (3, 3);
    assert_eq!(machine.due_in_ms(clocks.now(&machine)), Some(0));
}
