//! The changes within a group's transaction: one function per change.
//!
//! Begins and commits no transaction. A function that fails may leave half a change behind;
//! the group rolls back to the savepoint.

use std::collections::HashSet;
use std::sync::Arc;

use rusqlite::{Row, params};
use windlass_engine::port::budget::{of_run, of_thread};
use windlass_engine::port::clock::Clock;
use windlass_engine::port::journal::{
    AppendError, BatchId, Claim, Due, Epoch, Head, Posted, RunView, StoreError, StoredSnapshot, ThreadStatus,
    ThreadView,
};
use windlass_engine::port::records::{PreparedChange, RecordError};
use windlass_machine::{Digest, Input, InputId, Seq, ThreadId};

use crate::blob::collect::{self, Collection, Left};
use crate::checksum::{checksum, placed};
use crate::column::{ASKS_VERSION, encode, minute, run_status_code, thread_status_code, whole};
use crate::database::Database;
use crate::fault::Fault;
use crate::node::Node;
use crate::writer::change::{PreparedAppend, Until, Write, Written};
use crate::writer::{inbox, usage};
use crate::{budget, record};

const HEAD: &str = "SELECT number, deleted, epoch, node, head, batch, status FROM threads WHERE thread = ?1";
const CLAIM: &str = "UPDATE threads SET epoch = epoch + 1, node = ?2 WHERE number = ?1";
const CREATE: &str = "INSERT INTO threads (thread, created_at, updated_at) VALUES (?1, ?2, ?2) \
    ON CONFLICT (thread) DO UPDATE SET deleted = 0, created_at = ?2, updated_at = ?2";
const MAKE: &str = "INSERT INTO threads (thread, created_at, updated_at, epoch, node) VALUES (?1, ?2, ?2, 1, ?3) \
    ON CONFLICT (thread) DO NOTHING RETURNING number, deleted, epoch, node, head, batch, status";
const RELEASE: &str = "UPDATE threads SET node = NULL WHERE thread = ?1 AND epoch = ?2 AND node = ?3";
const WORKSPACE: &str = "SELECT workspace FROM threads WHERE number = ?1";
const DELETE: &str = "UPDATE threads SET deleted = 1, epoch = epoch + 1, node = NULL, head = 0, batch = 0, \
    deadline = NULL, interrupts = 0, workspace = '', owner = '', folder = NULL, title = NULL, title_lower = NULL, \
    forked_from = NULL, forked_until = NULL, asks = NULL \
    WHERE number = ?1";
// Assigns no indexed column: SQLite writes an index's pages whenever one is assigned, even with the same value.
const VIEW: &str = "UPDATE threads SET head = ?2, batch = ?3, updated_at = ?4, folder = ?5, title = ?6, \
    title_lower = ?7, forked_from = ?8, forked_until = ?9 WHERE number = ?1";
const STANDING: &str = "UPDATE threads SET status = ?2, deadline = ?3, interrupts = ?4, asks = ?5 WHERE number = ?1 \
    AND (status IS NOT ?2 OR deadline IS NOT ?3 OR interrupts IS NOT ?4 OR asks IS NOT ?5)";
const LISTED: &str = "UPDATE threads SET minute = ?2, owner = ?3, workspace = ?4 WHERE number = ?1 \
    AND (minute IS NOT ?2 OR owner IS NOT ?3 OR workspace IS NOT ?4)";
const EVENT: &str = "INSERT INTO events (position, body, checksum) VALUES (?1, ?2, ?3)";
// Writing the same bytes to the same row writes no page. Over a damaged row, the write repairs it.
const BLOB: &str = "INSERT INTO blobs (digest, used_at, bytes) VALUES (?1, ?2, ?3) \
    ON CONFLICT (digest) DO UPDATE SET used_at = ?2, bytes = ?3";
const RUN: &str = "INSERT INTO runs (run, number, agent, model, from_seq, started_at, totals, workspace, owner, \
    queued) VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10) ON CONFLICT (run, number) DO UPDATE \
    SET agent = ?3, model = ?4, totals = ?7";
