//! Damaged disks, and stores of other builds.

use std::io::{Seek, SeekFrom, Write};
use std::path::Path;
use std::sync::Arc;

use bytes::Bytes;
use windlass::clock::SystemClock;
use windlass::port::blob::Blobs;
use windlass::port::budget::Settle;
use windlass::port::journal::{
    AppendError, Head, Journal, RunView, StoreError, StoredSnapshot, ThreadStatus, UsageQuery,
};
use windlass::port::records::{Expect, Records};
use windlass::sqlite::{Durability, SqliteStore, StoreOptions};
use windlass::testing::suite::{batch, claimed, draws};
use windlass_machine::{BlobRef, Digest, Fact, ForkPoint, Seq, ThreadId, Timestamp, Totals, UnreadableEvent};

use super::{WITHOUT_ROWS, open};

fn thread() -> ThreadId {
    ThreadId::from("thread-1")
}

async fn filled(folder: &Path, notes: usize) -> (SqliteStore, Head) {
    let store = open(folder).await;
    let mut head = claimed(&store, &thread()).await;
    let text = "x".repeat(1000);
    for _ in 0..notes {
        head.seq = store.append(batch(&thread(), head, &[&text])).await.unwrap();
    }
    (store, head)
}

fn execute(folder: &Path, sql: &str) {
    rusqlite::Connection::open(folder.join("windlass.db")).unwrap().execute_batch(sql).unwrap();
}

#[tokio::test]
async fn a_full_disk_refuses_an_append_and_keeps_the_rest() {
    let folder = tempfile::tempdir().unwrap();
    let options = StoreOptions { max_bytes: Some(384 * 1024), ..StoreOptions::default() };
    let store = SqliteStore::open(folder.path(), options, Arc::new(SystemClock::new())).await.unwrap();
    let mut head = claimed(&store, &thread()).await;
    let text = "x".repeat(10_000);
    let error = loop {
        match store.append(batch(&thread(), head, &[&text])).await {
            Ok(seq) => head.seq = seq,
            Err(error) => break error,
        }
    };
    let AppendError::Failed(StoreError::Unavailable { why }) = error else { panic!("{error:?}") };
    assert!(why.contains("the disk is full"), "{why}");
    assert!(head.seq > Seq(5));
    assert_eq!(store.read(&thread(), Seq(0), 1000).await.unwrap().len() as u64, head.seq.0);
    assert_eq!(store.head(&thread()).await.unwrap().unwrap().seq, head.seq);
    drop(store);
    let store = open(folder.path()).await;
    let head = claimed(&store, &thread()).await;
    store.append(batch(&thread(), head, &[&text])).await.unwrap();
}

#[tokio::test]
async fn a_damaged_page_is_reported_with_a_remedy() {
    const PAGE_BYTES: u64 = 4096;
    let folder = tempfile::tempdir().unwrap();
    drop(filled(folder.path(), 200).await);
    execute(folder.path(), "PRAGMA wal_checkpoint(TRUNCATE)");
    let path = folder.path().join("windlass.db");
    let mut file = std::fs::File::options().write(true).open(&path).unwrap();
    let pages = file.metadata().unwrap().len() / PAGE_BYTES;
    // The second half of the file contains only events.
    for page in pages / 2..pages {
        file.seek(SeekFrom::Start(page * PAGE_BYTES)).unwrap();
        file.write_all(&[0x5a; PAGE_BYTES as usize]).unwrap();
    }
    drop(file);
    let store = open(folder.path()).await;
    for error in [store.read(&thread(), Seq(0), 1000).await.unwrap_err(), store.check().await.unwrap_err()] {
        let StoreError::Corrupt { why } = error else { panic!("{error:?}") };
        assert!(why.contains("backup"), "{why}");
    }
}

