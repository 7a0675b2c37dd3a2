//! Texts from people and programs are recorded up to a maximum size; longer ones are rejected with the limit.

use std::sync::Arc;

use windlass_machine::*;

use crate::fixture::{self, as_asked, known, reply};

fn take(machine: &mut Machine, input: &Input) {
    machine.handle(input, Timestamp(1_000)).unwrap();
}

/// The view of the run's only call.
fn pay() -> View {
    fixture::view(vec![known(EffectClass::Once, false, as_asked("{}"))])
}

/// A run whose only call waits for an approval.
fn asking() -> Machine {
    asking_about(pay())
}

/// A run whose only call has this view.
fn asking_about(view: View) -> Machine {
    let mut machine = Machine::restore("t".into(), None, []).unwrap();
    let new = fixture::new_message("m", "Do it", "r", Arc::new(fixture::agent()));
    take(&mut machine, &Input::Message(Box::new(new)));
    let calls = vec![fixture::call("c", "Pay", "{}")];
    take(&mut machine, &reply(Attempt { step: 1, attempt: 1 }, calls, StopReason::ToolCalls, view));
    machine
}

/// Like [`asking`], after the call was approved and lost.
fn in_doubt() -> Machine {
    let mut machine = asking();
    take(&mut machine, &answer("r.1.0.0", Answer::Approve));
    let call = CallKey { step: 1, index: 0 };
    take(
        &mut machine,
        &Input::ToolStopped { call, reason: "it hung".into(), by_tool: false, view: View::default() },
    );
    machine
}

/// A run whose only call is a question that accepts any answer.
fn questioning() -> Machine {
    let question = Question { summary: "Which?".into(), free_input: true, ..Question::default() };
    let mut known = fixture::known_call(EffectClass::Pure, true, as_asked("{}"));
    known.asks = Some((InterruptKind::Question(Box::new(question)), Terms::default()));
    asking_about(fixture::view(vec![CallView::Known(Box::new(known))]))
}

fn answer(interrupt: &str, answer: Answer) -> Input {
    fixture::answered(interrupt, answer, pay())
}

