//! The cost of sweeping threads: concurrent openings, and threads that cannot be opened or driven.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use async_trait::async_trait;
use bytes::Bytes;
use windlass::bus::LocalBus;
use windlass::clock::ManualClock;
use windlass::machine::{BlobRef, Digest, Input, InputId, ModelAccess, Seq, ThreadId, Timestamp};
use windlass::memory::{AppendFault, MemoryStore};
use windlass::port::blob::Blobs;
use windlass::port::bus::Bus;
use windlass::port::journal::{Batch, Journal, Posted, RunQuery, StoreError, ThreadStatus};
use windlass::testing::scripted::{Line, ScriptedModels};
use windlass::testing::suite::{batch, claimed, view};
use windlass::{Attend, Builder, Engine, EngineError, Task};

use super::{memory, task};

pub(super) fn built(store: &MemoryStore, clock: &Arc<ManualClock>, models: &ScriptedModels) -> Builder {
    let ports = Arc::new(store.clone());
    memory(models, windlass::registry()).ports(ports.clone(), ports.clone(), ports).clock(clock.clone())
}

pub(super) fn hanging() -> ScriptedModels {
    ScriptedModels::new(|_| Line::Hang(String::new()))
}

pub async fn settle() {
    for _ in 0..200 {
        tokio::task::yield_now().await;
    }
}

/// A run whose model hangs, and whose process then dies.
fn interrupted(store: &MemoryStore, clock: &Arc<ManualClock>, thread: &str) {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    runtime.block_on(async {
        let engine = built(store, clock, &hanging()).build().await.unwrap();
        engine.start(Task { thread: Some(thread.into()), ..task("go") }).await.unwrap();
    });
}

async fn ends(engine: &Engine, clock: &ManualClock, thread: &str) {
    while engine.thread(&thread.into()).row().await.unwrap().view.status != ThreadStatus::Idle {
        clock.advance_ms(1_000);
        settle().await;
    }
}

/// The number of claims in an hour of sweeping after a thread's first failure.
async fn claims_of_an_hour(store: &MemoryStore, clock: &ManualClock) -> usize {
    let (_, before) = store.claims();
    for _ in 0..3_600 {
        clock.advance_ms(1_000);
        tokio::task::yield_now().await;
        settle().await;
    }
    store.claims().1 - before
}

#[tokio::test]
async fn a_thread_that_cannot_be_read_is_retried_at_growing_intervals() {
    let clock = Arc::new(ManualClock::new(Timestamp(1_000), 1));
    let store = MemoryStore::new(clock.clone());
    for thread in ["damaged", "whole"] {
        std::thread::scope(|scope| scope.spawn(|| interrupted(&store, &clock, thread)).join().unwrap());
    }
    let store = store.restarted();
    store.overwrite_event(&"damaged".into(), Seq(2), "{").unwrap();
    let models = ScriptedModels::new(|_| Line::Say("done".into()));
    let engine = built(&store, &clock, &models).attend(Attend::All).build().await.unwrap();
    ends(&engine, &clock, "whole").await;
    // After 1, 3, 7, 15 and 31 minutes.
    let claims = claims_of_an_hour(&store, &clock).await;
    assert!((4..=6).contains(&claims), "{claims}");
    assert_eq!(engine.thread(&"damaged".into()).row().await.unwrap().view.status, ThreadStatus::Running);
    let error = engine.recover().await.unwrap().pop().unwrap().1.unwrap_err();
    assert!(error.to_string().contains("thread `damaged`, event 2"), "{error}");
}

#[tokio::test]
async fn a_driver_whose_appends_are_refused_is_retried_at_growing_intervals() {
    let clock = Arc::new(ManualClock::new(Timestamp(1_000), 1));
    let store = MemoryStore::new(clock.clone());
    std::thread::scope(|scope| scope.spawn(|| interrupted(&store, &clock, "t")).join().unwrap());
    let store = store.restarted();
    std::iter::repeat_n(AppendFault::Refused, 1_000).for_each(|fault| store.fail_append(fault));
    let _engine = built(&store, &clock, &hanging()).attend(Attend::All).build().await.unwrap();
    let claims = claims_of_an_hour(&store, &clock).await;
    assert!((4..=7).contains(&claims), "{claims}");
}