#[tokio::test]
async fn a_file_that_is_not_a_database_is_reported() {
    let folder = tempfile::tempdir().unwrap();
    std::fs::write(folder.path().join("windlass.db"), "not a database, but longer than a header".repeat(99))
        .unwrap();
    let opened =
        SqliteStore::open(folder.path(), StoreOptions::default(), Arc::new(SystemClock::new())).await;
    let Err(StoreError::Corrupt { .. }) = opened else { panic!("{:?}", opened.err()) };
}

#[tokio::test]
async fn a_missing_event_is_damage() {
    let folder = tempfile::tempdir().unwrap();
    let (store, _) = filled(folder.path(), 3).await;
    execute(folder.path(), "DELETE FROM events WHERE position & 4294967295 = 2");
    let error = store.read(&thread(), Seq(0), 10).await.unwrap_err();
    let StoreError::Corrupt { why } = error else { panic!("{error:?}") };
    assert!(why.contains("lacks event 2"), "{why}");
}

#[tokio::test]
async fn an_event_of_a_newer_build_is_unreadable() {
    let folder = tempfile::tempdir().unwrap();
    let (store, _) = filled(folder.path(), 3).await;
    execute(
        folder.path(),
        r#"UPDATE events SET checksum = NULL, body = '{"v":99}' WHERE position & 4294967295 = 2"#,
    );
    let error = store.read(&thread(), Seq(0), 10).await.unwrap_err();
    let StoreError::Unreadable { thread: found, seq, source } = error else { panic!("{error:?}") };
    assert_eq!((found, seq), (thread(), Seq(2)));
    assert!(matches!(source, UnreadableEvent::Newer { found: 99 }), "{source:?}");
    assert_eq!(store.read(&thread(), Seq(2), 10).await.unwrap().len(), 1);
}

#[tokio::test]
async fn a_store_of_a_newer_build_is_refused() {
    let folder = tempfile::tempdir().unwrap();
    drop(open(folder.path()).await);
    execute(folder.path(), "PRAGMA user_version = 99");
    let opened =
        SqliteStore::open(folder.path(), StoreOptions::default(), Arc::new(SystemClock::new())).await;
    let Err(StoreError::Refused { why }) = opened else { panic!("{:?}", opened.err()) };
    assert!(why.contains("99") && why.contains("upgrade windlass"), "{why}");
}

#[tokio::test]
async fn a_store_of_an_older_build_gets_its_new_tables() {
    let folder = tempfile::tempdir().unwrap();
    drop(filled(folder.path(), 3).await);
    let older = "DROP TABLE budgets; DROP TABLE reservations; DROP TABLE records; DROP TABLE record_changes; DROP TABLE record_kinds; \
        DROP INDEX threads_running; DROP INDEX threads_due; \
        CREATE INDEX threads_to_drive ON threads (number) WHERE status = 1 OR deadline IS NOT NULL; \
        ALTER TABLE runs DROP COLUMN queued; ALTER TABLE events DROP COLUMN checksum; \
        ALTER TABLE snapshots DROP COLUMN checksum; DROP INDEX threads_timed; PRAGMA user_version = 2";
    execute(folder.path(), &format!("{WITHOUT_ROWS}{older}"));
    let store = open(folder.path()).await;
    let mut reserving = batch(&thread(), claimed(&store, &thread()).await, &["a"]);
    reserving.reserve = vec![draws("one", &[("usd", 10, 6)])];
    assert_eq!(store.append(reserving).await.unwrap(), Seq(4));
    assert_eq!(Records::put(&store, "grant", "a", "alice", 1.into(), Expect::Absent).await.unwrap(), 1);
}

