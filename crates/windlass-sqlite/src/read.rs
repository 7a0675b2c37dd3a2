//! Queries of readers, on separate connections for which the writer never waits.
//!
//! Writes nothing.

pub(super) mod list;
pub(super) mod pool;
pub(super) mod usage;

use bytes::Bytes;
use rusqlite::params;
use windlass_engine::port::journal::{
    BatchId, Epoch, Head, Left, Posted, Recorded, StoreError, StoredSnapshot,
};
use windlass_machine::{Digest, Event, InputId, Seq, ThreadId, Timestamp};

use super::checksum;
use super::column::{OUTCOME_KEPT_MS, encode, posted, stored};
use super::fault::damaged;
use crate::database::Database;

/// Returns the head of a thread's journal.
pub(super) fn head(db: &Database, thread: &ThreadId) -> Result<Option<Head>, StoreError> {
    const HEAD: &str = "SELECT head, epoch, batch FROM threads WHERE thread = ?1 AND deleted = 0";
    let number = |row: &rusqlite::Row<'_>, column| row.get(column).map(i64::cast_unsigned);
    Ok(db.first(HEAD, params![thread.as_str()], |row| {
        Ok(Head { seq: Seq(number(row, 0)?), epoch: Epoch(number(row, 1)?), batch: BatchId(number(row, 2)?) })
    })?)
}

/// Returns the events after a position. Positions have no gaps, so a missing event is damage.
pub(super) fn events(
    db: &Database,
    thread: &ThreadId,
    after: Seq,
    limit: usize,
) -> Result<Vec<Recorded>, StoreError> {
    const EVENTS: &str = "SELECT position, body, checksum FROM threads CROSS JOIN events \
        WHERE thread = ?1 AND deleted = 0 AND position > (number << 32 | ?2) \
        AND position <= (number << 32 | 4294967295) ORDER BY position LIMIT ?3";
    let from = i64::from(u32::try_from(after.0).unwrap_or(u32::MAX));
    let mut expected = after;
    let values = params![thread.as_str(), from, stored(limit)];
    let decoded = db.all(EVENTS, values, |row| {
        expected = expected.next();
        decode_next(thread, expected, row)
    })?;
    decoded.into_iter().collect()
}

/// Returns the last events before a position, in journal order.
pub(super) fn events_back(
    db: &Database,
    thread: &ThreadId,
    before: Seq,
    limit: usize,
) -> Result<Vec<Recorded>, StoreError> {
    const EVENTS: &str = "SELECT position, body, checksum FROM threads CROSS JOIN events \
        WHERE thread = ?1 AND deleted = 0 AND position > (number << 32) \
        AND position <= (number << 32 | min(?2, head)) ORDER BY position DESC LIMIT ?3";
    let last = i64::from(u32::try_from(before.0.saturating_sub(1)).unwrap_or(u32::MAX));
    let mut next: Option<Seq> = None;
    let values = params![thread.as_str(), last, stored(limit)];
    let decoded = db.all(EVENTS, values, |row| {
        let expected = next.unwrap_or(seq_of(row.get(0)?));
        next = Some(Seq(expected.0.saturating_sub(1)));
        decode_next(thread, expected, row)
    })?;
    // A page with fewer events than the limit must begin with the first event.
    if decoded.len() < limit
        && let Some(missing) = next.filter(|next| *next != Seq(0))
    {
        return Err(lacks(thread, missing));
    }
    decoded.into_iter().rev().collect()
}

/// Decodes the event of a row, which must be at the expected position.
fn decode_next(
    thread: &ThreadId,
    expected: Seq,
    row: &rusqlite::Row<'_>,
) -> rusqlite::Result<Result<Recorded, StoreError>> {
    let position = row.get(0)?;
    if seq_of(position) != expected {
        return Ok(Err(lacks(thread, expected)));
    }
    let event = decode(thread, position, row.get_ref(1)?.as_bytes()?, row.get(2)?);
    Ok(event.map(|event| Recorded { seq: expected, event }))
}

fn lacks(thread: &ThreadId, seq: Seq) -> StoreError {
    damaged(&format!("thread `{thread}` lacks event {seq}"))
}

/// Returns an event's position in its journal: see `001_journal.sql`.
pub(super) fn seq_of(position: i64) -> Seq {
    Seq((position & 0xffff_ffff).cast_unsigned())
}

/// Decodes one event, whose bytes must match their checksum.
pub(super) fn decode(
    thread: &ThreadId,
    position: i64,
    body: &[u8],
    sum: Option<i64>,
) -> Result<Event, StoreError> {
    let seq = seq_of(position);
    let changed = || {
        let why = "its bytes do not match their checksum, so the disk or memory has changed them";
        damaged(&format!("thread `{thread}`, event {seq}: {why}"))
    };
    if !checksum::matches(body, position, sum) {
        return Err(changed());
    }
    let body = std::str::from_utf8(body).map_err(|_| changed())?;
    Event::decode(body).map_err(|source| StoreError::Unreadable { thread: thread.clone(), seq, source })
}

/// Whether a thread names a blob.
pub(super) fn names_blob(db: &Database, thread: &ThreadId, digest: &Digest) -> Result<bool, StoreError> {
    const NAMES: &str = "SELECT EXISTS (SELECT 1 FROM threads JOIN uses USING (number) \
        WHERE thread = ?1 AND deleted = 0 AND digest = ?2)";
    Ok(db.value(NAMES, params![thread.as_str(), digest.as_bytes()])?)
}

