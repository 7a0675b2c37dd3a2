//! The writer of a process: a thread that commits all waiting changes in one transaction.
//!
//! Each change has a savepoint, so that a rejected one fails alone. The longer a commit takes, the more changes share
//! the next one; nothing is delayed on purpose. If few threads are driven and the disk is fast, the caller commits on
//! its own thread. A round trip to the writer's thread would cost more than such a commit.

pub(super) mod change;
pub(super) mod changes;
mod inbox;
pub(super) mod usage;

use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, TryLockError};
use std::time::Duration;

use tokio::sync::{mpsc, oneshot};
use windlass_engine::port::clock::Clock;
use windlass_engine::port::journal::{AppendError, Claim, StoreError};
use windlass_engine::port::records::{PreparedChange, RecordError};
use windlass_machine::Seq;

use super::fault::Fault;
use super::options::BUSY;
use crate::database::{Database, Work};
use crate::node::Node;
use crate::writer::change::{PreparedAppend, Until, Write, Written};
use crate::writer::changes::Changes;

/// Maximum number of waiting changes: more than the runs that one process drives at once.
/// Further callers wait for a free slot.
const QUEUE: usize = 1024;
/// Maximum duration of a group in milliseconds, so that other processes get the lock.
const GROUP_MS: u64 = 10;
/// Maximum number of changes in a group, for a clock that does not advance: about as many as 10 ms allow.
const GROUP_CHANGES: usize = 512;
/// Maximum average commit time in microseconds for commits on the caller's thread. Such a commit blocks one of the
/// few threads that run all other tasks.
const QUICK_US: u64 = 1_000;
/// Maximum number of threads that this process drives while callers commit on their own thread. With more threads, a
/// commit that waits a moment is shared.
const FEW: usize = 4;
/// Maximum number of events in an append, and maximum size of a snapshot in bytes, for commits on the caller's thread.
/// A larger write would block a runtime thread for too long.
const ALONE_EVENTS: usize = 256;
const ALONE_BYTES: usize = 256 * 1024;
/// Number of pages of log after which it is written back into the database: SQLite's default.
const LOG_PAGES: u32 = 1_000;

/// The new versions of changed records; `None` for a deleted record.
type Versions = Vec<Option<u64>>;

enum Job {
    Append(Box<PreparedAppend>, oneshot::Sender<Result<Seq, AppendError>>),
    Write(Write, oneshot::Sender<Result<Written, StoreError>>),
    Records(Vec<PreparedChange>, oneshot::Sender<Result<Versions, RecordError>>),
    /// Write the log back into the database.
    Tidy,
}

/// Sends changes to the writer's thread. Dropping it blocks until the thread has committed all waiting changes.
pub(super) struct Writer {
    group: Arc<Mutex<Group>>,
    jobs: Option<mpsc::Sender<Job>>,
    thread: Option<std::thread::JoinHandle<()>>,
    pace: Arc<Pace>,
    /// Approximate number of threads that this process has claimed and not released.
    driven: AtomicUsize,
}

/// Average duration of a commit in microseconds: a moving average over about sixteen commits.
#[derive(Default)]
struct Pace(AtomicU64);

impl Pace {
    fn is_quick(&self) -> bool {
        self.0.load(Ordering::Relaxed) < QUICK_US
    }

    /// Records the duration of a commit. Whole milliseconds suffice, because the mean over many commits is accurate.
    fn note(&self, took_ms: u64) {
        let average = self.0.load(Ordering::Relaxed);
        self.0.store((average * 15 + took_ms.saturating_mul(1_000)) / 16, Ordering::Relaxed);
    }
}

impl Writer {
    /// Takes ownership of an open and migrated connection, and starts the thread.
    pub fn start(db: Database, node: Arc<Node>, clock: Arc<dyn Clock>) -> Result<Self, StoreError> {
        let pace = Arc::<Pace>::default();
        let changes = Changes::new(db, node, Arc::clone(&clock));
        let group = Group { changes, collectors: Vec::new(), clock, pace: Arc::clone(&pace) };
        let group = Arc::new(Mutex::new(group));
        let (jobs, mut waiting) = mpsc::channel(QUEUE);
        let shared = Arc::clone(&group);
        let serve = move || {
            while let Some(job) = waiting.blocking_recv() {
                let mut is_committed = locked(&shared).commit_from(job, &mut waiting);
                // Collects in groups and releases the lock between them. If the store closes first, the next
                // opening continues the collection.
                while is_committed && !waiting.is_closed() && locked(&shared).changes.has_more_to_collect() {
                    let (reply, _) = oneshot::channel();
                    let collect = Job::Write(Write::Collect(Until::DeletedThreads), reply);
                    is_committed = locked(&shared).commit_from(collect, &mut waiting);
                }
                locked(&shared).answer_collectors(false);
            }
        };
        let thread = std::thread::Builder::new()
            .name("windlass-writer".to_owned())
            .spawn(serve)
            .map_err(|error| StoreError::Unavailable { why: format!("no thread for the writer: {error}") })?;
        Ok(Self { group, jobs: Some(jobs), thread: Some(thread), pace, driven: AtomicUsize::new(0) })
    }