#[tokio::test]
async fn a_store_of_an_older_build_learns_what_its_threads_are_forks_of() {
    let folder = tempfile::tempdir().unwrap();
    let store = open(folder.path()).await;
    let mut batches = Vec::new();
    for id in ["fork", "plain", "damaged"] {
        let thread = ThreadId::from(id);
        let mut batch = batch(&thread, claimed(&store, &thread).await, &["a", "b"]);
        if id != "plain" {
            let (from, until) = (ThreadId::from("origin"), Seq(7));
            let mut events = batch.events.to_vec();
            events[1].fact = Fact::ThreadForked { from, until, by: "ann".into(), when: Timestamp(1) };
            batch.events = events.into();
        }
        batches.push(batch);
    }
    for batch in batches {
        store.append(batch).await.unwrap();
    }
    drop(store);
    let older = "PRAGMA user_version = 8; \
        UPDATE events SET body = substr(body, 2) WHERE position = 2 + \
            (SELECT number FROM threads WHERE thread = 'damaged') * 4294967296";
    execute(folder.path(), &format!("{WITHOUT_ROWS}{older}"));
    let store = open(folder.path()).await;
    let origin = async |id: &str| store.thread(&id.into()).await.unwrap().expect("a thread").view.forked_from;
    let expected = ForkPoint { thread: "origin".into(), until: Seq(7) };
    assert_eq!(origin("fork").await, Some(expected));
    assert_eq!((origin("plain").await, origin("damaged").await), (None, None));
}

#[tokio::test]
async fn a_store_of_an_older_build_has_sums_of_what_its_runs_used() {
    const HOUR_MS: u64 = 3_600_000;
    let folder = tempfile::tempdir().unwrap();
    let store = open(folder.path()).await;
    for (nth, status) in [(1, ThreadStatus::Idle), (2, ThreadStatus::Running), (3, ThreadStatus::Waiting)] {
        let thread = ThreadId::from(format!("t{nth}"));
        let mut batch = batch(&thread, claimed(&store, &thread).await, &["a"]);
        batch.thread_view.status = status;
        batch.runs = (0..5_u64).map(|run| run_of(run, run * nth * 5 * HOUR_MS)).collect();
        store.append(batch).await.unwrap();
    }
    let query =
        UsageQuery { until: Timestamp(96 * HOUR_MS), bucket_ms: 24 * HOUR_MS, ..UsageQuery::default() };
    let known = store.usage(&query).await.unwrap();
    assert_eq!((known.threads, known.rows.iter().map(|row| row.runs).sum()), (3, 15));
    drop(store);
    execute(folder.path(), &format!("{WITHOUT_ROWS}PRAGMA user_version = 8"));
    let store = open(folder.path()).await;
    assert_eq!(store.usage(&query).await.unwrap(), known);
    Journal::delete(&store, &"t1".into()).await.unwrap();
    assert_eq!(store.usage(&query).await.unwrap().threads, 2);
}

fn run_of(run: u64, started_at: u64) -> RunView {
    RunView {
        run: format!("run-{run}").as_str().into(),
        agent: "one".to_owned(),
        model: if run.is_multiple_of(3) { "demo/a" } else { "demo/b" }.into(),
        queued: None,
        status: None,
        from: Seq(1),
        started_at: Timestamp(started_at),
        finished_at: None,
        totals: Totals { steps: 1, approved: 2, ttft_ms: Some(run), ..Totals::default() },
    }
}

#[tokio::test]
async fn an_append_that_draws_from_nothing_asks_nothing_of_budgets_and_records() {
    let folder = tempfile::tempdir().unwrap();
    let (store, head) = filled(folder.path(), 1).await;
    let gone = "DROP TABLE budgets; DROP TABLE reservations; DROP TABLE records; DROP TABLE record_changes";
    execute(folder.path(), gone);
    assert_eq!(store.append(batch(&thread(), head, &["a"])).await.unwrap(), Seq(2));
    let mut reserving = batch(&thread(), Head { seq: Seq(2), ..head }, &["x"]);
    reserving.reserve = vec![draws("one", &[("usd", 10, 6)])];
    let error = store.append(reserving).await.unwrap_err();
    assert!(matches!(error, AppendError::Failed(StoreError::Unavailable { .. })), "{error:?}");
}

