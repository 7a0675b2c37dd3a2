//! Waiting runs are rows: a process that sweeps all threads holds none of them.

use std::pin::Pin;
use std::sync::Arc;

use windlass::clock::ManualClock;
use windlass::machine::{Answer, AutoRun, Content, EffectClass, InterruptId, Timestamp};
use windlass::memory::MemoryStore;
use windlass::port::journal::{Epoch, Journal, ThreadQuery, ThreadStatus};
use windlass::sqlite::{Durability, SqliteFolder, SqliteStore, StoreOptions};
use windlass::testing::scripted::{Line, ScriptedModels, results};
use windlass::{AgentConfig, Attend, Builder, Status, Task};

use super::{Held, asking, given, open, plan, put_down, store, task_in};
use crate::drive::{Counter, memory, party, registry, task};

#[tokio::test]
async fn a_server_over_many_waiting_runs_drives_none_until_one_is_answered() {
    const RUNS: usize = 200;
    let folder = tempfile::tempdir().unwrap();
    let clock = Arc::new(ManualClock::new(Timestamp(1_000), 1));
    let written = Counter::default();
    let relaxed = StoreOptions { durability: Durability::Relaxed, ..StoreOptions::default() };
    let built = || -> Builder {
        let tools = registry([written.tool("write", EffectClass::Once)]);
        let models = plan(&[&[("write", "a")]]);
        let engine = memory(&models, tools).store(SqliteFolder::new(folder.path()).options(relaxed));
        engine.auto_run(AutoRun::Ask).clock(clock.clone())
    };
    let first = built().build().await.unwrap();
    let mut last = None;
    for _ in 0..RUNS {
        last = Some(first.run_task(task("go")).await.unwrap());
    }
    let last = last.unwrap();
    put_down(&first, &last.thread).await;
    drop(first);
    let server = built().attend(Attend::All).build().await.unwrap();
    let all = ThreadQuery { limit: RUNS + 1, ..ThreadQuery::default() };
    for _ in 0..5 {
        clock.advance_ms(1_000);
        for _ in 0..20 {
            tokio::task::yield_now().await;
        }
        let rows = server.threads(&all).await.unwrap();
        assert_eq!(rows.iter().filter(|row| row.view.status == ThreadStatus::Waiting).count(), RUNS);
        assert!(rows.iter().all(|row| !server.thread(&row.thread).is_driven()));
    }
    // None was even claimed.
    let store = SqliteStore::open(folder.path(), relaxed, clock.clone()).await.unwrap();
    for row in server.threads(&all).await.unwrap() {
        assert_eq!(store.head(&row.thread).await.unwrap().unwrap().epoch, Epoch(1));
    }
    let asked = open(&last).remove(0);
    server.thread(&last.thread).answer(&asked, Answer::Approve, party("ann")).await.unwrap();
    assert_eq!(server.run(&last.run).wait().await.unwrap().status, Status::Done);
    assert_eq!(written.count(), 1);
}

/// A row without a wake signal is found by the sweep, however often other signals wake the sweeper.
#[tokio::test]
async fn frequent_wake_signals_do_not_delay_the_sweep() {
    let clock = Arc::new(ManualClock::new(Timestamp(1_000), 1));
    let store = MemoryStore::new(clock.clone());
    let written = Counter::default();
    let built = |store: &MemoryStore| {
        let tools = registry([written.tool("write", EffectClass::Once)]);
        asking(store, &plan(&[&[("write", "a")]]), tools).clock(clock.clone())
    };
    let first = built(&store).build().await.unwrap();
    let waits = first.run_task(task_in("t", "go")).await.unwrap();
    first.run_task(task_in("loud", "go")).await.unwrap();
    for thread in ["t", "loud"] {
        put_down(&first, &thread.into()).await;
    }
    let server = built(&store.another_node()).attend(Attend::All).build().await.unwrap();
    let yes = |interrupt: InterruptId| vec![given(&interrupt, Answer::Approve)];
    first.thread(&"t".into()).leave_answers(yes(open(&waits).remove(0)), party("ann")).await.unwrap();
    let mut passed_ms = 0;
    while written.count() == 0 {
        assert!(passed_ms < 1_500, "it was not swept");
        passed_ms += 100;
        clock.advance_ms(100);
        server.thread(&"loud".into()).leave_answers(yes("none".into()), party("ann")).await.unwrap();
        for _ in 0..50 {
            tokio::task::yield_now().await;
        }
    }
    assert!(passed_ms >= 900, "swept after {passed_ms} ms");
}

