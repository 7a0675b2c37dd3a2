//! The exported suites on memory and SQLite.

use std::sync::Arc;

use windlass::bus::LocalBus;
use windlass::memory::MemoryStore;
use windlass::port::blob::Blobs;
use windlass::port::journal::Journal;
use windlass::sqlite::bus::{Owners, SocketBus};
use windlass::sqlite::{SqliteStore, StoreOptions};
use windlass::testing::suite::{
    JournalSubject, RecordsSubject, blob_suite, bus_suite, journal_suite, records_suite,
};

use super::clock;

// rows: SK-G17
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_journal_in_memory() {
    journal_suite(|| async {
        let clock = clock(1);
        let first = MemoryStore::new(clock.clone());
        let second = first.another_node();
        let dying = first.clone();
        JournalSubject {
            first: Arc::new(first),
            second: Arc::new(second),
            clock,
            end_first: Box::new(move || dying.kill()),
        }
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_journal_in_memory_with_leases() {
    journal_suite(|| async {
        let clock = clock(8);
        let first = MemoryStore::leased(clock.clone(), 30_000);
        let second = first.another_node();
        JournalSubject {
            first: Arc::new(first),
            second: Arc::new(second),
            clock,
            end_first: Box::new(|| unreachable!("the store would not notice")),
        }
    })
    .await;
}

// rows: SK-G17
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_journal_in_sqlite() {
    let parent = tempfile::tempdir().unwrap();
    journal_suite(|| async {
        let clock = clock(2);
        let folder = tempfile::tempdir_in(&parent).unwrap().keep();
        let open = || SqliteStore::open(&folder, StoreOptions::default(), clock.clone());
        let (first, second) = (open().await.unwrap(), open().await.unwrap());
        // A node in SQLite ends with its store, which the suite has just dropped.
        let end_first = Box::new(|| ());
        JournalSubject { first: Arc::new(first), second: Arc::new(second), clock, end_first }
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn records_in_memory() {
    records_suite(|| async {
        let clock = clock(6);
        let first = Arc::new(MemoryStore::new(clock.clone()));
        let second = Arc::new(first.another_node());
        RecordsSubject { first: first.clone(), second, journal: first, clock }
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn records_in_sqlite() {
    let parent = tempfile::tempdir().unwrap();
    records_suite(|| async {
        let clock = clock(7);
        let folder = tempfile::tempdir_in(&parent).unwrap().keep();
        let open = || SqliteStore::open(&folder, StoreOptions::default(), clock.clone());
        let (first, second) = (Arc::new(open().await.unwrap()), open().await.unwrap());
        RecordsSubject { first: first.clone(), second: Arc::new(second), journal: first, clock }
    })
    .await;
}

#[tokio::test]
async fn blobs_in_memory() {
    blob_suite(|| async {
        let store = Arc::new(MemoryStore::new(clock(3)));
        (store.clone() as Arc<dyn Blobs>, store as Arc<dyn Journal>)
    })
    .await;
}

#[tokio::test]
async fn blobs_in_sqlite() {
    let folder = tempfile::tempdir().unwrap();
    blob_suite(|| async {
        let store = SqliteStore::open(folder.path(), StoreOptions::default(), clock(4)).await.unwrap();
        let store = Arc::new(store);
        (store.clone() as Arc<dyn Blobs>, store as Arc<dyn Journal>)
    })
    .await;
}

#[tokio::test]
async fn the_bus_of_one_process() {
    bus_suite(|| Box::new(LocalBus::new())).await;
}

#[tokio::test]
async fn the_bus_among_processes_when_alone() {
    let parent = tempfile::tempdir().unwrap();
    let folder = tempfile::tempdir_in(&parent).unwrap().keep();
    let store = SqliteStore::open(&folder, StoreOptions::default(), clock(5)).await.unwrap();
    let store = Arc::new(store);
    bus_suite(|| {
        let owners: Arc<dyn Owners> = store.clone();
        Box::new(SocketBus::open(store.node().clone(), owners).unwrap())
    })
    .await;
}
