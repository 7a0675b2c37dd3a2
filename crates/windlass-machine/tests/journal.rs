//! The golden journal of version 1: what was once written is read, and written again, the same for ever.
//!
//! `journal_v1/*.jsonl` never change. `UPDATE=1` writes a file that is missing, and no other.

use std::path::PathBuf;
use std::sync::Arc;

use serde_json::json;
use windlass_machine::*;

use crate::fixture;
use crate::world::{Tale, tell};

/// Names every kind of fact, in a match that a new kind breaks and in a list that the file must cover.
macro_rules! kinds {
    ($($kind:ident),+ $(,)?) => {
        const KINDS: &[&str] = &[$(stringify!($kind)),+];

        fn kind(fact: &Fact) -> &'static str {
            match fact {
                $(Fact::$kind { .. } => stringify!($kind),)+
            }
        }
    };
}

kinds! {
    ThreadCreated, ThreadTitled, MessageReceived, MessageQueued, MessageTaken, MessageWithdrawn, RunStarted,
    RunFinished, RunWithdrawn, StepStarted, StepReplied, StepFailed, CallJudged, InterruptOpened, InterruptClosed,
    ToolStarted, ToolFinished, ToolInDoubt, WindowMoved, ModelSwitched, CancelRequested, LimitReached, Note,
}

/// Each kind with its fields filled, then with those left out that may be.
fn samples() -> Vec<Event> {
    let facts = [thread_facts(), run_facts(), step_facts(), call_facts()].concat();
    let stamped = facts.into_iter().zip(1u64..).map(|(fact, n)| Event {
        at: Timestamp(1_795_236_180_000 + n),
        run: (n > 1).then(|| "r1".into()),
        fact,
    });
    stamped.collect()
}

fn digest() -> Digest {
    Digest::of(b"windlass")
}

fn blob() -> BlobRef {
    BlobRef { digest: digest(), media_type: "image/png".into(), size_bytes: 70_000, tokens: 1_500 }
}

fn native() -> Arc<Native> {
    let origin = Arc::new(Origin { api: "anthropic".into(), model: "anthropic/claude".into() });
    Arc::new(Native { origin, item: json!({ "z": 1, "a": [0.1, 1e300, null, "\u{2014}"] }) })
}

fn agent(full: bool) -> Arc<Agent> {
    let mut agent = fixture::agent();
    if full {
        agent.tools = Some(blob());
        agent.models.push("b/two".into());
        agent.settings = ModelSettings {
            max_output_tokens: Some(4096),
            temperature: Some(0.7),
            reasoning: Reasoning::BudgetTokens(2048),
            output_schema: Some(json!({ "type": "object" })),
            cache: CacheMarks::Hour,
        };
        agent.limits.max_steps = 7;
    }
    Arc::new(agent)
}

fn options() -> RunOptions {
    RunOptions { surface: Surface::Chat, serialized: true, utc_offset_minutes: Some(-90) }
}

fn usage() -> Usage {
    Usage { input: Some(100), output: Some(20), cached: Some(60), cache_written: Some(5), reasoning: Some(7) }
}

fn message() -> Arc<Message> {
    let blocks = vec![
        Block::Text { text: "Look: \"\u{1f600}\"\n".into(), native: Some(native()) },
        Block::Text { text: Content::Blob(blob()), native: None },
        Block::Image { blob: blob() },
        Block::File { name: "a.pdf".into(), blob: blob() },
        Block::Reasoning { text: "hm".into(), native: Some(native()) },
        Block::ToolCall(ToolCall {
            id: "c1".into(),
            name: "Read".into(),
            asked: "{\"p\": 1.50}".into(),
            native: Some(native()),
        }),
        Block::ToolResult(ToolResult {
            call_id: "c1".into(),
            name: "Read".into(),
            content: vec![Block::text("one")],
            error: true,
        }),
        Block::Opaque { native: native() },
    ];
    Arc::new(Message { role: Role::Assistant, blocks })
}

