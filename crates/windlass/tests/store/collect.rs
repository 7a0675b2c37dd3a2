//! Blobs are deleted once nothing names them, and never before.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::sync::Arc;

use bytes::Bytes;
use proptest::prelude::*;
use windlass::clock::ManualClock;
use windlass::port::blob::{APPEND_MAX_BYTES, Blobs};
use windlass::port::journal::{Batch, Journal};
use windlass::sqlite::{SqliteStore, StoreOptions};
use windlass::testing::suite::{batch, claimed};
use windlass_machine::{
    BlobRef, Block, CallKey, Content, Digest, Event, Fact, Input, InputId, Message, Role, ThreadId, Timestamp,
};

use super::WITHOUT_ROWS;

const HOUR_MS: u64 = 60 * 60 * 1000;

/// A store and its clock.
struct World {
    folder: tempfile::TempDir,
    clock: Arc<ManualClock>,
    store: Option<SqliteStore>,
}

impl World {
    async fn new() -> Self {
        let folder = tempfile::tempdir().unwrap();
        let clock = Arc::new(ManualClock::new(Timestamp(1_000 * HOUR_MS), 1));
        let mut world = Self { folder, clock, store: None };
        world.reopen().await;
        world
    }

    /// Drops the store and opens it again, as the next process does.
    async fn reopen(&mut self) {
        self.store = None;
        let opened = SqliteStore::open(self.folder.path(), StoreOptions::default(), self.clock.clone()).await;
        self.store = Some(opened.unwrap());
    }

    fn store(&self) -> &SqliteStore {
        self.store.as_ref().unwrap()
    }

    /// Appends an event that names a blob; a small blob is part of the append.
    async fn name(&self, thread: &ThreadId, blob: &(BlobRef, Bytes)) {
        let head = claimed(self.store(), thread).await;
        let mut named = naming(batch(thread, head, &[]), &blob.0);
        if blob.1.len() < APPEND_MAX_BYTES {
            named.blobs = vec![blob.clone()];
        }
        self.store().append(named).await.unwrap();
    }

    async fn has(&self, blob: &(BlobRef, Bytes)) -> bool {
        let found = self.store().get(&blob.0.digest).await.unwrap();
        assert!(found.is_none() || found.as_ref() == Some(&blob.1));
        let is_file = file(self.folder.path(), &blob.0.digest).exists();
        assert!(!is_file || found.is_some());
        found.is_some()
    }
}

fn file(store: &Path, digest: &Digest) -> std::path::PathBuf {
    let hex = digest.to_string();
    store.join("blobs").join(&hex[..2]).join(&hex)
}

fn naming(batch: Batch, blob: &BlobRef) -> Batch {
    let call = CallKey { step: 1, index: 0 };
    let fact = Fact::ToolKept { call, name: "suite".into(), value: Content::Blob(blob.clone()) };
    let event = Event { at: Timestamp(1_000), wall: None, run: None, fact };
    Batch { events: vec![event].into(), id: windlass::port::journal::BatchId(batch.expected.0 + 7), ..batch }
}

fn thread(number: usize) -> ThreadId {
    ThreadId::from(format!("thread-{number}"))
}

/// The nth blob; every other one is a file.
fn blob(number: usize) -> (BlobRef, Bytes) {
    let size = if number.is_multiple_of(2) { 20_000 } else { APPEND_MAX_BYTES };
    let bytes = Bytes::from(vec![number as u8; size]);
    let digest = Digest::of(&bytes);
    (BlobRef { digest, media_type: "text/plain".into(), size_bytes: size as u64, tokens: 0 }, bytes)
}

#[tokio::test]
async fn a_deleted_threads_blobs_go_with_it_and_shared_ones_with_the_last() {
    let world = World::new().await;
    for number in 0..2 {
        let shared = blob(number);
        for at in 0..2 {
            world.store().put(&shared.0, shared.1.clone()).await.unwrap();
            world.name(&thread(at), &shared).await;
        }
        // For a day, a stored blob may still be named.
        world.clock.advance_ms(25 * HOUR_MS);
        world.store().delete(&thread(0)).await.unwrap();
        assert!(world.has(&shared).await, "another thread names it");
        world.store().delete(&thread(1)).await.unwrap();
        assert!(!world.has(&shared).await);
        assert!(!file(world.folder.path(), &shared.0.digest).exists());
    }
}