/// Checks that the maximum size is accepted, and that one byte more is rejected with both numbers.
fn check(machine: &Machine, say: impl Fn(String) -> Input) {
    let handle = |size_bytes| machine.clone().handle(&say("x".repeat(size_bytes)), Timestamp(2_000));
    assert!(handle(INLINE_MAX_BYTES).is_ok());
    let Err(Reject::Invalid { what }) = handle(INLINE_MAX_BYTES + 1) else {
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
    // The quotes count, because the text is recorded as JSON.
    check(&questioning(), |text| reply(Reply { values: Some(text[2..].into()), ..Reply::default() }));
}

#[test]
fn a_note_is_recorded_up_to_a_size() {
    // The quotes count, because the text is recorded as JSON.
    let note = |text: String| Input::Note { name: "n".into(), data: text[2..].into() };
    check(&asking(), note);
    check(&asking(), |text| Input::Note { name: text, data: serde_json::Value::Null });
}

/// A text longer than a person reads, such as a trace or a proxy's error page.
fn page() -> String {
    format!("<html>{}</html>", "\u{e9}".repeat(5_000_000))
}

/// Checks that the beginning is kept and the length of the rest is stated.
fn check_shortened(text: &str) {
    assert!(text.contains("<html>\u{e9}") && !text.contains("</html>"), "{text}");
    assert!(text.contains(" of 5000013 characters left out"), "{text}");
    assert!(text.chars().count() <= FAILURE_MAX_CHARS + 100, "{}", text.chars().count());
}

#[test]
fn what_a_failure_says_is_shortened_and_says_so() {
    for (count, short) in [(FAILURE_MAX_CHARS, false), (FAILURE_MAX_CHARS + 1, true)] {
        let text = "\u{1f600}".repeat(count);
        let kept = shorten_failure(&text);
        assert!(kept.chars().count() <= FAILURE_MAX_CHARS);
        assert_eq!(*kept != text, short);
    }
    check_shortened(&shorten_failure(&page()));
}

#[test]
fn what_a_failed_model_says_is_recorded_up_to_a_size() {
    let mut machine = Machine::restore("t".into(), None, []).unwrap();
    let mut agent = fixture::agent();
    agent.models.push("test/b".into());
    take(&mut machine, &Input::Message(Box::new(fixture::new_message("m", "Do it", "r", Arc::new(agent)))));
    let mut said = Vec::new();
    for attempt in [1, 2] {
        let failed = fixture::failure(Attempt { step: 1, attempt }, FailureClass::Auth);
        let failed = Input::ModelFailed(Box::new(ModelFailed { message: page(), ..failed }));
        for event in machine.handle(&failed, Timestamp(1_000)).unwrap() {
            match event.fact {
                Fact::StepFailed { message, .. } => said.push(message),
                Fact::ModelSwitched { reason, .. } => said.push(reason),
                Fact::RunFinished { error, .. } => said.push(error.unwrap().message),
                _ => {}
            }
        }
    }
    assert_eq!(said.len(), 4, "failed, switched, failed, finished");
    said.iter().for_each(|text| check_shortened(text));
}

#[test]
fn a_providers_stop_reason_is_truncated() {
    let mut machine = Machine::restore("t".into(), None, []).unwrap();
    let new = fixture::new_message("m", "Do it", "r", Arc::new(fixture::agent()));
    take(&mut machine, &Input::Message(Box::new(new)));
    let stop = StopReason::Other(page());
    let odd = reply(Attempt { step: 1, attempt: 1 }, vec![Block::text("x")], stop, View::default());
    let events = machine.handle(&odd, Timestamp(1_000)).unwrap();
    let lines: usize = events.iter().map(|event| event.encode().len()).sum();
    assert!(lines < INLINE_MAX_BYTES, "{lines} bytes");
}

#[test]
fn what_a_killed_call_says_is_recorded_up_to_a_size() {
    for class in [EffectClass::Pure, EffectClass::Idempotent, EffectClass::Once] {
        let mut machine = Machine::restore("t".into(), None, []).unwrap();
        let new = fixture::new_message("m", "Do it", "r", Arc::new(fixture::agent()));
        take(&mut machine, &Input::Message(Box::new(new)));
        let view = View { calls: vec![known(class, true, as_asked("{}"))], ..View::default() };
        let calls = vec![fixture::call("c", "Pay", "{}")];
        take(&mut machine, &reply(Attempt { step: 1, attempt: 1 }, calls, StopReason::ToolCalls, view));
        let call = CallKey { step: 1, index: 0 };
        let events = machine
            .handle(
                &Input::ToolStopped { call, reason: page(), by_tool: false, view: View::default() },
                Timestamp(1_000),
            )
            .unwrap();
        let said = events.iter().find_map(|event| match &event.fact {
            Fact::ToolInDoubt { reason, .. } => Some(reason.clone()),
            Fact::ToolFinished { content, .. } => match &content[0] {
                Block::Text { text: Content::Inline(text), .. } => Some(text.clone()),
                other => panic!("{other:?}"),
            },
            _ => None,
        });
        check_shortened(&said.unwrap());
    }
}

#[test]
fn what_is_asked_has_a_size_in_every_part() {
    let text = |size: usize| "x".repeat(size);
    let value = |size: usize| Some(serde_json::Value::String(text(size - 2)));
    let question = |question| InterruptKind::Question(Box::new(question));
    let usual = Question::default;
    let sizes = |size: usize| {
        [
            question(Question { checkpoint: Some(text(size)), ..usual() }),
            question(Question { summary: text(size), ..usual() }),
            question(Question { params: value(size), ..usual() }),
            question(Question { schema: value(size), ..usual() }),
            question(Question { options: vec![text(size / 2); 2], ..usual() }),
            InterruptKind::Handoff { runner: text(size) },
            InterruptKind::SignIn { server: "s".into(), url: text(size), message: None },
            InterruptKind::SignIn { server: "s".into(), url: "u".into(), message: Some(text(size)) },
        ]
    };
    for kind in sizes(INLINE_MAX_BYTES) {
        assert_eq!(kind.check(), Ok(()));
    }
    for kind in sizes(INLINE_MAX_BYTES + 2) {
        let why = kind.check().unwrap_err();
        assert!(why.contains("of 16386 bytes; at most 16384"), "{why}");
    }
    let many = question(Question { options: vec!["x".into(); 101], ..usual() });
    assert_eq!(many.check().unwrap_err(), "has 101 `options`; at most 100");
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

fn put_off(after_ms: u64) -> Input {
    let call = CallKey { step: 1, index: 0 };
    Input::ToolDeferred { call, after_ms, state: None, rest: Rest::Repeatable }
}

// rows: LM-T11
#[test]
fn a_call_is_put_off_so_often_and_no_more() {
    for (class, given_up) in [(EffectClass::Pure, "finished"), (EffectClass::Once, "in doubt")] {
        let mut machine = asking_about(fixture::view(vec![known(class, true, as_asked("{}"))]));
        for _ in 0..10_000 {
            take(&mut machine, &put_off(0));
            take(&mut machine, &Input::Tick { confirmed: Vec::new() });
        }
        let events = machine.handle(&put_off(0), Timestamp(2_000)).unwrap();
        let how = match &events[0].fact {
            Fact::ToolFinished { content, error: true, .. } => {
                assert_eq!(*content, [Block::text("Given up: the call was put off 10000 times")]);
                "finished"
            }
            Fact::ToolInDoubt { reason, .. } => {
                assert_eq!(reason, "the call was put off 10000 times without an end");
                "in doubt"
            }
            other => panic!("{other:?}"),
        };
        assert_eq!(how, given_up);
    }
}

#[test]
fn a_call_is_put_off_for_a_year_at_most() {
    let year_ms = 366 * 24 * 3_600_000;
    for (asked_ms, put_off_ms) in [(0, 0), (year_ms, year_ms), (year_ms + 1, year_ms), (u64::MAX, year_ms)] {
        let view = fixture::view(vec![known(EffectClass::Pure, true, as_asked("{}"))]);
        let mut machine = asking_about(view);
        let events = machine.handle(&put_off(asked_ms), Timestamp(2_000)).unwrap();
        let Fact::ToolDeferred { until, .. } = events[0].fact else { panic!("{events:?}") };
        assert_eq!(until.since(Timestamp(2_000)), put_off_ms);
    }
}
