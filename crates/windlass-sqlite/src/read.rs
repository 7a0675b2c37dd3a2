//! Queries of readers, on separate connections that the writer never waits for.
//!
//! Nothing here writes.

pub(super) mod list;
pub(super) mod usage;

use sqlx::SqlitePool;
use windlass_engine::port::journal::{
    BatchId, Epoch, Head, Left, Posted, Recorded, StoreError, StoredSnapshot,
};
use windlass_machine::{Digest, Event, InputId, Seq, ThreadId, Timestamp};

use super::checksum;
use super::column::{OUTCOME_KEPT_MS, encode, posted, stored};
use super::fault::{damaged, store_error};
use crate::work::Work;
use crate::writer::raw;

/// Where a thread stands.
pub(super) async fn head(pool: &SqlitePool, thread: &ThreadId) -> Result<Option<Head>, StoreError> {
    let row: Option<(i64, i64, i64)> =
        sqlx::query_as("SELECT head, epoch, batch FROM threads WHERE thread = ?1 AND deleted = 0")
            .bind(thread.as_str())
            .fetch_optional(pool)
            .await
            .map_err(store_error)?;
    Ok(row.map(|(seq, epoch, batch)| Head {
        seq: Seq(seq.cast_unsigned()),
        epoch: Epoch(epoch.cast_unsigned()),
        batch: BatchId(batch.cast_unsigned()),
    }))
}

/// Events after a position. They stand without a gap, so that a missing one is damage.
pub(super) async fn events(
    pool: &SqlitePool,
    thread: &ThreadId,
    after: Seq,
    limit: usize,
) -> Result<Vec<Recorded>, StoreError> {
    const EVENTS: &str = "SELECT position, body, checksum FROM threads CROSS JOIN events \
        WHERE thread = ?1 AND deleted = 0 AND position > (number << 32 | ?2) \
        AND position <= (number << 32 | 4294967295) ORDER BY position LIMIT ?3";
    let rows: Vec<StoredEvent> = sqlx::query_as(EVENTS)
        .bind(thread.as_str())
        .bind(i64::from(u32::try_from(after.0).unwrap_or(u32::MAX)))
        .bind(stored(limit))
        .fetch_all(pool)
        .await
        .map_err(store_error)?;
    decoded(thread, after, rows)
}

/// The last events before a position, in order.
pub(super) async fn events_back(
    pool: &SqlitePool,
    thread: &ThreadId,
    before: Seq,
    limit: usize,
) -> Result<Vec<Recorded>, StoreError> {
    const EVENTS: &str = "SELECT position, body, checksum FROM threads CROSS JOIN events \
        WHERE thread = ?1 AND deleted = 0 AND position > (number << 32) \
        AND position <= (number << 32 | min(?2, head)) ORDER BY position DESC LIMIT ?3";
    let last = u32::try_from(before.0.saturating_sub(1)).unwrap_or(u32::MAX);
    let mut rows: Vec<StoredEvent> = sqlx::query_as(EVENTS)
        .bind(thread.as_str())
        .bind(i64::from(last))
        .bind(stored(limit))
        .fetch_all(pool)
        .await
        .map_err(store_error)?;
    rows.reverse();
    // A page that is not full begins with the first event.
    let first = rows.first().filter(|_| rows.len() >= limit).map_or(1, |(position, ..)| seq_of(*position).0);
    decoded(thread, Seq(first.saturating_sub(1)), rows)
}

/// An event's position, its text and the checksum of that.
pub(super) type StoredEvent = (i64, Vec<u8>, Option<i64>);

/// An event's place in its journal: see `001_journal.sql`.
pub(super) fn seq_of(position: i64) -> Seq {
    Seq((position & 0xffff_ffff).cast_unsigned())
}

/// Events as they stand after a position.
fn decoded(thread: &ThreadId, after: Seq, rows: Vec<StoredEvent>) -> Result<Vec<Recorded>, StoreError> {
    let mut expected = after;
    let mut events = Vec::with_capacity(rows.len());
    for row in rows {
        expected = expected.next();
        if seq_of(row.0) != expected {
            return Err(damaged(&format!("thread `{thread}` lacks event {expected}")));
        }
        events.push(Recorded { seq: expected, event: decode(thread, &row)? });
    }
    Ok(events)
}

/// Reads one event, whose bytes must be those that were written.
pub(super) fn decode(thread: &ThreadId, (position, body, sum): &StoredEvent) -> Result<Event, StoreError> {
    let seq = seq_of(*position);
    let changed = || {
        let why = "its bytes do not match their checksum, so the disk or memory has changed them";
        damaged(&format!("thread `{thread}`, event {seq}: {why}"))
    };
    if !checksum::matches(body, *position, *sum) {
        return Err(changed());
    }
    let body = std::str::from_utf8(body).map_err(|_| changed())?;
    Event::decode(body).map_err(|source| StoreError::Unreadable { thread: thread.clone(), seq, source })
}