#[tokio::test]
async fn a_deleted_threads_blobs_go_however_many_they_are() {
    const BLOBS: usize = 1_000;
    let world = World::new().await;
    let blobs: Vec<(BlobRef, Bytes)> = (0..BLOBS)
        .map(|number| {
            let bytes = Bytes::from(format!("blob {number}"));
            let (digest, size_bytes) = (Digest::of(&bytes), bytes.len() as u64);
            (BlobRef { digest, media_type: "text/plain".into(), size_bytes, tokens: 0 }, bytes)
        })
        .collect();
    let head = claimed(world.store(), &thread(0)).await;
    let images = blobs.iter().map(|(blob, _)| Block::Image { blob: blob.clone() }).collect();
    let message = Message { role: Role::User, blocks: images }.into();
    let fact = Fact::MessageReceived { id: "m".into(), message, by: "ann".into() };
    let event = Event { at: Timestamp(1_000), wall: None, run: None, fact };
    let named = Batch { events: vec![event].into(), blobs: blobs.clone(), ..batch(&thread(0), head, &[]) };
    world.store().append(named).await.unwrap();
    assert!(world.has(&blobs[BLOBS - 1]).await);
    world.store().delete(&thread(0)).await.unwrap();
    for blob in &blobs {
        assert!(!world.has(blob).await, "{:?}", blob.1);
    }
}

#[tokio::test]
async fn what_was_stored_lately_is_kept_until_a_day_later() {
    let mut world = World::new().await;
    for number in 0..2 {
        let fresh = blob(number);
        world.name(&thread(0), &blob(8)).await;
        world.store().put(&fresh.0, fresh.1.clone()).await.unwrap();
        world.clock.advance_ms(23 * HOUR_MS);
        world.reopen().await;
        assert!(world.has(&fresh).await);
        // Stored again, which restarts the day.
        world.store().put(&fresh.0, fresh.1.clone()).await.unwrap();
        world.clock.advance_ms(2 * HOUR_MS);
        world.store().delete(&thread(0)).await.unwrap();
        assert!(world.has(&fresh).await);
        world.clock.advance_ms(23 * HOUR_MS);
        world.reopen().await;
        assert!(!world.has(&fresh).await);
    }
}

#[tokio::test]
async fn a_blob_that_was_never_named_goes_while_the_store_is_open() {
    let world = World::new().await;
    world.name(&thread(0), &blob(2)).await;
    for number in 0..2 {
        let stored = blob(number);
        world.store().put(&stored.0, stored.1.clone()).await.unwrap();
        world.store().collect().await.unwrap();
        assert!(world.has(&stored).await, "it may be about to be named");
        world.clock.advance_ms(25 * HOUR_MS);
        world.store().collect().await.unwrap();
        assert!(!world.has(&stored).await && world.has(&blob(2)).await);
    }
}

#[tokio::test]
async fn an_input_that_waits_keeps_what_it_names() {
    let mut world = World::new().await;
    let (kept, _) = (blob(1), world.name(&thread(0), &blob(0)).await);
    world.store().put(&kept.0, kept.1.clone()).await.unwrap();
    let message = Message { role: Role::User, blocks: vec![Block::Image { blob: kept.0.clone() }] };
    let input = Input::EditQueued { id: "m".into(), message: message.into(), by: "ann".into() };
    world.store().post(&thread(0), &InputId::from("i"), &input).await.unwrap();
    world.clock.advance_ms(100 * HOUR_MS);
    world.reopen().await;
    assert!(world.has(&kept).await);
}

#[tokio::test]
async fn a_store_of_before_learns_what_its_journals_name() {
    let mut world = World::new().await;
    let (old, gone) = (blob(0), blob(2));
    world.name(&thread(0), &old).await;
    world.name(&thread(1), &gone).await;
    let older = "DROP TABLE uses; DROP TABLE loose; DROP TABLE budgets; DROP TABLE reservations; \
        DROP TABLE records; DROP TABLE record_changes; DROP TABLE record_kinds; DROP INDEX threads_running; DROP INDEX threads_due; \
        CREATE INDEX threads_to_drive ON threads (number) WHERE status = 1 OR deadline IS NOT NULL; \
        ALTER TABLE runs DROP COLUMN queued; ALTER TABLE events DROP COLUMN checksum; \
        ALTER TABLE snapshots DROP COLUMN checksum; DROP INDEX threads_timed; PRAGMA user_version = 1";
    execute(world.folder.path(), &format!("{WITHOUT_ROWS}{older}"));
    world.reopen().await;
    // Deleting a later thread that shares the blob must not delete it.
    world.name(&thread(2), &old).await;
    world.clock.advance_ms(25 * HOUR_MS);
    world.store().delete(&thread(2)).await.unwrap();
    world.store().delete(&thread(1)).await.unwrap();
    assert!(world.has(&old).await && !world.has(&gone).await);
}

