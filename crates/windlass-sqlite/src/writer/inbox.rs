//! Inputs that wait for a thread's owner, and the outcomes of consumed inputs.
//!
//! `read.rs` reads them.

use std::sync::Arc;

use windlass_engine::port::journal::{INBOX_MAX, InboxOutcome, Posted, StoreError, inbox_is_full};
use windlass_machine::{InputId, ThreadId};

use crate::column::{OUTCOME_KEPT_MS, encode, posted};
use crate::fault::Fault;
use crate::writer::raw::{Raw, Statement, Value};

const POST: &str = "INSERT INTO inbox (number, id, input) VALUES (?1, ?2, ?3)";
const POSTED: &str = "SELECT outcome FROM inbox WHERE number = ?1 AND id = ?2";
const CONSUME: &str = "UPDATE inbox SET outcome = ?3, consumed_at = ?4, input = NULL \
    WHERE number = ?1 AND id = ?2 AND consumed_at IS NULL";
const WAITING: &str = "SELECT 1 FROM inbox WHERE number = ?1 AND consumed_at IS NULL LIMIT 1";
const IS_FULL: &str = "SELECT 1 FROM inbox INDEXED BY inbox_waiting WHERE number = ?1 AND consumed_at IS NULL \
    LIMIT 1 OFFSET ?2 - 1";
// In groups, so that no post takes as long as a day had inputs.
const PURGE: &str = "DELETE FROM inbox WHERE place IN (SELECT place FROM inbox INDEXED BY inbox_consumed \
    WHERE consumed_at < ?1 ORDER BY consumed_at LIMIT 1000)";
const FORGET: &str = "DELETE FROM inbox WHERE number = ?1 AND id = ?2 AND consumed_at < ?3";
const DELETE: &str = "DELETE FROM inbox WHERE number = ?1";

/// The prepared statements of inboxes.
pub(super) struct Inbox {
    post: Statement,
    posted: Statement,
    consume: Statement,
    waiting: Statement,
    is_full: Statement,
    purge: Statement,
    forget: Statement,
    delete: Statement,
}

impl Inbox {
    /// Prepares every statement.
    pub fn prepare(raw: &Arc<Raw>) -> Result<Self, Fault> {
        Ok(Self {
            post: raw.prepare(POST)?,
            posted: raw.prepare(POSTED)?,
            consume: raw.prepare(CONSUME)?,
            waiting: raw.prepare(WAITING)?,
            is_full: raw.prepare(IS_FULL)?,
            purge: raw.prepare(PURGE)?,
            forget: raw.prepare(FORGET)?,
            delete: raw.prepare(DELETE)?,
        })
    }

    /// Posts an input to a thread and deletes outcomes that are no longer kept. Returns `None` if the input is new, and what
    /// is known of it otherwise.
    pub fn post(
        &mut self,
        number: i64,
        thread: &ThreadId,
        id: &str,
        input: &str,
        now_ms: u64,
    ) -> Result<Option<Posted>, StoreError> {
        let kept_from = Value::number(now_ms.saturating_sub(OUTCOME_KEPT_MS));
        self.purge.run(&[kept_from])?;
        let key = [Value::Integer(number), Value::Text(id)];
        self.forget.run(&[key[0], key[1], kept_from])?;
        if let Some(outcome) = self.posted.first(&key, |row| row.text(0))? {
            return posted(outcome.as_deref()).map(Some);
        }
        if self.is_full.first(&[key[0], Value::number(INBOX_MAX as u64)], |_| ())?.is_some() {
            return Err(inbox_is_full(thread));
        }
        self.post.run(&[key[0], key[1], Value::Text(input)])?;
        Ok(None)
    }

    /// Records the outcome of an input. Fails if the input does not wait.
    pub fn consume(
        &mut self,
        number: i64,
        id: &InputId,
        outcome: &InboxOutcome,
        now_ms: u64,
    ) -> Result<(), StoreError> {
        let (number, now, outcome) = (Value::Integer(number), Value::number(now_ms), encode(outcome));
        if self.consume.run(&[number, Value::Text(id.as_str()), Value::Text(&outcome), now])? == 0 {
            return Err(StoreError::NotFound { what: format!("inbox row `{id}`") });
        }
        Ok(())
    }

    /// Whether an input waits.
    pub fn is_waiting(&mut self, number: i64) -> Result<bool, Fault> {
        Ok(self.waiting.first(&[Value::Integer(number)], |_| ())?.is_some())
    }

    /// Deletes a thread's inputs and outcomes.
    pub fn delete(&mut self, number: i64) -> Result<(), Fault> {
        self.delete.run(&[Value::Integer(number)]).map(drop)
    }
}
