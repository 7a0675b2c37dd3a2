//! Properties that hold for every input.

use std::collections::BTreeSet;
use std::sync::Arc;

use proptest::prelude::*;
use windlass_machine::*;

use crate::fixture::{self, Dice, as_asked, failure, known, reply};
use crate::reference::check_pairs;
use crate::world::{Tale, tell};

/// Any input at all: nonsense ids, huge indexes, out of order.
fn any_input(dice: &mut Dice, machine: &Machine) -> Input {
    let run = machine.state().run.as_ref();
    let by = Principal::from("eve");
    let number = |dice: &mut Dice| [0, 1, 2, 3, u32::MAX][dice.below(5) as usize];
    let mut attempt = Attempt { step: number(dice), attempt: number(dice) };
    if let (Some(run), true) = (run, dice.one_in(2)) {
        attempt = run.attempt;
    }
    let mut call = CallKey { step: attempt.step, index: number(dice) };
    if dice.one_in(3) {
        call.step = number(dice);
    }
    let text = any_text;
    match dice.below(20) {
        0 => any_message(dice),
        1 => Input::Withdraw { id: text(dice).into() },
        2 => Input::Cancel { run: dice.one_in(2).then(|| text(dice).into()), by },
        3 | 4 => any_answers(dice, machine, call),
        5 => Input::Title { title: text(dice).into(), by },
        6 => Input::SwitchModel { model: text(dice).into(), by },
        7 => Input::Note { name: text(dice).into(), data: serde_json::json!([1, null]) },
        8 | 9 => {
            let stop = [StopReason::End, StopReason::MaxTokens, StopReason::Pause, StopReason::Cancelled];
            reply(attempt, some_blocks(dice), stop[dice.below(4) as usize].clone(), some_view(dice))
        }
        10 => {
            let classes = [
                FailureClass::Overloaded,
                FailureClass::ContextTooLong,
                FailureClass::Lost,
                FailureClass::Empty,
            ];
            let mut failed = failure(attempt, classes[dice.below(4) as usize]);
            failed.retry_after_ms = [None, Some(0), Some(u64::MAX)][dice.below(3) as usize];
            Input::ModelFailed(Box::new(failed))
        }
        11 => Input::ModelStopped { attempt, partial: dice.one_in(2).then(|| text(dice).into()) },
        12 => Input::ToolReturned {
            call,
            content: some_blocks(dice),
            error: dice.one_in(2),
            duration_ms: u64::MAX,
        },
        13 => Input::ToolStopped { call, reason: text(dice).into() },
        14 => {
            let mut begun = [machine.unfinished(), machine.wants()].concat();
            begun.push(Command::CallModel { attempt, model: "x".into() });
            let command = begun.swap_remove(dice.below(begun.len() as u64) as usize);
            Input::Lost { command, view: some_view(dice) }
        }
        15 => Input::ToolAsked {
            call,
            kind: Box::new(any_kind(dice)),
            terms: any_terms(dice),
            state: dice.one_in(2).then(|| text(dice).into()),
        },
        16 => {
            let (round, digest) = (number(dice), Digest::of(text(dice).as_bytes()));
            Input::Previewed { call, round, preview: text(dice).into(), digest }
        }
        17 => {
            let (attempt, found) = (number(dice), dice.one_in(2).then(|| some_blocks(dice)));
            Input::Reconciled { call, attempt, found, reason: text(dice).into() }
        }
        18 => Input::LimitRefused {
            limit: text(dice).into(),
            figure: dice.roll(),
            refused: Refused { taken: dice.roll(), wanted: u64::MAX, approvers: any_approvers(dice) },
            message: None,
        },
        _ if dice.one_in(2) => Input::Rejudge { view: some_view(dice) },
        _ => Input::Tick,
    }
}

fn any_text(dice: &mut Dice) -> &'static str {
    static HUGE: std::sync::LazyLock<String> = std::sync::LazyLock::new(|| "\u{e9}".repeat(INLINE_MAX_BYTES));
    ["", " ", "x", "\u{0}\u{1f600}", "a longer text", HUGE.as_str()][dice.below(6) as usize]
}

