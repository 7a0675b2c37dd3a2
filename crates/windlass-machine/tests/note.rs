//! Notes of the host program: each is recorded together with its input, or not at all.

use std::sync::Arc;

use serde_json::json;
use windlass_machine::*;

use crate::fixture::{agent, answered, as_asked, call, known_call, new_message, reply, view};

fn note(data: serde_json::Value) -> Option<Box<Note>> {
    Some(Box::new(Note { name: "host".into(), data }))
}

fn notes(events: &[Event]) -> usize {
    events.iter().filter(|event| matches!(&event.fact, Fact::Note { name, .. } if name == "host")).count()
}

#[test]
fn a_note_is_recorded_with_its_message_or_answer() {
    let mut machine = Machine::restore("t".into(), None, []).unwrap();
    let mut take = |input: &Input| machine.handle(input, Timestamp(1_000));
    let message = |id: &str, data| NewMessage {
        note: note(data),
        ..new_message(id, "Do it", &format!("run-{id}"), Arc::new(agent()))
    };
    let started = take(&Input::Message(Box::new(message("m", json!({"n": 1}))))).unwrap();
    assert_eq!(notes(&started), 1);
    // A repeated message records no second note, and neither does a message that is rejected because of its note.
    assert!(take(&Input::Message(Box::new(message("m", json!({"n": 1}))))).is_err());
    let long = json!("x".repeat(INLINE_MAX_BYTES));
    assert!(take(&Input::Message(Box::new(message("m2", long.clone())))).is_err());
    let queued = take(&Input::Message(Box::new(message("m3", json!({"n": 2}))))).unwrap();
    assert_eq!(notes(&queued), 1);

    let known = known_call(EffectClass::Idempotent, false, as_asked("{}"));
    let asks = || view(vec![CallView::Known(Box::new(known.clone()))]);
    let attempt = Attempt { step: 1, attempt: 1 };
    take(&reply(attempt, vec![call("c", "Put", "{}")], StopReason::ToolCalls, asks())).unwrap();
    let answer = |data| match answered("run-m.1.0.0", Answer::Approve, asks()) {
        Input::Answered { answers, by, grants, view, .. } => {
            Input::Answered { answers, by, grants, note: note(data), view }
        }
        other => other,
    };
    assert!(take(&answer(long)).is_err());
    assert_eq!(notes(&take(&answer(json!({"n": 3}))).unwrap()), 1);
}
