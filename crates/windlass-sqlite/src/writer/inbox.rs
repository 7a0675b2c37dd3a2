//! Pending inputs of a thread's owner, and the outcomes of consumed inputs.
//!
//! `read.rs` reads them.

use rusqlite::params;
use windlass_engine::port::journal::{INBOX_MAX, InboxOutcome, Posted, StoreError, inbox_is_full};
use windlass_machine::{InputId, ThreadId};

use crate::column::{OUTCOME_KEPT_MS, encode, posted, stored, whole};
use crate::database::Database;
use crate::fault::Fault;

const POST: &str = "INSERT INTO inbox (number, id, input) VALUES (?1, ?2, ?3)";
const POSTED: &str = "SELECT outcome FROM inbox WHERE number = ?1 AND id = ?2";
const CONSUME: &str = "UPDATE inbox SET outcome = ?3, consumed_at = ?4, input = NULL \
    WHERE number = ?1 AND id = ?2 AND consumed_at IS NULL";
const WAITING: &str = "SELECT 1 FROM inbox WHERE number = ?1 AND consumed_at IS NULL LIMIT 1";
const IS_FULL: &str = "SELECT 1 FROM inbox INDEXED BY inbox_waiting WHERE number = ?1 AND consumed_at IS NULL \
    LIMIT 1 OFFSET ?2 - 1";
// Limited to 1000 rows, so that no single post has to delete all outcomes of a day.
const PURGE: &str = "DELETE FROM inbox WHERE place IN (SELECT place FROM inbox INDEXED BY inbox_consumed \
    WHERE consumed_at < ?1 ORDER BY consumed_at LIMIT 1000)";
const FORGET: &str = "DELETE FROM inbox WHERE number = ?1 AND id = ?2 AND consumed_at < ?3";
const DELETE: &str = "DELETE FROM inbox WHERE number = ?1";

/// Posts an input to a thread, and deletes expired outcomes. Returns `None` if the input
/// is new; otherwise its stored state.
pub(super) fn post(
    db: &Database,
    number: i64,
    thread: &ThreadId,
    id: &str,
    input: &str,
    now_ms: u64,
) -> Result<Option<Posted>, StoreError> {
    let kept_from = whole(now_ms.saturating_sub(OUTCOME_KEPT_MS));
    db.run(PURGE, params![kept_from])?;
    db.run(FORGET, params![number, id, kept_from])?;
    if let Some(outcome) = db.first(POSTED, params![number, id], |row| row.get::<_, Option<String>>(0))? {
        return posted(outcome.as_deref()).map(Some);
    }
    if db.exists(IS_FULL, params![number, stored(INBOX_MAX)])? {
        return Err(inbox_is_full(thread));
    }
    db.run(POST, params![number, id, input])?;
    Ok(None)
}

/// Records the outcome of an input. Fails if the input is not pending.
pub(super) fn consume(
    db: &Database,
    number: i64,
    id: &InputId,
    outcome: &InboxOutcome,
    now_ms: u64,
) -> Result<(), StoreError> {
    if db.run(CONSUME, params![number, id.as_str(), encode(outcome), whole(now_ms)])? == 0 {
        return Err(StoreError::NotFound { what: format!("inbox row `{id}`") });
    }
    Ok(())
}

/// Whether an input is pending.
pub(super) fn is_waiting(db: &Database, number: i64) -> Result<bool, Fault> {
    db.exists(WAITING, params![number])
}

/// Deletes a thread's inputs and outcomes.
pub(super) fn delete(db: &Database, number: i64) -> Result<(), Fault> {
    db.run(DELETE, params![number]).map(drop)
}
