//! One event of each kind, for the golden journal.
//!
//! The order is that of the file; a new kind is added at the end.

use std::sync::Arc;

use serde_json::json;
use windlass_machine::*;

use crate::fixture;

/// Returns each kind with all fields, then without the optional ones. New samples are added at the end.
pub fn samples() -> Vec<Event> {
    let facts =
        [thread_facts(), run_facts(), step_facts(), call_facts(), interrupt_facts(), later_facts()].concat();
    let stamped = facts.into_iter().zip(1u64..).map(|(fact, n)| Event {
        at: Timestamp(1_795_236_180_000 + n),
        wall: None,
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
        agent.limits.max_same_calls = 3;
        agent.limits.max_calls.insert("Pay".into(), 2);
        agent.limits.max_tokens = 9_000;
        agent.limits.max_cost = MicroUsd(50_000);
    }
    Arc::new(agent)
}

pub fn options() -> RunOptions {
    RunOptions {
        surface: Surface::Chat,
        mode: None,
        serialized: true,
        at_limit: Some(AtLimit::Answer),
        offload: None,
        utc_offset_minutes: Some(-90),
        own_tools: Vec::new(),
        access: None,
    }
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
        Fact::ThreadCreated {
            thread: "t".into(),
            workspace: "w".into(),
            folder: Some("/data".into()),
            owner: by(),
        },
        Fact::ThreadCreated { thread: "t".into(), workspace: "w".into(), folder: None, owner: by() },
        Fact::ThreadForked {
            from: "t0".into(),
            until: Seq(17),
            by: by(),
            when: Timestamp(1_795_236_000_000),
        },
        Fact::ThreadTitled { title: "A title".into(), by: by(), made: None },
        Fact::ThreadTitled {
            title: "A made title".into(),
            by: "engine".into(),
            made: Some(Box::new(fixture::title_made())),
        },
        Fact::MessageReceived { id: id(), message: message(), by: by() },
        Fact::MessageQueued { id: id(), queued: queued(Place::AfterRun) },
        Fact::MessageQueued { id: id(), queued: queued(Place::AfterStep) },
        Fact::MessageQueued { id: id(), queued: queued(Place::AfterCancel) },
        Fact::MessageTaken { id: id() },
        Fact::MessageWithdrawn { id: id(), by: by() },
        Fact::MessageEdited { id: id(), message: message(), by: by() },
        Fact::MessagePromoted { id: id(), by: by() },
        Fact::ModelSwitched { model: "b/two".into(), reason: "chosen by ann".into() },
        Fact::WindowMoved { start: 17 },
        Fact::Note { name: "ticket".into(), data: json!({ "n": 1.25, "type": "odd", "v": 9, "run": "x" }) },
    ]
}

fn run_facts() -> Vec<Fact> {
    let error = RunError { code: "ERR_API".into(), message: "it broke".into(), retryable: true };
    let totals = Totals {
        steps: 3,
        calls: 2,
        usage: usage(),
        cost: Some(MicroUsd(42)),
        duration_ms: 9,
        ..Totals::default()
    };
    let cancel = |reason| Fact::CancelRequested { by: "ann".into(), reason };
    vec![
        Fact::RunStarted { agent: RunAgent::Full(agent(true)), options: options(), by: "ann".into() },
        Fact::RunStarted { agent: RunAgent::Same { same_as: Seq(3) }, options: options(), by: "ann".into() },
        Fact::RunStarted {
            agent: RunAgent::Full(agent(false)),
            options: RunOptions::default(),
            by: "ann".into(),
        },
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
        cancel(CancelReason::Limit),
        Fact::LimitReached { limit: "max_steps".into(), figure: 25, refused: None },
        Fact::LimitReached {
            limit: "day.cost".into(),
            figure: 1_000_000,
            refused: Some(Refused {
                taken: 990_000,
                wanted: 20_000,
                approvers: fixture::approvers(&["role:finance"]),
            }),
        },
        Fact::LimitReached {
            limit: "day.cost".into(),
            figure: 1_000_000,
            refused: Some(Refused { taken: 990_000, wanted: 20_000, approvers: fixture::approvers(&[]) }),
        },
    ]
}