fn any_answers(dice: &mut Dice, machine: &Machine, call: CallKey) -> Input {
    let answers = (0..dice.below(4)).map(|_| {
        let text = any_text(dice);
        let answer = match dice.below(11) {
            0 | 1 => Answer::Approve,
            2 => Answer::Deny { reason: Some(text.into()) },
            3 => Answer::Done { result: text.into() },
            4 => Answer::Retry,
            5 => Answer::Fail { reason: None },
            6 => Answer::Edit { arguments: text.into() },
            7 => Answer::Raise { to: [0, 1, u64::MAX][dice.below(3) as usize] },
            8 => Answer::Stop,
            9 => Answer::Reply(Box::new(Reply {
                selected: dice.one_in(2).then(|| text.into()),
                text: dice.one_in(2).then(|| text.into()),
                values: dice.one_in(2).then(|| text.into()),
            })),
            _ => Answer::Withdrawn,
        };
        let open: Vec<_> = machine
            .state()
            .run
            .iter()
            .flat_map(Run::open)
            .map(|(_, asked)| asked.interrupt.clone())
            .collect();
        let interrupt = match open.is_empty() || dice.one_in(4) {
            true => InterruptId::from(format!("r{}.{}.{}.0", call.index % 4, call.step, call.index)),
            false => open[dice.below(open.len() as u64) as usize].clone(),
        };
        Given { interrupt, answer, approval: dice.one_in(4).then(|| Digest::of(text.as_bytes())) }
    });
    let answers = answers.collect();
    let mut by = fixture::person(["ann", "eve", "bob"][dice.below(3) as usize], &[any_text(dice)]);
    if dice.one_in(6) {
        by.workspace = any_text(dice).into();
    }
    Input::Answered { answers, by, grants: Vec::new(), view: some_view(dice) }
}

fn any_kind(dice: &mut Dice) -> InterruptKind {
    let text = any_text(dice);
    match dice.below(7) {
        0 => InterruptKind::Approval {
            tool: text.into(),
            approval: Digest::of(b"x"),
            preview: Some(text.into()),
        },
        1 => InterruptKind::Hook { tool: text.into(), reason: text.into() },
        2 => InterruptKind::Question(Box::new(Question {
            summary: text.into(),
            options: vec![text.into()],
            free_input: dice.one_in(2),
            ..Question::default()
        })),
        3 => InterruptKind::SignIn { server: text.into(), url: text.into() },
        4 => InterruptKind::Handoff { runner: text.into() },
        5 => InterruptKind::InDoubt { tool: text.into() },
        _ => InterruptKind::Limit(Box::new(LimitAsked {
            limit: text.into(),
            figure: 1,
            used: u64::MAX,
            next: dice.one_in(2).then_some(Next::Retry),
        })),
    }
}

fn any_terms(dice: &mut Dice) -> Terms {
    let ms = |dice: &mut Dice| [None, Some(0), Some(1_000), Some(u64::MAX)][dice.below(4) as usize];
    let quorum = |dice: &mut Dice| {
        let count = [0, 1, 2, u32::MAX][dice.below(4) as usize];
        Quorum { count, of: any_approvers(dice) }
    };
    Terms {
        quorums: (0..dice.below(3)).map(|_| quorum(dice)).collect(),
        expires_in_ms: ms(dice),
        on_expiry: if dice.one_in(2) { Expiry::Approve } else { Expiry::Deny },
        remind_in_ms: ms(dice),
        escalate_in_ms: ms(dice),
        escalate_to: any_approvers(dice),
    }
}

fn any_approvers(dice: &mut Dice) -> BTreeSet<Approver> {
    match dice.below(3) {
        0 => BTreeSet::new(),
        1 => fixture::approvers(&["user:ann"]),
        _ => BTreeSet::from([Approver::Role(any_text(dice).into()), Approver::User("eve".into())]),
    }
}

fn any_message(dice: &mut Dice) -> Input {
    let mut new =
        fixture::new_message(any_text(dice), any_text(dice), any_text(dice), Arc::new(fixture::agent()));
    let blocks = some_blocks(dice);
    if dice.one_in(2) {
        let role = [Role::System, Role::User, Role::Assistant, Role::Tool][dice.below(4) as usize];
        new.message = Arc::new(Message { role, blocks });
    }
    if dice.one_in(4) {
        new.agent = Arc::new(Agent { models: Vec::new(), ..fixture::agent() });
    }
    new.when_busy =
        [WhenBusy::Steer, WhenBusy::Replace, WhenBusy::Rollback, WhenBusy::Queue][dice.below(4) as usize];
    Input::Message(Box::new(new))
}

fn some_blocks(dice: &mut Dice) -> Vec<Block> {
    let some = |dice: &mut Dice| match dice.below(5) {
        0 => Block::text(""),
        1 => Block::text("x"),
        2 => fixture::call(["", "c1", "c2"][dice.below(3) as usize], "Tool", "{"),
        3 => Block::Reasoning { text: "hm".into(), native: None },
        _ => Block::Image {
            blob: BlobRef {
                digest: Digest::default(),
                media_type: String::new(),
                size_bytes: u64::MAX,
                tokens: 0,
            },
        },
    };
    (0..dice.below(4)).map(|_| some(dice)).collect()
}

