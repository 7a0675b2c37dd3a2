//! Calls of tools that only their run has, in processes that lack them: they wait, and resume where the tool exists.

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

use async_trait::async_trait;
use serde_json::Value;
use tokio::sync::Notify;
use windlass::clock::ManualClock;
use windlass::machine::{AutoRun, EffectClass, Fact, InterruptKind, RunId, Timestamp, ToolSpec};
use windlass::port::journal::ThreadStatus;
use windlass::port::tool::{CallContext, Deferral, Tool, ToolOutcome, ToolTraits};
use windlass::testing::scripted::{Line, ScriptedModels, results};
use windlass::tool::FunctionTool;
use windlass::{Attend, Builder, RunTools, Status, Task};

use super::later::{pass, settle, status};
use super::{facts, plan, put_down, runtime, task_in, told};
use crate::drive::{Text, stored};

/// A tool of a run that counts its executions.
#[derive(Clone, Default)]
struct Own {
    starts: Arc<AtomicU32>,
    begun: Arc<Notify>,
    hangs: bool,
    after_ms: Option<u64>,
}

impl Own {
    fn tool(&self, class: EffectClass) -> Arc<dyn Tool> {
        let own = self.clone();
        let tool = FunctionTool::new("own", "the run's", move |context: CallContext, _: Text| {
            let own = own.clone();
            async move {
                own.starts.fetch_add(1, Ordering::Relaxed);
                own.begun.notify_one();
                if own.hangs {
                    std::future::pending::<()>().await;
                }
                match own.after_ms.filter(|_| context.resumed.is_none()) {
                    Some(after_ms) => {
                        let rest = windlass::machine::Rest::AsTheCall;
                        ToolOutcome::defer(Deferral { after_ms, state: None, rest })
                    }
                    None => ToolOutcome::text("the run's own"),
                }
            }
        });
        Arc::new(tool.effect_class(class))
    }

    fn starts(&self) -> u32 {
        self.starts.load(Ordering::Relaxed)
    }
}

/// The same tool as one of a server that the run has added.
struct OfServer(Arc<dyn Tool>);

#[async_trait]
impl Tool for OfServer {
    fn spec(&self) -> &ToolSpec {
        self.0.spec()
    }
    fn traits(&self) -> ToolTraits<'_> {
        ToolTraits { class: self.0.traits().class, server: Some("crm"), ..ToolTraits::default() }
    }
    async fn call(&self, context: CallContext, arguments: Value) -> ToolOutcome {
        self.0.call(context, arguments).await
    }
}