fn step_facts() -> Vec<Fact> {
    let attempt = Attempt { step: 2, attempt: 1 };
    let nudge = |mode| (mode != StepMode::Plain).then(|| "Go on".to_owned());
    let started = |mode| Fact::StepStarted { attempt, model: "a/one".into(), mode, nudge: nudge(mode) };
    let failed = |class| Fact::StepFailed {
        attempt,
        class,
        message: "it broke".into(),
        partial: Some("so f".into()),
        retry_at: Some(Timestamp(1_795_236_190_000)),
        attempts_max: None,
    };
    let replied = |stop| Fact::StepReplied {
        attempt,
        message: message(),
        stop,
        usage: usage(),
        cost: Some(MicroUsd(7)),
        request: digest().into(),
        ttft_ms: Some(120),
        duration_ms: 900,
        thoughts_ms: vec![300, 20],
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
            attempts_max: None,
        },
    ]
}

const CALL: CallKey = CallKey { step: 2, index: 3 };

fn call_facts() -> Vec<Fact> {
    let call = CALL;
    let judged = |verdict, class, arguments| Fact::CallJudged {
        call,
        verdict,
        rule: "annotations".into(),
        class,
        arguments,
        view: 4,
        approval: digest(),
        previews: verdict == Verdict::Ask,
    };
    let finished = |outcome, error| Fact::ToolFinished {
        call,
        outcome,
        content: vec![Block::text("one"), Block::Image { blob: blob() }],
        error,
        duration_ms: 40,
    };
    let until = Timestamp(1_795_236_190_000);
    vec![
        judged(Verdict::Allow, EffectClass::Pure, Some("{\"p\":1}".into())),
        judged(Verdict::Ask, EffectClass::Once, None),
        judged(Verdict::Deny, EffectClass::Idempotent, None),
        judged(Verdict::Allow, EffectClass::Keyed, None),
        judged(Verdict::Allow, EffectClass::Reconcile { wait_ms: 60_000 }, None),
        Fact::GrantUsed { call, grant: "g1".into() },
        Fact::CallEdited { call, arguments: "{\"p\":2}".into(), approval: digest(), by: "bob".into() },
        Fact::CallPreviewing { call, recheck: false, terms: terms() },
        Fact::CallPreviewing { call, recheck: true, terms: Terms::default() },
        Fact::CallPreviewed { call, preview: "- 1\n+ 2".into(), digest: digest() },
        Fact::ToolStarted { call },
        Fact::ToolParked { call, state: Some("page 2".into()) },
        Fact::ToolParked { call, state: None },
        Fact::ToolReconciling { call, attempt: 2, until },
        Fact::ToolUnresolved { call, reason: "no such payment".into(), retry_at: until },
        Fact::ToolInDoubt { call, effect: "t/r1/2/3".into(), reason: "it hung".into() },
        finished(Outcome::Returned, false),
        finished(Outcome::Refused, true),
        finished(Outcome::Denied, true),
        finished(Outcome::Cancelled, true),
        finished(Outcome::InDoubt, true),
        finished(Outcome::Told, false),
        finished(Outcome::Reconciled, false),
    ]
}

fn later_facts() -> Vec<Fact> {
    let (call, until, outcome) = (CALL, Timestamp(1_795_236_190_000), Outcome::Unavailable);
    let (reference, summary) = ("r1.2.3".into(), "[Read] …".into());
    vec![
        Fact::ToolDeferred { call, until, state: Some("task 7".into()), rest: Rest::Repeatable },
        Fact::ToolDeferred { call, until, state: None, rest: Rest::AsTheCall },
        Fact::ToolKept { call, name: "tasks".into(), value: "[]".into() },
        Fact::RunStarted {
            agent: RunAgent::Full(agent(false)),
            options: RunOptions { offload: Some(Offload::default()), ..RunOptions::default() },
            by: "ann".into(),
        },
        Fact::ToolKept { call, name: "todos".into(), value: Content::Blob(blob()) },
        Fact::ResultOffloaded { call, reference, payload: blob(), summary },
        changing(FileImage::Missing, FileImage::Known { digest: digest(), size_bytes: 8 }),
        changing(FileImage::Kept { blob: blob(), mode: 0o640 }, FileImage::Missing),
        changing(
            FileImage::TooLarge { size_bytes: 1 << 40 },
            FileImage::Known { digest: digest(), size_bytes: 0 },
        ),
        Fact::ToolFinished { call, outcome, content: Vec::new(), error: true, duration_ms: 0 },
        Fact::ToolUndispatched { call },
    ]
}