/// A thread that needs a driver for an input in its inbox.
async fn put_due(store: &MemoryStore, thread: &ThreadId) {
    let head = claimed(store, thread).await;
    let due = Batch { thread_view: view(ThreadStatus::Idle), ..batch(thread, head, &["a"]) };
    store.append(due).await.unwrap();
    store.release(thread, head.epoch).await.unwrap();
    let title = Input::Title { title: "t".into(), by: "ann".into() };
    assert_eq!(store.post(thread, &"i".into(), &title).await.unwrap(), Posted::Waiting);
}

#[tokio::test]
async fn threads_are_opened_a_bounded_number_at_once_and_wakes_are_served_meanwhile() {
    const THREADS: usize = 10_000;
    const AT_ONCE: usize = 32;
    let clock = Arc::new(ManualClock::new(Timestamp(1_000), 1));
    let store = MemoryStore::new(clock.clone());
    for number in 0..THREADS {
        put_due(&store, &format!("due-{number}").into()).await;
    }
    let bus = Arc::new(LocalBus::new());
    let engine =
        built(&store, &clock, &hanging()).bus(bus.clone()).attend(Attend::All).build().await.unwrap();
    let live = ThreadId::from("live");
    engine.start(Task { thread: Some(live.clone()), ..task("go") }).await.unwrap();
    let ((_, claimed), (_, folded)) = (store.claims(), store.folds());
    store.hold_folds();
    clock.advance_ms(1_000);
    settle().await;
    assert_eq!(store.folds(), (AT_ONCE, folded));
    assert_eq!(store.claims(), (0, claimed + AT_ONCE), "the rest is left to other processes");
    let (id, cancel) = (InputId::from("i"), Input::Cancel { run: None, by: "ann".into() });
    assert_eq!(store.post(&live, &id, &cancel).await.unwrap(), Posted::Waiting);
    bus.wake(&live);
    settle().await;
    assert!(matches!(store.posted(&live, &id).await.unwrap(), Some(Posted::Consumed(_))));
    assert_eq!(store.folds(), (AT_ONCE, folded));
    store.release_folds();
    while store.folds().1 < folded + THREADS {
        tokio::task::yield_now().await;
    }
    // Each thread is opened once, within the same second.
    settle().await;
    assert_eq!(store.folds(), (0, folded + THREADS));
    assert_eq!(store.claims(), (0, claimed + THREADS));
}

#[tokio::test]
async fn interrupted_runs_beyond_the_bound_follow_as_others_end() {
    const RUNS: usize = 24;
    const DRIVEN: usize = 5;
    let clock = Arc::new(ManualClock::new(Timestamp(1_000), 1));
    let store = MemoryStore::new(clock.clone());
    std::thread::scope(|scope| {
        for number in 0..RUNS {
            let (store, clock) = (&store, &clock);
            scope.spawn(move || interrupted(store, clock, &format!("t{number}"))).join().unwrap();
        }
    });
    let store = store.restarted();
    // Each call waits for its release.
    let (calls, go) = (Arc::new(AtomicUsize::new(0)), Arc::new(AtomicUsize::new(0)));
    let (called, free) = (calls.clone(), go.clone());
    let models = ScriptedModels::new(move |_| {
        let number = called.fetch_add(1, Ordering::Relaxed);
        if number < free.load(Ordering::Relaxed) {
            Line::Say("done".into())
        } else {
            Line::Hang(String::new())
        }
    });
    let engine = built(&store, &clock, &models).attend(Attend::All).driven_max(DRIVEN).build().await.unwrap();
    let driven = engine.recover().await.unwrap();
    assert_eq!(driven.len(), DRIVEN);
    let pass = async || {
        for _ in 0..5 {
            clock.advance_ms(1_000);
            settle().await;
        }
    };
    pass().await;
    assert_eq!(calls.load(Ordering::Relaxed), DRIVEN);
    // A message to another thread is still handled.
    engine.start(Task { thread: Some("new".into()), ..task("go") }).await.unwrap();
    settle().await;
    assert_eq!(calls.load(Ordering::Relaxed), DRIVEN + 1);
    // When runs end, waiting threads are opened.
    go.store(usize::MAX, Ordering::Relaxed);
    for (thread, _) in driven {
        engine.thread(&thread).send(Input::Cancel { run: None, by: "ann".into() }).await.unwrap();
    }
    let active = RunQuery { active: Some(true), ..RunQuery::newest(100) };
    while engine.runs(&active).await.unwrap().len() > 1 {
        pass().await;
    }
    assert_eq!(calls.load(Ordering::Relaxed), RUNS + 1);
}

