//! Group commit: many threads at once, and a stale one among them.

use std::sync::Arc;

use windlass::port::journal::{AppendError, Epoch, Journal};
use windlass::testing::suite::{batch, claimed};
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

#[tokio::test]
async fn what_was_sent_before_the_store_closed_is_written() {
    let folder = tempfile::tempdir().unwrap();
    let thread = ThreadId::from("thread-1");
    {
        let store = open(folder.path()).await;
        let head = claimed(&store, &thread).await;
        // Polled once, so that it is in the queue, and then given up: its outcome is unknown to the caller.
        let append = store.append(batch(&thread, head, &["a"]));
        assert!(futures::poll!(std::pin::pin!(append)).is_pending());
    }
    let store = open(folder.path()).await;
    assert_eq!(store.read(&thread, Seq(0), 10).await.unwrap().len(), 1);
}