fn execute(folder: &Path, sql: &str) {
    rusqlite::Connection::open(folder.join("windlass.db")).unwrap().execute_batch(sql).unwrap();
}

/// The possible steps; the process may die after each.
#[derive(Clone, Debug)]
enum Step {
    /// Stores a blob that is named later, or never, if the process dies in between.
    Put(usize),
    /// A thread names a blob that was stored recently or is part of the append.
    Name(usize, usize),
    Delete(usize),
    Wait(u64),
    Reopen,
    /// A collection that dies after deleting files and before its transaction ends.
    DieCollecting,
}

fn step() -> impl Strategy<Value = Step> {
    prop_oneof![
        3 => (0..4_usize).prop_map(Step::Put),
        4 => (0..3_usize, 0..4_usize).prop_map(|(thread, blob)| Step::Name(thread, blob)),
        2 => (0..3_usize).prop_map(Step::Delete),
        2 => (1..30_u64).prop_map(Step::Wait),
        1 => Just(Step::Reopen),
        1 => Just(Step::DieCollecting),
    ]
}

/// Plays the steps against a minimal model.
async fn play(steps: Vec<Step>) {
    let mut world = World::new().await;
    let mut named: BTreeMap<usize, BTreeSet<usize>> = BTreeMap::new();
    let mut stored_at: BTreeMap<usize, u64> = BTreeMap::new();
    let mut hours = 0;
    for step in steps {
        match step {
            Step::Put(number) => {
                let (blob, bytes) = blob(number);
                world.store().put(&blob, bytes).await.unwrap();
                stored_at.insert(number, hours);
            }
            Step::Name(at, number) => {
                let is_fresh = stored_at.get(&number).is_some_and(|stored| hours - stored < 24);
                if number % 2 == 1 && !is_fresh {
                    continue;
                }
                world.name(&thread(at), &blob(number)).await;
                named.entry(at).or_default().insert(number);
            }
            Step::Delete(at) => {
                if named.remove(&at).is_some() {
                    world.store().delete(&thread(at)).await.unwrap();
                }
            }
            Step::Wait(more) => {
                hours += more;
                world.clock.advance_ms(more * HOUR_MS);
            }
            Step::Reopen => world.reopen().await,
            Step::DieCollecting => die_collecting(&world),
        }
        for number in named.values().flatten() {
            assert!(world.has(&blob(*number)).await, "blob {number} is named and gone");
        }
    }
    world.clock.advance_ms(25 * HOUR_MS);
    world.reopen().await;
    for number in 0..4 {
        let wanted = named.values().flatten().any(|named| *named == number);
        assert_eq!(world.has(&blob(number)).await, wanted, "blob {number} at the end");
    }
}

fn die_collecting(world: &World) {
    let database = rusqlite::Connection::open(world.folder.path().join("windlass.db")).unwrap();
    let until = windlass::port::clock::Clock::now(&*world.clock).0 - 24 * HOUR_MS;
    const DUE: &str = "SELECT digest FROM loose WHERE since <= ?1 \
        AND NOT EXISTS (SELECT 1 FROM uses WHERE uses.digest = loose.digest)";
    let mut due = database.prepare(DUE).unwrap();
    let due = due.query_map([until as i64], |row| row.get::<_, Vec<u8>>(0)).unwrap();
    let due: Vec<Vec<u8>> = due.collect::<Result<_, _>>().unwrap();
    for digest in due {
        let hex: String = digest.iter().map(|byte| format!("{byte:02x}")).collect();
        let _ = std::fs::remove_file(world.folder.path().join("blobs").join(&hex[..2]).join(&hex));
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 48, failure_persistence: None, ..ProptestConfig::default() })]
    #[test]
    fn whatever_happens_a_named_blob_stays(steps in prop::collection::vec(step(), 1..40)) {
        tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap().block_on(play(steps));
    }
}