    /// Appends a batch.
    pub async fn append(&self, append: PreparedAppend) -> Result<Seq, AppendError> {
        if append.batch.is_new {
            // If the append fails, the caller still releases a thread that it never claimed: see `write`.
            self.driven.fetch_add(1, Ordering::Relaxed);
        }
        if append.bodies.len() <= ALONE_EVENTS
            && let Some(mut group) = self.idle()
        {
            let unknown = |fault: Fault| AppendError::Unknown(fault.words());
            let appended = group.commit_alone(|changes| changes.append(&append), unknown);
            self.tidy(&group);
            return appended;
        }
        let (reply, answer) = oneshot::channel();
        self.send(Job::Append(Box::new(append), reply)).await.map_err(AppendError::Failed)?;
        let gone = |_| AppendError::Unknown("the store's writer ended before it answered".to_owned());
        answer.await.map_err(gone)?
    }

    /// Changes records.
    pub async fn apply(&self, changes: Vec<PreparedChange>) -> Result<Versions, RecordError> {
        if let Some(mut group) = self.idle() {
            let applied = group.commit_alone(|rows| rows.apply(&changes), RecordError::from);
            self.tidy(&group);
            return applied;
        }
        let (reply, answer) = oneshot::channel();
        self.send(Job::Records(changes, reply)).await?;
        answer.await.map_err(|_| ended())?
    }

    /// Makes a change other than an append.
    pub async fn write(&self, write: Write) -> Result<Written, StoreError> {
        let released = matches!(write, Write::Release(..));
        let written = self.make(write).await?;
        match &written {
            Written::Claim(Claim::Taken { .. }) => drop(self.driven.fetch_add(1, Ordering::Relaxed)),
            Written::Due(due) => drop(self.driven.fetch_add(due.len(), Ordering::Relaxed)),
            // If a thread was claimed twice, there are more releases than claims: the number is an estimate.
            Written::Nothing if released => {
                let fewer = |driven: usize| Some(driven.saturating_sub(1));
                let _ = self.driven.fetch_update(Ordering::Relaxed, Ordering::Relaxed, fewer);
            }
            Written::Claim(Claim::Held { .. })
            | Written::Posted(_)
            | Written::Collected { .. }
            | Written::Checked { .. }
            | Written::Nothing => {}
        }
        Ok(written)
    }

    /// Returns the connection's work since the last call.
    pub fn take_work(&self) -> Work {
        locked(&self.group).db().take_work()
    }

    async fn make(&self, write: Write) -> Result<Written, StoreError> {
        // Writes of many rows, files or bytes run on the writer's thread and block no runtime thread.
        let is_long = match &write {
            Write::Delete(_) | Write::Collect(_) => true,
            Write::Snapshot(_, _, snapshot) => snapshot.bytes.len() > ALONE_BYTES,
            Write::Claim(_)
            | Write::ClaimDue(_)
            | Write::Release(..)
            | Write::Post { .. }
            | Write::Blob(..)
            | Write::Loosen(_)
            | Write::Check => false,
        };
        if !is_long && let Some(mut group) = self.idle() {
            let written = group.commit_alone(|changes| changes.write(&write), StoreError::from);
            self.tidy(&group);
            return written;
        }
        let (reply, answer) = oneshot::channel();
        self.send(Job::Write(write, reply)).await?;
        answer.await.map_err(|_| ended())?
    }

    /// Begins a transaction and returns the group, if the caller may commit on its own thread.
    fn idle(&self) -> Option<MutexGuard<'_, Group>> {
        let nothing_waits = self.jobs.as_ref().is_some_and(|jobs| jobs.capacity() == jobs.max_capacity());
        let few = self.driven.load(Ordering::Relaxed) <= FEW;
        if !few || !nothing_waits || !self.pace.is_quick() {
            return None;
        }
        let group = match self.group.try_lock() {
            Ok(group) => group,
            Err(TryLockError::Poisoned(poisoned)) => poisoned.into_inner(),
            Err(TryLockError::WouldBlock) => return None,
        };
        group.begin_at_once().then_some(group)
    }

    /// Makes the writer's thread write the log back, if the log is long.
    fn tidy(&self, group: &Group) {
        if let Some(jobs) = &self.jobs
            && group.db().log_pages() >= LOG_PAGES
        {
            // If the queue is full, the thread writes the log back anyway after the queued changes.
            let _ = jobs.try_send(Job::Tidy);
        }
    }

    async fn send(&self, job: Job) -> Result<(), StoreError> {
        // Only `drop` takes the sender, and no method can be called after it.
        let jobs = self.jobs.as_ref().expect("the writer is open until it is dropped");
        jobs.send(job).await.map_err(|_| ended())
    }
}

