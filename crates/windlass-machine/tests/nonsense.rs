//! Arbitrary inputs: invalid ids, huge indexes, wrong order, and JSON of any shape and depth.

use std::collections::BTreeSet;
use std::sync::Arc;

use serde_json::{Value, json};
use windlass_machine::*;

use crate::fixture::{self, Dice, as_asked, failure, reply};

/// Returns an arbitrary input: invalid ids, huge indexes, wrong order.
pub fn any_input(dice: &mut Dice, machine: &Machine) -> Input {
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
    match dice.below(25) {
        0 => any_message(dice),
        1 => Input::Withdraw { id: any_id(dice, machine), by: any_sender(dice) },
        19 => {
            let role = if dice.one_in(8) { Role::Tool } else { Role::User };
            let message = Arc::new(Message { role, blocks: some_blocks(dice) });
            Input::EditQueued { id: any_id(dice, machine), message, by: any_sender(dice) }
        }
        22 => Input::ToolDeferred {
            call,
            after_ms: [0, 1_000, u64::MAX][dice.below(3) as usize],
            state: dice.one_in(2).then(|| text(dice).into()),
            rest: if dice.one_in(2) { Rest::Repeatable } else { Rest::AsTheCall },
        },
        20 => Input::SendNow { id: any_id(dice, machine), by: any_sender(dice) },
        2 => Input::Cancel { run: dice.one_in(2).then(|| text(dice).into()), by },
        3 | 4 => any_answers(dice, machine, call),
        5 => any_title(dice, by),
        6 => Input::SwitchModel { model: text(dice).into(), by },
        7 => Input::Note { name: text(dice).into(), data: any_value(dice) },
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
        12 => any_return(dice, call),
        13 => any_stop(dice, call),
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
        23 => any_change(call, text(dice)),
        _ if dice.one_in(2) => Input::Rejudge { view: some_view(dice) },
        _ => {
            let open = run.into_iter().flat_map(Run::open).map(|(_, asked)| asked.interrupt.clone());
            Input::Tick { confirmed: open.filter(|_| dice.one_in(2)).collect() }
        }
    }
}

fn any_return(dice: &mut Dice, call: CallKey) -> Input {
    let text = any_text;
    Input::ToolReturned {
        call,
        content: some_blocks(dice),
        error: dice.one_in(2),
        unavailable: false,
        duration_ms: u64::MAX,
        kept: dice.one_in(2).then(|| Box::new(Kept { name: text(dice).into(), value: text(dice).into() })),
        offloaded: dice.one_in(2).then(|| {
            let payload =
                BlobRef { digest: Digest::default(), media_type: String::new(), size_bytes: 1, tokens: 0 };
            Box::new(Offloaded { reference: text(dice).into(), payload, summary: text(dice).into() })
        }),
    }
}

fn any_change(call: CallKey, path: &str) -> Input {
    let (before, after) = (FileImage::Missing, FileImage::TooLarge { size_bytes: u64::MAX });
    Input::FileChanging { call, change: Box::new(FileChange { path: path.into(), before, after }) }
}

fn any_sender(dice: &mut Dice) -> Principal {
    ["ann", "eve", any_text(dice)][dice.below(3) as usize].into()
}

/// Returns the id of a queued message, or another id.
fn any_id(dice: &mut Dice, machine: &Machine) -> InputId {
    let queue = &machine.state().queue;
    match queue.get(dice.below(1 + queue.len() as u64) as usize) {
        Some(waiting) => waiting.id.clone(),
        None => any_text(dice).into(),
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
                values: dice.one_in(2).then(|| any_value(dice)),
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
    Input::Answered { answers, by, grants: Vec::new(), note: None, view: some_view(dice) }
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
            params: dice.one_in(3).then(|| any_value(dice)),
            schema: dice.one_in(3).then(|| any_value(dice)),
            ..Question::default()
        })),
        3 => InterruptKind::SignIn { server: text.into(), url: text.into(), message: Some(text.into()) },
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
        // The rule parser rejects an empty name.
        _ => BTreeSet::from([Approver::Role(format!("x{}", any_text(dice))), Approver::User("eve".into())]),
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
    new.agent = match dice.below(4) {
        0 => Arc::new(Agent { models: Vec::new(), ..fixture::agent() }),
        1 => Arc::new(Agent { settings: any_settings(dice), ..fixture::agent() }),
        _ => new.agent,
    };
    new.when_busy =
        [WhenBusy::Steer, WhenBusy::Replace, WhenBusy::Rollback, WhenBusy::Queue][dice.below(4) as usize];
    Input::Message(Box::new(new))
}

