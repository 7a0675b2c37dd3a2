//! Local reads: the reply, starts and results of a step are one append, and the journal has the same facts.
//!
//! The clock is manual, so that no round is appended because its wait timed out.

use std::sync::{Arc, Mutex};

use futures::StreamExt;
use tokio::sync::Notify;
use windlass::clock::ManualClock;
use windlass::limits::{Budget, Per, Unit, Window};
use windlass::machine::{
    Annotations, Answer, Block, EffectClass, Event, Fact, Glob, InterruptKind, Rule, Seq, StopReason, Terms,
    Timestamp, ToolCall, Usage, Verdict,
};
use windlass::port::model::Reply;
use windlass::port::observe::{Measure, Observer};
use windlass::port::tool::{Ask, CallContext, ToolOutcome};
use windlass::testing::scripted::{Line, ScriptedModels, results};
use windlass::tool::FunctionTool;
use windlass::{Engine, Status, Task, Update};

use super::{Counter, Text, memory, party, registry, task};

/// Counts appends.
#[derive(Default)]
struct Appends(Mutex<usize>);

impl Observer for Appends {
    fn observe(&self, measure: &Measure) {
        *self.0.lock().unwrap() += usize::from(matches!(measure, Measure::Appended { .. }));
    }
}

/// Calls these tools, one list per step, then replies with text.
fn calling(steps: &'static [&'static [&'static str]]) -> ScriptedModels {
    ScriptedModels::new(move |call| {
        let done = results(call);
        let before = steps.iter().scan(0, |sum, step| {
            *sum += step.len();
            Some(*sum - step.len())
        });
        let step = before.zip(steps).find(|(before, _)| *before == done).map(|(_, step)| *step);
        let asked = |name: &&str| ToolCall {
            id: format!("{name}-{done}"),
            name: (*name).into(),
            asked: r#"{"text":"x"}"#.into(),
            native: None,
        };
        let blocks = match step {
            Some(names) => names.iter().map(|name| Block::ToolCall(asked(name))).collect(),
            None => vec![Block::text("done")],
        };
        let stop = if step.is_some() { StopReason::ToolCalls } else { StopReason::End };
        let usage = Usage { input: Some(10), output: Some(5), ..Usage::default() };
        Line::Reply(Reply { blocks, stop, usage, model: None })
    })
}

fn clock() -> Arc<ManualClock> {
    Arc::new(ManualClock::new(Timestamp(1_000), 1))
}

/// The tool `look`, which may be a local read, and `once`, which never is.
fn tools(is_local: bool) -> [FunctionTool; 2] {
    let look = Counter::default().tool("look", EffectClass::Pure);
    let once = Counter::default().tool("once", EffectClass::Once).reads_locally();
    [if is_local { look.reads_locally() } else { look }, once]
}

/// Plays a run, and returns its facts and how many appends they took.
async fn play(
    steps: &'static [&'static [&'static str]],
    is_local: bool,
    cap: Option<u64>,
) -> (Vec<Fact>, usize) {
    let appends = Arc::new(Appends::default());
    let budget = cap.map(|cap| Budget {
        per: Per::User,
        unit: Unit::Steps,
        window: Window::Total,
        cap,
        approvers: Default::default(),
    });
    let built = memory(&calling(steps), registry(tools(is_local))).observer(appends.clone());
    let engine = built.clock(clock()).budgets(budget.into_iter().collect()).build().await.unwrap();
    let outcome = engine.run_task(Task { thread: Some("t".into()), ..task("go") }).await.unwrap();
    assert_eq!(outcome.status, if cap.is_some() { Status::Failed } else { Status::Done }, "{outcome:?}");
    let facts = events(&engine).await.into_iter().map(|event| event.fact).collect();
    let appends = *appends.0.lock().unwrap();
    (facts, appends)
}

async fn events(engine: &Engine) -> Vec<Event> {
    let events = engine.thread(&"t".into()).events(Seq(0), 1_000).await.unwrap();
    events.into_iter().map(|recorded| recorded.event).collect()
}

/// The facts as text, without the random run id.
fn words(facts: &[Fact]) -> Vec<String> {
    let word = |fact: &Fact| {
        let json = serde_json::to_value(fact).unwrap();
        let kept = ["type", "call", "outcome", "content", "stop", "verdict", "limit", "status", "attempt"];
        kept.iter().filter_map(|key| json.get(key)).map(|value| format!("{value} ")).collect::<String>()
    };
    facts.iter().map(word).collect()
}

/// Asserts that the facts equal those of a tool that is no local read, with `saved` fewer appends.
async fn check(steps: &'static [&'static [&'static str]], cap: Option<u64>, saved: usize) {
    let (held, appends) = play(steps, true, cap).await;
    let (written, more) = play(steps, false, cap).await;
    assert_eq!(words(&held), words(&written), "{steps:?}");
    assert_eq!(more - appends, saved, "{steps:?}: {more} appends become {appends}");
}

#[tokio::test]
async fn a_step_of_local_reads_is_one_append() {
    check(&[&["look"], &["look"], &["look"]], None, 3).await;
    // The message with the first step, each step with the next, and the answer.
    assert_eq!(play(&[&["look"], &["look"], &["look"]], true, None).await.1, 5);
}

#[tokio::test]
async fn results_join_a_held_round_one_by_one() {
    let (_, appends) = play(&[&["look", "look", "look"]], true, None).await;
    assert_eq!(appends, 3);
}

#[tokio::test]
async fn a_call_with_an_effect_is_recorded_before_it_starts() {
    // The message, the start, the result with the next step, and the answer.
    assert_eq!(play(&[&["once"]], true, None).await.1, 4);
    // The preceding read is written with the start.
    check(&[&["look", "once"], &["once"]], None, 1).await;
    check(&[&["once", "look"]], None, 1).await;
}

#[tokio::test]
async fn calls_that_are_refused_are_written_with_the_reads() {
    check(&[&["look", "nothing"], &["nothing"]], None, 1).await;
}

/// The held round is recorded before the limit, without another model call.
#[tokio::test]
async fn a_round_that_a_budget_refuses_is_decided_again() {
    for cap in [1, 2] {
        let steps: &[&[&str]] = &[&["look", "look"], &["look"], &["look"]];
        let ((held, _), (written, _)) =
            (play(steps, true, Some(cap)).await, play(steps, false, Some(cap)).await);
        assert_eq!(words(&held), words(&written));
        let is_reply = |fact: &&Fact| matches!(fact, Fact::StepReplied { .. });
        assert_eq!(held.iter().filter(is_reply).count() as u64, cap);
        assert!(held.iter().any(|fact| matches!(fact, Fact::LimitReached { .. })), "{held:?}");
    }
}

/// A local read that blocks until the gate opens.
fn slow(gate: &Arc<Notify>, begun: &Arc<Notify>) -> FunctionTool {
    let (gate, begun) = (gate.clone(), begun.clone());
    let tool = FunctionTool::new("look", "waits", move |_: CallContext, _: Text| {
        let (gate, begun) = (gate.clone(), begun.clone());
        async move {
            begun.notify_one();
            gate.notified().await;
            ToolOutcome::text("seen")
        }
    });
    tool.annotations(Annotations { read_only_hint: true, ..Annotations::default() }).reads_locally()
}

fn has_started(events: &[Event]) -> bool {
    events.iter().any(|event| matches!(event.fact, Fact::ToolStarted { .. }))
}

#[tokio::test]
async fn a_held_round_is_written_after_ten_milliseconds() {
    let (gate, begun, clock) = (Arc::<Notify>::default(), Arc::<Notify>::default(), clock());
    let built = memory(&calling(&[&["look"]]), registry([slow(&gate, &begun)])).clock(clock.clone());
    let engine = built.build().await.unwrap();
    let mut updates = engine.thread(&"t".into()).watch(Seq(0));
    engine.start(Task { thread: Some("t".into()), ..task("go") }).await.unwrap();
    begun.notified().await;
    assert!(!has_started(&events(&engine).await), "nothing is written before its time");
    clock.advance_ms(9);
    for _ in 0..100 {
        tokio::task::yield_now().await;
    }
    assert!(!has_started(&events(&engine).await));
    clock.advance_ms(1);
    let mut seen = Vec::new();
    while !has_started(&seen) {
        if let Update::Event(recorded) = updates.next().await.unwrap().unwrap() {
            seen.push(recorded.event.clone());
        }
    }
    gate.notify_one();
    let run = seen.iter().find_map(|event| event.run.clone()).unwrap();
    assert_eq!(engine.run(&run).wait().await.unwrap().text.as_deref(), Some("done"));
}

#[tokio::test]
async fn a_cancel_finds_a_held_round_recorded() {
    let (gate, begun) = (Arc::<Notify>::default(), Arc::<Notify>::default());
    let built = memory(&calling(&[&["look"]]), registry([slow(&gate, &begun)])).clock(clock());
    let engine = built.build().await.unwrap();
    let started = engine.start(Task { thread: Some("t".into()), ..task("go") }).await.unwrap();
    begun.notified().await;
    engine.run(&started.run).cancel("ann".into()).await.unwrap();
    assert!(has_started(&events(&engine).await), "the sender is answered after the append");
    gate.notify_one();
    assert_eq!(engine.run(&started.run).wait().await.unwrap().status, Status::Cancelled);
    let events = events(&engine).await;
    let places = |is: fn(&Fact) -> bool| events.iter().position(|event| is(&event.fact)).unwrap();
    let reply = places(|fact| matches!(fact, Fact::StepReplied { .. }));
    let cancel = places(|fact| matches!(fact, Fact::CancelRequested { .. }));
    let result = places(|fact| matches!(fact, Fact::ToolFinished { .. }));
    assert!(reply < cancel && cancel < result, "{events:#?}");
}

/// A tool declares local reads but asks a question: the question is recorded, and the run waits.
#[tokio::test]
async fn a_local_read_that_asks_all_the_same_is_recorded() {
    let asks = FunctionTool::new("look", "asks", |_: CallContext, _: Text| async {
        let kind = InterruptKind::Handoff { runner: "elsewhere".into() };
        ToolOutcome::ask(Ask { kind, terms: Terms::default(), state: None })
    });
    let asks = asks.annotations(Annotations { read_only_hint: true, ..Annotations::default() });
    let built = memory(&calling(&[&["look"]]), registry([asks.reads_locally()])).clock(clock());
    let engine = built.build().await.unwrap();
    let outcome = engine.run_task(Task { thread: Some("t".into()), ..task("go") }).await.unwrap();
    assert_eq!((outcome.status, outcome.interrupts.len()), (Status::Paused, 1));
    assert!(has_started(&events(&engine).await));
}

/// A call allowed by an approval is recorded before it starts, even if it only reads.
#[tokio::test]
async fn an_approved_read_is_recorded_before_it_starts() {
    let (gate, begun) = (Arc::<Notify>::default(), Arc::<Notify>::default());
    let built = memory(&calling(&[&["look"]]), registry([slow(&gate, &begun)])).clock(clock());
    let ask = Rule { tools: vec![Glob::new("look")], ..Rule::new(Verdict::Ask) };
    let engine = built.rules(vec![ask]).build().await.unwrap();
    let outcome = engine.run_task(Task { thread: Some("t".into()), ..task("go") }).await.unwrap();
    engine
        .thread(&"t".into())
        .answer(&outcome.interrupts[0].interrupt, Answer::Approve, party("ann"))
        .await
        .unwrap();
    begun.notified().await;
    assert!(has_started(&events(&engine).await));
    gate.notify_one();
}