/// Locks the group. A panic can at most leave a transaction open; the next `BEGIN` reports and ends it.
fn locked(group: &Mutex<Group>) -> MutexGuard<'_, Group> {
    group.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Drop for Writer {
    fn drop(&mut self) {
        self.jobs = None;
        if let Some(thread) = self.thread.take() {
            // The callers that waited for the writer have already received an error for its panic.
            let _ = thread.join();
        }
    }
}

fn ended() -> StoreError {
    StoreError::Unavailable { why: "the store's writer has ended; open the store again".to_owned() }
}

struct Group {
    changes: Changes,
    /// Callers that wait for a later group of the collection.
    collectors: Vec<oneshot::Sender<Result<Written, StoreError>>>,
    clock: Arc<dyn Clock>,
    pace: Arc<Pace>,
}

const BEGIN: &str = "BEGIN IMMEDIATE";

impl Group {
    fn db(&self) -> &Database {
        self.changes.db()
    }

    /// Begins a transaction if no other process has the lock. Does not wait.
    fn begin_at_once(&self) -> bool {
        let begun = self.db().set_busy_timeout(Duration::ZERO).is_ok() && self.db().run(BEGIN, []).is_ok();
        // SQLite never rejects a timeout in this range.
        let _ = self.db().set_busy_timeout(BUSY);
        begun
    }

    /// Makes one change in a transaction begun for it, and commits. A rejected change leaves no trace.
    fn commit_alone<T, E>(
        &mut self,
        change: impl FnOnce(&mut Changes) -> Result<T, E>,
        unknown: impl FnOnce(Fault) -> E,
    ) -> Result<T, E> {
        let from_ms = self.clock.monotonic_ms();
        let changed = change(&mut self.changes);
        let ended = match &changed {
            Ok(_) => self.db().run("COMMIT", []).map_err(unknown),
            Err(_) => Ok(0),
        };
        self.roll_back();
        self.pace.note(self.clock.monotonic_ms().saturating_sub(from_ms));
        ended.and(changed)
    }

    /// Rolls back a transaction that is still open. Ignores an error, because the next `BEGIN` reports it.
    fn roll_back(&mut self) {
        if self.db().is_in_transaction() {
            let _ = self.db().run("ROLLBACK", []);
        }
    }

    /// Commits a change together with all waiting changes, then answers their callers.
    /// Returns whether the commit succeeded.
    fn commit_from(&mut self, first: Job, waiting: &mut mpsc::Receiver<Job>) -> bool {
        let from_ms = self.clock.monotonic_ms();
        let first = match first {
            Job::Tidy => None,
            job @ (Job::Append(..) | Job::Write(..) | Job::Records(..)) => Some(job),
        };
        let mut is_committed = true;
        if let Some(first) = first {
            let (done, lost) = self.commit_group(first, waiting);
            self.pace.note(self.clock.monotonic_ms().saturating_sub(from_ms));
            is_committed = lost.is_none();
            self.answer(done, lost.as_ref());
        }
        if self.db().log_pages() >= LOG_PAGES
            && let Err(fault) = self.db().write_back()
        {
            tracing::warn!(
                ?fault,
                "the store's log could not be written back; it is tried again after a commit"
            );
        }
        is_committed
    }

    /// Sends the results of a group's changes. An unfinished collection is answered after a later group.
    fn answer(&mut self, done: Vec<Done>, lost: Option<&Lost>) {
        for change in done {
            match change {
                Done::Write(reply, Ok(Written::Collected { is_done })) if lost.is_none() => {
                    self.collectors.push(reply);
                    if is_done {
                        self.answer_collectors(true);
                    }
                }
                change @ (Done::Append(..) | Done::Write(..) | Done::Records(..)) => change.answer(lost),
            }
        }
    }

    /// Responds to every caller that waits for the collection. `is_done` is `false` if the collection stopped early.
    fn answer_collectors(&mut self, is_done: bool) {
        for reply in self.collectors.drain(..) {
            // The caller may have stopped waiting.
            let _ = reply.send(Ok(Written::Collected { is_done }));
        }
    }