/// Whether a thread names a blob.
pub(super) async fn names_blob(
    pool: &SqlitePool,
    thread: &ThreadId,
    digest: &Digest,
) -> Result<bool, StoreError> {
    const NAMES: &str = "SELECT EXISTS (SELECT 1 FROM threads JOIN uses USING (number) \
        WHERE thread = ?1 AND deleted = 0 AND digest = ?2)";
    sqlx::query_scalar(NAMES)
        .bind(thread.as_str())
        .bind(digest.as_bytes().as_slice())
        .fetch_one(pool)
        .await
        .map_err(store_error)
}

/// The thread's snapshot; a damaged one is left out, and the whole journal folded.
pub(super) async fn snapshot(
    pool: &SqlitePool,
    thread: &ThreadId,
) -> Result<Option<StoredSnapshot>, StoreError> {
    const SNAPSHOT: &str = "SELECT fold, seq, bytes, checksum FROM threads JOIN snapshots USING (number) \
        WHERE thread = ?1 AND deleted = 0";
    let row: Option<(u32, i64, Vec<u8>, Option<i64>)> =
        sqlx::query_as(SNAPSHOT).bind(thread.as_str()).fetch_optional(pool).await.map_err(store_error)?;
    let is_whole = |(_, seq, bytes, sum): &(u32, i64, Vec<u8>, Option<i64>)| {
        let is_whole = checksum::matches(bytes, *seq, *sum);
        if !is_whole {
            tracing::warn!(%thread, "the snapshot does not match its checksum; the journal is folded instead");
        }
        is_whole
    };
    Ok(row.filter(is_whole).map(|(fold, seq, bytes, _)| StoredSnapshot {
        fold,
        seq: Seq(seq.cast_unsigned()),
        bytes: bytes.into(),
    }))
}

/// Inputs that nobody has consumed.
pub(super) async fn inbox(
    pool: &SqlitePool,
    thread: &ThreadId,
    limit: usize,
) -> Result<Vec<(InputId, Left)>, StoreError> {
    const INBOX: &str = "SELECT id, input FROM threads JOIN inbox USING (number) \
        WHERE thread = ?1 AND deleted = 0 AND consumed_at IS NULL ORDER BY place LIMIT ?2";
    let rows: Vec<(String, String)> = sqlx::query_as(INBOX)
        .bind(thread.as_str())
        .bind(stored(limit))
        .fetch_all(pool)
        .await
        .map_err(store_error)?;
    let decode = |(id, input): (String, String)| {
        (InputId::from(id), serde_json::from_str(&input).map_err(|error| error.to_string()))
    };
    Ok(rows.into_iter().map(decode).collect())
}

/// What became of an input.
pub(super) async fn outcome(
    pool: &SqlitePool,
    thread: &ThreadId,
    id: &InputId,
    now: Timestamp,
) -> Result<Option<Posted>, StoreError> {
    const OUTCOME: &str = "SELECT outcome FROM threads JOIN inbox USING (number) \
        WHERE thread = ?1 AND deleted = 0 AND id = ?2 AND coalesce(consumed_at, ?3) >= ?3";
    let row: Option<(Option<String>,)> = sqlx::query_as(OUTCOME)
        .bind(thread.as_str())
        .bind(id.as_str())
        .bind(now.0.saturating_sub(OUTCOME_KEPT_MS).cast_signed())
        .fetch_optional(pool)
        .await
        .map_err(store_error)?;
    row.map(|(outcome,)| posted(outcome.as_deref())).transpose()
}

/// Finds threads that need a driver. Each part reads an index of such threads alone, in its order, and stops at the
/// limit. `?1` is the time, `?2` the other live nodes, `?3` the threads to leave out, `?4` the limit.
const DUE: &str = "WITH found (number) AS ( \
    SELECT * FROM (SELECT number FROM threads INDEXED BY threads_due WHERE deadline <= ?1 \
        AND (node IS NULL OR node NOT IN (SELECT value FROM json_each(?2))) \
        AND thread NOT IN (SELECT value FROM json_each(?3)) ORDER BY deadline LIMIT ?4) \
    UNION SELECT * FROM (SELECT number FROM threads INDEXED BY threads_timed \
        WHERE deadline IS NOT NULL AND minute > ?1 / 60000 + 1 \
        AND (node IS NULL OR node NOT IN (SELECT value FROM json_each(?2))) \
        AND thread NOT IN (SELECT value FROM json_each(?3)) ORDER BY minute LIMIT ?4) \
    UNION SELECT * FROM (SELECT number FROM threads INDEXED BY threads_running WHERE status = 1 \
        AND (node IS NULL OR node NOT IN (SELECT value FROM json_each(?2))) \
        AND thread NOT IN (SELECT value FROM json_each(?3)) ORDER BY number LIMIT ?4) \
    UNION SELECT * FROM (SELECT DISTINCT number FROM inbox INDEXED BY inbox_waiting CROSS JOIN threads USING (number) \
        WHERE consumed_at IS NULL AND deleted = 0 \
        AND (node IS NULL OR node NOT IN (SELECT value FROM json_each(?2))) \
        AND thread NOT IN (SELECT value FROM json_each(?3)) ORDER BY number LIMIT ?4)) \
    SELECT thread FROM found CROSS JOIN threads USING (number) WHERE deleted = 0 LIMIT ?4";

