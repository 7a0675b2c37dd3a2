//! Properties that hold for every input.

use std::sync::Arc;

use proptest::prelude::*;
use windlass_machine::*;

use crate::fixture::{self, Dice, as_asked, failure, known, reply};
use crate::nonsense::any_input;
use crate::reference::check_pairs;
use crate::world::{Tale, tell};

proptest! {
    #![proptest_config(ProptestConfig { cases: 1_000, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn handle_is_total_and_a_reject_changes_nothing(seed in 0..100_000u64, cut in 0.0..1.0f64, nonsense: u64) {
        let journal = tell(seed, Tale::Wild).journal;
        let cut = (journal.len() as f64 * cut) as usize;
        let mut machine = Machine::restore("t".into(), None, journal[..cut].iter().cloned()).unwrap();
        let mut dice = Dice(nonsense);
        for _ in 0..20 {
            let input = any_input(&mut dice, &machine);
            let now = Timestamp([0, 5_000, u64::MAX / 2][dice.below(3) as usize]);
            let (mut folded, mut again) = (machine.clone(), machine.clone());
            let decided = machine.handle(&input, now);
            prop_assert_eq!(&again.handle(&input, now), &decided);
            for event in decided.into_iter().flatten() {
                prop_assert!(event.at >= folded.state().at);
                let decoded = Event::decode(&event.encode());
                prop_assert!(decoded.is_ok(), "{decoded:?} of {event:?}");
                prop_assert_eq!(&decoded.unwrap(), &event);
                folded.apply(&event);
            }
            // A reject has no events, so the state is the previous one.
            prop_assert_eq!(&machine, &folded);
            let _ = (machine.wants(), machine.deadline(), machine.request(), machine.request_fingerprint());
        }
    }

    #[test]
    fn the_fold_is_total(seed in 0..100_000u64, order: u64) {
        // A journal in random order is nonsense, but must not cause a panic.
        let journal = tell(seed, Tale::Wild).journal;
        let mut dice = Dice(order);
        let mut machine = Machine::restore("t".into(), None, []).unwrap();
        for _ in 0..journal.len() {
            machine.apply(&journal[dice.below(journal.len() as u64) as usize]);
            let input = any_input(&mut dice, &machine);
            let _ = machine.clone().handle(&input, Timestamp(5_000));
            let _ = (machine.wants(), machine.deadline(), machine.request(), machine.request_fingerprint());
        }
    }

    // rows: SK-C13, SK-C14, SK-X5
    #[test]
    fn windows_hold_pairs_and_the_newest(limit in 6u32..60, steps in proptest::collection::vec((0u8..5, 0usize..30), 1..40)) {
        let mut machine = Machine::restore("t".into(), None, []).unwrap();
        let mut agent = fixture::agent();
        agent.limits.window_messages = limit;
        agent.limits.max_steps = u32::MAX;
        agent.limits.max_same_calls = 0;
        let agent = Arc::new(agent);
        let mut ids = 0;
        let mut send = |machine: &mut Machine, how| {
            ids += 1;
            let mut new = fixture::new_message(&format!("m{ids}"), &format!("text {ids}"), &format!("r{ids}"), agent.clone());
            new.when_busy = how;
            take(machine, &Input::Message(Box::new(new)));
        };
        send(&mut machine, WhenBusy::Queue);
        for (kind, steers) in steps {
            for _ in 0..steers {
                send(&mut machine, WhenBusy::Steer);
            }
            let attempt = machine.state().run.as_ref().unwrap().attempt;
            match kind {
                0 => take(&mut machine, &reply(attempt, vec![Block::text("cut")], StopReason::MaxTokens, View::default())),
                1 => take(&mut machine, &reply(attempt, vec![Block::text("done")], StopReason::End, View::default())),
                2 => take(&mut machine, &Input::ModelFailed(Box::new(failure(attempt, FailureClass::ContextTooLong)))),
                _ => {
                    let blocks = vec![fixture::call("c0", "Read", "{}"), fixture::call("c1", "Nope", "{}")];
                    let view = fixture::view(vec![known(EffectClass::Pure, true, as_asked("{}"))]);
                    take(&mut machine, &reply(attempt, blocks, StopReason::ToolCalls, view));
                    let call = CallKey { step: attempt.step, index: 0 };
                    take(&mut machine, &fixture::returned(call));
                }
            }
            if machine.state().run.is_none() {
                send(&mut machine, WhenBusy::Queue);
            }
            let request = machine.request().unwrap();
            check_pairs(&request.messages);
            prop_assert!(request.messages.len() < limit as usize, "with the system message");
            prop_assert_eq!(request.messages.last(), machine.state().history.messages.back());
            prop_assert_eq!(request.messages[0].plain_text(), "text 1");
        }
    }

    // rows: SK-L11
    #[test]
    fn repair_never_panics_and_leaves_good_arguments(text in ".{0,60}", near in "[{}\\[\\]a-z0-9'\", :\\\\]{0,30}") {
        for text in [&text, &near] {
            if let Ok((value, _)) = repair_arguments(text) {
                prop_assert!(value.is_object());
                prop_assert_eq!(repair_arguments(&value.to_string()), Ok((value, false)));
            }
        }
    }

    // rows: LM-L6
    #[test]
    fn a_shortened_result_has_at_most_so_many_characters(filler in "[a-z\u{e9}\u{1f600}]", more in 0usize..3_000) {
        let text = format!("begin{}end", filler.repeat(RESULT_MAX_CHARS - 8 + more));
        let short = shorten_result(vec![text.clone()]).remove(0);
        prop_assert!(short.chars().count() <= RESULT_MAX_CHARS);
        prop_assert!(short.starts_with("begin") && short.ends_with("end"));
        prop_assert_eq!(short == text, more == 0);
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 100, failure_persistence: None, ..ProptestConfig::default() })]

    // rows: LM-L6
    #[test]
    fn a_result_of_many_parts_is_shortened_as_one(
        filler in "[a-z\u{e9}\u{1f600}]",
        parts in proptest::collection::vec(0usize..60_000, 1..12),
    ) {
        let mut texts: Vec<String> = parts.iter().map(|count| filler.repeat(*count)).collect();
        texts.insert(0, "begin".into());
        texts.push("end".into());
        let short = shorten_result(texts.clone());
        let whole = texts.concat();
        // The parts are pieces of one text: the cut is at the same place.
        prop_assert_eq!(short.concat(), shorten_result(vec![whole.clone()]).remove(0));
        prop_assert_eq!((short.len(), short[0].as_str()), (texts.len(), "begin"));
        prop_assert!(short.last().unwrap() == "end" && short.concat().chars().count() <= RESULT_MAX_CHARS);
        prop_assert_eq!(short == texts, whole.chars().count() <= RESULT_MAX_CHARS);
    }
}