/// A model that loads the run's own toolset before it calls the tool.
fn loading() -> ScriptedModels {
    ScriptedModels::new(|call| match results(call) {
        0 => Line::tool("load_toolset", r#"{"toolset":"crm","include_write_tools":true}"#),
        1 => Line::tool("own", r#"{"text":"a"}"#),
        _ => Line::Say(told(call)),
    })
}

fn models() -> ScriptedModels {
    plan(&[&[("own", "a")]])
}

fn built(folder: &Path, clock: &Arc<ManualClock>) -> Builder {
    built_on(&models(), folder, clock)
}

/// Loads the tools of all servers first.
fn built_on(models: &ScriptedModels, folder: &Path, clock: &Arc<ManualClock>) -> Builder {
    let engine = stored(folder, models, windlass::registry()).clock(clock.clone());
    engine.auto_run(AutoRun::Everything).attend(Attend::All).shown_tokens(0)
}

/// A process without the tool drives the thread for a while: no call starts, and the status names the missing tool.
async fn without(folder: &Path, clock: &Arc<ManualClock>, run: &RunId) {
    waits_for("own", built(folder, clock), clock, run).await;
}

async fn waits_for(tool: &str, builder: Builder, clock: &Arc<ManualClock>, run: &RunId) {
    let engine = builder.build().await.unwrap();
    for _ in 0..5 {
        clock.advance_ms(30_000);
        settle().await;
    }
    // While it is being checked again, it counts as running.
    let mut told = None;
    pass(clock, async || {
        let outcome = engine.run(run).status().await.unwrap();
        told = Some(outcome).filter(|outcome| outcome.status == Status::Paused);
        told.is_some()
    })
    .await;
    let outcome = told.unwrap();
    assert_eq!(outcome.missing_tools, [tool]);
    let told = format!("a process that has its own tools: `{tool}`");
    assert!(outcome.text.unwrap().contains(&told));
    assert!(outcome.interrupts.is_empty());
    let before = facts(&engine, &"t".into()).await.len();
    for _ in 0..5 {
        clock.advance_ms(30_000);
        settle().await;
    }
    assert_eq!(facts(&engine, &"t".into()).await.len(), before, "looking again writes nothing");
    // A waiting caller gets the same status, and does not wait for ever.
    let waited = engine.run(run).wait();
    let mut waited = Box::pin(waited);
    let waited = loop {
        tokio::select! {
            biased;
            outcome = &mut waited => break outcome.unwrap(),
            () = settle() => clock.advance_ms(1_000),
        }
    };
    assert_eq!((waited.status, waited.missing_tools), (Status::Paused, vec![tool.to_owned()]));
}

/// A process with the tool: the run resumes there automatically.
async fn with(folder: &Path, clock: &Arc<ManualClock>, tool: Arc<dyn Tool>, run: &RunId) {
    check_run_completes(built(folder, clock), clock, tool, run).await;
}

async fn check_run_completes(builder: Builder, clock: &Arc<ManualClock>, tool: Arc<dyn Tool>, run: &RunId) {
    let engine = builder.tools_of(move |_, _| Ok(vec![tool.clone()])).build().await.unwrap();
    pass(clock, async || status(&engine).await == ThreadStatus::Idle).await;
    let outcome = engine.run(run).status().await.unwrap();
    assert_eq!(
        (outcome.status, outcome.text.as_deref()),
        (Status::Done, Some("the run's own")),
        "{outcome:?}"
    );
    assert!(outcome.missing_tools.is_empty());
}

// rows: LM-I7
#[test]
fn a_call_that_is_due_waits_for_a_process_that_has_its_tool() {
    for class in [EffectClass::Once, EffectClass::Pure] {
        let folder = tempfile::tempdir().unwrap();
        let clock = Arc::new(ManualClock::new(Timestamp(1_000), 1));
        let own = Own { after_ms: Some(60_000), ..Own::default() };
        let run = runtime().block_on(async {
            let engine = built(folder.path(), &clock).build().await.unwrap();
            let task = Task { tools: RunTools::beside(vec![own.tool(class)]), ..task_in("t", "go") };
            let started = engine.start(task).await.unwrap();
            pass(&clock, async || status(&engine).await == ThreadStatus::Sleeping).await;
            put_down(&engine, &started.thread).await;
            started.run
        });
        runtime().block_on(without(folder.path(), &clock, &run));
        assert_eq!(own.starts(), 1);
        runtime().block_on(with(folder.path(), &clock, own.tool(class), &run));
        assert_eq!(own.starts(), 2);
    }
}

#[test]
fn a_call_that_was_lost_waits_where_it_may_be_repeated_and_is_in_doubt_elsewhere() {
    for class in [EffectClass::Pure, EffectClass::Keyed, EffectClass::Once] {
        let folder = tempfile::tempdir().unwrap();
        let clock = Arc::new(ManualClock::new(Timestamp(1_000), 1));
        let own = Own { hangs: true, ..Own::default() };
        let run = runtime().block_on(async {
            let engine = built(folder.path(), &clock).build().await.unwrap();
            let task = Task { tools: RunTools::beside(vec![own.tool(class)]), ..task_in("t", "go") };
            let started = engine.start(task).await.unwrap();
            own.begun.notified().await;
            started.run
        });
        let own = Own { hangs: false, ..own };
        if class == EffectClass::Once {
            runtime().block_on(async {
                let engine = built(folder.path(), &clock).build().await.unwrap();
                pass(&clock, async || status(&engine).await == ThreadStatus::Waiting).await;
                let outcome = engine.run(&run).status().await.unwrap();
                assert!(matches!(outcome.interrupts[0].kind, InterruptKind::InDoubt { .. }));
            });
            continue;
        }
        runtime().block_on(without(folder.path(), &clock, &run));
        assert_eq!(own.starts(), 1);
        runtime().block_on(with(folder.path(), &clock, own.tool(class), &run));
        assert_eq!(own.starts(), 2);
    }
}

#[test]
fn a_call_that_a_model_makes_where_its_tool_is_not_is_judged_where_it_is_and_can_be_cancelled() {
    for cancels in [false, true] {
        let folder = tempfile::tempdir().unwrap();
        let clock = Arc::new(ManualClock::new(Timestamp(1_000), 1));
        let own = Own::default();
        let run = runtime().block_on(async {
            // The process dies before its model has replied.
            let models = ScriptedModels::new(|_| Line::Hang(String::new()));
            let engine = stored(folder.path(), &models, windlass::registry()).clock(clock.clone());
            let engine = engine.build().await.unwrap();
            let task =
                Task { tools: RunTools::beside(vec![own.tool(EffectClass::Once)]), ..task_in("t", "go") };
            engine.start(task).await.unwrap().run
        });
        runtime().block_on(without(folder.path(), &clock, &run));
        if cancels {
            runtime().block_on(async {
                let engine = built(folder.path(), &clock).build().await.unwrap();
                engine.run(&run).cancel("ann".into()).await.unwrap();
                pass(&clock, async || status(&engine).await == ThreadStatus::Idle).await;
                assert_eq!(engine.run(&run).status().await.unwrap().status, Status::Cancelled);
                let said = facts(&engine, &"t".into()).await;
                assert!(
                    said.iter().any(|fact| format!("{fact:?}").contains("Not run: the run was cancelled"))
                );
                assert!(!said.iter().any(|fact| matches!(fact, Fact::ToolStarted { .. })));
            });
        } else {
            runtime().block_on(with(folder.path(), &clock, own.tool(EffectClass::Once), &run));
        }
        assert_eq!(own.starts(), u32::from(!cancels));
    }
}

// rows: LM-I7
#[test]
fn a_call_of_a_tool_that_was_loaded_or_is_to_be_waits_for_a_process_that_has_it() {
    for dies_before_it_loads in [false, true] {
        let folder = tempfile::tempdir().unwrap();
        let clock = Arc::new(ManualClock::new(Timestamp(1_000), 1));
        let own = Own { after_ms: Some(60_000), ..Own::default() };
        let tool: Arc<dyn Tool> = Arc::new(OfServer(own.tool(EffectClass::Once)));
        let builder = || built_on(&loading(), folder.path(), &clock);
        let run = runtime().block_on(async {
            let task = Task { tools: RunTools::beside(vec![tool.clone()]), ..task_in("t", "go") };
            if dies_before_it_loads {
                let models = ScriptedModels::new(|_| Line::Hang(String::new()));
                let engine = built_on(&models, folder.path(), &clock).build().await.unwrap();
                return engine.start(task).await.unwrap().run;
            }
            let engine = builder().build().await.unwrap();
            let started = engine.start(task).await.unwrap();
            pass(&clock, async || status(&engine).await == ThreadStatus::Sleeping).await;
            put_down(&engine, &started.thread).await;
            started.run
        });
        let missing = if dies_before_it_loads { "load_toolset" } else { "own" };
        runtime().block_on(waits_for(missing, builder(), &clock, &run));
        assert_eq!(own.starts(), u32::from(!dies_before_it_loads));
        runtime().block_on(check_run_completes(builder(), &clock, tool, &run));
        assert_eq!(own.starts(), 2);
    }
}

#[test]
fn a_run_that_can_only_talk_waits_for_nothing_that_its_conversation_has_loaded() {
    let folder = tempfile::tempdir().unwrap();
    let clock = Arc::new(ManualClock::new(Timestamp(1_000), 1));
    let tool: Arc<dyn Tool> = Arc::new(OfServer(Own::default().tool(EffectClass::Pure)));
    let built = |models: &ScriptedModels| {
        let tools = windlass::registry().add(tool.clone()).unwrap();
        built_on(models, folder.path(), &clock).tools(tools)
    };
    let run = runtime().block_on(async {
        let models = ScriptedModels::new(|call| match (call.tools.is_empty(), results(call)) {
            // The process dies before its model has replied.
            (true, _) => Line::Hang(String::new()),
            (false, 0) => Line::tool("load_toolset", r#"{"toolset":"crm","include_write_tools":true}"#),
            (false, _) => Line::Say("loaded".into()),
        });
        let engine = built(&models).build().await.unwrap();
        let loaded = engine.run_task(task_in("t", "go")).await.unwrap();
        assert_eq!(loaded.text.as_deref(), Some("loaded"));
        let talk = Task { tools: RunTools::Nothing, ..task_in("t", "talk") };
        engine.start(talk).await.unwrap().run
    });
    runtime().block_on(async {
        let models = ScriptedModels::new(|call| match results(call) {
            1 => Line::tool("own", r#"{"text":"a"}"#),
            _ => Line::Say(told(call)),
        });
        let engine = built(&models).build().await.unwrap();
        pass(&clock, async || status(&engine).await == ThreadStatus::Idle).await;
        let outcome = engine.run(&run).status().await.unwrap();
        let told = r#"{"error":"Unknown tool: own"}"#;
        assert_eq!((outcome.status, outcome.text.as_deref()), (Status::Done, Some(told)));
    });
}
