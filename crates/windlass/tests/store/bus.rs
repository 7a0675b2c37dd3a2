//! The bus between processes.

use std::sync::Arc;
use std::time::Duration;

use futures::StreamExt;
use windlass::port::bus::{Backlog, Bus, Position, Signal};
use windlass::port::journal::Journal;
use windlass::sqlite::bus::{Owners, SocketBus};
use windlass::testing::suite::{batch, claimed, fragment, next};
use windlass_machine::{Seq, ThreadId};

use super::open;
use super::process::Other;

/// The bus of this process beside another process that streams on the thread `stream`.
async fn beside_another() -> (tempfile::TempDir, Other, SocketBus) {
    let folder = tempfile::tempdir().unwrap();
    let mut other = Other::start("stream", folder.path());
    assert_eq!(other.says().as_deref(), Some("0"));
    let store = Arc::new(open(folder.path()).await);
    let node = store.node().clone();
    let owners: Arc<dyn Owners> = store;
    (folder, other, SocketBus::open(node, owners).unwrap())
}

// Reading the other process's output blocks a thread, and the bus needs one meanwhile.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn another_processs_stream_is_followed_and_woken() {
    let (_folder, mut other, bus) = beside_another().await;
    let thread = ThreadId::from("stream");
    let (mut early, mut again) = (
        bus.follow(&thread, Position::default(), Backlog::Fragments),
        bus.follow(&thread, Position::default(), Backlog::Fragments),
    );
    for number in 1..=10 {
        assert_eq!(*next(&mut early).await, fragment(3, number));
    }
    bus.wake(&thread);
    assert_eq!(other.says().as_deref(), Some("1"));
    let mut late = bus.follow(&thread, Position::default(), Backlog::Fragments);
    for follower in [&mut again, &mut late] {
        for number in 1..=20 {
            assert_eq!(*next(follower).await, fragment(3, number));
        }
    }
    // The wake was sent to the owner, not to this process.
    let mine = tokio::time::timeout(Duration::from_millis(50), bus.wakes().next()).await;
    assert!(mine.is_err(), "{mine:?}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_backlog_of_another_process_is_relayed_as_a_snapshot() {
    let (_folder, mut other, bus) = beside_another().await;
    let thread = ThreadId::from("stream");
    let mut follower = bus.follow(&thread, Position::default(), Backlog::Snapshot);
    let first = next(&mut follower).await;
    let Signal::Snapshot { seq: Seq(3), number: 10, .. } = *first else { panic!("{first:?}") };
    bus.wake(&thread);
    assert_eq!(other.says().as_deref(), Some("1"));
    for number in 11..=20 {
        assert_eq!(*next(&mut follower).await, fragment(3, number));
    }
}

#[tokio::test]
async fn followers_stay_when_the_owner_dies() {
    let folder = tempfile::tempdir().unwrap();
    let mut other = Other::start("stream", folder.path());
    assert_eq!(other.says().as_deref(), Some("0"));
    let (watcher, heir) = (Arc::new(open(folder.path()).await), open(folder.path()).await);
    let owners: Arc<dyn Owners> = watcher.clone();
    let bus = SocketBus::open(watcher.node().clone(), owners).unwrap();
    let thread = ThreadId::from("stream");
    let mut follower = bus.follow(&thread, Position::default(), Backlog::Fragments);
    for number in 1..=10 {
        assert_eq!(*next(&mut follower).await, fragment(3, number));
    }
    other.kill();
    // The next owner has no socket, so the watcher only learns the journal's head.
    let head = claimed(&heir, &thread).await;
    heir.append(batch(&thread, head, &["a", "b"])).await.unwrap();
    assert_eq!(*next(&mut follower).await, Signal::Appended { seq: Seq(2), events: [].into(), status: None });
}

#[tokio::test]
async fn a_wake_without_another_owner_stays_here() {
    let folder = tempfile::tempdir().unwrap();
    let store = Arc::new(open(folder.path()).await);
    let owners: Arc<dyn Owners> = store.clone();
    let bus = SocketBus::open(store.node().clone(), owners).unwrap();
    claimed(&*store, &"mine".into()).await;
    let mut wakes = bus.wakes();
    for thread in ["mine", "nobody's"] {
        bus.wake(&thread.into());
        assert_eq!(next(&mut wakes).await, ThreadId::from(thread));
    }
}

#[tokio::test]
async fn a_store_with_a_long_path_has_a_bus() {
    let parent = tempfile::tempdir().unwrap();
    let folder = parent.path().join("a".repeat(90)).join("b".repeat(90));
    let (one, two) = (Arc::new(open(&folder).await), Arc::new(open(&folder).await));
    let (one_owners, two_owners): (Arc<dyn Owners>, Arc<dyn Owners>) = (one.clone(), two.clone());
    let first = SocketBus::open(one.node().clone(), one_owners).unwrap();
    let second = SocketBus::open(two.node().clone(), two_owners).unwrap();
    let thread = ThreadId::from("thread-1");
    claimed(&*one, &thread).await;
    let mut wakes = first.wakes();
    second.wake(&thread);
    assert_eq!(next(&mut wakes).await, thread);
}
