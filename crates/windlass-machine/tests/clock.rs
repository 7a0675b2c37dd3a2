//! A wall clock that is set while a thread exists: thread time continues, and no deadline waits for the old time.

use std::sync::Arc;

use windlass_machine::*;

use crate::fixture::{self, failure};

const DAY_MS: u64 = 86_400_000;

/// The clocks of a driver: the adjustable wall clock, the monotonic clock, and the thread clock once a driver has
/// opened the thread.
struct Clocks {
    wall: Timestamp,
    monotonic_ms: u64,
    thread: Option<ThreadClock>,
}

impl Clocks {
    fn pass(&mut self, ms: u64) {
        self.monotonic_ms += ms;
        self.wall = self.wall.plus_ms(ms);
    }

    /// Another process opens the thread, with another monotonic clock.
    fn reopen(&mut self) {
        (self.monotonic_ms, self.thread) = (3, None);
    }

    fn thread(&mut self, machine: &Machine) -> &mut ThreadClock {
        self.thread.get_or_insert_with(|| ThreadClock::open(machine, self.wall, self.monotonic_ms))
    }

    fn now(&mut self, machine: &Machine) -> Timestamp {
        let (wall, monotonic_ms) = (self.wall, self.monotonic_ms);
        self.thread(machine).now(wall, monotonic_ms)
    }

    fn take(&mut self, machine: &mut Machine, input: &Input) {
        let (wall, monotonic_ms) = (self.wall, self.monotonic_ms);
        let moment = self.thread(machine).moment(wall, monotonic_ms);
        for event in machine.handle(input, moment).unwrap() {
            self.thread(machine).advance(&event, monotonic_ms);
            assert_eq!(Event::decode(&event.encode()).unwrap(), event);
        }
    }
}

/// Returns a run whose failed model call is retried in two seconds, and a wall clock that was a day ahead and is now
/// corrected.
fn corrected() -> (Machine, Clocks) {
    let mut machine = Machine::restore("t".into(), None, []).unwrap();
    let mut clocks = Clocks { wall: Timestamp(1_000), monotonic_ms: 7_000, thread: None };
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
    clocks.reopen();
    assert_eq!(machine.due_in_ms(clocks.now(&machine)), Some(2_000));
    clocks.pass(2_000);
    clocks.take(&mut machine, &Input::Tick { confirmed: Vec::new() });
    assert!(matches!(machine.wants()[..], [Command::CallModel { .. }]));
}

#[test]
fn the_wall_clock_counts_where_it_is_ahead() {
    let (machine, mut clocks) = corrected();
    // The machine was suspended, so the monotonic clock did not advance.
    clocks.wall = machine.state().at.plus_ms(60_000);
    assert_eq!(clocks.now(&machine), clocks.wall);
    assert_eq!(machine.due_in_ms(clocks.now(&machine)), Some(0));
    // An idle thread has no deadline.
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

#[test]
fn a_deadline_is_kept_in_wall_clock_terms() {
    let (mut machine, mut clocks) = corrected();
    // The retry was scheduled while the clock was ahead.
    assert_eq!(machine.wall_deadline(), Some(Timestamp(DAY_MS + 3_000)));
    let titled = Input::Title { title: "t".into(), by: "ann".into() };
    clocks.take(&mut machine, &titled);
    assert_eq!(machine.wall_deadline(), Some(Timestamp(3_000)));
    // A process opens the thread at that time: the deadline is due, although thread time is a day ahead.
    clocks.wall = Timestamp(3_000);
    clocks.reopen();
    assert_eq!(machine.due_in_ms(clocks.now(&machine)), Some(0));
}

#[test]
fn a_clock_that_is_set_back_and_corrected_does_not_end_a_run() {
    let (mut machine, mut clocks) = corrected();
    let titled = Input::Title { title: "t".into(), by: "ann".into() };
    let before = clocks.now(&machine);
    clocks.take(&mut machine, &titled);
    // Ahead by a day as before: the run has lasted seconds.
    clocks.wall = clocks.wall.plus_ms(DAY_MS);
    clocks.pass(500);
    assert_eq!(clocks.now(&machine), before.plus_ms(500));
    // Another driver that has recorded nothing yet.
    clocks.wall = Timestamp(1_500);
    clocks.take(&mut machine, &titled);
    clocks.reopen();
    let opened = clocks.now(&machine);
    clocks.wall = clocks.wall.plus_ms(DAY_MS);
    clocks.pass(10);
    assert_eq!(clocks.now(&machine), opened.plus_ms(10));
}

#[test]
fn milliseconds_that_two_clocks_round_differently_are_not_recorded() {
    let mut machine = Machine::restore("t".into(), None, []).unwrap();
    let mut clocks = Clocks { wall: Timestamp(1_000), monotonic_ms: 7_000, thread: None };
    let new = fixture::new_message("m", "Do it", "r", Arc::new(fixture::agent()));
    clocks.take(&mut machine, &Input::Message(Box::new(new)));
    for round in 0..100_u64 {
        // The monotonic clock is read just before or just after the wall clock.
        clocks.monotonic_ms += 10 + round % 2;
        clocks.wall = clocks.wall.plus_ms(11 - round % 2);
        clocks.take(&mut machine, &Input::Title { title: format!("{round}"), by: "ann".into() });
        assert_eq!(machine.state().ahead_ms, 0);
        assert!(machine.state().at.since(clocks.wall) <= 1);
    }
}
