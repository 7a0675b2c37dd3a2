//! The writer of the audit log: appends entries to the chains, alone or in one transaction with other changes.
//!
//! The writer does not need [`Accounts`](super::super::Accounts), so commands that open the store without accounts can
//! write entries, too.

use std::collections::BTreeMap;
use std::sync::Arc;

use tokio::sync::Semaphore;
use windlass::port::clock::Clock;
use windlass::port::records::{Expect, RecordChange, RecordError, Records};

use super::{AUDIT, HEAD, Head, Note, key};
use crate::account::error::conflict;
use crate::account::record::{put, read};

/// Maximum number of attempts to append an entry while other processes append concurrently. Entries of one process are
/// serialized.
const TRIES: usize = 100;

pub struct AuditLog {
    records: Arc<dyn Records>,
    clock: Arc<dyn Clock>,
    turn: Semaphore,
}

impl AuditLog {
    pub fn new(records: Arc<dyn Records>, clock: Arc<dyn Clock>) -> Self {
        Self { records, clock, turn: Semaphore::new(1) }
    }

    /// Writes an entry without a change.
    pub async fn record(&self, note: Note) -> Result<(), RecordError> {
        self.commit(Vec::new(), note).await.map(drop)
    }

    /// Applies changes and writes the audit entry in one transaction. Returns the versions of the changes.
    pub async fn commit(
        &self,
        changes: Vec<RecordChange>,
        note: Note,
    ) -> Result<Vec<Option<u64>>, RecordError> {
        // Each entry needs the previous one, so appends are serialized. Invariant: the semaphore is never closed.
        let _turn = self.turn.acquire().await;
        let mut tries = 0;
        loop {
            let mut entries = Vec::new();
            let mut heads: BTreeMap<&str, (Expect, Option<Head>)> = BTreeMap::new();
            for note in std::iter::once(&note).chain(&note.beside) {
                let (expected, head) = match heads.remove(note.workspace.as_str()) {
                    Some(known) => known,
                    None => {
                        let found = self.records.get(HEAD, &note.workspace).await?;
                        let version = found.as_ref().map(|head| Expect::Version(head.version));
                        (version.unwrap_or(Expect::Absent), found.map(read::<Head>).transpose()?)
                    }
                };
                let entry = note.after(head.as_ref(), self.clock.now());
                let place = key(&entry.workspace, entry.seq);
                entries.push(put(AUDIT, &place, &entry.workspace, &entry, Expect::Absent));
                let head = Head { workspace: entry.workspace, seq: entry.seq, hash: entry.hash };
                heads.insert(&note.workspace, (expected, Some(head)));
            }
            let mut all = changes.clone();
            // The heads come before the entries, so that a concurrent append is reported as a conflict on the head.
            all.extend(
                heads
                    .into_iter()
                    .map(|(workspace, (expected, head))| put(HEAD, workspace, workspace, &head, expected)),
            );
            all.extend(entries);
            match self.records.apply(all).await {
                // Another process appended an entry after the heads were read.
                Err(error) if tries < TRIES && conflict(&error) == Some(HEAD) => tries += 1,
                Err(error) => return Err(error),
                Ok(mut versions) => {
                    versions.truncate(changes.len());
                    return Ok(versions);
                }
            }
        }
    }
}