const UNQUEUE: &str = "DELETE FROM runs WHERE run = ?1 AND number = ?2 AND queued IS NOT NULL";
const RUN_ENDED: &str = "UPDATE runs SET status = ?3, finished_at = ?4 WHERE run = ?1 AND number = ?2";
// As in `read::DUE`, for one thread.
const IS_DUE: &str = "SELECT 1 FROM threads WHERE number = ?1 AND (status = 1 OR deadline <= ?2 \
    OR deadline IS NOT NULL AND minute > ?2 / 60000 + 1 \
    OR EXISTS (SELECT 1 FROM inbox WHERE inbox.number = ?1 AND consumed_at IS NULL))";
const SNAPSHOT: &str = "INSERT INTO snapshots (number, fold, seq, bytes, checksum) VALUES (?1, ?2, ?3, ?4, ?5) \
    ON CONFLICT (number) DO UPDATE SET fold = ?2, seq = ?3, bytes = ?4, checksum = ?5";
const CHECK: &str = "INSERT INTO checks (id, at) VALUES (1, ?1) ON CONFLICT (id) DO UPDATE SET at = ?1";
const DELETE_EVENTS: &str = "DELETE FROM events WHERE position BETWEEN ?1 AND ?2";
const DELETE_RUNS: &str = "DELETE FROM runs WHERE number = ?1";
const DELETE_SNAPSHOT: &str = "DELETE FROM snapshots WHERE number = ?1";

/// Makes changes on the writing connection.
pub(crate) struct Changes {
    db: Database,
    collection: Collection,
    node: Arc<Node>,
    clock: Arc<dyn Clock>,
}

impl Changes {
    /// Makes changes on a connection, on behalf of a node.
    pub fn new(db: Database, node: Arc<Node>, clock: Arc<dyn Clock>) -> Self {
        Self { db, collection: Collection::new(&node), node, clock }
    }

    /// Returns the connection.
    pub fn db(&self) -> &Database {
        &self.db
    }

    /// Appends a batch if its epoch and expected position match the thread's.
    pub fn append(&mut self, append: &PreparedAppend) -> Result<Seq, AppendError> {
        let batch = &append.batch;
        let found = if batch.is_new { self.made(&batch.thread) } else { self.known(&batch.thread) };
        let found = found.map_err(AppendError::Failed)?;
        if found.head.epoch != batch.epoch || found.node.as_deref() != Some(self.node.id()) {
            return Err(AppendError::Fenced { current: found.head.epoch });
        }
        if found.head.seq != batch.expected {
            return Err(AppendError::Conflict { head: found.head.seq });
        }
        let now_ms = self.clock.now().0;
        budget::book_all(&self.db, found.number, &batch.settle, &batch.reserve, now_ms)?;
        record::apply(&self.db, &append.records, now_ms)?;
        self.append_rows(found.number, append).map_err(AppendError::Failed)
    }

    /// Whether the last [`Write::Collect`] left blobs for another one. Returns `true` once for each such collection.
    pub fn has_more_to_collect(&mut self) -> bool {
        self.collection.has_more()
    }

    /// Changes records.
    pub fn apply(&mut self, changes: &[PreparedChange]) -> Result<Vec<Option<u64>>, RecordError> {
        record::apply(&self.db, changes, self.clock.now().0)
    }

    /// Creates a thread that this node drives from the start. Returns the row of an existing thread as
    /// if this node did not own the thread.
    fn made(&mut self, thread: &ThreadId) -> Result<Found, StoreError> {
        let now = whole(self.clock.now().0);
        match self.db.first(MAKE, params![thread.as_str(), now, self.node.id()], Found::read)? {
            Some(made) => Ok(made),
            None => self
                .found(thread)?
                .map(|found| Found { node: None, ..found })
                .ok_or_else(|| crate::fault::damaged("a thread is there and is not")),
        }
    }