/// Returns the thread's snapshot. Ignores a damaged snapshot; then the whole journal is folded.
pub(super) fn snapshot(db: &Database, thread: &ThreadId) -> Result<Option<StoredSnapshot>, StoreError> {
    const SNAPSHOT: &str = "SELECT fold, seq, bytes, checksum FROM threads JOIN snapshots USING (number) \
        WHERE thread = ?1 AND deleted = 0";
    let found = db.first(SNAPSHOT, params![thread.as_str()], |row| {
        let (seq, bytes): (i64, _) = (row.get(1)?, row.get_ref(2)?.as_bytes()?);
        if !checksum::matches(bytes, seq, row.get(3)?) {
            return Ok(None);
        }
        let (fold, bytes) = (row.get(0)?, Bytes::copy_from_slice(bytes));
        Ok(Some(StoredSnapshot { fold, seq: Seq(seq.cast_unsigned()), bytes }))
    })?;
    if found == Some(None) {
        tracing::warn!(%thread, "the snapshot does not match its checksum; the journal is folded instead");
    }
    Ok(found.flatten())
}

/// Returns the thread's pending inputs: those not consumed yet.
pub(super) fn inbox(
    db: &Database,
    thread: &ThreadId,
    limit: usize,
) -> Result<Vec<(InputId, Left)>, StoreError> {
    const INBOX: &str = "SELECT id, input FROM threads JOIN inbox USING (number) \
        WHERE thread = ?1 AND deleted = 0 AND consumed_at IS NULL ORDER BY place LIMIT ?2";
    Ok(db.all(INBOX, params![thread.as_str(), stored(limit)], |row| {
        let (id, input): (String, String) = (row.get(0)?, row.get(1)?);
        Ok((InputId::from(id), serde_json::from_str(&input).map_err(|error| error.to_string())))
    })?)
}

/// Returns the outcome of an input.
pub(super) fn outcome(
    db: &Database,
    thread: &ThreadId,
    id: &InputId,
    now: Timestamp,
) -> Result<Option<Posted>, StoreError> {
    const OUTCOME: &str = "SELECT outcome FROM threads JOIN inbox USING (number) \
        WHERE thread = ?1 AND deleted = 0 AND id = ?2 AND coalesce(consumed_at, ?3) >= ?3";
    let kept_from = now.0.saturating_sub(OUTCOME_KEPT_MS).cast_signed();
    let values = params![thread.as_str(), id.as_str(), kept_from];
    let outcome: Option<Option<String>> = db.first(OUTCOME, values, |row| row.get(0))?;
    outcome.map(|outcome| posted(outcome.as_deref())).transpose()
}

/// Finds threads that need a driver. Each part of the query reads an index that contains only such threads, in index
/// order, up to the limit. `?1` is the time, `?2` the other live nodes, `?3` the threads to leave out, `?4` the limit.
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

/// Returns threads that need a driver and that none of the live nodes holds.
pub(super) fn due(
    db: &Database,
    alive: &[String],
    now: Timestamp,
    except: &[ThreadId],
    limit: usize,
) -> Result<Vec<ThreadId>, StoreError> {
    let values = params![now.0.cast_signed(), encode(&alive), encode(&except), stored(limit)];
    Ok(db.all(DUE, values, thread_id)?)
}

/// Returns the threads with pending inputs.
pub(super) fn waiting_inboxes(db: &Database) -> Result<Vec<ThreadId>, StoreError> {
    const WAITING: &str = "SELECT thread FROM threads WHERE number IN ( \
        SELECT number FROM inbox WHERE consumed_at IS NULL) AND deleted = 0 ORDER BY number";
    Ok(db.all(WAITING, [], thread_id)?)
}

fn thread_id(row: &rusqlite::Row<'_>) -> rusqlite::Result<ThreadId> {
    row.get::<_, String>(0).map(ThreadId::from)
}

/// Returns, for each of these threads that exists, its owner and its head.
pub(super) fn owners(
    db: &Database,
    threads: &[ThreadId],
) -> Result<Vec<(ThreadId, Option<String>, Seq)>, StoreError> {
    const OWNERS: &str = "SELECT thread, node, head FROM json_each(?1) JOIN threads ON thread = value \
        WHERE deleted = 0";
    Ok(db.all(OWNERS, params![encode(&threads)], |row| {
        Ok((thread_id(row)?, row.get(1)?, Seq(row.get(2).map(i64::cast_unsigned)?)))
    })?)
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
        let explain = |db: &Database| {
            let values = params![1_i64, "[]", "[]", 32_i64];
            Ok(db.all(&format!("EXPLAIN QUERY PLAN {DUE}"), values, |row| row.get(3))?)
        };
        let plan: Vec<String> = store.readers.read(explain).await.unwrap();
        let has = |step: &str| assert!(plan.iter().any(|line| line.contains(step)), "{step}: {plan:#?}");
        has("SEARCH threads USING INDEX threads_due (deadline<?)");
        has("SEARCH threads USING INDEX threads_timed (minute>?)");
        has("INDEX inbox_waiting");
        for line in plan.iter().filter(|line| line.starts_with("SCAN threads")) {
            assert!(line.contains("USING INDEX threads_running"), "{plan:#?}");
        }
    }
}
