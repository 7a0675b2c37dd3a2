//! Runs in progress: texts, tools, questions, watching, control.
//!
//! All in memory; the store suites check that the stores behave the same.

use std::sync::Arc;

use futures::stream::BoxStream;
use futures::{FutureExt, StreamExt};
use windlass::clock::ManualClock;
use windlass::machine::{
    Answer, AutoRun, Block, EffectClass, Fact, FailureClass, InterruptKind, MicroUsd, ModelName, Principal,
    RunId, RunStatus, Seq, StopReason, Timestamp, ToolCall, Totals, Usage, WhenBusy,
};
use windlass::port::journal::{RunQuery, StoreError, ThreadStatus};
use windlass::port::model::{Delta, Model, ModelCall, ModelError, ModelEvent, ModelInfo, Models, Reply};
use windlass::testing::scripted::{Line, ScriptedModels, results};
use windlass::{Engine, Status, Task, Update};

use super::{Counter, memory, party, registry, task};

/// The statuses that `wait` and `status` return.
async fn statuses(engine: &Engine, run: &RunId) -> (Status, Status) {
    (engine.run(run).wait().await.unwrap().status, engine.run(run).status().await.unwrap().status)
}

// rows: LM-R1, LM-R3, LM-R4, LM-R5, LM-G1, LM-G3, SK-G3
#[tokio::test]
async fn answers_in_one_step() {
    let models = ScriptedModels::new(|_| Line::Say("hello there".into()));
    let engine = memory(&models, windlass::registry()).build().await.unwrap();
    let outcome = engine.run_task(task("hi")).await.unwrap();
    assert_eq!((outcome.status, outcome.text.as_deref()), (Status::Done, Some("hello there")));
    assert_eq!((outcome.figures.steps, outcome.figures.calls), (1, 0));
    assert_eq!((outcome.figures.tokens.input, outcome.figures.tokens.output), (Some(10), Some(5)));
    assert_eq!(outcome.figures.cost, Some(MicroUsd(20)));
    assert_eq!(outcome.output.as_deref(), Some("hello there"));
    assert_eq!(engine.run(&outcome.run).status().await.unwrap().text, outcome.text);
}

// rows: LM-G10
#[tokio::test]
async fn a_program_that_registers_no_tools_offers_none() {
    let models = ScriptedModels::new(|call| {
        assert!(call.request.tools.is_none(), "{:?}", call.request.tools);
        Line::Say("hello".into())
    });
    let engine = memory(&models, windlass::registry()).build().await.unwrap();
    assert!(engine.tools().list().is_empty());
    assert_eq!(engine.run_task(task("hi")).await.unwrap().status, Status::Done);
}