    fn append_rows(&mut self, number: i64, append: &PreparedAppend) -> Result<Seq, StoreError> {
        let batch = &append.batch;
        let now_ms = self.clock.now().0;
        for (blob, bytes) in &batch.blobs {
            self.put_blob(&blob.digest, bytes)?;
        }
        let mut seq = batch.expected;
        for (checksum, body) in &append.bodies {
            seq = seq.next();
            let position = position(number, seq)?;
            self.db.run(EVENT, params![position, body, placed(*checksum, position)])?;
        }
        self.name(number, &append.names)?;
        for (blob, _) in batch.blobs.iter().filter(|(blob, _)| !append.names.contains(&blob.digest)) {
            collect::loosen(&self.db, &blob.digest, now_ms)?;
        }
        for (id, outcome) in &batch.consumed {
            inbox::consume(&self.db, number, id, outcome, now_ms)?;
        }
        for run in &batch.unqueued {
            self.db.run(UNQUEUE, params![run.as_str(), number])?;
        }
        for run in &batch.runs {
            self.put_run(number, run, &batch.thread_view)?;
            if run.status.is_some() {
                budget::forget(&self.db, &of_run(&batch.thread_view.workspace, &run.run))?;
            }
        }
        self.put_view(number, Head { seq, epoch: batch.epoch, batch: batch.id }, &batch.thread_view)?;
        Ok(seq)
    }

    fn put_blob(&self, digest: &Digest, bytes: &[u8]) -> Result<(), Fault> {
        let now = whole(self.clock.now().0);
        self.db.run(BLOB, params![digest.as_bytes(), now, bytes]).map(drop)
    }

    fn name(&self, number: i64, names: &HashSet<Digest>) -> Result<(), Fault> {
        names.iter().try_for_each(|digest| collect::name(&self.db, number, digest))
    }

    fn put_run(&self, number: i64, run: &RunView, thread: &ThreadView) -> Result<(), Fault> {
        usage::remove(&self.db, number, &run.run)?;
        let values = params![
            run.run.as_str(),
            number,
            run.agent,
            run.model.as_str(),
            whole(run.from.0),
            whole(run.started_at.0),
            encode(&run.totals),
            thread.workspace,
            thread.owner.as_str(),
            run.queued.as_ref().map(InputId::as_str),
        ];
        self.db.run(RUN, values)?;
        if let Some(status) = run.status {
            let finished_at = run.finished_at.map(|at| whole(at.0));
            let values = params![run.run.as_str(), number, run_status_code(status), finished_at];
            self.db.run(RUN_ENDED, values)?;
        }
        // A driven thread's run changes with each step. It is counted once its row no longer changes.
        let stands_still = run.status.is_some() || thread.status != ThreadStatus::Running;
        if stands_still && run.queued.is_none() { usage::add(&self.db, number, &run.run) } else { Ok(()) }
    }

    fn put_view(&self, number: i64, head: Head, view: &ThreadView) -> Result<(), Fault> {
        let asks = view.asks.as_ref().map(|asks| encode(&(ASKS_VERSION, asks)));
        let values = params![
            number,
            whole(head.seq.0),
            head.batch.0.cast_signed(),
            whole(view.updated_at.0),
            view.folder,
            view.title,
            view.title.as_deref().map(str::to_lowercase),
            view.forked_from.as_ref().map(|from| from.thread.as_str()),
            view.forked_from.as_ref().map(|from| whole(from.until.0)),
        ];
        self.db.run(VIEW, values)?;
        let deadline = view.deadline.map(|at| whole(at.0));
        let values = params![number, thread_status_code(view.status), deadline, view.interrupts, asks];
        self.db.run(STANDING, values)?;
        let values = params![number, minute(view.updated_at), view.owner.as_str(), view.workspace];
        self.db.run(LISTED, values).map(drop)
    }

