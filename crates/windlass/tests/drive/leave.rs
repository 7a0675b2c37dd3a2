//! A process that shuts down: it hands its threads to other processes and loses nothing that it could have saved.

use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use futures::FutureExt;
use tokio::sync::Notify;
use windlass::machine::{EffectClass, Fact, Outcome};
use windlass::port::tool::{CallContext, ToolOutput};
use windlass::testing::scripted::{Line, ScriptedModels, results};
use windlass::tool::FunctionTool;
use windlass::{Attend, Engine, EngineError, Status};

use super::{Counter, Text, registry, stored, task};

/// Longer than any step of these tests.
const LONG_MS: u64 = 30_000;

/// A tool with an effect that must not be repeated. It reports when it runs, and ends when released.
#[derive(Clone, Default)]
struct Slow {
    runs: Counter,
    at_work: Arc<Notify>,
    may_end: Arc<Notify>,
}

impl Slow {
    fn tool(&self) -> FunctionTool {
        let slow = self.clone();
        FunctionTool::new("slow", "takes its time", move |_: CallContext, _: Text| {
            let slow = slow.clone();
            async move {
                slow.runs.0.fetch_add(1, Ordering::SeqCst);
                slow.at_work.notify_one();
                slow.may_end.notified().await;
                ToolOutput::text("done once")
            }
        })
        .effect_class(EffectClass::Once)
    }
}

fn models() -> ScriptedModels {
    ScriptedModels::new(|call| match results(call) {
        0 => Line::tool("slow", r#"{"text":"x"}"#),
        _ => Line::Say("all done".into()),
    })
}

async fn engine(store: &std::path::Path, models: &ScriptedModels, slow: &Slow) -> Engine {
    stored(store, models, registry([slow.tool()])).build().await.unwrap()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_running_tool_completes_before_the_handover() {
    let (base, slow) = (tempfile::tempdir().unwrap(), Slow::default());
    let first = engine(base.path(), &models(), &slow).await;
    let started = first.start(task("go")).await.unwrap();
    slow.at_work.notified().await;
    let mut leaving = pin!(first.hand_over(LONG_MS));
    assert_eq!((&mut leaving).now_or_never(), None, "the tool is still at work");
    let refused = first.start(task("another")).await.unwrap_err();
    assert!(matches!(refused, EngineError::Stopped { .. }), "{refused}");
    slow.may_end.notify_one();
    assert_eq!(leaving.await, 0);

    // The first process is still alive and holds no thread.
    let second = stored(base.path(), &models(), registry([slow.tool()]));
    let second = second.attend(Attend::All).build().await.unwrap();
    let outcome = second.run(&started.run).wait().await.unwrap();
    assert_eq!(outcome.status, Status::Done, "{outcome:?}");
    let events = second.thread(&started.thread).events(Default::default(), 100).await.unwrap();
    let ends: Vec<_> = events
        .iter()
        .filter_map(|recorded| match &recorded.event.fact {
            Fact::ToolFinished { outcome, error, .. } => Some((*outcome, *error)),
            _ => None,
        })
        .collect();
    assert_eq!(ends, [(Outcome::Returned, false)]);
    assert_eq!(slow.runs.count(), 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_model_call_is_left_at_once_and_counts_as_no_try() {
    let (base, slow) = (tempfile::tempdir().unwrap(), Slow::default());
    let hanging = ScriptedModels::new(|_| Line::Hang(String::new()));
    let first = engine(base.path(), &hanging, &slow).await;
    let started = first.start(task("go")).await.unwrap();
    assert_eq!(first.hand_over(LONG_MS).await, 0);
    let says = ScriptedModels::new(|_| Line::Say("here".into()));
    let second = engine(base.path(), &says, &slow).await;
    second.run(&started.run).resume().await.unwrap();
    let outcome = second.run(&started.run).wait().await.unwrap();
    assert_eq!((outcome.status, outcome.figures.steps), (Status::Done, 1), "{outcome:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_model_call_that_many_processes_leave_in_order_does_not_end_its_run() {
    let (base, slow) = (tempfile::tempdir().unwrap(), Slow::default());
    let calls = Arc::new(Notify::new());
    let called = calls.clone();
    let hanging = ScriptedModels::new(move |_| {
        called.notify_one();
        Line::Hang(String::new())
    });
    let first = engine(base.path(), &hanging, &slow).await;
    let started = first.start(task("go")).await.unwrap();
    calls.notified().await;
    assert_eq!(first.hand_over(LONG_MS).await, 0);
    for _ in 0..4 {
        let next = engine(base.path(), &hanging, &slow).await;
        next.run(&started.run).resume().await.unwrap();
        tokio::select! {
            () = calls.notified() => {}
            ended = next.run(&started.run).wait() => panic!("{ended:?}"),
        }
        assert_eq!(next.hand_over(LONG_MS).await, 0);
    }
    let says = ScriptedModels::new(|_| Line::Say("here".into()));
    let last = engine(base.path(), &says, &slow).await;
    last.run(&started.run).resume().await.unwrap();
    let outcome = last.run(&started.run).wait().await.unwrap();
    assert_eq!((outcome.status, outcome.figures.steps), (Status::Done, 1), "{outcome:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_tool_that_does_not_end_does_not_block_the_handover() {
    let (base, slow) = (tempfile::tempdir().unwrap(), Slow::default());
    let first = engine(base.path(), &models(), &slow).await;
    first.start(task("go")).await.unwrap();
    slow.at_work.notified().await;
    assert_eq!(first.hand_over(20).await, 1);
}