fn take(machine: &mut Machine, input: &Input) {
    let _ = machine.handle(input, Timestamp(1_000));
}

fn started(agent: Agent) -> Machine {
    let mut machine = Machine::restore("t".into(), None, []).unwrap();
    take(&mut machine, &Input::Message(Box::new(fixture::new_message("m", "Do it", "r", Arc::new(agent)))));
    machine
}

fn second(machine: &mut Machine) {
    let new = fixture::new_message("m2", "Do that", "r2", Arc::new(fixture::agent()));
    take(machine, &Input::Message(Box::new(new)));
}

/// Nests arrays inside arrays.
fn deep(levels: usize) -> serde_json::Value {
    (0..levels).fold(1.into(), |inner, _| serde_json::Value::Array(vec![inner]))
}

/// Returns a call that asks people about a value of this depth.
fn asks(levels: usize) -> CallView {
    let question = Question { summary: "Send it?".into(), params: Some(deep(levels)), ..Question::default() };
    let mut known = fixture::known_call(EffectClass::Pure, true, as_asked("{}"));
    known.asks = Some((InterruptKind::Question(Box::new(question)), Terms::default()));
    CallView::Known(Box::new(known))
}

#[test]
fn json_that_could_not_be_read_back_is_never_recorded() {
    let attempt = Attempt { step: 1, attempt: 1 };
    let opened = |levels| {
        let mut machine = started(fixture::agent());
        let view = fixture::view(vec![asks(levels)]);
        let input = reply(attempt, vec![fixture::call("c", "Ask", "{}")], StopReason::ToolCalls, view);
        let events = machine.handle(&input, Timestamp(1_000)).unwrap();
        for event in &events {
            assert_eq!(Event::decode(&event.encode()).unwrap(), *event);
        }
        assert!(machine.snapshot().is_usable(), "a snapshot nests deeper than an event");
        machine.state().run.as_ref().unwrap().open().count()
    };
    assert_eq!((opened(JSON_MAX_DEPTH), opened(JSON_MAX_DEPTH + 1), opened(125)), (1, 0, 0));
    let mut machine = started(fixture::agent());
    let mut noted = |levels| {
        let note = Input::Note { name: "n".into(), data: deep(levels) };
        machine.handle(&note, Timestamp(1_000))
    };
    assert!(noted(JSON_MAX_DEPTH).is_ok());
    let what = "the data of the note is nested more than 64 levels deep".to_owned();
    assert_eq!(noted(JSON_MAX_DEPTH + 1), Err(Reject::Invalid { what: what.clone() }));
    assert_eq!(noted(1_000), Err(Reject::Invalid { what }));
}