fn thread_facts() -> Vec<Fact> {
    let id = || InputId::from("m1");
    let by = || Principal::from("ann");
    let queued = |place| {
        Box::new(Queued {
            message: Arc::new(Message::text(Role::User, "And that")),
            by: by(),
            place,
            run: "r2".into(),
            agent: agent(false),
            options: options(),
        })
    };
    vec![
        Fact::ThreadCreated { thread: "t".into(), workspace: "w".into(), folder: Some("/data".into()) },
        Fact::ThreadCreated { thread: "t".into(), workspace: "w".into(), folder: None },
        Fact::ThreadTitled { title: "A title".into(), by: by() },
        Fact::MessageReceived { id: id(), message: message(), by: by() },
        Fact::MessageQueued { id: id(), queued: queued(Place::AfterRun) },
        Fact::MessageQueued { id: id(), queued: queued(Place::AfterStep) },
        Fact::MessageQueued { id: id(), queued: queued(Place::AfterCancel) },
        Fact::MessageTaken { id: id() },
        Fact::MessageWithdrawn { id: id() },
        Fact::ModelSwitched { model: "b/two".into(), reason: "chosen by ann".into() },
        Fact::WindowMoved { start: 17 },
        Fact::Note { name: "ticket".into(), data: json!({ "n": 1.25, "type": "odd", "v": 9, "run": "x" }) },
    ]
}

fn run_facts() -> Vec<Fact> {
    let error = RunError { code: "ERR_API".into(), message: "it broke".into(), retryable: true };
    let totals = Totals { steps: 3, calls: 2, usage: usage(), cost: Some(MicroUsd(42)), duration_ms: 9 };
    let cancel = |reason| Fact::CancelRequested { by: "ann".into(), reason };
    vec![
        Fact::RunStarted { agent: agent(true), options: options() },
        Fact::RunStarted { agent: agent(false), options: RunOptions::default() },
        Fact::RunFinished {
            status: RunStatus::Failed,
            output: Output { replies: Some((1, 2)), text: Some("so far".into()) },
            error: Some(error),
            fallback: true,
            totals,
        },
        Fact::RunFinished {
            status: RunStatus::Done,
            output: Output::default(),
            error: None,
            fallback: false,
            totals: Totals::default(),
        },
        Fact::RunWithdrawn { effects: vec!["t/r1/1/0".into()] },
        cancel(CancelReason::Requested),
        cancel(CancelReason::Replaced),
        cancel(CancelReason::RolledBack),
        cancel(CancelReason::RunTimeout),
        Fact::LimitReached { limit: "max_steps".into(), figure: 25 },
    ]
}

fn step_facts() -> Vec<Fact> {
    let attempt = Attempt { step: 2, attempt: 1 };
    let started = |mode| Fact::StepStarted { attempt, model: "a/one".into(), mode };
    let failed = |class| Fact::StepFailed {
        attempt,
        class,
        message: "it broke".into(),
        partial: Some("so f".into()),
        retry_at: Some(Timestamp(1_795_236_190_000)),
    };
    let replied = |stop| Fact::StepReplied {
        attempt,
        message: message(),
        stop,
        usage: usage(),
        cost: Some(MicroUsd(7)),
        request: digest(),
        ttft_ms: Some(120),
        duration_ms: 900,
    };
    vec![
        started(StepMode::Plain),
        started(StepMode::AfterEmpty(2)),
        started(StepMode::Continue),
        started(StepMode::Smaller),
        started(StepMode::Fallback),
        replied(StopReason::ToolCalls),
        replied(StopReason::End),
        replied(StopReason::MaxTokens),
        replied(StopReason::Refusal),
        replied(StopReason::Pause),
        replied(StopReason::StopSequence),
        replied(StopReason::Cancelled),
        replied(StopReason::Other("odd".into())),
        failed(FailureClass::RateLimited),
        failed(FailureClass::Overloaded),
        failed(FailureClass::Transient),
        failed(FailureClass::Timeout),
        failed(FailureClass::Truncated),
        failed(FailureClass::Malformed),
        failed(FailureClass::Auth),
        failed(FailureClass::ContextTooLong),
        failed(FailureClass::InvalidRequest),
        failed(FailureClass::Config),
        failed(FailureClass::Empty),
        failed(FailureClass::MissingBlob),
        failed(FailureClass::Cancelled),
        Fact::StepFailed {
            attempt,
            class: FailureClass::Lost,
            message: "gone".into(),
            partial: None,
            retry_at: None,
        },
    ]
}

