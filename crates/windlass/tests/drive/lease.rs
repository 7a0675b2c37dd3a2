//! Stores of many machines: a claim expires unless its process renews it.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use windlass::clock::ManualClock;
use windlass::machine::{ThreadId, Timestamp};
use windlass::memory::MemoryStore;
use windlass::testing::scripted::{Line, ScriptedModels};
use windlass::{Attend, Engine, Task};

use super::attend::{built, hanging, settle};
use super::task;

const LEASE_MS: u64 = 30_000;

/// Advances the clock by seconds.
async fn pass(clock: &ManualClock, seconds: u64) {
    for _ in 0..seconds {
        clock.advance_ms(1_000);
        settle().await;
    }
}

/// A process that drives a thread whose model hangs, and the store as another process sees it.
async fn driving(clock: &Arc<ManualClock>) -> (MemoryStore, Engine, MemoryStore) {
    let store = MemoryStore::leased(clock.clone(), LEASE_MS);
    let engine = built(&store, clock, &hanging()).attend(Attend::All).build().await.unwrap();
    engine.start(Task { thread: Some("t".into()), ..task("go") }).await.unwrap();
    let other = store.another_node();
    (store, engine, other)
}

async fn taken(engine: &Engine) -> Vec<ThreadId> {
    let taken = engine.recover().await.unwrap();
    taken.into_iter().map(|(thread, opened)| opened.map(|()| thread).unwrap()).collect()
}

#[tokio::test]
async fn a_process_keeps_what_it_renews() {
    let clock = Arc::new(ManualClock::new(Timestamp(1_000), 1));
    let (_store, engine, other) = driving(&clock).await;
    let second = built(&other, &clock, &hanging()).build().await.unwrap();
    for _ in 0..10 {
        pass(&clock, LEASE_MS / 1_000).await;
        assert_eq!(taken(&second).await, []);
    }
    assert!(engine.thread(&"t".into()).is_driven());
    // A released thread is free at once.
    let leaves = tokio::spawn({
        let engine = engine.clone();
        async move { engine.hand_over(1_000).await }
    });
    pass(&clock, 2).await;
    assert_eq!(leaves.await.unwrap(), 0);
    assert_eq!(taken(&second).await, [ThreadId::from("t")]);
}

#[tokio::test]
async fn two_renewals_in_a_row_may_fail() {
    let clock = Arc::new(ManualClock::new(Timestamp(1_000), 1));
    let (store, engine, other) = driving(&clock).await;
    let second = built(&other, &clock, &hanging()).build().await.unwrap();
    // The next renewals are due after 7.5, 15 and 22.5 seconds.
    store.cut_off(true);
    pass(&clock, 20).await;
    store.cut_off(false);
    pass(&clock, 5).await;
    // Without the third renewal, the lease would have expired by the end of this.
    store.cut_off(true);
    pass(&clock, 10).await;
    assert_eq!(taken(&second).await, []);
    assert!(engine.thread(&"t".into()).is_driven());
}

#[tokio::test]
async fn a_process_that_is_cut_off_loses_its_threads_to_another() {
    let clock = Arc::new(ManualClock::new(Timestamp(1_000), 1));
    let (store, engine, other) = driving(&clock).await;
    let calls = Arc::new(AtomicUsize::new(0));
    let called = calls.clone();
    let models = ScriptedModels::new(move |_| {
        called.fetch_add(1, Ordering::Relaxed);
        Line::Say("done".into())
    });
    let second = built(&other, &clock, &models).build().await.unwrap();
    store.cut_off(true);
    pass(&clock, LEASE_MS / 1_000 - 11).await;
    assert_eq!(taken(&second).await, [], "the claim was renewed less than eight seconds before");
    pass(&clock, 11).await;
    assert_eq!(taken(&second).await, [ThreadId::from("t")]);
    assert!(engine.thread(&"t".into()).is_driven(), "it does not know yet");
    pass(&clock, 5).await;
    let row = second.thread(&"t".into()).row().await.unwrap();
    assert_eq!(
        (row.view.status, calls.load(Ordering::Relaxed)),
        (windlass::port::journal::ThreadStatus::Idle, 1)
    );
    store.cut_off(false);
    pass(&clock, LEASE_MS / 1_000 / 4 + 1).await;
    assert!(!engine.thread(&"t".into()).is_driven(), "its next renewal says so");
    // It may claim the thread again.
    engine.start(Task { thread: Some("t".into()), ..task("again") }).await.unwrap();
    assert!(engine.thread(&"t".into()).is_driven());
}