// rows: SK-G5
#[test]
fn a_run_begins_with_nothing_of_the_one_before() {
    let mut machine = started(fixture::agent());
    let fresh = machine.state().run.clone().unwrap();
    let cut = vec![Block::text("cut")];
    take(&mut machine, &reply(fresh.attempt, cut, StopReason::MaxTokens, View::default()));
    let view = fixture::view(vec![known(EffectClass::Once, false, as_asked("{}"))]);
    let attempt = Attempt { step: 2, attempt: 1 };
    take(&mut machine, &reply(attempt, vec![fixture::call("c", "Pay", "{}")], StopReason::ToolCalls, view));
    assert!(machine.state().run.as_ref().unwrap().is_waiting());
    take(&mut machine, &Input::Cancel { run: None, by: "ann".into() });
    second(&mut machine);
    let run = machine.state().run.as_ref().unwrap();
    let (from, first_message) = (run.from, run.first_message);
    assert_eq!(*run, Run { id: "r2".into(), from, first_message, ..fresh });
}

// rows: SK-G5
#[test]
fn a_run_that_is_cancelled_before_anything_was_started_asks_no_model() {
    let mut machine = started(fixture::agent());
    take(
        &mut machine,
        &reply(Attempt { step: 1, attempt: 1 }, vec![Block::text("done")], StopReason::End, View::default()),
    );
    second(&mut machine);
    // In one append with the message: the driver only starts commands that are wanted afterwards.
    take(&mut machine, &Input::Cancel { run: Some("r2".into()), by: "ann".into() });
    assert_eq!(machine.wants(), []);
    for command in machine.unfinished() {
        take(&mut machine, &Input::Lost { command, view: View::default() });
    }
    let last = machine.state().last.clone().unwrap();
    assert_eq!((last.run, last.status), ("r2".into(), RunStatus::Cancelled));
}

// rows: SK-G22
#[test]
fn a_run_has_25_steps_by_default() {
    let mut machine = started(fixture::agent());
    let mut steps = 0;
    while let Some(attempt) = machine.state().run.as_ref().map(|run| run.attempt) {
        steps = attempt.step;
        let blocks = vec![fixture::call("c", "Nope", &format!("{{\"n\":{steps}}}"))];
        take(&mut machine, &reply(attempt, blocks, StopReason::ToolCalls, View::default()));
    }
    assert_eq!(steps, 25);
    assert_eq!(machine.state().last.as_ref().unwrap().status, RunStatus::Failed);
}

#[test]
fn five_hundred_calls_at_once_are_bounded() {
    let mut machine = started(fixture::agent());
    let calls =
        (0..500).map(|n| fixture::call(&format!("c{n}"), "Read", &format!("{{\"n\":{n}}}"))).collect();
    let view = fixture::view(vec![known(EffectClass::Pure, true, as_asked("{}")); 500]);
    take(&mut machine, &reply(Attempt { step: 1, attempt: 1 }, calls, StopReason::ToolCalls, view));
    assert_eq!(machine.wants().len(), 16);
    while let Some(Command::CallTool { call, .. }) = machine.wants().first() {
        let returned = fixture::returned(*call);
        take(&mut machine, &returned);
    }
    let request = machine.request().unwrap();
    check_pairs(&request.messages);
    let refused = |block: &&Block| matches!(block, Block::ToolResult(result) if result.error);
    assert_eq!(request.messages[2].blocks.iter().filter(refused).count(), 500 - 128);
}

// rows: WT-L11
#[test]
fn the_plain_answer_sees_the_task_and_the_last_texts_each_cut() {
    plain_answer(0, 12);
    // The window has moved already, so fewer messages are left.
    plain_answer(40, 9);
    // The instruction counts too.
    plain_answer(6, 2);
}