/// Requests a write first, then reports the model, instructions and tools of the request.
fn says_by_what_it_was_asked() -> ScriptedModels {
    ScriptedModels::new(|call| {
        if results(call) == 0 {
            return Line::tool("write", r#"{"text":"a"}"#);
        }
        let system: Vec<_> = call.request.system.iter().filter_map(Content::inline).collect();
        let tools: Vec<_> = call.tools.iter().map(|tool| tool.name.as_str()).collect();
        Line::Say(format!("{} {} {}", call.request.model, system.join("/"), tools.join("+")))
    })
}

// rows: ZE-E6
#[tokio::test]
async fn a_resumed_run_keeps_the_agent_it_started_with() {
    let agent = |name: &str| AgentConfig {
        name: name.into(),
        models: vec![format!("test/{name}").as_str().into()],
        instructions: vec![format!("You are {name}.")],
        ..AgentConfig::from("test/x")
    };
    let written = Counter::default();
    let tools = |more: &str| registry(["write", more].map(|name| written.tool(name, EffectClass::Once)));
    let store = super::store();
    let models = says_by_what_it_was_asked();
    let before = asking(&store, &models, tools("look")).build().await.unwrap();
    let waits = before.run_task(Task { agent: agent("old"), ..task_in("t", "go") }).await.unwrap();
    put_down(&before, &"t".into()).await;
    drop(before);

    let after = asking(&store.another_node(), &models, tools("other")).build().await.unwrap();
    let yes = open(&waits).remove(0);
    after.thread(&"t".into()).answer(&yes, Answer::Approve, party("ann")).await.unwrap();
    let done = after.run(&waits.run).wait().await.unwrap();
    assert_eq!(done.text.as_deref(), Some("test/old You are old. look+write"));

    let waits = after.run_task(Task { agent: agent("new"), ..task_in("u", "go") }).await.unwrap();
    after.thread(&"u".into()).answer(&open(&waits).remove(0), Answer::Approve, party("ann")).await.unwrap();
    let done = after.run(&waits.run).wait().await.unwrap();
    assert_eq!(done.text.as_deref(), Some("test/new You are new. other+write"));
}

/// A waiter may read the update that a run waits after the answer.
#[tokio::test]
async fn a_waiter_that_reads_late_does_not_return_a_run_that_has_its_answer() {
    let (store, held, written) = (store(), Held::default(), Counter::default());
    let tools =
        registry([held.tool("slow", EffectClass::Idempotent), written.tool("write", EffectClass::Once)]);
    let steps: &[&[(&str, &str)]] = &[&[("slow", "")], &[("write", "a")], &[("slow", "")]];
    let engine = asking(&store, &plan(steps), tools).build().await.unwrap();
    let started = engine.start(task_in("t", "go")).await.unwrap();
    held.begun.notified().await;
    let mut wait = Box::pin(engine.run(&started.run).wait());
    assert!(is_pending(wait.as_mut()).await, "the first call runs");
    held.go.notify_one();
    let interrupt = loop {
        let outcome = engine.run(&started.run).status().await.unwrap();
        if outcome.status == Status::Paused {
            break open(&outcome).remove(0);
        }
        tokio::task::yield_now().await;
    };
    engine.thread(&"t".into()).answer(&interrupt, Answer::Approve, party("local")).await.unwrap();
    held.begun.notified().await;
    assert!(is_pending(wait.as_mut()).await, "the last call runs");
    held.go.notify_one();
    assert_eq!(wait.await.unwrap().status, Status::Done);
}

/// Whether a future is still pending after several polls.
async fn is_pending<F: Future>(mut future: Pin<&mut F>) -> bool {
    for _ in 0..100 {
        if futures::poll!(future.as_mut()).is_ready() {
            return false;
        }
        tokio::task::yield_now().await;
    }
    true
}
