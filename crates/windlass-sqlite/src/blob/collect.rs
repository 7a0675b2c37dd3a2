//! Deletes blobs that no thread names, once no writer can be about to name them.
//!
//! Names are recorded in the transaction that records the naming event or input, so no table has to be scanned. Every
//! decision is made under the database's write lock, including the deletion of a file.

use std::path::PathBuf;
use std::sync::Arc;

use sqlx::SqliteConnection;
use windlass_engine::port::journal::StoreError;
use windlass_machine::{Digest, Event, Input};

use crate::fault::{Fault, store_error};
use crate::node::Node;
use crate::writer::raw::{Raw, Statement, Value};

/// How long an unnamed blob is kept after it was stored. The append that names it follows within moments, or within the
/// time that a stopped process takes.
pub(crate) const LOOSE_KEPT_MS: u64 = 24 * 60 * 60 * 1000;

/// Blobs looked at in one change, so that others get the lock soon.
const AT_ONCE: usize = 256;

const USE: &str = "INSERT INTO uses (digest, number) VALUES (?1, ?2) ON CONFLICT DO NOTHING";
const IS_USED: &str = "SELECT 1 FROM uses WHERE digest = ?1 LIMIT 1";
const LOOSEN: &str =
    "INSERT INTO loose (digest, since) VALUES (?1, ?2) ON CONFLICT (digest) DO UPDATE SET since = ?2";
// What was stored within the last day stays under the time of that: somebody may be about to name it.
const LOOSEN_THREAD: &str = "INSERT INTO loose (digest, since) SELECT digest, 0 FROM uses WHERE number = ?1 \
    ON CONFLICT (digest) DO NOTHING";
const FORGET_THREAD: &str = "DELETE FROM uses WHERE number = ?1";
const NEXT: &str = "SELECT digest, since FROM loose WHERE since <= ?1 ORDER BY since LIMIT 1";
const SETTLE: &str = "DELETE FROM loose WHERE digest = ?1";
const DELETE_ROW: &str = "DELETE FROM blobs WHERE digest = ?1";

/// What a group of a collection leaves to the next one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Left {
    Nothing,
    /// Perhaps blobs that no thread ever named.
    Unnamed,
    /// Perhaps blobs of deleted threads.
    OfDeleted,
}

/// The prepared statements of the collection.
pub(crate) struct Collection {
    name: Statement,
    is_used: Statement,
    loosen: Statement,
    loosen_thread: Statement,
    forget_thread: Statement,
    next: Statement,
    settle: Statement,
    delete_row: Statement,
    files: PathBuf,
    has_more: bool,
}

impl Collection {
    /// Prepares every statement.
    pub fn prepare(raw: &Arc<Raw>, node: &Node) -> Result<Self, Fault> {
        Ok(Self {
            name: raw.prepare(USE)?,
            is_used: raw.prepare(IS_USED)?,
            loosen: raw.prepare(LOOSEN)?,
            loosen_thread: raw.prepare(LOOSEN_THREAD)?,
            forget_thread: raw.prepare(FORGET_THREAD)?,
            next: raw.prepare(NEXT)?,
            settle: raw.prepare(SETTLE)?,
            delete_row: raw.prepare(DELETE_ROW)?,
            files: crate::blob::folder(node.store()),
            has_more: false,
        })
    }

    /// Records that a thread names a blob.
    pub fn name(&mut self, number: i64, digest: &Digest) -> Result<(), Fault> {
        self.name.run(&[Value::Blob(digest.as_bytes()), Value::Integer(number)]).map(drop)
    }

    /// Records that a blob was stored, and that nothing may name it yet.
    pub fn loosen(&mut self, digest: &Digest, now_ms: u64) -> Result<(), Fault> {
        self.loosen.run(&[Value::Blob(digest.as_bytes()), Value::number(now_ms)]).map(drop)
    }

    /// Takes back every name that a thread has given.
    pub fn forget_thread(&mut self, number: i64) -> Result<(), Fault> {
        self.loosen_thread.run(&[Value::Integer(number)])?;
        self.forget_thread.run(&[Value::Integer(number)]).map(drop)
    }

