//! The changes within a group's transaction: one function per change.
//!
//! Nothing here begins or commits. A function that fails may leave half a change behind; the group rolls back to the
//! savepoint.

use std::collections::HashSet;
use std::sync::Arc;

use windlass_engine::port::budget::{of_run, of_thread};
use windlass_engine::port::clock::Clock;
use windlass_engine::port::journal::{
    AppendError, BatchId, Claim, Due, Epoch, Head, Posted, RunView, StoreError, StoredSnapshot, ThreadStatus,
    ThreadView,
};
use windlass_engine::port::records::{PreparedChange, RecordError};
use windlass_machine::{Digest, Input, InputId, Seq, ThreadId};

use crate::blob::collect::{Collection, Left};
use crate::budget::Budgets;
use crate::checksum::{checksum, placed};
use crate::column::{ASKS_VERSION, encode, minute, run_status_code, thread_status_code};
use crate::fault::Fault;
use crate::node::Node;
use crate::record::RecordRows;
use crate::writer::change::{PreparedAppend, Until, Write, Written};
use crate::writer::inbox::Inbox;
use crate::writer::raw::{Raw, Row, Statement, Value};
use crate::writer::usage::UsageSums;

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
const VIEW: &str = "UPDATE threads SET head = ?2, batch = ?3, updated_at = ?4, workspace = ?5, folder = ?6, \
    title = ?7, title_lower = ?8, forked_from = ?9, forked_until = ?10 WHERE number = ?1";
// Apart, because SQLite writes an index's pages whenever its columns are assigned, even the same values.
const STANDING: &str = "UPDATE threads SET status = ?2, deadline = ?3, interrupts = ?4, asks = ?5 WHERE number = ?1 \
    AND (status IS NOT ?2 OR deadline IS NOT ?3 OR interrupts IS NOT ?4 OR asks IS NOT ?5)";
const LISTED: &str = "UPDATE threads SET minute = ?2, owner = ?3 WHERE number = ?1 \
    AND (minute IS NOT ?2 OR owner IS NOT ?3)";
const EVENT: &str = "INSERT INTO events (position, body, checksum) VALUES (?1, ?2, ?3)";
// The same bytes over the same row write no page; over a damaged one they heal it.
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

/// The prepared statements of every change.
pub(crate) struct Changes {
    // tidy: fields one prepared statement for each change
    head: Statement,
    claim: Statement,
    create: Statement,
    make: Statement,
    release: Statement,
    view: Statement,
    standing: Statement,
    listed: Statement,
    event: Statement,
    blob: Statement,
    run: Statement,
    run_ended: Statement,
    unqueue: Statement,
    is_due: Statement,
    snapshot: Statement,
    check: Statement,
    synchronous: Statement,
    workspace: Statement,
    /// Rows of a thread that only a deletion touches: each takes the thread's number.
    delete: [Statement; 3],
    delete_events: Statement,
    inbox: Inbox,
    collection: Collection,
    budgets: Budgets,
    records: RecordRows,
    usage: UsageSums,
    node: Arc<Node>,
    clock: Arc<dyn Clock>,
}

impl Changes {
    /// Prepares every statement.
    pub fn prepare(raw: &Arc<Raw>, node: Arc<Node>, clock: Arc<dyn Clock>) -> Result<Self, Fault> {
        Ok(Self {
            head: raw.prepare(HEAD)?,
            claim: raw.prepare(CLAIM)?,
            create: raw.prepare(CREATE)?,
            make: raw.prepare(MAKE)?,
            release: raw.prepare(RELEASE)?,
            view: raw.prepare(VIEW)?,
            standing: raw.prepare(STANDING)?,
            listed: raw.prepare(LISTED)?,
            event: raw.prepare(EVENT)?,
            blob: raw.prepare(BLOB)?,
            run: raw.prepare(RUN)?,
            run_ended: raw.prepare(RUN_ENDED)?,
            unqueue: raw.prepare(UNQUEUE)?,
            is_due: raw.prepare(IS_DUE)?,
            snapshot: raw.prepare(SNAPSHOT)?,
            check: raw.prepare(CHECK)?,
            synchronous: raw.prepare("PRAGMA synchronous")?,
            workspace: raw.prepare(WORKSPACE)?,
            delete: [raw.prepare(DELETE)?, raw.prepare(DELETE_RUNS)?, raw.prepare(DELETE_SNAPSHOT)?],
            delete_events: raw.prepare(DELETE_EVENTS)?,
            inbox: Inbox::prepare(raw)?,
            collection: Collection::prepare(raw, &node)?,
            budgets: Budgets::prepare(raw)?,
            records: RecordRows::prepare(raw)?,
            usage: UsageSums::prepare(raw)?,
            node,
            clock,
        })
    }

