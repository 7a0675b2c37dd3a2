//! Several engines on one SQLite store, like several processes on one machine.
//!
//! Each engine has a separate node with a lock and a socket.

use std::sync::Arc;

use futures::StreamExt;
use windlass::machine::{Answer, AutoRun, EffectClass, Fact, Given, Principal, Seq, ThreadId};
use windlass::port::journal::RunQuery;
use windlass::testing::scripted::{Line, ScriptedModels, results};
use windlass::tool::{FunctionTool, WorkingFolder};
use windlass::{Attend, Status, Task, Update};

use super::{Counter, Text, party, registry, stored, task};

fn asks() -> ScriptedModels {
    ScriptedModels::new(|call| match results(call) {
        0 => Line::tool("write", r#"{"text":"x"}"#),
        _ => Line::Say("written".into()),
    })
}

// rows: SK-G2, SK-G21, LM-G5
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_run_that_waits_is_answered_and_driven_by_another_process() {
    let folder = tempfile::tempdir().unwrap();
    let models = asks();
    let (first, second) = (Counter::default(), Counter::default());
    let a = stored(folder.path(), &models, registry([first.tool("write", EffectClass::Once)]));
    let a = a.auto_run(AutoRun::Ask).build().await.unwrap();
    let outcome = a.run_task(task("go")).await.unwrap();
    assert_eq!(outcome.status, Status::Paused);
    let b = stored(folder.path(), &models, registry([second.tool("write", EffectClass::Once)]));
    let b = b.auto_run(AutoRun::Ask).build().await.unwrap();
    let (thread, open) = (&outcome.thread, &outcome.interrupts[0].interrupt);
    b.thread(thread).answer(open, Answer::Approve, party("ann")).await.unwrap();
    // The first process sees the end of the run, although it does not drive it.
    assert_eq!(a.run(&outcome.run).wait().await.unwrap().text.as_deref(), Some("written"));
    assert_eq!(first.count() + second.count(), 1);
    assert_eq!(models.calls(), 2, "the call that waited is not asked for again");
    let twice = b.thread(thread).answer(open, Answer::Approve, party("bob")).await.unwrap_err();
    assert!(twice.to_string().starts_with("too late: "), "{twice}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_server_processes_an_answer_from_the_inbox() {
    let folder = tempfile::tempdir().unwrap();
    let tools = || registry([Counter::default().tool("write", EffectClass::Once)]);
    let ask = stored(folder.path(), &asks(), tools()).auto_run(AutoRun::Ask).build().await.unwrap();
    let outcome = ask.run_task(task("go")).await.unwrap();
    let (thread, open) = (&outcome.thread, &outcome.interrupts[0].interrupt);
    let given = Given { interrupt: open.clone(), answer: Answer::Approve, approval: None };
    ask.thread(thread).leave_answers(vec![given], party("ann")).await.unwrap();
    assert_eq!(ask.run(&outcome.run).status().await.unwrap().status, Status::Paused, "a row drives nothing");
    let server = stored(folder.path(), &asks(), tools()).auto_run(AutoRun::Ask).attend(Attend::All);
    let server = server.build().await.unwrap();
    let mut updates = server.thread(thread).watch(Seq(0));
    let finished = |update: &Update| matches!(update, Update::Event(recorded) if matches!(recorded.event.fact, Fact::RunFinished { .. }));
    while !finished(&updates.next().await.unwrap().unwrap()) {}
    assert_eq!(ask.run(&outcome.run).status().await.unwrap().text.as_deref(), Some("written"));
}

#[test]
fn a_server_takes_up_what_a_dead_process_left_without_being_asked() {
    let folder = tempfile::tempdir().unwrap();
    let runtime = || tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let server = runtime();
    let written = Counter::default();
    let tools = registry([written.tool("write", EffectClass::Idempotent)]);
    let attending = server
        .block_on(async { stored(folder.path(), &asks(), tools).attend(Attend::All).build().await.unwrap() });
    let dying = runtime();
    let started = dying.block_on(async {
        let hangs = FunctionTool::new("write", "hangs", |_, _: Text| std::future::pending::<String>());
        let tools = registry([hangs.effect_class(EffectClass::Idempotent)]);
        let engine = stored(folder.path(), &asks(), tools).build().await.unwrap();
        let started = engine.start(task("go")).await.unwrap();
        let begun = |events: Vec<windlass::port::journal::Recorded>| {
            events.iter().any(|recorded| matches!(recorded.event.fact, Fact::ToolStarted { .. }))
        };
        while !begun(engine.thread(&started.thread).events(Seq(0), 100).await.unwrap()) {
            tokio::task::yield_now().await;
        }
        started
    });
    drop(dying);
    server.block_on(async {
        // Only watches: waiting for the run would resume it.
        let mut updates = attending.thread(&started.thread).watch(Seq(0));
        let finished = |update: &Update| matches!(update, Update::Event(recorded) if matches!(recorded.event.fact, Fact::RunFinished { .. }));
        while !finished(&updates.next().await.unwrap().unwrap()) {}
    });
    assert_eq!(written.count(), 1);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_thread_that_cannot_be_opened_is_left_to_others() {
    let folder = tempfile::tempdir().unwrap();
    let models = ScriptedModels::new(|_| Line::Say("hello".into()));
    let engine = stored(folder.path(), &models, windlass::registry()).build().await.unwrap();
    let outcome = engine.run_task(task("go")).await.unwrap();
    let database = rusqlite::Connection::open(folder.path().join("windlass.db")).unwrap();
    let newer = "UPDATE events SET checksum = NULL, body = replace(body, '{\"at\"', '{\"v\":99,\"at\"')";
    database.execute_batch(newer).unwrap();
    let again = Task { thread: Some(outcome.thread.clone()), ..task("again") };
    engine.start(again).await.unwrap_err();
    let holder: Option<String> =
        database.query_row("SELECT node FROM threads", [], |row| row.get(0)).unwrap();
    assert_eq!(holder, None);
}

/// A tool that waits for its release.
fn slow(gate: &Arc<tokio::sync::Notify>) -> FunctionTool {
    let gate = gate.clone();
    FunctionTool::new("write", "waits", move |context: windlass::port::tool::CallContext, _: Text| {
        let gate = gate.clone();
        async move {
            tokio::select! {
                () = gate.notified() => "waited",
                () = context.cancel.cancelled() => "stopped",
            }
        }
    })
}

// rows: SK-ST2, LM-A5
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_run_is_followed_and_cancelled_from_another_process() {
    let folder = tempfile::tempdir().unwrap();
    let gate = Arc::default();
    let a = stored(folder.path(), &asks(), registry([slow(&gate)])).build().await.unwrap();
    let b = stored(folder.path(), &asks(), windlass::registry()).build().await.unwrap();
    let started = a.start(task("go")).await.unwrap();
    let mut updates = b.thread(&started.thread).watch(Seq(0));
    let running = |update: &Update| matches!(update, Update::Event(recorded) if matches!(recorded.event.fact, Fact::ToolStarted { .. }));
    while !running(&updates.next().await.unwrap().unwrap()) {}
    b.run(&started.run).cancel(Principal::from("ann")).await.unwrap();
    let (here, there) =
        (a.run(&started.run).wait().await.unwrap(), b.run(&started.run).wait().await.unwrap());
    assert_eq!((here.status, there.status), (Status::Cancelled, Status::Cancelled));
}

#[test]
fn a_dead_process_is_replaced_at_once() {
    let folder = tempfile::tempdir().unwrap();
    let runtime =
        || tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build().unwrap();
    let hangs = ScriptedModels::new(|_| Line::Hang("half".into()));
    let first = runtime();
    let started = first.block_on(async {
        let a = stored(folder.path(), &hangs, windlass::registry()).build().await.unwrap();
        a.start(task("go")).await.unwrap()
    });
    // Everything of the first process ends: its tasks, locks and sockets.
    drop(first);
    runtime().block_on(async {
        let answers = ScriptedModels::new(|_| Line::Say("whole".into()));
        let b = stored(folder.path(), &answers, windlass::registry()).build().await.unwrap();
        let outcome = b.run(&started.run).wait().await.unwrap();
        assert_eq!((outcome.status, outcome.text.as_deref()), (Status::Done, Some("whole")));
        assert_eq!(outcome.figures.steps, 1, "a lost model call is not a step");
    });
}

#[tokio::test]
async fn the_store_stays_out_of_the_working_folder() {
    let folder = tempfile::tempdir().unwrap();
    let tools = Arc::new(WorkingFolder::open(folder.path()).unwrap());
    let models = asks();
    let inside =
        stored(&folder.path().join("a/b"), &models, windlass::registry()).folder(tools).build().await;
    let error = inside.err().unwrap().to_string();
    assert!(error.contains("lies inside the working folder"), "{error}");
    assert!(!folder.path().join("a").exists(), "nothing is made there");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn two_hundred_threads_share_a_store() {
    let folder = tempfile::tempdir().unwrap();
    let counter = Counter::default();
    let tools = registry([counter.tool("write", EffectClass::Once)]);
    let engine = stored(folder.path(), &asks(), tools).build().await.unwrap();
    let runs = (0..200).map(|number| {
        let engine = engine.clone();
        let thread = Some(ThreadId::from(format!("t{number}")));
        tokio::spawn(async move { engine.run_task(Task { thread, ..task("go") }).await.unwrap().status })
    });
    for run in runs.collect::<Vec<_>>() {
        assert_eq!(run.await.unwrap(), Status::Done);
    }
    assert_eq!(counter.count(), 200);
    assert_eq!(engine.runs(&RunQuery::newest(1000)).await.unwrap().len(), 200);
}