    /// Makes a change other than an append or a change of records.
    pub fn write(&mut self, write: &Write) -> Result<Written, StoreError> {
        match write {
            Write::Claim(thread) => self.claim(thread).map(Written::Claim),
            Write::ClaimDue(threads) => self.claim_due(threads).map(Written::Due),
            Write::Release(thread, epoch) => {
                self.db.run(RELEASE, params![thread.as_str(), whole(epoch.0), self.node.id()])?;
                Ok(Written::Nothing)
            }
            Write::Post { thread, id, input, names, is_message } => {
                self.post(thread, id.as_str(), input.as_str(), names, *is_message).map(Written::Posted)
            }
            Write::Snapshot(thread, epoch, snapshot) => self.put_snapshot(thread, *epoch, snapshot),
            Write::Blob(digest, bytes) => {
                collect::loosen(&self.db, digest, self.clock.now().0)?;
                self.put_blob(digest, bytes)?;
                Ok(Written::Nothing)
            }
            Write::Loosen(digest) => {
                collect::loosen(&self.db, digest, self.clock.now().0)?;
                Ok(Written::Nothing)
            }
            Write::Collect(until) => {
                let left = self.collection.collect(&self.db, self.clock.now().0)?;
                Ok(Written::Collected { is_done: *until == Until::FirstGroup || left != Left::OfDeleted })
            }
            Write::Delete(thread) => self.delete(thread),
            Write::Check => {
                self.db.run(CHECK, params![whole(self.clock.now().0)])?;
                Ok(Written::Checked { synchronous: self.db.value("PRAGMA synchronous", [])? })
            }
        }
    }

    fn claim(&mut self, thread: &ThreadId) -> Result<Claim, StoreError> {
        let found = self.known_or_created(thread)?;
        if let Some(node) = &found.node
            && node != self.node.id()
            && self.node.is_alive(node)
        {
            return Ok(Claim::Held { node: node.clone() });
        }
        let (head, inbox) = self.take(&found)?;
        Ok(Claim::Taken { head, inbox })
    }

    /// Claims those of `threads` that still need a driver and that no live node holds.
    fn claim_due(&mut self, threads: &[ThreadId]) -> Result<Vec<Due>, StoreError> {
        let mut due = Vec::with_capacity(threads.len());
        for thread in threads {
            let found = self.found(thread)?;
            let is_held = |node: &String| self.node.is_alive(node);
            let Some(found) =
                found.filter(|found| !found.deleted && !found.node.as_ref().is_some_and(is_held))
            else {
                continue;
            };
            if self.db.exists(IS_DUE, params![found.number, whole(self.clock.now().0)])? {
                let (head, inbox) = self.take(&found)?;
                due.push(Due { thread: thread.clone(), head, inbox });
            }
        }
        Ok(due)
    }

    /// Assigns a thread to this node under a new epoch. Returns its head, and whether its inbox has rows.
    fn take(&mut self, found: &Found) -> Result<(Head, bool), StoreError> {
        self.db.run(CLAIM, params![found.number, self.node.id()])?;
        let inbox = inbox::is_waiting(&self.db, found.number)?;
        Ok((Head { epoch: Epoch(found.head.epoch.0 + 1), ..found.head }, inbox))
    }

    /// Posts an input. Only a message creates a thread: any other input to a thread that does not exist is a mistake.
    fn post(
        &mut self,
        thread: &ThreadId,
        id: &str,
        input: &str,
        names: &HashSet<Digest>,
        is_message: bool,
    ) -> Result<Posted, StoreError> {
        let found = if is_message { self.known_or_created(thread)? } else { self.known(thread)? };
        let posted = inbox::post(&self.db, found.number, thread, id, input, self.clock.now().0)?;
        if posted.is_none() {
            self.name(found.number, names)?;
        }
        Ok(posted.unwrap_or(Posted::Waiting))
    }

    fn put_snapshot(
        &mut self,
        thread: &ThreadId,
        epoch: Epoch,
        snapshot: &StoredSnapshot,
    ) -> Result<Written, StoreError> {
        let found = self.known(thread)?;
        if found.head.epoch != epoch {
            return Ok(Written::Nothing);
        }
        let sum = placed(checksum(&snapshot.bytes), snapshot.seq.0.cast_signed());
        let (seq, bytes) = (whole(snapshot.seq.0), snapshot.bytes.as_ref());
        self.db.run(SNAPSHOT, params![found.number, snapshot.fold, seq, bytes, sum])?;
        Ok(Written::Nothing)
    }