fn plain_answer(window: u32, count: usize) {
    let mut agent = fixture::agent();
    agent.limits.max_steps = 20;
    agent.limits.window_messages = window;
    agent.tools = Some(BlobRef {
        digest: Digest::default(),
        media_type: "application/json".into(),
        size_bytes: 2,
        tokens: 1,
    });
    let mut new = fixture::new_message("m", "Do it", "r", Arc::new(agent));
    new.options.at_limit = Some(AtLimit::Answer);
    let mut machine = Machine::restore("t".into(), None, []).unwrap();
    take(&mut machine, &Input::Message(Box::new(new)));
    for step in 1..=20 {
        assert!(machine.request().unwrap().tools.is_some());
        let text = format!("{step} {}", "\u{e9}".repeat(3_000));
        let blocks = vec![Block::text(text), fixture::call("c", "Nope", &format!("{{\"n\":{step}}}"))];
        take(
            &mut machine,
            &reply(Attempt { step, attempt: 1 }, blocks, StopReason::ToolCalls, View::default()),
        );
    }
    let request = machine.request().unwrap();
    assert!(request.tools.is_none());
    let (instruction, said) = request.messages.split_last().unwrap();
    assert_eq!((instruction.role, said.len()), (Role::User, count));
    assert!(instruction.plain_text().starts_with("No more steps are left. Answer now"));
    assert_eq!(said[0].plain_text(), "Do it");
    for (message, step) in said[1..].iter().zip(22 - count..) {
        let text = message.plain_text();
        assert_eq!(message.blocks.len(), 1, "no calls");
        assert!(text.starts_with(&format!("{step} ")) && text.ends_with("..."));
        assert_eq!(text.chars().count(), 2_003);
    }
}

#[test]
fn a_finished_run_leaves_nothing_big_behind() {
    let mut agent = fixture::agent();
    agent.limits.window_messages = 6;
    let agent = Arc::new(agent);
    let mut machine = Machine::restore("t".into(), None, []).unwrap();
    let mut sizes = Vec::new();
    for n in 0..200 {
        let new = fixture::new_message(&format!("m{n}"), "Do it", &format!("r{n:03}"), agent.clone());
        take(&mut machine, &Input::Message(Box::new(new)));
        let blocks = vec![Block::text("x".repeat(1_000))];
        take(&mut machine, &reply(Attempt { step: 1, attempt: 1 }, blocks, StopReason::End, View::default()));
        sizes.push(machine.snapshot().bytes.len());
    }
    assert!(machine.state().run.is_none());
    assert!(sizes[199] <= sizes[..20].iter().max().unwrap() + 100, "{sizes:?}");
}

#[test]
fn a_text_that_is_stored_apart_belongs_to_the_output() {
    let mut machine = started(fixture::agent());
    let blob = BlobRef {
        digest: Digest::of(b"long"),
        media_type: "text/plain".into(),
        size_bytes: 20_000,
        tokens: 5_000,
    };
    let blocks = vec![Block::Text { text: Content::Blob(blob.clone()), native: None }];
    let input = reply(Attempt { step: 1, attempt: 1 }, blocks, StopReason::End, View::default());
    let events = machine.handle(&input, Timestamp(2_000)).unwrap();
    let Some(Fact::RunFinished { output, .. }) = events.last().map(|event| &event.fact) else {
        panic!("{events:?}")
    };
    // The run's end references the reply, which references the blob: nothing is written twice.
    assert_eq!(*output, Output { replies: Some((1, 1)), text: None });
    assert!(
        matches!(&events[0].fact, Fact::StepReplied { message, .. } if message.texts().eq([&Content::Blob(blob)]))
    );
    assert!(machine.state().run.is_none());
}

#[test]
fn a_message_cannot_carry_calls_or_results() {
    let mut machine = Machine::restore("t".into(), None, []).unwrap();
    let mut new = fixture::new_message("m", "Do it", "r", Arc::new(fixture::agent()));
    let call = Message { role: Role::User, blocks: vec![fixture::call("c", "Pay", "{}")] };
    for message in [Message::text(Role::Assistant, "x"), Message::text(Role::Tool, "x"), call] {
        new.message = Arc::new(message);
        let refused = machine.handle(&Input::Message(Box::new(new.clone())), Timestamp(1));
        assert!(matches!(refused, Err(Reject::Invalid { .. })));
    }
}

#[test]
fn a_loss_counts_once() {
    let mut machine = started(fixture::agent());
    let view = fixture::view(vec![known(EffectClass::Idempotent, true, as_asked("{}"))]);
    let attempt = Attempt { step: 1, attempt: 1 };
    take(&mut machine, &reply(attempt, vec![fixture::call("c", "Put", "{}")], StopReason::ToolCalls, view));
    let view = fixture::view(vec![known(EffectClass::Idempotent, true, as_asked("{}"))]);
    let lost = Input::Lost { command: machine.unfinished().remove(0), view };
    take(&mut machine, &lost);
    let before = machine.clone();
    assert!(matches!(machine.handle(&lost, Timestamp(2_000)), Err(Reject::Stale { .. })));
    take(&mut machine, &lost);
    assert_eq!(machine, before);
}
