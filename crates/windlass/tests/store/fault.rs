//! The faults that the in-memory store injects.

use windlass::memory::{AppendFault, MemoryStore};
use windlass::port::blob::Blobs;
use windlass::port::budget::BudgetRow;
use windlass::port::journal::{AppendError, Batch, Epoch, Journal, StoreError};
use windlass::port::records::{Expect, RecordChange, RecordError, Records};
use windlass::testing::suite::{batch, claimed, draws};
use windlass_machine::{Digest, Seq, ThreadId, UnreadableEvent};

use super::clock;

fn thread() -> ThreadId {
    ThreadId::from("thread-1")
}

#[tokio::test]
async fn an_unknown_append_that_happened_is_recognised_by_its_batch() {
    let store = MemoryStore::new(clock(1));
    let start = claimed(&store, &thread()).await;
    store.fail_append(AppendFault::UnknownAndWritten);
    let mine = batch(&thread(), start, &["a"]);
    let error = store.append(mine.clone()).await.unwrap_err();
    assert!(matches!(error, AppendError::Unknown(_)), "{error:?}");
    let found = store.head(&thread()).await.unwrap().expect("the thread");
    assert_eq!((found.seq, found.batch), (Seq(1), mine.id));
}

#[tokio::test]
async fn an_unknown_append_that_happened_reserves_once() {
    let store = MemoryStore::new(clock(1));
    let start = claimed(&store, &thread()).await;
    for (notes, key) in [(&["a"][..], "with events"), (&[][..], "without")] {
        let at = store.head(&thread()).await.unwrap().expect("the thread");
        store.fail_append(AppendFault::UnknownAndWritten);
        let change = RecordChange::put("grant", key, "alice", serde_json::json!(1), Expect::Absent);
        let mut mine = Batch { records: vec![change], ..batch(&thread(), at, notes) };
        mine.reserve = vec![draws(key, &[(key, 10, 6)])];
        let error = store.append(mine.clone()).await.unwrap_err();
        assert!(matches!(error, AppendError::Unknown(_)), "{error:?}");
        let error = store.append(mine.clone()).await.unwrap_err();
        let known = matches!(error, AppendError::Conflict { .. } | AppendError::Record { .. });
        assert!(known, "{error:?}");
        let found = store.head(&thread()).await.unwrap().expect("the thread");
        assert_eq!((found.batch, found.epoch), (mine.id, start.epoch));
        let rows = store.budgets(key).await.unwrap();
        assert!(matches!(rows[..], [BudgetRow { used: 0, reserved: 6, .. }]), "{rows:?}");
    }
    assert_eq!(store.changes(&["grant"]).await.unwrap(), [2]);
}

// rows: ZE-P3
#[tokio::test]
async fn an_unknown_append_that_did_not_happen_leaves_nothing() {
    let store = MemoryStore::new(clock(1));
    let start = claimed(&store, &thread()).await;
    for fault in [AppendFault::UnknownAndNotWritten, AppendFault::Failed] {
        store.fail_append(fault);
        let error = store.append(batch(&thread(), start, &["a"])).await.unwrap_err();
        assert_eq!(matches!(error, AppendError::Unknown(_)), fault == AppendFault::UnknownAndNotWritten);
        assert_eq!(store.head(&thread()).await.unwrap(), Some(start));
    }
    assert_eq!(store.append(batch(&thread(), start, &["a"])).await.unwrap(), Seq(1));
}

#[tokio::test]
async fn a_fenced_append_stays_fenced() {
    let store = MemoryStore::new(clock(1));
    let start = claimed(&store, &thread()).await;
    store.fail_append(AppendFault::Fenced);
    for _ in 0..2 {
        let error = store.append(batch(&thread(), start, &["a"])).await.unwrap_err();
        assert!(matches!(error, AppendError::Fenced { current: Epoch(2) }), "{error:?}");
    }
    assert_eq!(claimed(&store, &thread()).await.epoch, Epoch(3));
}

#[tokio::test]
async fn reads_fail_as_often_as_asked() {
    let store = MemoryStore::new(clock(1));
    let start = claimed(&store, &thread()).await;
    store.append(batch(&thread(), start, &["a"])).await.unwrap();
    store.fail_reads(2);
    assert!(matches!(store.read(&thread(), Seq(0), 1).await, Err(StoreError::Unavailable { .. })));
    assert!(matches!(store.head(&thread()).await, Err(StoreError::Unavailable { .. })));
    assert_eq!(store.read(&thread(), Seq(0), 1).await.unwrap().len(), 1);
}

#[tokio::test]
async fn damage_in_memory_is_reported_as_on_disk() {
    let store = MemoryStore::new(clock(1));
    let start = claimed(&store, &thread()).await;
    store.append(batch(&thread(), start, &["a", "b"])).await.unwrap();
    store.overwrite_event(&thread(), Seq(2), r#"{"v":99}"#).unwrap();
    let error = store.read(&thread(), Seq(0), 10).await.unwrap_err();
    let StoreError::Unreadable { seq: Seq(2), source: UnreadableEvent::Newer { found: 99 }, .. } = error
    else {
        panic!("{error:?}");
    };
    let digest = Digest::of(b"right");
    store.overwrite_blob(digest, "wrong".into());
    assert!(matches!(Blobs::get(&store, &digest).await, Err(StoreError::Corrupt { .. })));
}

#[tokio::test]
async fn an_unreadable_record_is_reported_and_can_be_replaced() {
    let store = MemoryStore::new(clock(1));
    for key in ["a", "b"] {
        Records::put(&store, "grant", key, "alice", 1.into(), Expect::Absent).await.unwrap();
    }
    store.overwrite_record("grant", "a", "{").unwrap();
    unreadable_and_replaced(&store).await;
}

/// How a store handles an unreadable record among two.
pub(super) async fn unreadable_and_replaced(records: &dyn Records) {
    for error in [
        records.get("grant", "a").await.unwrap_err(),
        records.list("grant", None, None, 10).await.unwrap_err(),
    ] {
        let StoreError::Corrupt { why } = error else { panic!("{error:?}") };
        assert!(why.contains("grant `a`"), "{why}");
    }
    assert_eq!(records.get("grant", "b").await.unwrap().map(|record| record.value), Some(1.into()));
    let fenced = records.put("grant", "a", "alice", 2.into(), Expect::Absent).await.unwrap_err();
    assert!(matches!(fenced, RecordError::Conflict { .. }), "{fenced:?}");
    records.put("grant", "a", "alice", 2.into(), Expect::Any).await.unwrap();
    assert_eq!(records.list("grant", None, None, 10).await.unwrap().len(), 2);
}