    /// Whether the last collection left blobs for another one. Returns `true` once for each.
    pub fn has_more(&mut self) -> bool {
        std::mem::take(&mut self.has_more)
    }

    /// Deletes blobs that nothing names and that were not stored lately, those of deleted threads first; returns what
    /// the group left.
    ///
    /// A file goes before the transaction ends: whoever stores the same bytes says so in a transaction of its own
    /// first, which is either before this one, so that the blob stays, or after the file is gone.
    pub fn collect(&mut self, now_ms: u64) -> Result<Left, Fault> {
        let until = Value::number(now_ms.saturating_sub(LOOSE_KEPT_MS));
        self.has_more = false;
        let mut left = Left::Nothing;
        for _ in 0..AT_ONCE {
            let next = self.next.first(&[until], |row| (row.blob(0), row.integer(1)))?;
            let Some((digest, since)) = next else { return Ok(Left::Nothing) };
            // The blobs of deleted threads count as stored at 0, and the oldest come first.
            left = if since == 0 { Left::OfDeleted } else { Left::Unnamed };
            let key = [Value::Blob(&digest)];
            if self.is_used.first(&key, |_| ())?.is_none() {
                self.delete_row.run(&key)?;
                if let Err(error) = self.delete_file(&digest) {
                    tracing::warn!(%error, "a blob that nothing names could not be deleted");
                    // Tried again a day later.
                    self.loosen.run(&[key[0], Value::number(now_ms)])?;
                    continue;
                }
            }
            self.settle.run(&key)?;
        }
        self.has_more = true;
        Ok(left)
    }

    fn delete_file(&self, digest: &[u8]) -> std::io::Result<()> {
        let hex: String = digest.iter().map(|byte| format!("{byte:02x}")).collect();
        match std::fs::remove_file(self.files.join(crate::blob::place(&hex))) {
            Err(error) if error.kind() != std::io::ErrorKind::NotFound => Err(error),
            Ok(()) | Err(_) => Ok(()),
        }
    }
}

/// Whether something may be collected.
pub(crate) async fn is_due(connection: &mut SqliteConnection, now_ms: u64) -> Result<bool, StoreError> {
    let until = i64::try_from(now_ms.saturating_sub(LOOSE_KEPT_MS)).unwrap_or(i64::MAX);
    sqlx::query_scalar("SELECT EXISTS (SELECT 1 FROM loose WHERE since <= ?1)")
        .bind(until)
        .fetch_one(connection)
        .await
        .map_err(store_error)
}

/// Records the blob names of events and inputs written before the table existed. Runs once, when the table is created.
/// Unreadable rows name nothing.
pub(crate) async fn name_all(connection: &mut SqliteConnection) -> Result<(), StoreError> {
    type Names = fn(&str) -> Vec<Digest>;
    let texts: [(&'static str, Names); 2] = [
        (
            "SELECT position, position >> 32, body FROM events WHERE position > ?1 ORDER BY position LIMIT 1000",
            |body| Event::decode(body).map(|event| event.blobs()).unwrap_or_default(),
        ),
        (
            "SELECT place, number, coalesce(input, '') FROM inbox WHERE place > ?1 ORDER BY place LIMIT 1000",
            |input| serde_json::from_str(input).map(|input: Input| input.blobs()).unwrap_or_default(),
        ),
    ];
    for (sql, names) in texts {
        let mut after = -1_i64;
        loop {
            let rows: Vec<(i64, i64, String)> =
                sqlx::query_as(sql).bind(after).fetch_all(&mut *connection).await.map_err(store_error)?;
            let Some(last) = rows.last() else { break };
            after = last.0;
            for (_, number, text) in &rows {
                for digest in names(text) {
                    let row = sqlx::query(USE).bind(digest.as_bytes().as_slice()).bind(number);
                    row.execute(&mut *connection).await.map_err(store_error)?;
                }
            }
        }
    }
    Ok(())
}