#[tokio::test]
async fn an_unreadable_record_is_reported_and_can_be_replaced() {
    let folder = tempfile::tempdir().unwrap();
    let store = open(folder.path()).await;
    for key in ["a", "b"] {
        Records::put(&store, "grant", key, "alice", 1.into(), Expect::Absent).await.unwrap();
    }
    execute(folder.path(), "UPDATE records SET value = '{' WHERE key = 'a'");
    super::fault::unreadable_and_replaced(&store).await;
}

#[tokio::test]
async fn an_unreadable_reservation_is_reported() {
    let folder = tempfile::tempdir().unwrap();
    let store = open(folder.path()).await;
    let head = claimed(&store, &thread()).await;
    let mut reserving = batch(&thread(), head, &[]);
    reserving.reserve = vec![draws("one", &[("usd", 10, 6)])];
    store.append(reserving).await.unwrap();
    execute(folder.path(), "UPDATE reservations SET amounts = '[' WHERE key = 'one'");
    let mut settling = batch(&thread(), head, &["x"]);
    settling.settle = vec![Settle { key: "one".to_owned(), used: Vec::new() }];
    let AppendError::Failed(append) = store.append(settling).await.unwrap_err() else {
        panic!("not a certain failure")
    };
    let list = store.open_reservations(&thread()).await.unwrap_err();
    for error in [append, list, Journal::delete(&store, &thread()).await.unwrap_err()] {
        let StoreError::Corrupt { why } = error else { panic!("{error:?}") };
        assert!(why.contains("what was reserved"), "{why}");
    }
    assert_eq!(store.head(&thread()).await.unwrap().map(|head| head.seq), Some(Seq(0)));
}

#[tokio::test]
async fn a_damaged_blob_is_an_error_never_other_bytes() {
    let folder = tempfile::tempdir().unwrap();
    let store = open(folder.path()).await;
    for size in [1000, 2_000_000] {
        let bytes = Bytes::from(vec![7; size]);
        let (digest, size_bytes) = (Digest::of(&bytes), size as u64);
        let blob = BlobRef { digest, media_type: "text/plain".to_owned(), size_bytes, tokens: 0 };
        Blobs::put(&store, &blob, bytes.clone()).await.unwrap();
        execute(folder.path(), "UPDATE blobs SET bytes = x'00'");
        let hex = digest.to_string();
        let file = folder.path().join("blobs").join(&hex[..2]).join(&hex);
        assert_eq!(file.exists(), size > 1_000_000);
        if file.exists() {
            std::fs::write(&file, "cut off").unwrap();
        }
        let error = Blobs::get(&store, &digest).await.unwrap_err();
        assert!(matches!(error, StoreError::Corrupt { .. }), "{error:?}");
        // Storing the right bytes again repairs it.
        Blobs::put(&store, &blob, bytes.clone()).await.unwrap();
        assert_eq!(Blobs::get(&store, &digest).await.unwrap(), Some(bytes));
    }
}

#[tokio::test]
async fn the_folder_is_private_and_the_check_says_what_it_saw() {
    use std::os::unix::fs::PermissionsExt;
    let parent = tempfile::tempdir().unwrap();
    let folder = parent.path().join("store");
    let options = StoreOptions { durability: Durability::Relaxed, ..StoreOptions::default() };
    let store = SqliteStore::open(&folder, options, Arc::new(SystemClock::new())).await.unwrap();
    for name in ["", "nodes", "blobs"] {
        let mode = std::fs::metadata(folder.join(name)).unwrap().permissions().mode();
        assert_eq!(mode & 0o777, 0o700, "{name}");
    }
    let said = store.check().await.unwrap();
    for part in ["every page", "0 events match their checksums", "`wal`", "relaxed", "MiB free"] {
        assert!(said.contains(part), "{part}: {said}");
    }
}

