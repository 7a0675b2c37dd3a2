//! What people and programs say is recorded up to a size; what is longer is refused with the limit.

use std::sync::Arc;

use windlass_machine::*;

use crate::fixture::{self, as_asked, known, reply};

fn take(machine: &mut Machine, input: &Input) {
    for event in machine.handle(input, Timestamp(1_000)).unwrap() {
        machine.apply(&event);
    }
}

/// What is known of the run's only call.
fn pay() -> View {
    fixture::view(vec![known(EffectClass::Once, false, as_asked("{}"))])
}

/// A run whose only call waits for an approval.
fn asking() -> Machine {
    asking_about(pay())
}

/// A run whose only call is known as it is here.
fn asking_about(view: View) -> Machine {
    let mut machine = Machine::restore("t".into(), None, []).unwrap();
    let new = fixture::new_message("m", "Do it", "r", Arc::new(fixture::agent()));
    take(&mut machine, &Input::Message(Box::new(new)));
    let calls = vec![fixture::call("c", "Pay", "{}")];
    take(&mut machine, &reply(Attempt { step: 1, attempt: 1 }, calls, StopReason::ToolCalls, view));
    machine
}

/// The same after it was approved and lost.
fn in_doubt() -> Machine {
    let mut machine = asking();
    take(&mut machine, &answer("r.1.0.0", Answer::Approve));
    let call = CallKey { step: 1, index: 0 };
    take(&mut machine, &Input::ToolStopped { call, reason: "it hung".into() });
    machine
}

/// A run whose only call is a question that takes everything.
fn questioning() -> Machine {
    let question = Question { summary: "Which?".into(), free_input: true, ..Question::default() };
    let mut known = fixture::known_call(EffectClass::Pure, true, as_asked("{}"));
    known.asks = Some((InterruptKind::Question(Box::new(question)), Terms::default()));
    asking_about(fixture::view(vec![CallView::Known(Box::new(known))]))
}

fn answer(interrupt: &str, answer: Answer) -> Input {
    fixture::answered(interrupt, answer, pay())
}

/// What fits is recorded; one byte more is refused with both figures.
fn check(machine: &Machine, say: impl Fn(String) -> Input) {
    assert!(machine.handle(&say("x".repeat(INLINE_MAX_BYTES)), Timestamp(2_000)).is_ok());
    let Err(Reject::Invalid { what }) =
        machine.handle(&say("x".repeat(INLINE_MAX_BYTES + 1)), Timestamp(2_000))
    else {
        panic!("recorded at any size");
    };
    assert!(what.contains("16385 bytes") && what.contains("16384"), "{what}");
}

#[test]
fn an_answer_is_recorded_up_to_a_size() {
    check(&asking(), |text| answer("r.1.0.0", Answer::Deny { reason: Some(text) }));
    check(&in_doubt(), |text| answer("r.1.0.1", Answer::Done { result: text }));
    check(&in_doubt(), |text| answer("r.1.0.1", Answer::Fail { reason: Some(text) }));
    let reply = |reply| answer("r.1.0.0", Answer::Reply(Box::new(reply)));
    check(&questioning(), |text| reply(Reply { text: Some(text), ..Reply::default() }));
    // The quotes of a text count: what is recorded is JSON.
    check(&questioning(), |text| reply(Reply { values: Some(text[2..].into()), ..Reply::default() }));
}

#[test]
fn a_note_is_recorded_up_to_a_size() {
    // The quotes of a text count: what is recorded is JSON.
    let note = |text: String| Input::Note { name: "n".into(), data: text[2..].into() };
    check(&asking(), note);
    check(&asking(), |text| Input::Note { name: text, data: serde_json::Value::Null });
}

#[test]
fn a_tool_asks_so_often_and_no_more() {
    let mut machine = asking_about(fixture::view(vec![known(EffectClass::Pure, true, as_asked("{}"))]));
    let call = CallKey { step: 1, index: 0 };
    let kind = Box::new(InterruptKind::Handoff { runner: "clerk".into() });
    let asks = Input::ToolAsked { call, kind, terms: Terms::default(), state: None };
    let reply = Answer::Reply(Box::new(Reply { text: Some("yes".into()), ..Reply::default() }));
    let view = fixture::view(vec![known(EffectClass::Pure, true, as_asked("{}"))]);
    for n in 0..64 {
        take(&mut machine, &asks);
        take(&mut machine, &fixture::answered(&format!("r.1.0.{n}"), reply.clone(), view.clone()));
    }
    let events = machine.handle(&asks, Timestamp(2_000)).unwrap();
    let Fact::ToolFinished { content, error: true, .. } = &events[0].fact else { panic!("{events:?}") };
    assert_eq!(*content, [Block::text("Given up: the tool has asked 64 times")]);
}