    /// Appends a batch where its epoch and expected position are still the thread's.
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
        self.budgets.book(found.number, &batch.settle, &batch.reserve, now_ms)?;
        self.records.apply(&append.records, now_ms)?;
        self.append_rows(found.number, append).map_err(AppendError::Failed)
    }

    /// Whether the last [`Write::Collect`] left blobs for another one. Returns `true` once for each.
    pub fn has_more_to_collect(&mut self) -> bool {
        self.collection.has_more()
    }

    /// Changes records.
    pub fn apply(&mut self, changes: &[PreparedChange]) -> Result<Vec<Option<u64>>, RecordError> {
        self.records.apply(changes, self.clock.now().0)
    }

    /// Makes a thread that this node drives from the start; one that exists belongs to somebody else.
    fn made(&mut self, thread: &ThreadId) -> Result<Found, StoreError> {
        let node = Value::Text(self.node.id());
        let row = [Value::Text(thread.as_str()), Value::number(self.clock.now().0), node];
        match self.make.first(&row, Found::read)? {
            Some(made) => Ok(made),
            None => self
                .head
                .first(&[row[0]], Found::read)?
                .map(|found| Found { node: None, ..found })
                .ok_or_else(|| crate::fault::damaged("a thread is there and is not")),
        }
    }

    fn append_rows(&mut self, number: i64, append: &PreparedAppend) -> Result<Seq, StoreError> {
        let batch = &append.batch;
        let now = Value::number(self.clock.now().0);
        for (blob, bytes) in &batch.blobs {
            self.blob.run(&[Value::Blob(blob.digest.as_bytes()), now, Value::Blob(bytes)])?;
        }
        let mut seq = batch.expected;
        for (checksum, body) in &append.bodies {
            seq = seq.next();
            let position = position(number, seq)?;
            let checksum = Value::Integer(placed(*checksum, position));
            self.event.run(&[Value::Integer(position), Value::Text(body), checksum])?;
        }
        self.name(number, &append.names)?;
        for (blob, _) in batch.blobs.iter().filter(|(blob, _)| !append.names.contains(&blob.digest)) {
            self.collection.loosen(&blob.digest, self.clock.now().0)?;
        }
        for (id, outcome) in &batch.consumed {
            self.inbox.consume(number, id, outcome, self.clock.now().0)?;
        }
        for run in &batch.unqueued {
            self.unqueue.run(&[Value::Text(run.as_str()), Value::Integer(number)])?;
        }
        for run in &batch.runs {
            self.put_run(number, run, &batch.thread_view)?;
            if run.status.is_some() {
                self.budgets.forget(&of_run(&batch.thread_view.workspace, &run.run))?;
            }
        }
        self.put_view(number, Head { seq, epoch: batch.epoch, batch: batch.id }, &batch.thread_view)?;
        Ok(seq)
    }

    fn name(&mut self, number: i64, names: &HashSet<Digest>) -> Result<(), Fault> {
        names.iter().try_for_each(|digest| self.collection.name(number, digest))
    }

    fn put_run(&mut self, number: i64, run: &RunView, thread: &ThreadView) -> Result<(), Fault> {
        self.usage.remove(number, &run.run)?;
        self.run.run(&[
            Value::Text(run.run.as_str()),
            Value::Integer(number),
            Value::Text(&run.agent),
            Value::Text(run.model.as_str()),
            Value::number(run.from.0),
            Value::number(run.started_at.0),
            Value::Text(&encode(&run.totals)),
            Value::Text(&thread.workspace),
            Value::Text(thread.owner.as_str()),
            Value::text_or_null(run.queued.as_ref().map(InputId::as_str)),
        ])?;
        if let Some(status) = run.status {
            let finished_at = run.finished_at.map_or(Value::Null, |at| Value::number(at.0));
            let status = Value::Integer(run_status_code(status));
            let key = [Value::Text(run.run.as_str()), Value::Integer(number)];
            self.run_ended.run(&[key[0], key[1], status, finished_at])?;
        }
        // A run of a thread that is driven changes with each step, and is counted once it stands still.
        let stands_still = run.status.is_some() || thread.status != ThreadStatus::Running;
        if stands_still && run.queued.is_none() { self.usage.add(number, &run.run) } else { Ok(()) }
    }

    fn put_view(&mut self, number: i64, head: Head, view: &ThreadView) -> Result<(), Fault> {
        let asks = view.asks.as_ref().map(|asks| encode(&(ASKS_VERSION, asks)));
        let title_lower = view.title.as_deref().map(str::to_lowercase);
        let number = Value::Integer(number);
        self.view.run(&[
            number,
            Value::number(head.seq.0),
            Value::Integer(head.batch.0.cast_signed()),
            Value::number(view.updated_at.0),
            Value::Text(&view.workspace),
            Value::text_or_null(view.folder.as_deref()),
            Value::text_or_null(view.title.as_deref()),
            Value::text_or_null(title_lower.as_deref()),
            Value::text_or_null(view.forked_from.as_ref().map(|from| from.thread.as_str())),
            view.forked_from.as_ref().map_or(Value::Null, |from| Value::number(from.until.0)),
        ])?;
        self.standing.run(&[
            number,
            Value::Integer(thread_status_code(view.status)),
            view.deadline.map_or(Value::Null, |at| Value::number(at.0)),
            Value::Integer(view.interrupts.into()),
            Value::text_or_null(asks.as_deref()),
        ])?;
        let minute = Value::Integer(minute(view.updated_at));
        self.listed.run(&[number, minute, Value::Text(view.owner.as_str())])?;
        Ok(())
    }

    /// Makes any other change.
    pub fn write(&mut self, write: &Write) -> Result<Written, StoreError> {
        match write {
            Write::Claim(thread) => self.claim(thread).map(Written::Claim),
            Write::ClaimDue(threads) => self.claim_due(threads).map(Written::Due),
            Write::Release(thread, epoch) => {
                let node = Value::Text(self.node.id());
                self.release.run(&[Value::Text(thread.as_str()), Value::number(epoch.0), node])?;
                Ok(Written::Nothing)
            }
            Write::Post { thread, id, input, names, is_message } => {
                self.post(thread, id.as_str(), input.as_str(), names, *is_message).map(Written::Posted)
            }
            Write::Snapshot(thread, epoch, snapshot) => self.put_snapshot(thread, *epoch, snapshot),
            Write::Blob(digest, bytes) => {
                let now = Value::number(self.clock.now().0);
                self.collection.loosen(digest, self.clock.now().0)?;
                self.blob.run(&[Value::Blob(digest.as_bytes()), now, Value::Blob(bytes)])?;
                Ok(Written::Nothing)
            }
            Write::Loosen(digest) => {
                self.collection.loosen(digest, self.clock.now().0)?;
                Ok(Written::Nothing)
            }
            Write::Collect(until) => {
                let left = self.collection.collect(self.clock.now().0)?;
                Ok(Written::Collected { is_done: *until == Until::FirstGroup || left != Left::OfDeleted })
            }
            Write::Delete(thread) => self.delete(thread),
            Write::Check => {
                self.check.run(&[Value::number(self.clock.now().0)])?;
                let synchronous = self.synchronous.first(&[], |row| row.integer(0))?.unwrap_or_default();
                Ok(Written::Checked { synchronous })
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

    /// Claims those of some threads that still need a driver and that no live node holds.
    fn claim_due(&mut self, threads: &[ThreadId]) -> Result<Vec<Due>, StoreError> {
        let mut due = Vec::with_capacity(threads.len());
        for thread in threads {
            let found = self.head.first(&[Value::Text(thread.as_str())], Found::read)?;
            let is_held = |node: &String| self.node.is_alive(node);
            let Some(found) =
                found.filter(|found| !found.deleted && !found.node.as_ref().is_some_and(is_held))
            else {
                continue;
            };
            let row = [Value::Integer(found.number), Value::number(self.clock.now().0)];
            if self.is_due.first(&row, |_| ())?.is_some() {
                let (head, inbox) = self.take(&found)?;
                due.push(Due { thread: thread.clone(), head, inbox });
            }
        }
        Ok(due)
    }

    /// Gives a thread to this node in another epoch. Returns its head, and whether its inbox has rows.
    fn take(&mut self, found: &Found) -> Result<(Head, bool), StoreError> {
        self.claim.run(&[Value::Integer(found.number), Value::Text(self.node.id())])?;
        let inbox = self.inbox.is_waiting(found.number)?;
        Ok((Head { epoch: Epoch(found.head.epoch.0 + 1), ..found.head }, inbox))
    }

    /// Posts an input. Only a message makes a thread: any other input to a thread that does not exist is a mistake.
    fn post(
        &mut self,
        thread: &ThreadId,
        id: &str,
        input: &str,
        names: &HashSet<Digest>,
        is_message: bool,
    ) -> Result<Posted, StoreError> {
        let found = if is_message { self.known_or_created(thread)? } else { self.known(thread)? };
        let posted = self.inbox.post(found.number, thread, id, input, self.clock.now().0)?;
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
        self.snapshot.run(&[
            Value::Integer(found.number),
            Value::Integer(snapshot.fold.into()),
            Value::number(snapshot.seq.0),
            Value::Blob(&snapshot.bytes),
            Value::Integer(placed(checksum(&snapshot.bytes), snapshot.seq.0.cast_signed())),
        ])?;
        Ok(Written::Nothing)
    }

    fn delete(&mut self, thread: &ThreadId) -> Result<Written, StoreError> {
        let found = self.known(thread)?;
        if found.status != thread_status_code(ThreadStatus::Idle) {
            let why = format!("thread `{thread}` has an active run; cancel the run, then delete the thread");
            return Err(StoreError::Refused { why });
        }
        let workspace = self.workspace.first(&[Value::Integer(found.number)], |row| row.text(0))?.flatten();
        let own = of_thread(&workspace.unwrap_or_default(), thread);
        self.usage.remove_thread(found.number)?;
        self.inbox.delete(found.number)?;
        for statement in &mut self.delete {
            statement.run(&[Value::Integer(found.number)])?;
        }
        self.budgets.forget_thread(found.number, self.clock.now().0)?;
        self.budgets.forget(&own)?;
        self.collection.forget_thread(found.number)?;
        let first = position(found.number, Seq(0))?;
        self.delete_events.run(&[Value::Integer(first), Value::Integer(first | i64::from(u32::MAX))])?;
        Ok(Written::Nothing)
    }

    fn known(&mut self, thread: &ThreadId) -> Result<Found, StoreError> {
        let found = self.head.first(&[Value::Text(thread.as_str())], Found::read)?;
        found
            .filter(|found| !found.deleted)
            .ok_or_else(|| StoreError::NotFound { what: format!("thread `{thread}`") })
    }

    fn known_or_created(&mut self, thread: &ThreadId) -> Result<Found, StoreError> {
        let name = [Value::Text(thread.as_str())];
        if let Some(found) = self.head.first(&name, Found::read)?
            && !found.deleted
        {
            return Ok(found);
        }
        self.create.run(&[Value::Text(thread.as_str()), Value::number(self.clock.now().0)])?;
        self.known(thread)
    }
}

/// A thread's row as the writer needs it.
struct Found {
    number: i64,
    deleted: bool,
    node: Option<String>,
    head: Head,
    status: i64,
}

impl Found {
    fn read(row: &Row<'_>) -> Self {
        Self {
            number: row.integer(0),
            deleted: row.integer(1) != 0,
            node: row.text(3),
            head: Head {
                seq: Seq(row.integer(4).cast_unsigned()),
                epoch: Epoch(row.integer(2).cast_unsigned()),
                batch: BatchId(row.integer(5).cast_unsigned()),
            },
            status: row.integer(6),
        }
    }
}

/// Whether an input may make the thread that it is for.
pub(crate) fn is_message(input: &Input) -> bool {
    matches!(input, Input::Message(_))
}

/// Where an event lies in the table: see `001_journal.sql`.
pub(crate) fn position(number: i64, seq: Seq) -> Result<i64, StoreError> {
    match (i32::try_from(number), u32::try_from(seq.0)) {
        (Ok(number), Ok(seq)) => Ok(i64::from(number) << 32 | i64::from(seq)),
        _ => Err(StoreError::Refused {
            why: "the store is full: it holds 2^31 threads and 2^32 events per thread".to_owned(),
        }),
    }
}