fn call_facts() -> Vec<Fact> {
    let call = CallKey { step: 2, index: 3 };
    let interrupt = || InterruptId::from("r1.2.3.0");
    let judged = |verdict, class, arguments| Fact::CallJudged {
        call,
        verdict,
        rule: "annotations".into(),
        class,
        arguments,
        view: 4,
    };
    let opened = |kind| Fact::InterruptOpened { interrupt: interrupt(), kind, call };
    let closed = |answer| Fact::InterruptClosed { interrupt: interrupt(), answer, by: "bob".into() };
    let finished = |outcome, error| Fact::ToolFinished {
        call,
        outcome,
        content: vec![Block::text("one"), Block::Image { blob: blob() }],
        error,
        duration_ms: 40,
    };
    vec![
        judged(Verdict::Allow, EffectClass::Pure, Some("{\"p\":1}".into())),
        judged(Verdict::Ask, EffectClass::Once, None),
        judged(Verdict::Deny, EffectClass::Idempotent, None),
        judged(Verdict::Allow, EffectClass::Keyed, None),
        opened(InterruptKind::Approval { tool: "Write".into(), arguments: digest() }),
        opened(InterruptKind::InDoubt { tool: "Pay".into() }),
        closed(Answer::Approve),
        closed(Answer::Deny { reason: Some("no".into()) }),
        closed(Answer::Deny { reason: None }),
        closed(Answer::Done { result: "paid".into() }),
        closed(Answer::Retry),
        closed(Answer::Fail { reason: None }),
        closed(Answer::Withdrawn),
        Fact::ToolStarted { call, effect: "t/r1/2/3".into(), arguments: digest() },
        Fact::ToolInDoubt { call, effect: "t/r1/2/3".into(), reason: "it hung".into() },
        finished(Outcome::Returned, false),
        finished(Outcome::Refused, true),
        finished(Outcome::Denied, true),
        finished(Outcome::Cancelled, true),
        finished(Outcome::InDoubt, true),
        finished(Outcome::Told, false),
    ]
}

/// The lines of a golden file; written first where it is missing and `UPDATE=1`.
fn golden(name: &str, events: impl FnOnce() -> Vec<Event>) -> String {
    let path = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("tests/journal_v1").join(name);
    if !path.exists() && std::env::var_os("UPDATE").is_some() {
        let lines: String = events().iter().map(|event| event.encode() + "\n").collect();
        std::fs::write(&path, lines).unwrap();
    }
    std::fs::read_to_string(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
}

#[test]
fn every_kind_is_read_and_written_the_same_for_ever() {
    let samples = samples();
    let text = golden("kinds.jsonl", || samples.clone());
    let read: Vec<Event> = text.lines().map(|line| Event::decode(line).unwrap()).collect();
    assert_eq!(read, samples);
    for (event, line) in read.iter().zip(text.lines()) {
        assert_eq!(event.encode(), line);
    }
    for name in KINDS {
        assert!(read.iter().any(|event| kind(&event.fact) == *name), "no `{name}` in the golden journal");
    }
}

#[test]
fn a_whole_journal_is_read_and_written_the_same_for_ever() {
    let text = golden("story.jsonl", || tell(7, Tale::Crashing).journal);
    let read: Vec<Event> = text.lines().map(|line| Event::decode(line).unwrap()).collect();
    for (event, line) in read.iter().zip(text.lines()) {
        assert_eq!(event.encode(), line);
    }
    let machine = Machine::restore("t".into(), None, read).unwrap();
    assert!(machine.state().run.is_none() && machine.state().last.is_some());
}

#[test]
fn what_cannot_be_read_is_refused() {
    let newer = r#"{"v":2,"at":1,"type":"thread.titled","title":"x","by":"ann"}"#;
    assert!(matches!(Event::decode(newer), Err(UnreadableEvent::Newer { found: 2 })));
    let far = r#"{"v":99999999999,"at":1,"type":"from.the.future"}"#;
    assert!(matches!(Event::decode(far), Err(UnreadableEvent::Newer { found: u32::MAX })));
    for damaged in ["", "{", "[]", r#"{"v":1,"at":1,"type":"thread.exploded"}"#, r#"{"v":1,"type":"note"}"#] {
        assert!(matches!(Event::decode(damaged), Err(UnreadableEvent::Damaged(_))), "{damaged}");
    }
}

#[test]
fn a_journal_of_another_thread_and_a_strange_snapshot_are_noticed() {
    let journal = tell(3, Tale::Calm).journal;
    let other = Machine::restore("u".into(), None, journal.iter().cloned());
    assert!(matches!(other, Err(CorruptJournal::OtherThread { .. })));
    let snapshot = Machine::restore("t".into(), None, journal.iter().cloned()).unwrap().snapshot();
    assert!(snapshot.is_usable());
    assert!(!Snapshot { fold: snapshot.fold + 1, ..snapshot.clone() }.is_usable());
    assert!(!Snapshot { seq: snapshot.seq.next(), ..snapshot.clone() }.is_usable());
    assert!(!Snapshot { bytes: b"{}".to_vec(), ..snapshot }.is_usable());
}
