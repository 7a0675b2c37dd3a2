//! Any journal that can be read can be folded, and its state can be asked for everything: nothing panics.
#![no_main]

use libfuzzer_sys::fuzz_target;
use windlass_machine::{Event, Fact, Input, Machine, ThreadId, Timestamp, View};

fuzz_target!(|bytes: &[u8]| {
    let text = String::from_utf8_lossy(bytes);
    let events: Vec<Event> = text.lines().filter_map(|line| Event::decode(line).ok()).collect();
    let Ok(mut machine) = Machine::restore(thread_of(&events), None, events) else { return };
    let _ = (machine.wants(), machine.deadline(), machine.request(), machine.request_fingerprint());
    let snapshot = machine.snapshot();
    assert!(snapshot.is_usable());
    for command in machine.unfinished() {
        let _ = machine.clone().handle(&Input::Lost { command, view: View::default() }, Timestamp(0));
    }
    for event in machine.handle(&Input::Tick { confirmed: Vec::new() }, Timestamp(u64::MAX)).into_iter().flatten() {
        assert!(Event::decode(&event.encode()).is_ok());
    }
});

/// The thread that a journal names, so that it is not refused as another's.
fn thread_of(events: &[Event]) -> ThreadId {
    let created = events.iter().find_map(|event| match &event.fact {
        Fact::ThreadCreated { thread, .. } => Some(thread.clone()),
        _ => None,
    });
    created.unwrap_or_else(|| "t".into())
}