// rows: WT-L4, WT-L5, LM-L5
#[tokio::test]
async fn runs_tools_until_the_model_is_done() {
    let counter = Counter::default();
    let models = ScriptedModels::new(|call| match results(call) {
        done @ 0..3 => Line::tool("note", &format!(r#"{{"text":"{done}"}}"#)),
        _ => Line::Say("done".into()),
    });
    let tools = registry([counter.tool("note", EffectClass::Once)]);
    let engine = memory(&models, tools).build().await.unwrap();
    let outcome = engine.run_task(task("go")).await.unwrap();
    assert_eq!((outcome.status, outcome.figures.steps, outcome.figures.calls), (Status::Done, 4, 3));
    assert_eq!((counter.count(), models.calls()), (3, 4));
}

// rows: SK-A5, SK-A7
#[tokio::test]
async fn waits_for_an_approval_and_runs_what_was_approved() {
    let counter = Counter::default();
    let models = ScriptedModels::new(|call| match results(call) {
        0 => Line::tool("write", r#"{"text":"x"}"#),
        _ => Line::Say("written".into()),
    });
    let tools = registry([counter.tool("write", EffectClass::Once)]);
    let engine = memory(&models, tools).auto_run(AutoRun::Ask).build().await.unwrap();
    let outcome = engine.run_task(task("write")).await.unwrap();
    assert_eq!((outcome.status, outcome.text.as_deref()), (Status::Paused, Some(r#"{"text":"x"}"#)));
    assert_eq!(counter.count(), 0);
    let open = &outcome.interrupts[0];
    assert!(matches!(open.kind, InterruptKind::Approval { .. }));
    let thread = &outcome.thread;
    engine.thread(thread).answer(&open.interrupt, Answer::Approve, party("ann")).await.unwrap();
    let outcome = engine.run(&outcome.run).wait().await.unwrap();
    assert_eq!((outcome.status, outcome.text.as_deref()), (Status::Done, Some("written")));
    assert_eq!(counter.count(), 1);
}

// rows: SK-A6, OV-4
#[tokio::test]
async fn tells_the_model_of_a_denial() {
    let counter = Counter::default();
    let models = ScriptedModels::new(|call| match results(call) {
        0 => Line::tool("write", r#"{"text":"x"}"#),
        _ => {
            Line::Say(call.request.messages.last().unwrap().blocks.iter().map(|b| format!("{b:?}")).collect())
        }
    });
    let tools = registry([counter.tool("write", EffectClass::Once)]);
    let engine = memory(&models, tools).auto_run(AutoRun::Ask).build().await.unwrap();
    let outcome = engine.run_task(task("write")).await.unwrap();
    let answer = Answer::Deny { reason: Some("not on a Friday".into()) };
    let interrupt = &outcome.interrupts[0].interrupt;
    engine.thread(&outcome.thread).answer(interrupt, answer, party("ann")).await.unwrap();
    let outcome = engine.run(&outcome.run).wait().await.unwrap();
    let heard = outcome.text.unwrap();
    assert!(heard.contains("denied by the user") && heard.contains("not on a Friday"), "{heard}");
    assert_eq!(counter.count(), 0);
}

// rows: WT-X5
#[tokio::test]
async fn a_watcher_rebuilds_every_text() {
    let models = ScriptedModels::new(|call| match results(call) {
        0 => Line::Call("let me look ".into(), vec![("note".into(), r#"{"text":"1"}"#.into())]),
        _ => Line::Say("all is well\n\n- today \n".into()),
    });
    let tools = registry([Counter::default().tool("note", EffectClass::Pure)]);
    let engine = memory(&models, tools).build().await.unwrap();
    let thread = windlass::machine::ThreadId::from("t1");
    let updates = engine.thread(&thread).watch(Seq(0));
    // On this single-threaded runtime, the watcher is polled before the run begins.
    let watcher = tokio::spawn(collect(updates));
    let started = engine.start(Task { thread: Some(thread.clone()), ..task("go") }).await.unwrap();
    let (live, recorded, next) = watcher.await.unwrap();
    assert_eq!(live, recorded);
    assert_eq!(live, "let me look all is well\n\n- today \n");
    assert_eq!(engine.run(&started.run).wait().await.unwrap().status, Status::Done);
    // Late: the same events, read from the journal.
    let again = engine.thread(&thread).events(Seq(0), 100).await.unwrap();
    assert_eq!(again.len() as u64, next - 1);
}

/// The live text, the recorded text, and the position after the last event, when the thread is idle again.
async fn collect(
    mut updates: futures::stream::BoxStream<'static, Result<Update, StoreError>>,
) -> (String, String, u64) {
    let (mut live, mut recorded, mut next) = (String::new(), String::new(), 1);
    while let Some(update) = updates.next().await {
        match update.unwrap() {
            Update::Event(event) => {
                assert_eq!(event.seq.0, next, "events come in order, once each");
                next += 1;
                if let Fact::StepReplied { message, .. } = &event.event.fact {
                    recorded.push_str(&message.plain_text());
                }
            }
            Update::Delta { delta: Delta::Text { text, .. }, .. } => live.push_str(&text),
            Update::Status(ThreadStatus::Idle) if next > 1 => break,
            _ => {}
        }
    }
    (live, recorded, next)
}

#[tokio::test]
async fn a_watcher_that_reconnects_during_a_reply_gets_it_from_its_start() {
    let models = ScriptedModels::new(|_| Line::Hang("half a ".into()));
    let engine = memory(&models, windlass::registry()).build().await.unwrap();
    let started = engine.start(task("go")).await.unwrap();
    let mut updates = engine.thread(&started.thread).watch(Seq(0));
    let mut fragments = Vec::new();
    while fragments.len() < 2 {
        let update = updates.next().await.unwrap().unwrap();
        if matches!(update, Update::Delta { .. }) {
            fragments.push(update);
        }
    }
    let Update::Delta { seq, .. } = fragments[0] else { unreachable!() };
    let again = engine.thread(&started.thread).watch(seq);
    let told = again.filter(|update| std::future::ready(matches!(update, Ok(Update::Delta { .. }))));
    let told: Vec<_> = told.take(2).map(Result::unwrap).collect().await;
    assert_eq!(told, fragments);
    engine.run(&started.run).cancel(Principal::from("ann")).await.unwrap();
}

#[tokio::test]
async fn a_late_watcher_gets_each_event_once() {
    let models = ScriptedModels::new(|_| Line::Say("hello there".into()));
    let engine = memory(&models, windlass::registry()).build().await.unwrap();
    let thread = windlass::machine::ThreadId::from("t1");
    let mut updates = engine.thread(&thread).watch(Seq(0));
    // The journal has the whole run before the watcher reads it, and the bus signals it again.
    engine.run_task(Task { thread: Some(thread.clone()), ..task("hi") }).await.unwrap();
    let mut seen = Vec::new();
    while let Some(Some(update)) = updates.next().now_or_never() {
        if let Update::Event(event) = update.unwrap() {
            seen.push(event);
        }
    }
    assert_eq!(seen, engine.thread(&thread).events(Seq(0), 100).await.unwrap());
}

#[tokio::test]
async fn a_late_watcher_is_not_told_an_old_status() {
    let models = ScriptedModels::new(|_| Line::Say("hello there".into()));
    let engine = memory(&models, windlass::registry()).build().await.unwrap();
    let thread = windlass::machine::ThreadId::from("t1");
    let mut updates = engine.thread(&thread).watch(Seq(0));
    engine.run_task(Task { thread: Some(thread.clone()), ..task("hi") }).await.unwrap();
    let mut told = Vec::new();
    while let Some(Some(update)) = updates.next().now_or_never() {
        if let Update::Status(status) = update.unwrap() {
            told.push(status);
        }
    }
    assert_eq!(told, [ThreadStatus::Idle]);
}

#[tokio::test]
async fn fragments_are_shown_and_never_recorded() {
    let models = ScriptedModels::new(|call| match call.request.messages[0].plain_text().as_str() {
        "much" => Line::Say("word ".repeat(500)),
        _ => Line::Say("word".into()),
    });
    let engine = memory(&models, windlass::registry()).build().await.unwrap();
    let mut recorded = Vec::new();
    for text in ["little", "much"] {
        let outcome = engine.run_task(task(text)).await.unwrap();
        recorded.push(engine.thread(&outcome.thread).events(Seq(0), 1000).await.unwrap().len());
    }
    assert_eq!(recorded[0], recorded[1], "a long reply is as many events as a short one");
}

// rows: SK-G18
#[tokio::test]
async fn a_run_is_sent_its_message_and_the_journal_knows_the_rest() {
    let folder = tempfile::tempdir().unwrap();
    let heard = ScriptedModels::new(|call| {
        let texts = call.request.messages.iter().map(|message| message.plain_text());
        Line::Say(texts.collect::<Vec<_>>().join("|"))
    });
    let mut said = Vec::new();
    for text in ["one", "two", "three"] {
        let engine = super::stored(folder.path(), &heard, windlass::registry()).build().await.unwrap();
        let outcome = engine.run_task(Task { thread: Some("t1".into()), ..task(text) }).await.unwrap();
        said.push(outcome.text.unwrap());
    }
    assert_eq!(said, ["one", "one|one|two", "one|one|two|one|one|two|three"]);
}

// rows: SK-C12
#[tokio::test]
async fn cached_tokens_are_recorded_and_shown() {
    let models = ScriptedModels::new(|call| {
        let usage = Usage { input: Some(2_000), output: Some(5), cached: Some(1_024), ..Usage::default() };
        let (blocks, stop) = match results(call) {
            0 => {
                let asked = r#"{"text":"x"}"#.into();
                let call = ToolCall { id: "c".into(), name: "note".into(), asked, native: None };
                (vec![Block::ToolCall(call)], StopReason::ToolCalls)
            }
            _ => (vec![Block::text("done")], StopReason::End),
        };
        Line::Reply(Reply { blocks, stop, usage, model: None })
    });
    let tools = registry([Counter::default().tool("note", EffectClass::Pure)]);
    let engine = memory(&models, tools).build().await.unwrap();
    let outcome = engine.run_task(task("go")).await.unwrap();
    assert_eq!(outcome.figures.tokens.cache_read_input, Some(2_048));
    let events = engine.thread(&outcome.thread).events(Seq(0), 100).await.unwrap();
    let cached = events.iter().filter_map(|recorded| match &recorded.event.fact {
        Fact::StepReplied { usage, .. } => Some(usage.cached),
        _ => None,
    });
    assert_eq!(cached.collect::<Vec<_>>(), [Some(1_024); 2]);
}

// rows: SK-G14
#[tokio::test]
async fn the_end_of_a_run_is_recorded_once_with_its_figures() {
    let clock = Arc::new(ManualClock::new(Timestamp(1_000), 1));
    let slow = clock.clone();
    let models = ScriptedModels::new(move |call| {
        slow.advance_ms(700);
        match results(call) {
            0 => Line::tool("note", r#"{"text":"x"}"#),
            _ => Line::Say("done".into()),
        }
    });
    let tools = registry([Counter::default().tool("note", EffectClass::Pure)]);
    let engine = memory(&models, tools).clock(clock).build().await.unwrap();
    let outcome = engine.run_task(task("go")).await.unwrap();
    let events = engine.thread(&outcome.thread).events(Seq(0), 100).await.unwrap();
    let ends = events.iter().filter_map(|recorded| match &recorded.event.fact {
        Fact::RunFinished { status, totals, .. } => Some((recorded.event.run.clone(), *status, *totals)),
        _ => None,
    });
    let usage = Usage { input: Some(20), output: Some(10), ..Usage::default() };
    let totals = Totals {
        steps: 2,
        calls: 1,
        usage,
        cost: Some(MicroUsd(40)),
        duration_ms: 1_400,
        ttft_ms: Some(700),
        ..Totals::default()
    };
    assert_eq!(ends.collect::<Vec<_>>(), [(Some(outcome.run), RunStatus::Done, totals)]);
    assert_eq!(outcome.figures.duration_ms, 1_400);
}

/// A model that emits a fragment every 100 ms of its clock.
#[derive(Clone)]
struct Slow(Arc<ManualClock>, Arc<ModelInfo>);

impl Models for Slow {
    fn resolve(&self, _name: &ModelName) -> Result<Arc<dyn Model>, ModelError> {
        Ok(Arc::new(self.clone()))
    }
}

impl Model for Slow {
    fn info(&self) -> &ModelInfo {
        &self.1
    }

    fn stream(&self, _call: ModelCall) -> BoxStream<'static, Result<ModelEvent, ModelError>> {
        let thought = |part, text: &str| Delta::Reasoning { part, text: text.into() };
        let said = |part, text: &str| Delta::Text { part, text: text.into() };
        let fragments =
            [thought(0, "long "), thought(0, "and "), thought(1, "next"), thought(0, "long"), said(2, "so ")];
        let more = [said(2, "far"), thought(3, "last")];
        let reasoning = |text: &str| Block::Reasoning { text: text.into(), native: None };
        let blocks =
            vec![reasoning("long and long"), reasoning("next"), Block::text("so far"), reasoning("last")];
        let whole = Reply { blocks, stop: StopReason::End, usage: Usage::default(), model: None };
        let told = fragments.into_iter().chain(more).map(ModelEvent::Delta);
        let clock = self.0.clone();
        futures::stream::iter(told.chain([ModelEvent::Finished(Box::new(whole))]))
            .map(move |event| {
                clock.advance_ms(100);
                Ok(event)
            })
            .boxed()
    }
}

// rows: SK-U3
#[tokio::test]
async fn a_reply_says_how_long_each_of_its_thoughts_took() {
    let clock = Arc::new(ManualClock::new(Timestamp(1_000), 1));
    let models = Slow(clock.clone(), Arc::default());
    let engine = windlass::builder().models(Arc::new(models)).clock(clock).build().await.unwrap();
    let outcome = engine.run_task(task("go")).await.unwrap();
    let messages = engine.thread(&outcome.thread).messages(None, 10).await.unwrap();
    assert_eq!(messages[1].thoughts_ms, [300, 100, 100]);
    assert_eq!((messages[1].ttft_ms, messages[1].duration_ms), (Some(100), Some(800)));
}

// rows: SK-ST4, ZE-P8, SK-ST3
#[tokio::test]
async fn a_cancel_keeps_the_partial_text() {
    let models = ScriptedModels::new(|_| Line::Hang("half a ".into()));
    let engine = memory(&models, windlass::registry()).build().await.unwrap();
    let thread = windlass::machine::ThreadId::from("t1");
    let mut updates = engine.thread(&thread).watch(Seq(0));
    let started = engine.start(Task { thread: Some(thread), ..task("go") }).await.unwrap();
    while !matches!(updates.next().await, Some(Ok(Update::Delta { number: 2, .. }))) {}
    engine.run(&started.run).cancel(Principal::from("ann")).await.unwrap();
    let outcome = engine.run(&started.run).wait().await.unwrap();
    assert_eq!((outcome.status, outcome.output.as_deref()), (Status::Cancelled, Some("half a ")));
    assert!(outcome.cancelled);
    assert_eq!(outcome.errors[0].code, "CANCELLED");
}

// rows: OV-19
#[tokio::test]
async fn a_queued_message_runs_when_the_run_is_done() {
    let gate = Arc::new(tokio::sync::Notify::new());
    let opened = gate.clone();
    let tool = windlass::tool::FunctionTool::new("wait", "waits", move |_, _: super::Text| {
        let gate = opened.clone();
        async move {
            gate.notified().await;
            "waited".to_owned()
        }
    });
    let models = ScriptedModels::new(|call| {
        let last = call.request.messages.last().unwrap();
        match last.plain_text().as_str() {
            "first" => Line::tool("wait", r#"{"text":""}"#),
            text => Line::Say(format!("answer to {text}")),
        }
    });
    let engine = memory(&models, registry([tool])).build().await.unwrap();
    let first = engine.start(task("first")).await.unwrap();
    let second = Task { thread: Some(first.thread.clone()), ..task("second") };
    let queued = engine.start(second.clone()).await.unwrap();
    assert_eq!(engine.run(&queued.run).status().await.unwrap().status, Status::Queued);
    let (waiting, engine_too) = (queued.run.clone(), engine.clone());
    let waiting = tokio::spawn(async move { engine_too.run(&waiting).wait().await.unwrap() });
    tokio::task::yield_now().await;
    let busy = engine.start(Task { when_busy: WhenBusy::Reject, ..second }).await;
    assert!(busy.unwrap_err().to_string().contains("a run is active"));
    gate.notify_one();
    engine.run(&first.run).wait().await.unwrap();
    let outcome = waiting.await.unwrap();
    assert_eq!((&outcome.run, outcome.text.as_deref()), (&queued.run, Some("answer to second")));
    let runs = engine.runs(&RunQuery::of(&first.thread, 10)).await.unwrap();
    assert_eq!(runs[0].view.run, queued.run);
    assert_eq!(engine.run(&queued.run).wait().await.unwrap().text, outcome.text);
}

/// An engine in which the first run of thread `t1` waits for a person.
async fn busy() -> (windlass::Engine, windlass::Outcome, Task) {
    let models = ScriptedModels::new(|call| match results(call) {
        0 => Line::tool("write", r#"{"text":"x"}"#),
        _ => Line::Say(format!("{} messages", call.request.messages.len())),
    });
    let tools = registry([Counter::default().tool("write", EffectClass::Once)]);
    let engine = memory(&models, tools).auto_run(AutoRun::Ask).build().await.unwrap();
    let first = engine.run_task(Task { thread: Some("t1".into()), ..task("first") }).await.unwrap();
    let second = Task { thread: Some("t1".into()), id: Some("m2".into()), ..task("second") };
    (engine, first, second)
}

#[tokio::test]
async fn a_queued_run_whose_turn_does_not_come_is_said_to_be_queued() {
    let (engine, first, second) = busy().await;
    let queued = engine.start(second).await.unwrap().run;
    let waiting = tokio::spawn({
        let (engine, queued) = (engine.clone(), queued.clone());
        async move { engine.run(&queued).wait().await }
    });
    tokio::task::yield_now().await;
    engine.run(&first.run).cancel(Principal::from("ann")).await.unwrap();
    let outcome = waiting.await.unwrap().unwrap();
    assert_eq!((outcome.status, &outcome.run), (Status::Queued, &queued));
    engine.thread(&"t1".into()).queue().withdraw(&"m2".into(), "local".into()).await.unwrap();
    let gone = engine.run(&queued).wait().await.unwrap_err();
    assert_eq!(gone.to_string(), format!("run `{queued}` does not exist in this store"));
}

// rows: LM-R12, LM-A8
#[tokio::test]
async fn waiting_and_polling_return_the_same_status() {
    let (engine, first, second) = busy().await;
    let by = || Principal::from("ann");
    let queued = engine.start(second).await.unwrap().run;
    assert_eq!(statuses(&engine, &first.run).await, (Status::Paused, Status::Paused));
    assert_eq!(engine.run(&queued).status().await.unwrap().status, Status::Queued);
    engine
        .thread(&"t1".into())
        .answer(&first.interrupts[0].interrupt, Answer::Approve, party("ann"))
        .await
        .unwrap();
    assert_eq!(statuses(&engine, &first.run).await, (Status::Done, Status::Done));
    assert_eq!(statuses(&engine, &queued).await, (Status::Done, Status::Done));

    let models = ScriptedModels::new(|call| match results(call) {
        0 if call.request.messages.len() == 1 => Line::fail(FailureClass::Auth),
        _ => Line::Hang("half".into()),
    });
    let engine = memory(&models, windlass::registry()).build().await.unwrap();
    let failing = engine.run_task(Task { thread: Some("t2".into()), ..task("fail") }).await.unwrap();
    let hanging = engine.start(Task { thread: Some("t2".into()), ..task("hang") }).await.unwrap().run;
    assert_eq!(engine.run(&hanging).status().await.unwrap().status, Status::Running);
    engine.run(&hanging).cancel(by()).await.unwrap();
    assert_eq!(statuses(&engine, &failing.run).await, (Status::Failed, Status::Failed));
    assert_eq!(statuses(&engine, &hanging).await, (Status::Cancelled, Status::Cancelled));

    let none = "no-run".into();
    let (waited, looked) = (engine.run(&none).wait().await, engine.run(&none).status().await);
    assert_eq!(waited.unwrap_err().to_string(), "run `no-run` does not exist in this store");
    assert_eq!(looked.unwrap_err().to_string(), "run `no-run` does not exist in this store");
}

#[tokio::test]
async fn a_message_that_steers_ends_with_the_run_that_takes_it() {
    let (engine, first, second) = busy().await;
    let steering = engine.start(Task { when_busy: WhenBusy::Steer, ..second }).await.unwrap().run;
    let waiting = tokio::spawn({
        let engine = engine.clone();
        async move { engine.run(&steering).wait().await.unwrap() }
    });
    tokio::task::yield_now().await;
    let open = &first.interrupts[0].interrupt;
    engine.thread(&"t1".into()).answer(open, Answer::Approve, party("ann")).await.unwrap();
    let outcome = waiting.await.unwrap();
    assert_eq!((&outcome.run, outcome.text.as_deref()), (&first.run, Some("4 messages")));
}

// rows: LM-X14
#[tokio::test]
async fn what_comes_too_late_is_refused_with_words() {
    let models = ScriptedModels::new(|_| Line::Say("hello".into()));
    let engine = memory(&models, windlass::registry()).build().await.unwrap();
    let outcome = engine.run_task(task("hi")).await.unwrap();
    let thread = outcome.thread.clone();
    let before = engine.thread(&thread).events(Seq(0), 100).await.unwrap();
    let late = engine.run(&outcome.run).cancel(Principal::from("ann")).await.unwrap_err();
    assert_eq!(late.to_string(), format!("too late: run `{}` is closed", outcome.run));
    let answer = engine.thread(&thread).answer(&"nonsense".into(), Answer::Approve, party("ann")).await;
    assert_eq!(answer.unwrap_err().to_string(), "an open interrupt `nonsense` does not exist in this thread");
    let nothing =
        engine.thread(&"nowhere".into()).queue().withdraw(&"m".into(), "ann".into()).await.unwrap_err();
    assert_eq!(nothing.to_string(), "thread `nowhere` does not exist in this store");
    assert_eq!(engine.thread(&thread).events(Seq(0), 100).await.unwrap(), before);
}