    fn commit_group(&mut self, first: Job, waiting: &mut mpsc::Receiver<Job>) -> (Vec<Done>, Option<Lost>) {
        if let Err(fault) = self.db().run(BEGIN, []) {
            self.roll_back();
            // Each waiting change would fail with the same lock or disk error, after another 5 s.
            let mut done = Vec::from_iter(Done::untried(first));
            done.extend(std::iter::from_fn(|| waiting.try_recv().ok()).filter_map(Done::untried));
            return (done, Some(Lost::RolledBack(fault)));
        }
        let until_ms = self.clock.monotonic_ms() + GROUP_MS;
        let mut done = Vec::new();
        let mut next = Some(first);
        while let Some(job) = next.take() {
            match self.change(job) {
                Ok(change) => done.extend(change),
                Err((change, fault)) => {
                    done.extend(change);
                    return (done, Some(Lost::RolledBack(fault)));
                }
            }
            if done.len() < GROUP_CHANGES && self.clock.monotonic_ms() < until_ms {
                next = waiting.try_recv().ok();
            }
        }
        let lost = self.db().run("COMMIT", []).err().map(Lost::Unknown);
        self.roll_back();
        (done, lost)
    }

    /// Makes one change in its savepoint. An error means that the whole transaction has ended.
    fn change(&mut self, job: Job) -> Result<Option<Done>, (Option<Done>, Fault)> {
        if let Err(fault) = self.db().run("SAVEPOINT change", []) {
            self.roll_back();
            return Err((Done::untried(job), fault));
        }
        let done = match job {
            Job::Append(append, reply) => Done::Append(reply, self.changes.append(&append)),
            Job::Write(write, reply) => Done::Write(reply, self.changes.write(&write)),
            Job::Records(changes, reply) => Done::Records(reply, self.changes.apply(&changes)),
            Job::Tidy => {
                return self.db().run("RELEASE change", []).map(|_| None).map_err(|fault| (None, fault));
            }
        };
        let closed = match done.is_refused() {
            // Some failures end the transaction. Then there is no savepoint to roll back to.
            true if !self.db().is_in_transaction() => Err(interrupted()),
            true => self.db().run("ROLLBACK TO change", []).and_then(|_| self.db().run("RELEASE change", [])),
            false => self.db().run("RELEASE change", []),
        };
        match closed {
            Ok(_) => Ok(Some(done)),
            Err(fault) => {
                self.roll_back();
                Err((Some(done), fault))
            }
        }
    }
}

fn interrupted() -> Fault {
    Fault {
        code: rusqlite::ffi::SQLITE_IOERR,
        message: "a change in the same group ended the transaction".to_owned(),
    }
}

/// Why a group was not committed for certain.
enum Lost {
    /// Nothing of the group was written, for certain.
    RolledBack(Fault),
    /// The commit failed; its outcome is unknown.
    Unknown(Fault),
}

/// An attempted change, with the response that applies if the group commits.
enum Done {
    Append(oneshot::Sender<Result<Seq, AppendError>>, Result<Seq, AppendError>),
    Write(oneshot::Sender<Result<Written, StoreError>>, Result<Written, StoreError>),
    Records(oneshot::Sender<Result<Versions, RecordError>>, Result<Versions, RecordError>),
}

impl Done {
    /// Creates the response for a change that the group did not attempt.
    fn untried(job: Job) -> Option<Self> {
        match job {
            Job::Append(_, reply) => Some(Self::Append(reply, Ok(Seq::default()))),
            Job::Write(_, reply) => Some(Self::Write(reply, Ok(Written::Nothing))),
            Job::Records(_, reply) => Some(Self::Records(reply, Ok(Versions::new()))),
            Job::Tidy => None,
        }
    }

    fn is_refused(&self) -> bool {
        match self {
            Self::Append(_, result) => result.is_err(),
            Self::Write(_, result) => result.is_err(),
            Self::Records(_, result) => result.is_err(),
        }
    }

    /// Sends the response. A rejection is sent unchanged even if the group failed. The caller may have stopped waiting.
    fn answer(self, lost: Option<&Lost>) {
        match self {
            Self::Append(reply, result) => {
                let result = result.and_then(|seq| match lost {
                    None => Ok(seq),
                    Some(Lost::RolledBack(fault)) => Err(AppendError::Failed(fault.clone().into())),
                    Some(Lost::Unknown(fault)) => Err(AppendError::Unknown(fault.words())),
                });
                let _ = reply.send(result);
            }
            Self::Write(reply, result) => {
                let result = result.and_then(|written| match lost {
                    None => Ok(written),
                    Some(Lost::RolledBack(fault) | Lost::Unknown(fault)) => Err(fault.clone().into()),
                });
                let _ = reply.send(result);
            }
            Self::Records(reply, result) => {
                let result = result.and_then(|versions| match lost {
                    None => Ok(versions),
                    Some(Lost::RolledBack(fault) | Lost::Unknown(fault)) => Err(fault.clone().into()),
                });
                let _ = reply.send(result);
            }
        }
    }
}
