//! Group commit: many threads at once, and a stale one among them.

use std::path::Path;
use std::sync::Arc;

use windlass::port::journal::{AppendError, Batch, Epoch, Head, Journal};
use windlass::port::records::{Expect, RecordChange, RecordError, Records};
use windlass::testing::suite::{batch, claimed, draws};
use windlass_machine::{Seq, ThreadId};

use super::open;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn two_hundred_threads_append_at_once_and_a_stale_one_fails_alone() {
    const THREADS: u64 = 200;
    const APPENDS: u64 = 20;
    let folder = tempfile::tempdir().unwrap();
    let store = Arc::new(open(folder.path()).await);
    let drive = |number: u64| {
        let store = Arc::clone(&store);
        async move {
            let thread = ThreadId::from(format!("thread-{number}"));
            let mut head = claimed(&*store, &thread).await;
            for _ in 0..APPENDS {
                let mut stale = head;
                stale.epoch = Epoch(0);
                let (refused, done) = tokio::join!(
                    store.append(batch(&thread, stale, &["x"])),
                    store.append(batch(&thread, head, &["a", "b"]))
                );
                assert!(matches!(refused, Err(AppendError::Fenced { current: Epoch(1) })), "{refused:?}");
                head.seq = done.unwrap();
            }
            assert_eq!(head.seq, Seq(2 * APPENDS));
            assert_eq!(store.read(&thread, Seq(0), 100).await.unwrap().len() as u64, 2 * APPENDS);
        }
    };
    let tasks: Vec<_> = (0..THREADS).map(|number| tokio::spawn(drive(number))).collect();
    for task in tasks {
        task.await.unwrap();
    }
    store.check().await.unwrap();
}

/// A connection that holds the write lock, as another process might.
fn locked(folder: &Path) -> rusqlite::Connection {
    let other = rusqlite::Connection::open(folder.join("windlass.db")).unwrap();
    other.execute_batch("BEGIN IMMEDIATE").unwrap();
    other
}

#[tokio::test]
async fn a_refused_one_leaves_nothing_and_does_not_disturb_its_group() {
    let folder = tempfile::tempdir().unwrap();
    let store = open(folder.path()).await;
    store.put("grant", "a", "alice", 1.into(), Expect::Absent).await.unwrap();
    let [first, too_much, conflicting, last] =
        ["first", "too much", "conflicting", "last"].map(ThreadId::from);
    for thread in [&first, &too_much, &conflicting, &last] {
        claimed(&store, thread).await;
    }
    let head = Head { epoch: Epoch(1), ..Head::default() };
    let grant = |value: u64, expected| RecordChange::put("grant", "a", "alice", value.into(), expected);
    let reserving = |thread: &ThreadId, amount: u64, change: RecordChange| {
        let mut batch = Batch { records: vec![change], ..batch(thread, head, &["a"]) };
        batch.reserve = vec![draws("one", &[("calls", 100, 1), ("usd", 10, amount)])];
        store.append(batch)
    };
    let mode = RecordChange::put("mode", "b", "alice", "ask".into(), Expect::Absent);
    let other = locked(folder.path());
    // All of them wait for the lock, and then form one group.
    let (done, refused, conflict, applied, also_done, _) = tokio::join!(
        reserving(&first, 4, grant(2, Expect::Version(1))),
        reserving(&too_much, 7, grant(3, Expect::Version(2))),
        reserving(&conflicting, 1, grant(4, Expect::Version(1))),
        store.apply(vec![mode, grant(5, Expect::Version(1))]),
        reserving(&last, 6, grant(6, Expect::Version(2))),
        async { other.execute_batch("ROLLBACK").unwrap() }
    );
    assert_eq!((done.unwrap(), also_done.unwrap()), (Seq(1), Seq(1)));
    assert!(matches!(refused, Err(AppendError::Limit { taken: 4, wanted: 7, .. })), "{refused:?}");
    assert!(matches!(conflict, Err(AppendError::Record { .. })), "{conflict:?}");
    assert!(matches!(applied, Err(RecordError::Conflict { found: Some(2), .. })), "{applied:?}");
    for (thread, events) in [(&first, 1), (&too_much, 0), (&conflicting, 0), (&last, 1)] {
        assert_eq!(store.read(thread, Seq(0), 10).await.unwrap().len(), events, "{thread}");
        assert_eq!(store.open_reservations(thread).await.unwrap().len(), events, "{thread}");
    }
    let taken: Vec<_> = store.budgets("").await.unwrap().into_iter().map(|row| row.reserved).collect();
    assert_eq!(taken, [2, 10]);
    assert_eq!(store.get("grant", "a").await.unwrap().map(|record| record.value), Some(6.into()));
    assert_eq!(store.get("mode", "b").await.unwrap(), None);
    assert_eq!(store.changes(&["grant", "mode"]).await.unwrap(), [3, 0]);
}

#[tokio::test(flavor = "current_thread")]
async fn an_append_does_not_hold_up_its_thread_while_another_process_writes() {
    let folder = tempfile::tempdir().unwrap();
    let thread = ThreadId::from("thread-1");
    let store = open(folder.path()).await;
    let head = claimed(&store, &thread).await;
    let other = locked(folder.path());
    let unlock = async { other.execute_batch("ROLLBACK").unwrap() };
    // On a single thread: if the append waited for the lock there, the lock would never be released.
    let (appended, _) = tokio::join!(store.append(batch(&thread, head, &["a"])), unlock);
    assert_eq!(appended.unwrap(), Seq(1));
}

#[tokio::test]
async fn the_log_is_written_back() {
    let folder = tempfile::tempdir().unwrap();
    let thread = ThreadId::from("thread-1");
    let store = open(folder.path()).await;
    let mut head = claimed(&store, &thread).await;
    let text = "x".repeat(10_000);
    for _ in 0..2_000 {
        head.seq = store.append(batch(&thread, head, &[&text])).await.unwrap();
    }
    let log = std::fs::metadata(folder.path().join("windlass.db-wal")).unwrap().len();
    assert!(log < 10_000_000, "{log} bytes of log for 20 MB of events");
}

#[tokio::test]
async fn what_was_sent_before_the_store_closed_is_written() {
    let folder = tempfile::tempdir().unwrap();
    let thread = ThreadId::from("thread-1");
    {
        let store = open(folder.path()).await;
        let head = claimed(&store, &thread).await;
        let other = locked(folder.path());
        // Polled once, so that it is queued, and then dropped: its outcome is unknown to the caller.
        let append = store.append(batch(&thread, head, &["a"]));
        assert!(futures::poll!(std::pin::pin!(append)).is_pending());
        other.execute_batch("ROLLBACK").unwrap();
    }
    let store = open(folder.path()).await;
    assert_eq!(store.read(&thread, Seq(0), 10).await.unwrap().len(), 1);
}
