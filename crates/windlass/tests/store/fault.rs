//! The faults that the store in memory injects.

use windlass::adapter::memory::{AppendFault, MemoryStore};
use windlass::port::blob::Blobs;
use windlass::port::journal::{AppendError, Epoch, Journal, StoreError};
use windlass::testing::suite::{batch, claimed};
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
async fn damage_in_memory_is_told_as_on_disk() {
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
    assert!(matches!(store.get(&digest).await, Err(StoreError::Corrupt { .. })));
}
