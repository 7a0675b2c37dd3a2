//! The gate as an embedding program sees it: approvals, questions, effects and budgets, over real stores, and with a
//! process that dies at any point.

mod api;
mod approval;
mod bank;
mod budget;
mod changed;
mod effect;
mod grant;
mod hook;
mod later;
mod line;
mod listing;
mod missing;
mod paths;
mod policy;
mod preview;
mod question;
mod rows;
mod sources;
mod spelling;
mod trial;
mod version;
mod waiting;

use std::sync::Arc;

use tokio::sync::Notify;
use windlass::clock::SystemClock;
use windlass::machine::{
    Annotations, Answer, AutoRun, Block, EffectClass, Fact, Given, InterruptId, Role, Seq, ThreadId,
};
use windlass::memory::MemoryStore;
use windlass::port::model::ModelCall;
use windlass::port::tool::CallContext;
use windlass::testing::scripted::{Line, ScriptedModels, results};
use windlass::tool::{FunctionTool, Registry};
use windlass::{Builder, Engine, Outcome, Status, Task};

use crate::drive::{Text, memory, task};

/// An engine over a store in memory, on which every call that changes something requires approval.
fn asking(store: &MemoryStore, models: &ScriptedModels, registry: Registry) -> Builder {
    let ports = Arc::new(store.clone());
    memory(models, registry).ports(ports.clone(), ports.clone(), ports).auto_run(AutoRun::Ask)
}

/// A task in a thread with a name.
fn task_in(thread: &str, text: &str) -> Task {
    Task { thread: Some(thread.into()), ..task(text) }
}

/// A runtime that is dropped with all its tasks, as when a process dies.
fn runtime() -> tokio::runtime::Runtime {
    tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap()
}

/// A model that makes these calls, step by step, and then repeats the last results.
fn plan(steps: &[&[(&str, &str)]]) -> ScriptedModels {
    let owned = |(name, text): &(&str, &str)| ((*name).to_owned(), format!(r#"{{"text":"{text}"}}"#));
    let steps: Vec<Vec<_>> = steps.iter().map(|calls| calls.iter().map(owned).collect()).collect();
    ScriptedModels::new(move |call| {
        let mut before = 0;
        for calls in &steps {
            if results(call) == before {
                return Line::Call(String::new(), calls.clone());
            }
            before += calls.len();
        }
        Line::Say(told(call))
    })
}

/// The texts of the newest results.
pub fn told(call: &ModelCall) -> String {
    let tool = call.request.messages.iter().rev().find(|message| message.role == Role::Tool);
    let mut texts = Vec::new();
    for block in tool.iter().flat_map(|message| &message.blocks) {
        if let Block::ToolResult(result) = block {
            let parts = result.content.iter().filter_map(|block| match block {
                Block::Text { text, .. } => text.inline(),
                _ => None,
            });
            texts.push(parts.collect::<Vec<_>>().join(" "));
        }
    }
    texts.join(" | ")
}

/// A tool that runs until released, and reports its start.
#[derive(Clone, Default)]
struct Held {
    begun: Arc<Notify>,
    go: Arc<Notify>,
}

impl Held {
    fn tool(&self, name: &str, class: EffectClass) -> FunctionTool {
        let held = self.clone();
        let tool = FunctionTool::new(name, "waits", move |_: CallContext, _: Text| {
            let held = held.clone();
            async move {
                held.begun.notify_one();
                held.go.notified().await;
                "let go"
            }
        });
        // The tools of these tests may run without approval.
        tool.annotations(Annotations { read_only_hint: true, ..Annotations::default() }).effect_class(class)
    }
}

/// A store in memory on the system's clock.
fn store() -> MemoryStore {
    MemoryStore::new(Arc::new(SystemClock::new()))
}

/// The interrupts that are open in a run, by their ids.
fn open(outcome: &Outcome) -> Vec<InterruptId> {
    assert_eq!(outcome.status, Status::Paused, "{outcome:?}");
    outcome.interrupts.iter().map(|open| open.interrupt.clone()).collect()
}

/// Waits until no driver in this process holds the thread.
async fn put_down(engine: &Engine, thread: &ThreadId) {
    while engine.thread(thread).is_driven() {
        tokio::task::yield_now().await;
    }
}

/// All facts of a thread's journal.
async fn facts(engine: &Engine, thread: &ThreadId) -> Vec<Fact> {
    let events = engine.thread(thread).events(Seq(0), 10_000).await.unwrap();
    events.into_iter().map(|recorded| recorded.event.fact).collect()
}

/// An answer to an interrupt, in a batch.
fn given(interrupt: &InterruptId, answer: Answer) -> Given {
    Given { interrupt: interrupt.clone(), answer, approval: None }
}