    fn delete(&mut self, thread: &ThreadId) -> Result<Written, StoreError> {
        let found = self.known(thread)?;
        if found.status != thread_status_code(ThreadStatus::Idle) {
            let why = format!("thread `{thread}` has an active run; cancel the run, then delete the thread");
            return Err(StoreError::Refused { why });
        }
        let number = found.number;
        let workspace: String = self.db.value(WORKSPACE, params![number])?;
        usage::remove_thread(&self.db, number)?;
        inbox::delete(&self.db, number)?;
        for statement in [DELETE, DELETE_RUNS, DELETE_SNAPSHOT] {
            self.db.run(statement, params![number])?;
        }
        budget::forget_thread(&self.db, number, self.clock.now().0)?;
        budget::forget(&self.db, &of_thread(&workspace, thread))?;
        collect::forget_thread(&self.db, number)?;
        let first = position(number, Seq(0))?;
        self.db.run(DELETE_EVENTS, params![first, first | i64::from(u32::MAX)])?;
        Ok(Written::Nothing)
    }

    fn found(&self, thread: &ThreadId) -> Result<Option<Found>, Fault> {
        self.db.first(HEAD, params![thread.as_str()], Found::read)
    }

    fn known(&self, thread: &ThreadId) -> Result<Found, StoreError> {
        self.found(thread)?
            .filter(|found| !found.deleted)
            .ok_or_else(|| StoreError::NotFound { what: format!("thread `{thread}`") })
    }

    fn known_or_created(&self, thread: &ThreadId) -> Result<Found, StoreError> {
        if let Some(found) = self.found(thread)?
            && !found.deleted
        {
            return Ok(found);
        }
        self.db.run(CREATE, params![thread.as_str(), whole(self.clock.now().0)])?;
        self.known(thread)
    }
}

/// The columns of a thread's row that the writer needs.
struct Found {
    number: i64,
    deleted: bool,
    node: Option<String>,
    head: Head,
    status: i64,
}

impl Found {
    fn read(row: &Row<'_>) -> rusqlite::Result<Self> {
        let number = |column| row.get(column).map(i64::cast_unsigned);
        Ok(Self {
            number: row.get(0)?,
            deleted: row.get(1)?,
            node: row.get(3)?,
            head: Head { seq: Seq(number(4)?), epoch: Epoch(number(2)?), batch: BatchId(number(5)?) },
            status: row.get(6)?,
        })
    }
}

/// Whether an input may create its thread.
pub(crate) fn is_message(input: &Input) -> bool {
    matches!(input, Input::Message(_))
}

/// Returns an event's key in the table: see `001_journal.sql`.
pub(crate) fn position(number: i64, seq: Seq) -> Result<i64, StoreError> {
    match (i32::try_from(number), u32::try_from(seq.0)) {
        (Ok(number), Ok(seq)) => Ok(i64::from(number) << 32 | i64::from(seq)),
        _ => Err(StoreError::Refused {
            why: "the store is full: it holds 2^31 threads and 2^32 events per thread".to_owned(),
        }),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::StoreOptions;
    use crate::schema::migrate;

    #[test]
    fn the_statement_of_every_append_assigns_no_indexed_column() {
        const INDEXED: &str = "SELECT DISTINCT columns.name FROM pragma_index_list('threads') AS list, \
            pragma_index_info(list.name) AS columns";
        let folder = tempfile::tempdir().unwrap();
        let db = Database::open_writer(folder.path(), StoreOptions::default()).unwrap();
        migrate(&db).unwrap();
        let indexed: Vec<String> = db.all(INDEXED, [], |row| row.get(0)).unwrap();
        assert!(indexed.iter().any(|column| column == "workspace"), "{indexed:?}");
        let assigned = VIEW.split_once("SET").unwrap().1.split_once("WHERE").unwrap().0;
        for part in assigned.split(',') {
            let column = part.split_once('=').unwrap().0.trim();
            assert!(!indexed.iter().any(|indexed| indexed == column), "`{column}` is indexed");
        }
    }
}
