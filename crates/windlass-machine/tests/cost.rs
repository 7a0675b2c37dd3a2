//! The cost of a decision: the allocated bytes do not grow with the thread.

use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::Cell;
use std::sync::Arc;

use windlass_machine::*;

use crate::fixture::{self, as_asked, known, reply};

struct Counting;

thread_local! {
    static BYTES: Cell<u64> = const { Cell::new(0) };
}

// SAFETY: every call is passed to the system's allocator unchanged; only a thread-local counter is incremented.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        let _ = BYTES.try_with(|bytes| bytes.set(bytes.get() + layout.size() as u64));
        // SAFETY: the caller upholds the contract of the system's allocator.
        unsafe { System.alloc(layout) }
    }
    unsafe fn dealloc(&self, at: *mut u8, layout: Layout) {
        // SAFETY: as above.
        unsafe { System.dealloc(at, layout) }
    }
}

#[global_allocator]
static COUNTING: Counting = Counting;

fn bytes_of(work: impl FnOnce()) -> u64 {
    let before = BYTES.with(Cell::get);
    work();
    BYTES.with(Cell::get) - before
}

fn take(machine: &mut Machine, input: &Input) {
    let _ = machine.handle(input, Timestamp(1_000));
}

/// Returns a thread with this many messages and a run in a model call.
fn thread(messages: u32, window: u32) -> Machine {
    let mut agent = fixture::agent();
    agent.limits.window_messages = window;
    agent.limits.max_steps = u32::MAX;
    agent.limits.max_same_calls = 0;
    let new = fixture::new_message("m", "Do it", "r", Arc::new(agent));
    let mut machine = Machine::restore("t".into(), None, []).unwrap();
    take(&mut machine, &Input::Message(Box::new(new)));
    while machine.state().history.end() < u64::from(messages) {
        step(&mut machine);
    }
    machine
}

/// Runs one step with a refused call: decides a reply and everything that follows.
fn step(machine: &mut Machine) {
    let attempt = machine.state().run.as_ref().unwrap().attempt;
    let blocks = vec![Block::text("x".repeat(100)), fixture::call("c", "Nope", "{}")];
    let input = reply(attempt, blocks, StopReason::ToolCalls, View::default());
    take(machine, &input);
}

#[test]
fn a_decision_costs_the_same_in_a_long_thread() {
    for window in [0, 40] {
        let cost = |messages| {
            let mut machine = thread(messages, window);
            // Growth of a buffer is not the cost of a step, so the cheapest of several steps counts.
            (0..8).map(|_| bytes_of(|| step(&mut machine))).min().unwrap()
        };
        let (short, long) = (cost(10), cost(5_000));
        assert!(long <= short + short / 10 + 256, "{short} bytes in a short thread, {long} in a long one");
    }
}

#[test]
fn a_result_costs_the_same_whatever_the_other_calls_carry() {
    let cost = |size: usize| {
        let mut machine = thread(1, 0);
        let arguments = |n| format!("{{\"text\":\"{}\"}}", "x".repeat(if n == 3 { 10 } else { size }));
        let calls = (0..100).map(|n| fixture::call(&format!("c{n}"), "Read", &arguments(n))).collect();
        let view = fixture::view(vec![known(EffectClass::Pure, true, as_asked("{}")); 100]);
        take(&mut machine, &reply(Attempt { step: 1, attempt: 1 }, calls, StopReason::ToolCalls, view));
        let call = CallKey { step: 1, index: 3 };
        let input = fixture::returned(call);
        bytes_of(|| take(&mut machine, &input))
    };
    let (small, large) = (cost(10), cost(10_000));
    assert!(large <= small + 1_024, "{small} bytes with small arguments, {large} with large ones");
}

#[test]
fn the_digest_of_a_request_costs_the_same_in_a_long_thread() {
    let cost = |messages| {
        let machine = thread(messages, 0);
        bytes_of(|| assert_ne!(machine.request_fingerprint(), Fingerprint::default()))
    };
    assert!(cost(5_000) <= cost(10) + 64);
}
