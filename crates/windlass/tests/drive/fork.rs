//! Forks: what they share with their origin, what they do not, and a process that dies in between.

use std::path::Path;
use std::sync::Arc;

use windlass::clock::SystemClock;
use windlass::machine::{Block, EffectClass, Event, Fact, ForkPoint, Reject, Role, Seq, ThreadId, Timestamp};
use windlass::memory::{AppendFault, MemoryStore};
use windlass::port::journal::{
    Batch, BatchId, Claim, Journal, Recorded, RunQuery, ThreadQuery, ThreadStatus, ThreadView,
};
use windlass::testing::scripted::{Line, ScriptedModels};
use windlass::{Engine, EngineError, Status, Task};

use super::{Counter, memory, registry, stored, task};

/// Writes once per message, then lists the user messages it has read.
fn script() -> ScriptedModels {
    ScriptedModels::new(|call| {
        let messages = &call.request.messages;
        if messages.last().is_some_and(|message| message.role == Role::User) {
            return Line::tool("write", r#"{"text":"x"}"#);
        }
        let users = messages.iter().filter(|message| message.role == Role::User);
        let heard: Vec<String> = users.map(|message| message.shown_text()).collect();
        Line::Say(heard.join(", "))
    })
}

async fn open(folder: &Path, written: &Counter) -> Engine {
    stored(folder, &script(), registry([written.tool("write", EffectClass::Once)])).build().await.unwrap()
}

async fn say(engine: &Engine, thread: &ThreadId, text: &str) -> windlass::Outcome {
    let outcome = engine.run_task(Task { thread: Some(thread.clone()), ..task(text) }).await.unwrap();
    assert_eq!(outcome.status, Status::Done);
    outcome
}

async fn events(engine: &Engine, thread: &ThreadId) -> Vec<Recorded> {
    engine.thread(thread).events(Seq(0), 10_000).await.unwrap()
}

async fn ends(engine: &Engine, thread: &ThreadId) -> Vec<Seq> {
    let all = events(engine, thread).await.into_iter();
    all.filter(|one| matches!(one.event.fact, Fact::RunFinished { .. })).map(|one| one.seq).collect()
}

#[tokio::test]
async fn a_fork_continues_without_its_origin() {
    let folder = tempfile::tempdir().unwrap();
    let written = Counter::default();
    let engine = open(folder.path(), &written).await;
    let origin = ThreadId::from("t1");
    let long = "long ".repeat(10_000);
    let first = say(&engine, &origin, &long).await;
    say(&engine, &origin, "second").await;
    let at = ends(&engine, &origin).await[0];
    let fork = engine.thread(&origin).fork(at, "fay".into(), Some("/fay".into())).await.unwrap();

    // No call was repeated, and the run in the history belongs to the origin.
    assert_eq!(written.count(), 2);
    assert_eq!(engine.run(&first.run).row().await.unwrap().thread, origin);
    assert_eq!(
        engine.runs(&RunQuery { thread: Some(fork.clone()), ..RunQuery::default() }).await.unwrap(),
        []
    );
    let (row, of) = (engine.thread(&fork).row().await.unwrap(), engine.thread(&origin).row().await.unwrap());
    assert_eq!((row.view.title, row.view.workspace), (of.view.title, of.view.workspace));
    assert_eq!((row.view.status, row.view.folder.as_deref()), (ThreadStatus::Idle, Some("/fay")));
    assert!(row.view.updated_at >= of.view.updated_at);
    let forked_from = Some(ForkPoint { thread: origin.clone(), until: at });
    assert_eq!((row.view.forked_from, of.view.forked_from), (forked_from, None));
    let newest = engine.threads(&ThreadQuery::default()).await.unwrap();
    assert_eq!(newest[0].thread, fork);
    // After the fork's first event, the histories are equal.
    let (copied, whole) = (events(&engine, &fork).await, events(&engine, &origin).await);
    let facts = |events: &[Recorded]| events.iter().map(|one| one.event.clone()).collect::<Vec<_>>();
    let (history, titled) = (&copied[2..copied.len() - 1], &copied.last().unwrap().event.fact);
    assert_eq!(facts(history), facts(&whole[1..at.0 as usize]));
    assert!(matches!(titled, Fact::ThreadTitled { title, .. } if title == "second"), "{titled:?}");
    drop(engine);

    // After a restart, and after the origin is deleted with everything that only it names.
    let engine = open(folder.path(), &written).await;
    engine.thread(&origin).delete().await.unwrap();
    engine.check_store().await.unwrap();
    let outcome = say(&engine, &fork, "third").await;
    assert_eq!((outcome.text.as_deref(), written.count()), (Some("[a long text], third"), 3));
    let Fact::MessageReceived { message, .. } =
        &copied.iter().find(|one| matches!(one.event.fact, Fact::MessageReceived { .. })).unwrap().event.fact
    else {
        unreachable!("it was found")
    };
    let Block::Text { text, .. } = &message.blocks[0] else { panic!("{message:?}") };
    assert_eq!(engine.text(text).await.unwrap(), long);

    // A fork of a fork, at its beginning and at its end.
    let at = *ends(&engine, &fork).await.last().unwrap();
    let again = engine.thread(&fork).fork(at, "gus".into(), None).await.unwrap();
    assert_eq!(say(&engine, &again, "fourth").await.text.as_deref(), Some("[a long text], third, fourth"));
    let empty = engine.thread(&fork).fork(Seq(1), "gus".into(), None).await.unwrap();
    assert_eq!(say(&engine, &empty, "again").await.text.as_deref(), Some("again"));
}

#[tokio::test]
async fn a_place_inside_a_run_names_the_nearest_before_it() {
    let engine = memory(&script(), registry([Counter::default().tool("write", EffectClass::Once)]));
    let engine = engine.build().await.unwrap();
    let origin = ThreadId::from("t1");
    say(&engine, &origin, "first").await;
    let end = ends(&engine, &origin).await[0];
    say(&engine, &origin, "second").await;
    let at = Seq(end.0 + 3);
    let refused = engine.thread(&origin).fork(at, "fay".into(), None).await.unwrap_err();
    assert!(matches!(refused, EngineError::Rejected(Reject::RunActive { nearest, .. }) if nearest == end));
    let words = format!("a run is active at event {at}; event {end} is the last before it where none is");
    assert_eq!(refused.to_string(), words);
    let refused = async |thread: &str, at| {
        engine.thread(&thread.into()).fork(Seq(at), "fay".into(), None).await.unwrap_err().to_string()
    };
    assert_eq!(refused("t1", 0).await, "event 0 does not exist in this thread");
    assert_eq!(refused("t1", 99).await, "event 99 does not exist in this thread");
    assert_eq!(refused("t2", 1).await, "thread `t2` does not exist in this store");
    assert_eq!(engine.threads(&ThreadQuery::default()).await.unwrap().len(), 1);
}

#[test]
fn a_process_that_dies_leaves_a_whole_fork_or_none() {
    let faults = [
        (AppendFault::DiesNotWritten, 1),
        (AppendFault::DiesWritten, 2),
        (AppendFault::UnknownAndWritten, 2),
        (AppendFault::UnknownAndNotWritten, 2),
    ];
    for (fault, threads) in faults {
        let store = MemoryStore::new(Arc::new(SystemClock::new()));
        let runtime = || tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        let origin = ThreadId::from("t1");
        let over = |store: MemoryStore| {
            let (store, written) = (Arc::new(store), Counter::default());
            let tools = registry([written.tool("write", EffectClass::Once)]);
            memory(&script(), tools).ports(store.clone(), store.clone(), store).build()
        };
        runtime().block_on(async {
            let engine = over(store.clone()).await.unwrap();
            say(&engine, &origin, "first").await;
            let at = ends(&engine, &origin).await[0];
            store.fail_append(fault);
            tokio::select! {
                biased;
                forked = engine.thread(&origin).fork(at, "fay".into(), None) => drop(forked.unwrap()),
                () = store.died() => {}
            }
        });
        runtime().block_on(async {
            let engine = over(store.restarted()).await.unwrap();
            let rows = engine.threads(&ThreadQuery::default()).await.unwrap();
            assert_eq!(rows.len(), threads, "{fault:?}");
            for row in rows {
                let outcome = say(&engine, &row.thread, "second").await;
                assert_eq!(outcome.text.as_deref(), Some("first, second"), "{fault:?}");
            }
        });
    }
}

#[tokio::test]
async fn a_history_that_is_too_long_is_not_copied() {
    let store = Arc::new(MemoryStore::new(Arc::new(SystemClock::new())));
    let engine = memory(&script(), windlass::registry());
    let engine = engine.ports(store.clone(), store.clone(), store.clone()).build().await.unwrap();
    let fork = async |at| engine.thread(&"t1".into()).fork(Seq(at), "fay".into(), None).await;
    let note = |data: String| Fact::Note { name: "n".into(), data: data.into() };
    let created =
        Fact::ThreadCreated { thread: "t1".into(), workspace: "w".into(), folder: None, owner: "ann".into() };
    let small = std::iter::once(created).chain((0..20_000).map(|_| note("x".into())));
    append(&store, Seq(0), small.collect()).await;
    assert!(fork(20_000).await.is_ok());
    let words = "the history has 20001 events; at most 20000 are copied; fork at an earlier event, or start a \
                 new thread";
    assert_eq!(fork(20_001).await.unwrap_err().to_string(), words);
}

/// Appends facts to a thread's journal.
async fn append(store: &MemoryStore, expected: Seq, facts: Vec<Fact>) {
    let thread = ThreadId::from("t1");
    let Claim::Taken { head, .. } = store.claim(&thread).await.unwrap() else { panic!("it is held") };
    let events =
        facts.into_iter().map(|fact| Event { at: Timestamp(1), wall: None, run: None, fact }).collect();
    let batch = Batch {
        thread: thread.clone(),
        epoch: head.epoch,
        is_new: false,
        expected,
        id: BatchId(1),
        events,
        blobs: Vec::new(),
        consumed: Vec::new(),
        thread_view: ThreadView::default(),
        unqueued: Vec::new(),
        runs: Vec::new(),
        settle: Vec::new(),
        reserve: Vec::new(),
        records: Vec::new(),
    };
    store.append(batch).await.unwrap();
    store.release(&thread, head.epoch).await.unwrap();
}