#[tokio::test]
async fn an_interrupted_run_of_another_address_is_not_resumed_and_can_be_cancelled() {
    let clock = Arc::new(ManualClock::new(Timestamp(1_000), 1));
    let store = MemoryStore::new(clock.clone());
    let start = || {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        runtime.block_on(async {
            let engine = built(&store, &clock, &hanging()).build().await.unwrap();
            let mut task = Task { thread: Some("t".into()), ..task("go") };
            let base_url = Some("http://other/v1".to_owned());
            task.options.access = Some(Box::new(ModelAccess { base_url, ..ModelAccess::default() }));
            engine.start(task).await.unwrap();
        });
    };
    std::thread::scope(|scope| scope.spawn(start).join().unwrap());
    let (store, calls) = (store.restarted(), Arc::new(AtomicUsize::new(0)));
    let called = calls.clone();
    let models = ScriptedModels::new(move |_| {
        called.fetch_add(1, Ordering::Relaxed);
        Line::Say("done".into())
    });
    let builder = built(&store, &clock, &models).attend(Attend::All).reaches(|_| false);
    let engine = builder.build().await.unwrap();
    for _ in 0..5 {
        clock.advance_ms(1_000);
        settle().await;
    }
    let title = Input::Title { title: "renamed".into(), by: "ann".into() };
    let refused = engine.thread(&"t".into()).send(title).await.unwrap_err();
    assert!(refused.to_string().contains("the model's address `http://other/v1`"), "{refused}");
    engine.thread(&"t".into()).send(Input::Cancel { run: None, by: "ann".into() }).await.unwrap();
    ends(&engine, &clock, "t").await;
    assert_eq!(calls.load(Ordering::Relaxed), 0);
}

/// Blobs that count their collections.
struct CountedBlobs {
    blobs: MemoryStore,
    collections: AtomicUsize,
}

#[async_trait]
impl Blobs for CountedBlobs {
    async fn put(&self, blob: &BlobRef, bytes: Bytes) -> Result<(), StoreError> {
        self.blobs.put(blob, bytes).await
    }

    async fn get(&self, digest: &Digest) -> Result<Option<Bytes>, StoreError> {
        self.blobs.get(digest).await
    }

    async fn collect(&self) -> Result<(), StoreError> {
        self.collections.fetch_add(1, Ordering::SeqCst);
        self.blobs.collect().await
    }
}

#[tokio::test]
async fn blobs_that_nothing_names_are_collected_every_hour() {
    let clock = Arc::new(ManualClock::new(Timestamp(1_000), 1));
    let store = MemoryStore::new(clock.clone());
    let blobs = Arc::new(CountedBlobs { blobs: store.clone(), collections: AtomicUsize::new(0) });
    let ports = Arc::new(store.clone());
    let builder = built(&store, &clock, &hanging()).ports(ports.clone(), blobs.clone(), ports);
    let _engine = builder.attend(Attend::All).build().await.unwrap();
    settle().await;
    let before = blobs.collections.load(Ordering::SeqCst);
    for hour in 1..=2 {
        clock.advance_ms(3_601_000);
        settle().await;
        assert_eq!(blobs.collections.load(Ordering::SeqCst), before + hour);
    }
}

#[tokio::test]
async fn a_driver_that_loses_many_races_for_a_grant_wins_one_in_the_end() {
    let clock = Arc::new(ManualClock::new(Timestamp(1_000), 1));
    let store = MemoryStore::new(clock.clone());
    std::iter::repeat_n(AppendFault::Overtaken, 200).for_each(|fault| store.fail_append(fault));
    let models = ScriptedModels::new(|_| Line::Say("done".into()));
    let engine = built(&store, &clock, &models).build().await.unwrap();
    let mut run = std::pin::pin!(engine.run_task(task("go")));
    let outcome = loop {
        tokio::select! {
            biased;
            outcome = &mut run => break outcome.unwrap(),
            () = settle() => clock.advance_ms(1_000),
        }
    };
    assert_eq!(outcome.text.as_deref(), Some("done"));
}

