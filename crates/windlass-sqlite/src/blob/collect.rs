//! Deletes blobs that no thread names, once no writer can be about to name them.
//!
//! Names are recorded in the transaction that records the naming event or input, so no table has to be scanned. Every
//! decision is made under the database's write lock, including the deletion of a file.

use std::path::PathBuf;

use rusqlite::params;
use windlass_engine::port::journal::StoreError;
use windlass_machine::{Digest, Event, Input};

use crate::column::whole;
use crate::database::Database;
use crate::fault::Fault;
use crate::node::Node;

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

/// Deletes blobs that nothing names.
pub(crate) struct Collection {
    files: PathBuf,
    has_more: bool,
}

/// Records that a thread names a blob.
pub(crate) fn name(db: &Database, number: i64, digest: &Digest) -> Result<(), Fault> {
    db.run(USE, params![digest.as_bytes(), number]).map(drop)
}

/// Records that a blob was stored, and that nothing may name it yet.
pub(crate) fn loosen(db: &Database, digest: &Digest, now_ms: u64) -> Result<(), Fault> {
    db.run(LOOSEN, params![digest.as_bytes(), whole(now_ms)]).map(drop)
}

/// Takes back every name that a thread has given.
pub(crate) fn forget_thread(db: &Database, number: i64) -> Result<(), Fault> {
    db.run(LOOSEN_THREAD, params![number])?;
    db.run(FORGET_THREAD, params![number]).map(drop)
}

impl Collection {
    /// A collection in a node's store.
    pub fn new(node: &Node) -> Self {
        Self { files: crate::blob::folder(node.store()), has_more: false }
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
    pub fn collect(&mut self, db: &Database, now_ms: u64) -> Result<Left, Fault> {
        let until = whole(now_ms.saturating_sub(LOOSE_KEPT_MS));
        self.has_more = false;
        let mut left = Left::Nothing;
        for _ in 0..AT_ONCE {
            let next = db.first(NEXT, params![until], |row| Ok((row.get(0)?, row.get(1)?)))?;
            let Some((digest, since)): Option<(Vec<u8>, i64)> = next else { return Ok(Left::Nothing) };
            // The blobs of deleted threads count as stored at 0, and the oldest come first.
            left = if since == 0 { Left::OfDeleted } else { Left::Unnamed };
            if !db.exists(IS_USED, params![digest])? {
                db.run(DELETE_ROW, params![digest])?;
                if let Err(error) = self.delete_file(&digest) {
                    tracing::warn!(%error, "a blob that nothing names could not be deleted");
                    // Tried again a day later.
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

/// Whether something may be collected.
pub(crate) fn is_due(db: &Database, now_ms: u64) -> Result<bool, StoreError> {
    const IS_DUE: &str = "SELECT 1 FROM loose WHERE since <= ?1 LIMIT 1";
    Ok(db.exists(IS_DUE, params![whole(now_ms.saturating_sub(LOOSE_KEPT_MS))])?)
}

/// Records the blob names of events and inputs written before the table existed. Runs once, when the table is created.
/// Unreadable rows name nothing.
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