fn some_view(dice: &mut Dice) -> View {
    let auto_run = if dice.one_in(2) { AutoRun::Everything } else { AutoRun::Ask };
    let calls = (0..dice.below(4)).map(|_| any_call(dice)).collect();
    let verdict = [Verdict::Allow, Verdict::Ask, Verdict::Deny][dice.below(3) as usize];
    let rules = (0..dice.below(3)).map(|_| fixture::rule(verdict, "*", any_terms(dice))).collect();
    let grant = Grant {
        id: any_text(dice).into(),
        tool: "Tool".into(),
        arguments: Vec::new(),
        remaining: [None, Some(0), Some(1)][dice.below(3) as usize],
        expires_at: dice.one_in(4).then_some(Timestamp(5_000)),
        by: "ann".into(),
    };
    let grants = if dice.one_in(2) { vec![grant] } else { Vec::new() };
    let policy = Arc::new(Policy { rules, auto_run, grants, ..Policy::default() });
    View { version: dice.roll(), policy, calls, ..View::default() }
}

fn any_call(dice: &mut Dice) -> CallView {
    let class = match dice.below(4) {
        0 => EffectClass::Pure,
        1 => EffectClass::Keyed,
        2 => EffectClass::Reconcile { wait_ms: [0, u64::MAX][dice.below(2) as usize] },
        _ => EffectClass::Once,
    };
    let arguments = match dice.below(4) {
        0 => Arguments::Invalid { reason: String::new() },
        1 => Arguments::Repaired { arguments: any_text(dice).into(), digest: Digest::of(b"x") },
        _ => as_asked(any_text(dice)),
    };
    let mut known = fixture::known_call(class, dice.one_in(2), arguments);
    known.previews = dice.one_in(2);
    known.asks = dice.one_in(3).then(|| (any_kind(dice), any_terms(dice)));
    known.hook = match dice.below(6) {
        0 => Some(HookVerdict::Deny { reason: any_text(dice).into() }),
        1 => Some(HookVerdict::Ask { reason: any_text(dice).into() }),
        _ => None,
    };
    if dice.one_in(4) { CallView::Unknown } else { CallView::Known(Box::new(known)) }
}

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
            let before = machine.clone();
            let decided = machine.handle(&input, now);
            prop_assert_eq!(&machine, &before);
            prop_assert_eq!(&machine.handle(&input, now), &decided);
            for event in decided.into_iter().flatten() {
                prop_assert!(event.at >= machine.state().at);
                machine.apply(&event);
            }
            let _ = (machine.wants(), machine.deadline(), machine.request(), machine.request_digest());
        }
    }

    #[test]
    fn the_fold_is_total(seed in 0..100_000u64, order: u64) {
        // A journal in any order is nonsense, and still no reason to panic.
        let journal = tell(seed, Tale::Wild).journal;
        let mut dice = Dice(order);
        let mut machine = Machine::restore("t".into(), None, []).unwrap();
        for _ in 0..journal.len() {
            machine.apply(&journal[dice.below(journal.len() as u64) as usize]);
            let _ = (machine.wants(), machine.deadline(), machine.request(), machine.request_digest());
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
                    take(&mut machine, &Input::ToolReturned { call, content: vec![Block::text("one")], error: false, duration_ms: 1 });
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
        // Many parts are one text in pieces: where it is cut, they are cut.
        prop_assert_eq!(short.concat(), shorten_result(vec![whole.clone()]).remove(0));
        prop_assert_eq!((short.len(), short[0].as_str()), (texts.len(), "begin"));
        prop_assert!(short.last().unwrap() == "end" && short.concat().chars().count() <= RESULT_MAX_CHARS);
        prop_assert_eq!(short == texts, whole.chars().count() <= RESULT_MAX_CHARS);
    }
}

fn take(machine: &mut Machine, input: &Input) {
    for event in machine.handle(input, Timestamp(1_000)).into_iter().flatten() {
        machine.apply(&event);
    }
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
    // In one append with the message: the driver starts what is wanted only after it.
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
        let content = vec![Block::text("one")];
        take(&mut machine, &Input::ToolReturned { call: *call, content, error: false, duration_ms: 1 });
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
    // The window has moved already: what it holds is what is left.
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
    // The run's end names the reply, which names the blob: nothing is written twice.
    assert_eq!(*output, Output { replies: Some((1, 1)), text: None });
    assert!(
        matches!(&events[0].fact, Fact::StepReplied { message, .. } if message.texts().eq([&Content::Blob(blob)]))
    );
    take(&mut machine, &input);
    assert!(machine.state().run.is_none());
}

#[test]
fn a_message_cannot_carry_calls_or_results() {
    let machine = Machine::restore("t".into(), None, []).unwrap();
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
