//! Inputs from outside: duplicates, unreadable ones, those that arrive at another process, or after a crash.

use std::sync::Arc;

use windlass::clock::SystemClock;
use windlass::machine::{EffectClass, Input, Principal, Seq};
use windlass::memory::MemoryStore;
use windlass::port::journal::RunQuery;
use windlass::testing::scripted::{Line, ScriptedModels, results};
use windlass::tool::{FunctionTool, Registry};
use windlass::{Engine, Status, Task};

use super::{Counter, Text, memory, registry, stored, task};

fn writes_once() -> ScriptedModels {
    ScriptedModels::new(|call| match results(call) {
        0 => Line::tool("write", r#"{"text":"x"}"#),
        _ => Line::Say("written".into()),
    })
}

#[tokio::test]
async fn a_task_that_is_sent_again_leads_to_the_run_of_the_first() {
    let written = Counter::default();
    let tools = registry([written.tool("write", EffectClass::Once)]);
    let engine = memory(&writes_once(), tools).build().await.unwrap();
    let task = Task { thread: Some("t1".into()), id: Some("m1".into()), ..task("go") };
    let sent = futures::future::join_all((0..3).map(|_| engine.start(task.clone()))).await;
    let first = sent[0].as_ref().unwrap();
    assert!(sent.iter().all(|sent| sent.as_ref().unwrap() == first), "{sent:?}");
    assert_eq!(engine.run(&first.run).wait().await.unwrap().status, Status::Done);
    // Also when the run has ended and no process drives the thread.
    assert_eq!(engine.start(task).await.unwrap(), *first);
    assert_eq!(engine.runs(&RunQuery::of(&"t1".into(), 10)).await.unwrap().len(), 1);
    assert_eq!(written.count(), 1);
}

#[tokio::test]
async fn only_the_driver_may_send_driver_inputs() {
    let models = ScriptedModels::new(|_| Line::Say("hello".into()));
    let engine = memory(&models, windlass::registry()).build().await.unwrap();
    let outcome = engine.run_task(task("go")).await.unwrap();
    let refused =
        engine.thread(&outcome.thread).send(Input::Tick { confirmed: Vec::new() }).await.unwrap_err();
    assert_eq!(refused.to_string(), "only a thread's driver may report that");
}

#[tokio::test]
async fn an_input_that_cannot_be_read_is_refused_and_holds_nothing_up() {
    let folder = tempfile::tempdir().unwrap();
    let models = ScriptedModels::new(|_| Line::Say("hello".into()));
    let engine = stored(folder.path(), &models, windlass::registry()).build().await.unwrap();
    let to = |text: &str| Task { thread: Some("t1".into()), ..task(text) };
    engine.run_task(to("first")).await.unwrap();
    let database = rusqlite::Connection::open(folder.path().join("windlass.db")).unwrap();
    let left = "INSERT INTO inbox (number, id, input) SELECT number, 'new', '{\"input\":\"of_tomorrow\"}' FROM threads";
    database.execute_batch(left).unwrap();
    assert_eq!(engine.run_task(to("second")).await.unwrap().status, Status::Done);
    let of_new = "SELECT outcome FROM inbox WHERE id = 'new'";
    let outcome: String = database.query_row(of_new, [], |row| row.get(0)).unwrap();
    assert!(outcome.contains("cannot be read") && outcome.contains("of_tomorrow"), "{outcome}");
}

/// Drives a run until its tool hangs, then drops the process.
fn die_in_a_tool(store: &MemoryStore) -> windlass::Started {
    let hangs = FunctionTool::new("write", "hangs", |_, _: Text| std::future::pending::<String>());
    let tools = registry([hangs.effect_class(EffectClass::Idempotent)]);
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    runtime.block_on(async {
        let engine = over(store, tools).await;
        let started = engine.start(Task { thread: Some("t1".into()), ..task("go") }).await.unwrap();
        let begun = |events: &[windlass::port::journal::Recorded]| {
            events.iter().any(|recorded| recorded.event.encode().contains("tool.started"))
        };
        while !begun(&engine.thread(&started.thread).events(Seq(0), 100).await.unwrap()) {
            tokio::task::yield_now().await;
        }
        started
    })
}

async fn over(store: &MemoryStore, tools: Registry) -> Engine {
    let store = Arc::new(store.clone());
    memory(&writes_once(), tools).ports(store.clone(), store.clone(), store).build().await.unwrap()
}

#[test]
fn a_cancel_of_a_crashed_run_starts_nothing_again() {
    let store = MemoryStore::new(Arc::new(SystemClock::new()));
    let started = die_in_a_tool(&store);
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    runtime.block_on(async {
        let again = Counter::default();
        let tools = registry([again.tool("write", EffectClass::Idempotent)]);
        let engine = over(&store.restarted(), tools).await;
        engine.run(&started.run).cancel(Principal::from("ann")).await.unwrap();
        assert_eq!(engine.run(&started.run).wait().await.unwrap().status, Status::Cancelled);
        assert_eq!(again.count(), 0);
    });
}
