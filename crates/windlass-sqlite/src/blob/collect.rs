//! Deletes blobs that no thread names, once no writer can be about to name them.
//!
//! The transaction that records an event or input also records the blobs that it names, so no table has to be scanned.
//! Every decision is made under the database's write lock, including the deletion of a file.

use std::path::PathBuf;

use rusqlite::params;
use windlass_engine::port::journal::StoreError;
use windlass_machine::{Digest, Event, Input};

use crate::column::whole;
use crate::database::Database;
use crate::fault::Fault;
use crate::node::Node;

/// Minimum age of an unnamed blob that is deleted. The append that names it normally follows within moments;
/// a suspended process may take longer.
pub(crate) const LOOSE_KEPT_MS: u64 = 24 * 60 * 60 * 1000;

/// Maximum number of blobs checked in one change, so that other writers get the lock soon.
const AT_ONCE: usize = 256;

const USE: &str = "INSERT INTO uses (digest, number) VALUES (?1, ?2) ON CONFLICT DO NOTHING";
const IS_USED: &str = "SELECT 1 FROM uses WHERE digest = ?1 LIMIT 1";
const LOOSEN: &str =
    "INSERT INTO loose (digest, since) VALUES (?1, ?2) ON CONFLICT (digest) DO UPDATE SET since = ?2";
// A blob stored within the last day keeps its time, because a writer may be about to name it.
const LOOSEN_THREAD: &str = "INSERT INTO loose (digest, since) SELECT digest, 0 FROM uses WHERE number = ?1 \
    ON CONFLICT (digest) DO NOTHING";
const FORGET_THREAD: &str = "DELETE FROM uses WHERE number = ?1";
const NEXT: &str = "SELECT digest, since FROM loose WHERE since <= ?1 ORDER BY since LIMIT 1";
const SETTLE: &str = "DELETE FROM loose WHERE digest = ?1";
const DELETE_ROW: &str = "DELETE FROM blobs WHERE digest = ?1";

/// Blobs that one group of a collection leaves for the next group.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Left {
    Nothing,
    /// Possibly blobs that no thread ever named.
    Unnamed,
    /// Possibly blobs of deleted threads.
    OfDeleted,
}

/// Deletes blobs that nothing names.
pub(crate) struct Collection {
    files: PathBuf,
    has_more: bool,
}

/// Records that a thread names a blob.
pub(crate) fn name(db: &Database, number: i64, digest: &Digest) -> Result<(), Fault> {
    db.run(USE, params![digest.as_bytes(), number]).map(drop)
}

/// Records that a blob was stored and that possibly no thread names it yet.
pub(crate) fn loosen(db: &Database, digest: &Digest, now_ms: u64) -> Result<(), Fault> {
    db.run(LOOSEN, params![digest.as_bytes(), whole(now_ms)]).map(drop)
}

/// Removes all blob names of a thread.
pub(crate) fn forget_thread(db: &Database, number: i64) -> Result<(), Fault> {
    db.run(LOOSEN_THREAD, params![number])?;
    db.run(FORGET_THREAD, params![number]).map(drop)
}

impl Collection {
    /// Creates a collection in a node's store.
    pub fn new(node: &Node) -> Self {
        Self { files: crate::blob::folder(node.store()), has_more: false }
    }

    /// Whether the last collection left blobs for another one. Returns `true` once for each such collection.
    pub fn has_more(&mut self) -> bool {
        std::mem::take(&mut self.has_more)
    }

    /// Deletes blobs that nothing names and that were not stored lately, those of deleted threads first. Returns the
    /// blobs that remain for the next group.
    ///
    /// A file is deleted before the transaction ends. A process that stores the same bytes first records that in its
    /// own transaction. That transaction is either before this one, so that the blob is kept, or after the deletion.
    pub fn collect(&mut self, db: &Database, now_ms: u64) -> Result<Left, Fault> {
        let until = whole(now_ms.saturating_sub(LOOSE_KEPT_MS));
        self.has_more = false;
        let mut left = Left::Nothing;
        for _ in 0..AT_ONCE {
            let next = db.first(NEXT, params![until], |row| Ok((row.get(0)?, row.get(1)?)))?;
            let Some((digest, since)): Option<(Vec<u8>, i64)> = next else { return Ok(Left::Nothing) };
            // The blobs of deleted threads are recorded as stored at 0. The query returns the oldest first.
            left = if since == 0 { Left::OfDeleted } else { Left::Unnamed };
            if !db.exists(IS_USED, params![digest])? {
                db.run(DELETE_ROW, params![digest])?;
                if let Err(error) = self.delete_file(&digest) {
                    tracing::warn!(%error, "a blob that nothing names could not be deleted");
                    // The deletion failed. Retry it a day later.
                    db.run(LOOSEN, params![digest, whole(now_ms)])?;
                    continue;
                }
            }
            db.run(SETTLE, params![digest])?;
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

/// Whether any blob is due for collection.
pub(crate) fn is_due(db: &Database, now_ms: u64) -> Result<bool, StoreError> {
    const IS_DUE: &str = "SELECT 1 FROM loose WHERE since <= ?1 LIMIT 1";
    Ok(db.exists(IS_DUE, params![whole(now_ms.saturating_sub(LOOSE_KEPT_MS))])?)
}

/// Records the blob names of events and inputs that are older than the table. Runs once, when the table
/// is created. Ignores unreadable rows.
pub(crate) fn name_all(db: &Database) -> Result<(), StoreError> {
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
            let rows = db.all(sql, params![after], |row| {
                Ok((row.get::<_, i64>(0)?, row.get::<_, i64>(1)?, names(row.get_ref(2)?.as_str()?)))
            })?;
            let Some(last) = rows.last() else { break };
            after = last.0;
            for (_, number, digests) in &rows {
                digests.iter().try_for_each(|digest| name(db, *number, digest))?;
            }
        }
    }
    Ok(())
}
