//! A process dies at every append, before and after it is written; another process resumes.
//!
//! "Dies" means that its runtime is dropped while the append hangs, so that none of its tasks continues.

use std::sync::Arc;

use futures::{FutureExt, StreamExt};
use windlass::bus::LocalBus;
use windlass::clock::{ManualClock, SystemClock};
use windlass::machine::{
    Answer, EffectClass, Fact, InputId, InterruptKind, Machine, RunId, Seq, ThreadId, Timestamp,
};
use windlass::memory::{AppendFault, MemoryStore};
use windlass::port::bus::{Backlog, Bus, Position, Signal};
use windlass::port::journal::{Journal, RunQuery};
use windlass::testing::scripted::{Line, ScriptedModels, results};
use windlass::{Engine, EngineError, Outcome, SlowDriver, Status, Task, Update};

use super::{Counter, memory, party, registry, task};

/// One tool of each class and a local read, called in turn, twice.
fn script() -> ScriptedModels {
    ScriptedModels::new(|call| match results(call) {
        turn @ 0..8 => Line::tool(["pure", "look", "again", "once"][turn % 4], r#"{"text":"x"}"#),
        _ => Line::Say("done".into()),
    })
}

#[derive(Clone, Default)]
struct Counts {
    pure: Counter,
    look: Counter,
    again: Counter,
    once: Counter,
}

async fn engine(store: &MemoryStore, models: &ScriptedModels, counts: &Counts) -> Engine {
    let tools = registry([
        counts.pure.tool("pure", EffectClass::Pure),
        counts.look.tool("look", EffectClass::Pure).reads_locally(),
        counts.again.tool("again", EffectClass::Idempotent),
        counts.once.tool("once", EffectClass::Once),
    ]);
    let store = Arc::new(store.clone());
    memory(models, tools).ports(store.clone(), store.clone(), store).build().await.unwrap()
}

/// Drives a run to its end. Returns the number of doubts that were answered with "it was not done".
pub(super) async fn finish(engine: &Engine, run: &RunId) -> (Outcome, u32) {
    let mut retried = 0;
    loop {
        let outcome = engine.run(run).wait().await.unwrap();
        if outcome.status != Status::Paused {
            return (outcome, retried);
        }
        for open in &outcome.interrupts {
            assert!(matches!(open.kind, InterruptKind::InDoubt { .. }), "{open:?}");
            retried += 1;
            let by = party("ann");
            engine.thread(&outcome.thread).answer(&open.interrupt, Answer::Retry, by).await.unwrap();
        }
    }
}

pub(super) fn runtime() -> tokio::runtime::Runtime {
    tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap()
}

/// Starts a run that dies at its `nth` append. Returns `false` if it ended before.
fn run_and_die(store: &MemoryStore, counts: &Counts, nth: usize, fault: AppendFault) -> bool {
    let runtime = runtime();
    for _ in 0..nth {
        store.fail_append(AppendFault::Nothing);
    }
    store.fail_append(fault);
    runtime.block_on(async {
        let engine = engine(store, &script(), counts).await;
        let run = async {
            let started = engine.start(Task { thread: Some("t".into()), ..task("go") }).await.unwrap();
            finish(&engine, &started.run).await
        };
        tokio::select! {
            // Polled first, because a waiter finds the end of the run in the store once the last append was written.
            biased;
            () = store.died() => true,
            _ = run => false,
        }
    })
}

// rows: LM-A7, SK-G16, WT-X4
#[test]
fn a_run_completes_after_a_crash_at_any_append() {
    let mut deaths = 0;
    for fault in [AppendFault::DiesWritten, AppendFault::DiesNotWritten] {
        for nth in 0.. {
            let store = MemoryStore::new(Arc::new(SystemClock::new()));
            let counts = Counts::default();
            if !run_and_die(&store, &counts, nth, fault) {
                break;
            }
            deaths += 1;
            resume_after_crash(&store.restarted(), &counts, (fault, nth));
        }
    }
    // At the last append, the waiter may read the end from the journal before the death is detected.
    assert!(deaths >= 2 * 13, "a run of nine steps appends at least fourteen times: {deaths}");
}

fn resume_after_crash(store: &MemoryStore, counts: &Counts, case: (AppendFault, usize)) {
    runtime().block_on(async {
        let models = script();
        let engine = engine(store, &models, counts).await;
        let thread = ThreadId::from("t");
        engine.recover().await.unwrap();
        let runs = engine.runs(&RunQuery::of(&thread, 2)).await.unwrap();
        let Some(row) = runs.first() else {
            // The first append was lost, and the sender received no acknowledgement.
            assert_eq!(case, (AppendFault::DiesNotWritten, 0));
            return;
        };
        let (outcome, retried) = finish(&engine, &row.view.run).await;
        assert_eq!((outcome.status, outcome.text.as_deref()), (Status::Done, Some("done")), "{case:?}");
        // Answering "retry" accepts a second execution.
        let once = counts.once.count();
        assert!(once == 2 || once == 2 + retried, "{case:?}: {once} runs, {retried} retries");
        assert_each_call_has_one_result(&engine, &thread).await;
    });
}

async fn assert_each_call_has_one_result(engine: &Engine, thread: &ThreadId) {
    let (mut calls, mut results) = (0, 0);
    for recorded in engine.thread(thread).events(Seq(0), 1000).await.unwrap() {
        match &recorded.event.fact {
            Fact::StepReplied { message, .. } => calls += message.calls().count(),
            Fact::ToolFinished { .. } => results += 1,
            _ => {}
        }
    }
    assert_eq!((calls, results), (8, 8));
}

// rows: ZE-P3
#[test]
fn an_append_whose_outcome_is_unknown_happens_once() {
    // The number of events of a run without a fault.
    let mut recorded = None;
    let faults = [AppendFault::UnknownAndWritten, AppendFault::UnknownAndNotWritten, AppendFault::Failed];
    for fault in [AppendFault::Nothing].into_iter().chain(faults) {
        for nth in 0..16 {
            runtime().block_on(async {
                let store = MemoryStore::new(Arc::new(SystemClock::new()));
                let (models, counts) = (script(), Counts::default());
                for _ in 0..nth {
                    store.fail_append(AppendFault::Nothing);
                }
                store.fail_append(fault);
                let engine = engine(&store, &models, &counts).await;
                let outcome = engine.run_task(task("go")).await.unwrap();
                assert_eq!(outcome.status, Status::Done, "{fault:?} at {nth}");
                let counts = [counts.once, counts.again, counts.pure, counts.look].map(|count| count.count());
                assert_eq!(counts, [2; 4]);
                assert_eq!(models.calls(), 9, "no model call is paid twice");
                assert_each_call_has_one_result(&engine, &outcome.thread).await;
                let events = engine.thread(&outcome.thread).events(Seq(0), 1000).await.unwrap();
                assert_eq!(events.len(), *recorded.get_or_insert(events.len()), "{fault:?} at {nth}");
            });
        }
    }
}

#[test]
fn a_process_that_dies_at_each_model_call_gives_up_after_three_attempts() {
    let clock = Arc::new(ManualClock::new(Timestamp(1_000), 1));
    let mut store = MemoryStore::new(clock.clone());
    let models = ScriptedModels::new(|_| Line::Hang("so far".into()));
    let thread = ThreadId::from("t");
    let mut ended = Vec::new();
    for life in 0..8 {
        runtime().block_on(async {
            let ports = Arc::new(store.clone());
            let engine = memory(&models, registry([])).ports(ports.clone(), ports.clone(), ports);
            let engine = engine.clock(clock.clone()).build().await.unwrap();
            match life {
                0 => drop(engine.start(Task { thread: Some(thread.clone()), ..task("go") }).await.unwrap()),
                _ => drop(engine.recover().await.unwrap()),
            }
            for _ in 0..100 {
                clock.advance_ms(100);
                tokio::task::yield_now().await;
            }
            let events = engine.thread(&thread).events(Seq(0), 100).await.unwrap();
            ended.extend(events.into_iter().filter_map(|recorded| match recorded.event.fact {
                Fact::RunFinished { error, .. } => error.map(|error| error.code),
                _ => None,
            }));
        });
        store = store.restarted();
    }
    assert_eq!(models.calls(), 3, "each attempt is paid for");
    ended.dedup();
    assert_eq!(ended, ["ERR_LOST"]);
}

#[test]
fn a_fenced_owner_stops_and_the_run_continues() {
    for nth in 1..14 {
        runtime().block_on(async {
            let store = MemoryStore::new(Arc::new(SystemClock::new()));
            let (models, counts) = (script(), Counts::default());
            let before = std::iter::repeat_n(AppendFault::Nothing, nth);
            before.chain([AppendFault::Fenced]).for_each(|fault| store.fail_append(fault));
            let engine = engine(&store, &models, &counts).await;
            let started = engine.start(task("go")).await.unwrap();
            // No other process really owns it, so the waiter finds it without a driver and resumes it.
            engine.run(&started.run).resume().await.unwrap();
            let (outcome, retried) = finish(&engine, &started.run).await;
            assert_eq!(outcome.status, Status::Done);
            let once = counts.once.count();
            assert!(once == 2 || once == 2 + retried, "{once} runs, {retried} retries");
        });
    }
}

/// The reply is not completed in this process, so its fragments, up to 8 MiB, would stay until the thread is driven
/// here again.
#[tokio::test]
async fn a_fenced_owner_leaves_no_fragments_behind() {
    let store = MemoryStore::new(Arc::new(SystemClock::new()));
    // The message and the step are recorded, but the reply is not.
    [AppendFault::Nothing, AppendFault::Fenced].into_iter().for_each(|fault| store.fail_append(fault));
    let models = ScriptedModels::new(|_| Line::Say("a reply that is not recorded here".into()));
    let (bus, thread) = (Arc::new(LocalBus::new()), ThreadId::from("t"));
    let ports = Arc::new(store.clone());
    let engine = memory(&models, registry([])).ports(ports.clone(), ports.clone(), ports).bus(bus.clone());
    let engine = engine.build().await.unwrap();
    let follow = || bus.follow(&thread, Position::default(), Backlog::Fragments);
    let mut live = follow();
    engine.start(Task { thread: Some(thread.clone()), ..task("go") }).await.unwrap();
    while !matches!(*live.next().await.unwrap(), Signal::Delta { .. }) {}
    let has_fragments = || follow().next().now_or_never().is_some();
    for _ in 0..10_000 {
        if !has_fragments() {
            return;
        }
        tokio::task::yield_now().await;
    }
    panic!("the fragments are still there");
}

#[test]
fn a_watcher_sees_nothing_that_is_not_in_the_journal() {
    for nth in 0..14 {
        let store = MemoryStore::new(Arc::new(SystemClock::new()));
        let before = std::iter::repeat_n(AppendFault::Nothing, nth);
        before.chain([AppendFault::DiesNotWritten]).for_each(|fault| store.fail_append(fault));
        let thread = ThreadId::from("t");
        let mut seen = Seq(0);
        runtime().block_on(async {
            let engine = engine(&store, &script(), &Counts::default()).await;
            let mut updates = engine.thread(&thread).watch(Seq(0));
            let mut see = |update| {
                if let Update::Event(recorded) = update {
                    seen = recorded.seq;
                }
            };
            let follow = async { while let Some(Ok(update)) = updates.next().await { see(update) } };
            tokio::select! {
                biased;
                () = follow => panic!("the watch ended"),
                Err(stopped) = engine.run_task(Task { thread: Some(thread.clone()), ..task("go") }) => panic!("{stopped}"),
                () = store.died() => {}
            }
            while let Some(Some(Ok(update))) = updates.next().now_or_never() {
                see(update);
            }
        });
        runtime().block_on(async {
            let head = store.restarted().head(&thread).await.unwrap().unwrap_or_default();
            assert_eq!(seen, head.seq, "died at append {nth}");
        });
    }
}

// rows: WT-X4
#[tokio::test]
async fn a_sender_is_not_told_before_the_append() {
    let store = MemoryStore::new(Arc::new(SystemClock::new()));
    store.fail_append(AppendFault::Fenced);
    let engine = engine(&store, &script(), &Counts::default()).await;
    let told = engine.start(Task { thread: Some("t".into()), ..task("go") }).await;
    assert!(told.unwrap_err().to_string().contains("another process drives it now"));
    assert_eq!(engine.thread(&"t".into()).events(Seq(0), 10).await.unwrap(), []);
}

// A snapshot is written once there are enough events. Restoring from it must equal the whole fold.
#[tokio::test]
async fn a_thread_is_restored_from_its_snapshot_and_what_came_after() {
    let store = MemoryStore::new(Arc::new(SystemClock::new()));
    let models = ScriptedModels::new(move |call| match results(call) {
        nth @ 0..12 => Line::tool("pure", &format!(r#"{{"text":"{nth} {}"}}"#, "x".repeat(8_000))),
        _ => Line::Say("done".into()),
    });
    let engine = engine(&store, &models, &Counts::default()).await;
    let thread = ThreadId::from("t");
    let outcome = engine.run_task(Task { thread: Some(thread.clone()), ..task("go") }).await.unwrap();
    assert_eq!(outcome.status, Status::Done);
    let snapshot = store.snapshot(&thread).await.unwrap().expect("events of 200 kB");
    let events = engine.thread(&thread).events(Seq(0), 1_000).await.unwrap();
    assert!(snapshot.seq < events.last().unwrap().seq);
    let whole = Machine::restore(thread.clone(), None, events.into_iter().map(|recorded| recorded.event));
    assert_eq!(*engine.thread(&thread).folded().await.unwrap(), whole.unwrap());
}

/// An append hangs as on an unresponsive disk, and more inputs arrive than the owner's mailbox holds.
#[tokio::test]
async fn an_owner_that_hangs_here_is_named_as_this_process() {
    let clock = Arc::new(ManualClock::new(Timestamp(1_000), 1));
    let store = MemoryStore::new(clock.clone());
    store.fail_append(AppendFault::DiesNotWritten);
    let ports = Arc::new(store.clone());
    let engine =
        memory(&script(), registry([])).ports(ports.clone(), ports.clone(), ports).clock(clock.clone());
    let engine = engine.build().await.unwrap();
    let thread = Some(ThreadId::from("t"));
    let hangs = tokio::spawn({
        let (engine, task) = (engine.clone(), Task { thread: thread.clone(), ..task("go") });
        async move { engine.start(task).await.is_ok() }
    });
    store.died().await;
    let named = (0..100).map(|number| Some(InputId::from(format!("message-{number}"))));
    let named = named.map(|id| engine.start(Task { id, thread: thread.clone(), ..task("and") }));
    let mut named = std::pin::pin!(futures::future::join_all(named));
    let mut errors = None;
    for _ in 0..1_000 {
        errors = (&mut named).now_or_never();
        if errors.is_some() {
            break;
        }
        clock.advance_ms(100);
        tokio::task::yield_now().await;
    }
    for error in errors.expect("everybody is answered") {
        let error = error.unwrap_err();
        assert!(matches!(error, EngineError::Pending { driver: SlowDriver::ThisProcess, .. }), "{error:?}");
        let said = "thread `t` is driven by this process, which has not answered yet; the input is kept";
        assert_eq!(error.to_string(), said);
    }
    assert!(!hangs.is_finished());
}