/// Threads that need a driver and are held by none of the live nodes.
pub(super) async fn due(
    pool: &SqlitePool,
    alive: &[String],
    now: Timestamp,
    except: &[ThreadId],
    limit: usize,
) -> Result<Vec<ThreadId>, StoreError> {
    let rows: Vec<String> = sqlx::query_scalar(DUE)
        .bind(now.0.cast_signed())
        .bind(encode(&alive))
        .bind(encode(&except))
        .bind(stored(limit))
        .fetch_all(pool)
        .await
        .map_err(store_error)?;
    Ok(rows.into_iter().map(ThreadId::from).collect())
}

/// What SQLite has done for each connection of a pool since it was last asked.
pub(super) async fn take_work(pool: &SqlitePool, connections: u32) -> Result<Work, StoreError> {
    let (mut work, mut held) = (Work::default(), Vec::new());
    for _ in 0..connections {
        let mut connection = pool.acquire().await.map_err(store_error)?;
        let mut handle = connection.lock_handle().await.map_err(store_error)?;
        // SAFETY: the handle keeps the connection locked.
        work.add(unsafe { raw::take_work(handle.as_raw_handle()) });
        drop(handle);
        held.push(connection);
    }
    Ok(work)
}

/// Threads with an input that nobody has consumed.
pub(super) async fn waiting_inboxes(pool: &SqlitePool) -> Result<Vec<ThreadId>, StoreError> {
    const WAITING: &str = "SELECT thread FROM threads WHERE number IN ( \
        SELECT number FROM inbox WHERE consumed_at IS NULL) AND deleted = 0 ORDER BY number";
    let rows: Vec<String> = sqlx::query_scalar(WAITING).fetch_all(pool).await.map_err(store_error)?;
    Ok(rows.into_iter().map(ThreadId::from).collect())
}

/// For each of some threads that exist: who holds it, and its head.
pub(super) async fn owners(
    pool: &SqlitePool,
    threads: &[ThreadId],
) -> Result<Vec<(ThreadId, Option<String>, Seq)>, StoreError> {
    const OWNERS: &str = "SELECT thread, node, head FROM json_each(?1) JOIN threads ON thread = value \
        WHERE deleted = 0";
    let names = encode(&threads);
    let rows: Vec<(String, Option<String>, i64)> =
        sqlx::query_as(OWNERS).bind(names).fetch_all(pool).await.map_err(store_error)?;
    Ok(rows.into_iter().map(|(id, node, head)| (id.into(), node, Seq(head.cast_unsigned()))).collect())
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;
    use crate::{SqliteStore, StoreOptions};
    use windlass_engine::clock::SystemClock;

    #[tokio::test]
    async fn threads_that_need_a_driver_are_found_without_reading_those_that_wait() {
        let folder = tempfile::tempdir().unwrap();
        let clock = Arc::new(SystemClock::new());
        let store = SqliteStore::open(folder.path(), StoreOptions::default(), clock).await.unwrap();
        let rows: Vec<(i64, i64, i64, String)> =
            sqlx::query_as(sqlx::AssertSqlSafe(format!("EXPLAIN QUERY PLAN {DUE}")))
                .bind(1_i64)
                .bind("[]")
                .bind("[]")
                .bind(32_i64)
                .fetch_all(&store.readers)
                .await
                .unwrap();
        let plan: Vec<String> = rows.into_iter().map(|row| row.3).collect();
        let has = |step: &str| assert!(plan.iter().any(|line| line.contains(step)), "{step}: {plan:#?}");
        has("SEARCH threads USING INDEX threads_due (deadline<?)");
        has("SEARCH threads USING INDEX threads_timed (minute>?)");
        has("INDEX inbox_waiting");
        for line in plan.iter().filter(|line| line.starts_with("SCAN threads")) {
            assert!(line.contains("USING INDEX threads_running"), "{plan:#?}");
        }
    }
}