fn some_blocks(dice: &mut Dice) -> Vec<Block> {
    let some = |dice: &mut Dice| match dice.below(7) {
        0 => Block::text(""),
        1 => Block::text("x"),
        2 => fixture::call(["", "c1", "c2"][dice.below(3) as usize], "Tool", "{"),
        3 => Block::Reasoning { text: "hm".into(), native: dice.one_in(2).then(|| any_native(dice)) },
        4 if dice.one_in(4) => Block::Opaque { native: any_native(dice) },
        5 if dice.one_in(4) => {
            let inner = Block::Text { text: "x".into(), native: Some(any_native(dice)) };
            nested(inner, dice.below(3))
        }
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

/// Nests results inside results.
fn nested(block: Block, times: u64) -> Block {
    (0..times).fold(block, |inner, _| {
        let (call_id, name) = ("c".into(), "Tool".into());
        Block::ToolResult(ToolResult { call_id, name, content: vec![inner], error: false })
    })
}

fn any_native(dice: &mut Dice) -> Arc<Native> {
    let origin = Arc::new(Origin { api: "test".into(), model: "test/a".into() });
    Arc::new(Native { origin, item: any_value(dice) })
}

fn any_settings(dice: &mut Dice) -> ModelSettings {
    let odd = [f64::NAN, f64::INFINITY, -0.0, 0.7, 5e-324][dice.below(5) as usize];
    ModelSettings {
        temperature: dice.one_in(2).then_some(odd),
        output_schema: dice.one_in(2).then(|| any_value(dice)),
        ..ModelSettings::default()
    }
}

/// JSON of any shape: unusual numbers and keys, and depths below, at and above the limits of recording and decoding.
fn any_value(dice: &mut Dice) -> Value {
    let leaves = [
        json!(null),
        json!({}),
        json!(u64::MAX),
        json!(i64::MIN),
        json!(f64::MAX),
        json!(-0.0),
        json!(5e-324),
        json!(1.0),
        json!("\u{0}\u{1f600}\u{2028}"),
        json!({ "$serde_json::private::RawValue": "]" }),
        json!({ "": 1, "type": "note", "v": 9 }),
    ];
    let leaf = leaves[dice.below(leaves.len() as u64) as usize].clone();
    let most = JSON_MAX_DEPTH as u64;
    let levels = [0, 1, most - 1, most, most + 1, 2 * most, 4 * most][dice.below(7) as usize];
    let member = |inner| Value::Object([("a".to_owned(), inner)].into_iter().collect());
    (0..levels).fold(leaf, |inner, _| if dice.one_in(2) { Value::Array(vec![inner]) } else { member(inner) })
}

fn some_view(dice: &mut Dice) -> View {
    let auto_run = if dice.one_in(2) { AutoRun::Everything } else { AutoRun::Ask };
    let calls = (0..dice.below(4)).map(|_| any_call(dice)).collect();
    let verdict = [Verdict::Allow, Verdict::Ask, Verdict::Deny][dice.below(3) as usize];
    let rules = (0..dice.below(3)).map(|_| fixture::rule(verdict, "*", any_terms(dice))).collect();
    let grant = Grant {
        id: any_text(dice).into(),
        tool: "Tool".into(),
        server: None,
        schema: None,
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

fn any_title(dice: &mut Dice, by: Principal) -> Input {
    let title = any_text(dice).into();
    match dice.one_in(2) {
        true => Input::Title { title, by },
        false => Input::TitleMade { title, made: Box::new(fixture::title_made()) },
    }
}

fn any_stop(dice: &mut Dice, call: CallKey) -> Input {
    if dice.one_in(3) {
        let start = dice.below(4) as u32;
        return Input::NotDispatched { call, start, view: some_view(dice) };
    }
    Input::ToolStopped { call, reason: any_text(dice).into(), by_tool: dice.one_in(2), view: some_view(dice) }
}