fn changing(before: FileImage, after: FileImage) -> Fact {
    Fact::FileChanging { call: CALL, change: Box::new(FileChange { path: "src/a.rs".into(), before, after }) }
}

fn terms() -> Terms {
    fixture::terms(2, &["user:bob", "role:ops"], Some(3_600_000))
}

fn interrupt_facts() -> Vec<Fact> {
    let interrupt = || InterruptId::from("r1.2.3.0");
    let opened =
        |kind, terms| Fact::InterruptOpened { interrupt: interrupt(), kind, call: Some(CALL), terms };
    let usual = |kind| opened(kind, Terms::default());
    let by = |answer, roles| {
        let by = "bob".into();
        Fact::InterruptClosed { interrupt: interrupt(), answer, by, roles }
    };
    let closed = |answer| by(answer, Vec::new());
    let limit = |next| {
        InterruptKind::Limit(Box::new(LimitAsked { limit: "max_steps".into(), figure: 25, used: 25, next }))
    };
    let question = Question {
        checkpoint: Some("deploy".into()),
        summary: "Deploy?".into(),
        params: Some(json!({ "n": 1.50 })),
        options: vec!["yes".into(), "later".into()],
        free_input: true,
        schema: Some(json!({ "type": "object" })),
    };
    let reply =
        Reply { selected: Some("yes".into()), text: Some("go on".into()), values: Some(json!({ "n": 2 })) };
    let tool = || ToolName::from("Pay");
    vec![
        usual(InterruptKind::Approval { tool: tool(), approval: digest(), preview: None }),
        opened(
            InterruptKind::Approval { tool: tool(), approval: digest(), preview: Some("- 1\n+ 2".into()) },
            terms(),
        ),
        usual(InterruptKind::Hook { tool: tool(), reason: "an odd hour".into() }),
        usual(InterruptKind::Question(Box::new(question))),
        usual(InterruptKind::Question(Box::default())),
        usual(InterruptKind::SignIn { server: "mail".into(), url: "https://mail/in".into(), message: None }),
        usual(InterruptKind::Handoff { runner: "clerk".into() }),
        usual(InterruptKind::InDoubt { tool: tool() }),
        usual(limit(None)),
        usual(limit(Some(Next::Step(StepMode::AfterEmpty(1))))),
        Fact::InterruptOpened {
            interrupt: "r1.2.limit.40".into(),
            kind: limit(Some(Next::Retry)),
            call: None,
            terms: Terms::default(),
        },
        Fact::InterruptVoted { interrupt: interrupt(), by: "bob".into(), roles: vec!["ops".into()] },
        Fact::InterruptVoted { interrupt: interrupt(), by: "bob".into(), roles: Vec::new() },
        Fact::InterruptReminded { interrupt: interrupt() },
        Fact::InterruptEscalated { interrupt: interrupt(), to: fixture::approvers(&["role:boss"]) },
        closed(Answer::Approve),
        by(Answer::Approve, vec!["ops".into(), "boss".into()]),
        closed(Answer::Edit { arguments: "{\"p\":2}".into() }),
        closed(Answer::Deny { reason: Some("no".into()) }),
        closed(Answer::Deny { reason: None }),
        closed(Answer::Reply(Box::new(reply))),
        closed(Answer::Reply(Box::default())),
        closed(Answer::Done { result: "paid".into() }),
        closed(Answer::Retry),
        closed(Answer::Fail { reason: None }),
        closed(Answer::Raise { to: 50 }),
        closed(Answer::Stop),
        closed(Answer::Withdrawn),
    ]
}
