//! Tools that block their thread: neither a cancel nor a timeout waits for them.
//!
//! The clock advances only manually. Each tool blocks until the test releases it, or until a time limit.

use std::sync::{Arc, Condvar, Mutex};
use std::time::Duration;

use tokio::sync::mpsc;
use windlass::clock::ManualClock;
use windlass::machine::{
    Block, EffectClass, Fact, Limits, Outcome as CallOutcome, Principal, Seq, Timestamp,
};
use windlass::testing::scripted::{Line, ScriptedModels, results};
use windlass::tool::FunctionTool;
use windlass::{AgentConfig, Engine, Started, Status, Task};

use super::{Text, memory, registry, task};

/// A gate that blocked tools wait for.
#[derive(Default)]
struct Gate {
    open: Mutex<bool>,
    opened: Condvar,
}

impl Gate {
    /// Blocks the thread. Returns whether the gate was opened.
    fn wait(&self) -> bool {
        let open = self.open.lock().unwrap();
        *self.opened.wait_timeout_while(open, Duration::from_secs(10), |open| !*open).unwrap().0
    }

    fn open(&self) {
        *self.open.lock().unwrap() = true;
        self.opened.notify_all();
    }
}

/// A fixture for one run whose only step calls a blocking tool several times.
struct Stage {
    engine: Engine,
    clock: Arc<ManualClock>,
    gate: Arc<Gate>,
    begun: mpsc::UnboundedReceiver<()>,
}

impl Stage {
    async fn new(class: EffectClass, calls: usize) -> Self {
        let (begin, begun) = mpsc::unbounded_channel();
        let gate = Arc::new(Gate::default());
        let held = gate.clone();
        let blocks = FunctionTool::new("block", "blocks its thread", move |_, _: Text| {
            let (begin, held) = (begin.clone(), held.clone());
            async move {
                begin.send(()).unwrap();
                if held.wait() { "let go" } else { "given up" }
            }
        });
        let models = ScriptedModels::new(move |call| match results(call) {
            0 => Line::Call(String::new(), vec![("block".into(), r#"{"text":"x"}"#.into()); calls]),
            _ => Line::Say("done".into()),
        });
        let clock = Arc::new(ManualClock::new(Timestamp(1_000), 1));
        let engine = memory(&models, registry([blocks.effect_class(class)])).clock(clock.clone());
        Self { engine: engine.build().await.unwrap(), clock, gate, begun }
    }

    /// Starts the run and waits until this many calls block.
    async fn start(&mut self, limits: Limits, calls: usize) -> Started {
        let agent = AgentConfig { limits, ..AgentConfig::from("test/scripted") };
        let started = self.engine.start(Task { agent, ..task("go") }).await.unwrap();
        for _ in 0..calls {
            self.begun.recv().await.unwrap();
        }
        started
    }

    /// Advances the clock until the run ends. Returns the outcomes of the run and of its calls.
    async fn end(&self, started: &Started) -> (Status, Vec<(CallOutcome, String)>) {
        let (engine, run) = (self.engine.clone(), started.run.clone());
        let waiting = tokio::spawn(async move { engine.run(&run).wait().await.unwrap() });
        while !waiting.is_finished() {
            self.clock.advance_ms(100);
            tokio::task::yield_now().await;
        }
        let events = self.engine.thread(&started.thread).events(Seq(0), 100).await.unwrap();
        let ended = events.iter().filter_map(|recorded| match &recorded.event.fact {
            Fact::ToolFinished { outcome, content, .. } => match &content[0] {
                Block::Text { text, .. } => Some((*outcome, text.inline().unwrap().to_owned())),
                other => panic!("{other:?}"),
            },
            _ => None,
        });
        let status = waiting.await.unwrap().status;
        // The runtime waits for its threads when it is dropped.
        self.gate.open();
        (status, ended.collect())
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_tool_that_blocks_its_thread_cannot_stop_the_cancel_of_its_run() {
    for (class, outcome, text) in [
        (EffectClass::Once, CallOutcome::InDoubt, "Outcome unknown: the run was stopped"),
        (EffectClass::Pure, CallOutcome::Cancelled, "Stopped: the run was stopped"),
    ] {
        let mut stage = Stage::new(class, 1).await;
        let started = stage.start(Limits::default(), 1).await;
        stage.engine.run(&started.run).cancel(Principal::from("ann")).await.unwrap();
        assert_eq!(stage.end(&started).await, (Status::Cancelled, vec![(outcome, text.to_owned())]));
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_tool_that_blocks_its_thread_runs_into_its_time_out() {
    let mut stage = Stage::new(EffectClass::Pure, 1).await;
    let started = stage.start(Limits { call_timeout_ms: 1_000, ..Limits::default() }, 1).await;
    let told = "Stopped: it took longer than 1000 ms".to_owned();
    assert_eq!(stage.end(&started).await, (Status::Done, vec![(CallOutcome::Returned, told)]));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn more_blocking_tools_than_threads_cannot_stop_a_cancel() {
    const CALLS: usize = 5;
    let mut stage = Stage::new(EffectClass::Pure, CALLS).await;
    let started = stage.start(Limits::default(), CALLS).await;
    stage.engine.run(&started.run).cancel(Principal::from("ann")).await.unwrap();
    let stopped = (CallOutcome::Cancelled, "Stopped: the run was stopped".to_owned());
    assert_eq!(stage.end(&started).await, (Status::Cancelled, vec![stopped; CALLS]));
}