#[tokio::test]
async fn a_recovery_beside_the_sweep_opens_no_more_at_once() {
    const THREADS: usize = 200;
    let clock = Arc::new(ManualClock::new(Timestamp(1_000), 1));
    let store = MemoryStore::new(clock.clone());
    for number in 0..THREADS {
        put_due(&store, &format!("due-{number}").into()).await;
    }
    let engine = built(&store, &clock, &hanging()).attend(Attend::All).build().await.unwrap();
    let (_, claimed) = store.claims();
    store.hold_folds();
    let other = engine.clone();
    let recovered = tokio::spawn(async move { other.recover().await });
    settle().await;
    clock.advance_ms(1_000);
    settle().await;
    assert_eq!(store.folds().0, 32);
    store.release_folds();
    let opened = recovered.await.unwrap().unwrap();
    assert!(opened.iter().all(|(_, opened)| opened.is_ok()), "{opened:?}");
    settle().await;
    // The sweep has opened the others.
    assert_eq!((store.folds().1, store.claims().1), (THREADS, claimed + THREADS));
}

/// A thread whose model hangs, and an engine that has just lost a race with a title update.
async fn racing(races: usize) -> (Engine, windlass::Started, impl Future<Output = Result<Seq, EngineError>>) {
    let clock = Arc::new(ManualClock::new(Timestamp(1_000), 1));
    let store = MemoryStore::new(clock.clone());
    let engine = built(&store, &clock, &hanging()).build().await.unwrap();
    let started = engine.start(task("go")).await.unwrap();
    std::iter::repeat_n(AppendFault::Overtaken, races).for_each(|fault| store.fail_append(fault));
    let (sender, thread) = (engine.clone(), started.thread.clone());
    let title = Input::Title { title: "t".into(), by: "ann".into() };
    let titled = tokio::spawn(async move { sender.thread(&thread).send(title).await });
    settle().await;
    (engine, started, async move { titled.await.unwrap() })
}

#[tokio::test]
async fn a_cancel_is_decided_while_a_driver_pauses_after_a_lost_race() {
    let (engine, started, titled) = racing(1).await;
    // The clock does not advance.
    let cancelled = engine.run(&started.run).cancel("ann".into()).await.unwrap();
    assert!(cancelled < titled.await.unwrap(), "the cancel comes first");
}

#[tokio::test]
async fn a_process_that_ends_does_not_wait_for_a_driver_that_loses_races() {
    let (engine, started, titled) = racing(1_000).await;
    let mut left = std::pin::pin!(engine.hand_over(1_000));
    assert!(futures::FutureExt::now_or_never(&mut left).is_none());
    settle().await;
    assert!(!engine.thread(&started.thread).is_driven());
    assert!(matches!(titled.await, Err(EngineError::Stopped { .. })));
}

#[tokio::test]
async fn an_opening_that_is_given_up_holds_nothing() {
    let clock = Arc::new(ManualClock::new(Timestamp(1_000), 1));
    let store = MemoryStore::new(clock.clone());
    std::thread::scope(|scope| scope.spawn(|| interrupted(&store, &clock, "t")).join().unwrap());
    let store = store.restarted();
    let engine = built(&store, &clock, &hanging()).build().await.unwrap();
    store.hold_claims();
    let title = Input::Title { title: "t".into(), by: "ann".into() };
    assert!(futures::FutureExt::now_or_never(engine.thread(&"t".into()).send(title)).is_none());
    settle().await;
    store.release_claims();
    settle().await;
    assert_eq!(store.claims(), (0, 1), "the claim itself was made");
    assert_eq!(store.holder(&"t".into()).await.unwrap(), None);
    assert!(!engine.thread(&"t".into()).is_driven());
}

#[tokio::test]
async fn an_input_for_a_thread_that_is_deleted_meanwhile_makes_no_thread() {
    let clock = Arc::new(ManualClock::new(Timestamp(1_000), 1));
    let store = MemoryStore::new(clock.clone());
    let other = store.another_node();
    let thread = ThreadId::from("t");
    let head = claimed(&other, &thread).await;
    other.append(batch(&thread, head, &["a"])).await.unwrap();
    // The other process drives the thread and does not read its inbox.
    let engine = built(&store, &clock, &hanging()).build().await.unwrap();
    let task = Task { thread: Some(thread.clone()), id: Some("m".into()), ..task("go") };
    let mut sent = std::pin::pin!(engine.start(task));
    tokio::select! {
        biased;
        sent = &mut sent => panic!("{sent:?}"),
        () = settle() => other.delete(&thread).await.unwrap(),
    }
    let error = loop {
        tokio::select! {
            biased;
            sent = &mut sent => break sent.unwrap_err(),
            () = settle() => clock.advance_ms(10),
        }
    };
    assert!(matches!(error, windlass::EngineError::NoThread(_)), "{error}");
    assert_eq!(store.head(&thread).await.unwrap(), None);
}