#[tokio::test]
async fn a_commit_is_on_disk_before_it_is_answered() {
    for (durability, said) in [(Durability::Full, "durability full"), (Durability::Relaxed, "relaxed")] {
        let folder = tempfile::tempdir().unwrap();
        let options = StoreOptions { durability, ..StoreOptions::default() };
        let store = SqliteStore::open(folder.path(), options, Arc::new(SystemClock::new())).await.unwrap();
        // Read on the writing connection: the check fails if the database may lose acknowledged commits.
        let checked = store.check().await.unwrap();
        assert!(checked.contains(said), "{checked}");
    }
}

/// Flips one bit of the database, in the text of an event.
fn flip_bit(store: &Path, text: &str) {
    let path = store.join("windlass.db");
    let mut bytes = std::fs::read(&path).unwrap();
    let at = bytes.windows(text.len()).position(|window| window == text.as_bytes()).expect("the text");
    bytes[at] ^= 1;
    std::fs::write(path, bytes).unwrap();
}

#[tokio::test]
async fn a_changed_bit_of_an_event_is_damage() {
    let folder = tempfile::tempdir().unwrap();
    let (store, _) = filled(folder.path(), 3).await;
    let said = store.check().await.unwrap();
    assert!(said.contains("3 events match their checksums"), "{said}");
    drop(store);
    execute(folder.path(), "PRAGMA wal_checkpoint(TRUNCATE)");
    // The text stays valid JSON, and the event a valid event.
    flip_bit(folder.path(), "xxxxxxxx");
    let store = open(folder.path()).await;
    for error in [store.read(&thread(), Seq(0), 10).await.unwrap_err(), store.check().await.unwrap_err()] {
        let StoreError::Corrupt { why } = error else { panic!("{error:?}") };
        assert!(why.contains("its bytes do not match their checksum"), "{why}");
        assert!(why.contains("backup"), "{why}");
    }
    // The same bytes at another position are damage too.
    let swapped = "UPDATE events SET (body, checksum) = (SELECT body, checksum FROM events AS other \
        WHERE other.position = events.position + 1) WHERE position & 4294967295 = 2";
    execute(folder.path(), swapped);
    let error = store.read(&thread(), Seq(1), 1).await.unwrap_err();
    assert!(matches!(error, StoreError::Corrupt { .. }), "{error:?}");
}

#[tokio::test]
async fn a_changed_snapshot_is_left_out() {
    let folder = tempfile::tempdir().unwrap();
    let (store, head) = filled(folder.path(), 3).await;
    let snapshot = StoredSnapshot { fold: 1, seq: Seq(3), bytes: "{}".into() };
    store.put_snapshot(&thread(), head.epoch, snapshot.clone()).await.unwrap();
    assert_eq!(store.snapshot(&thread()).await.unwrap(), Some(snapshot));
    execute(folder.path(), "UPDATE snapshots SET bytes = '{ }'");
    assert_eq!(store.snapshot(&thread()).await.unwrap(), None);
}

#[tokio::test]
async fn a_folder_whose_database_is_missing_is_no_new_store() {
    let open = async |folder: &Path| {
        SqliteStore::open(folder, StoreOptions::default(), Arc::new(SystemClock::new())).await.map(drop)
    };
    for part in ["vault.key", "blobs/aa", "files/ann"] {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join(part);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(&path, "something").unwrap();
        let refused = open(folder.path()).await.unwrap_err().to_string();
        assert!(
            refused.contains("`windlass.db` is missing") && refused.contains("backup"),
            "{part}: {refused}"
        );
        assert!(!folder.path().join("windlass.db").exists());
    }
    // A store that was opened before, and one whose folder existed before, can be opened.
    let folder = tempfile::tempdir().unwrap();
    std::fs::create_dir(folder.path().join("blobs")).unwrap();
    open(folder.path()).await.unwrap();
    std::fs::write(folder.path().join("vault.key"), "a key").unwrap();
    open(folder.path()).await.unwrap();
}
