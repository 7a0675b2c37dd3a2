//! The one writer: a thread that takes what waits, and commits it together.
//!
//! Each change has a savepoint, so that a refused one fails alone. The longer a commit takes, the
//! more changes wait for the next, and the more of them share it: nothing is ever delayed on purpose.

use std::sync::Arc;

use bytes::Bytes;
use sqlx::SqliteConnection;
use tokio::sync::{mpsc, oneshot};
use windlass_machine::{Digest, InputId, Seq, ThreadId};

use super::fault::Fault;
use super::raw::{Raw, Statement};
use super::write::Changes;
use crate::adapter::node::Node;
use crate::port::clock::Clock;
use crate::port::journal::{AppendError, Batch, Claim, Epoch, Posted, StoreError, StoredSnapshot};

/// Changes that may wait. More than the runs that one process drives at once; who comes after waits for room.
const QUEUE: usize = 1024;
/// A group ends here, so that other processes get the lock. (design: "One machine, many machines")
const GROUP_MS: u64 = 10;
/// And here, where the clock stands still: about what 10 ms hold.
const GROUP_CHANGES: usize = 512;

/// A batch with its events encoded, which the caller's thread did.
pub(super) struct PreparedAppend {
    /// The batch.
    pub batch: Batch,
    /// Its events as text.
    pub bodies: Vec<String>,
}

/// A change other than an append.
pub(super) enum Write {
    /// Takes a thread.
    Claim(ThreadId),
    /// Gives a thread back.
    Release(ThreadId, Epoch),
    /// Puts an input into the inbox.
    Post {
        /// Whose inbox.
        thread: ThreadId,
        /// The sender's id of it.
        id: InputId,
        /// The input as JSON.
        input: String,
        /// Whether it may make the thread.
        is_message: bool,
    },
    /// Keeps a snapshot.
    Snapshot(ThreadId, StoredSnapshot),
    /// Keeps a small blob.
    Blob(Digest, Bytes),
    /// Says that a large blob is about to be stored.
    Loosen(Digest),
    /// Deletes a thread.
    Delete(ThreadId),
    /// Deletes blobs that nothing names.
    Collect,
    /// Writes something, to see that it works.
    Check,
}

/// What a change answers.
pub(super) enum Written {
    /// Nothing but that it is done.
    Nothing,
    /// For a claim.
    Claim(Claim),
    /// For a posted input.
    Posted(Posted),
}

enum Job {
    Append(Box<PreparedAppend>, oneshot::Sender<Result<Seq, AppendError>>),
    Write(Write, oneshot::Sender<Result<Written, StoreError>>),
}

/// The way to the writer. Dropping it lets the writer finish what waits, and waits for that.
pub(super) struct Writer {
    jobs: Option<mpsc::Sender<Job>>,
    thread: Option<std::thread::JoinHandle<()>>,
}

impl Writer {
    /// Starts the thread on a connection that is open and migrated.
    pub fn start(
        connection: SqliteConnection,
        node: Arc<Node>,
        clock: Arc<dyn Clock>,
    ) -> Result<Self, StoreError> {
        let (jobs, waiting) = mpsc::channel(QUEUE);
        let thread = std::thread::Builder::new()
            .name("windlass-writer".to_owned())
            .spawn(move || serve(connection, &node, clock.as_ref(), waiting))
            .map_err(|error| StoreError::Unavailable { why: format!("no thread for the writer: {error}") })?;
        Ok(Self { jobs: Some(jobs), thread: Some(thread) })
    }

    /// Appends.
    pub async fn append(&self, append: PreparedAppend) -> Result<Seq, AppendError> {
        let (reply, answer) = oneshot::channel();
        self.send(Job::Append(Box::new(append), reply)).await.map_err(AppendError::Failed)?;
        let gone = |_| AppendError::Unknown("the store's writer ended before it answered".to_owned());
        answer.await.map_err(gone)?
    }

    /// Makes another change.
    pub async fn write(&self, write: Write) -> Result<Written, StoreError> {
        let (reply, answer) = oneshot::channel();
        self.send(Job::Write(write, reply)).await?;
        answer.await.map_err(|_| ended())?
    }

    async fn send(&self, job: Job) -> Result<(), StoreError> {
        // The sender is taken only by `drop`, after which nobody can call this.
        let jobs = self.jobs.as_ref().expect("the writer is open until it is dropped");
        jobs.send(job).await.map_err(|_| ended())
    }
}

impl Drop for Writer {
    fn drop(&mut self) {
        self.jobs = None;
        if let Some(thread) = self.thread.take() {
            // A panic of the writer was seen by whoever waited for it.
            let _ = thread.join();
        }
    }
}

fn ended() -> StoreError {
    StoreError::Unavailable { why: "the store's writer has ended; open the store again".to_owned() }
}

fn serve(mut connection: SqliteConnection, node: &Node, clock: &dyn Clock, mut waiting: mpsc::Receiver<Job>) {
    // The lock is held for the thread's life: from here on nobody else uses the connection.
    let mut locked = match futures::executor::block_on(connection.lock_handle()) {
        Ok(locked) => locked,
        Err(error) => return tracing::error!(%error, "the store's writer cannot use its connection"),
    };
    let raw = Raw::new(&mut locked);
    match Group::prepare(&raw, node, clock) {
        Ok(mut group) => {
            while let Some(job) = waiting.blocking_recv() {
                group.commit_from(job, &mut waiting);
            }
        }
        Err(fault) => tracing::error!(?fault, "the store's writer cannot prepare its statements"),
    }
}

struct Group<'a, 'r> {
    raw: &'r Raw<'a>,
    changes: Changes<'a>,
    clock: &'a dyn Clock,
    begin: Statement<'a>,
    commit: Statement<'a>,
    rollback: Statement<'a>,
    savepoint: Statement<'a>,
    release: Statement<'a>,
    undo: Statement<'a>,
}

impl<'a, 'r> Group<'a, 'r> {
    fn prepare(raw: &'r Raw<'a>, node: &'a Node, clock: &'a dyn Clock) -> Result<Self, Fault> {
        Ok(Self {
            raw,
            changes: Changes::prepare(raw, node, clock)?,
            clock,
            begin: raw.prepare("BEGIN IMMEDIATE")?,
            commit: raw.prepare("COMMIT")?,
            rollback: raw.prepare("ROLLBACK")?,
            savepoint: raw.prepare("SAVEPOINT change")?,
            release: raw.prepare("RELEASE change")?,
            undo: raw.prepare("ROLLBACK TO change")?,
        })
    }

    /// Commits a change together with those that wait, then answers all.
    fn commit_from(&mut self, first: Job, waiting: &mut mpsc::Receiver<Job>) {
        if let Err(fault) = self.begin.run(&[]) {
            // Who waits behind it would meet the same lock or disk, 5 s later each.
            let mut done = vec![Done::untried(first)];
            done.extend(std::iter::from_fn(|| waiting.try_recv().ok()).map(Done::untried));
            return answer(done, Some(&Lost::RolledBack(fault)));
        }
        let until_ms = self.clock.monotonic_ms() + GROUP_MS;
        let mut done = Vec::new();
        let mut next = Some(first);
        while let Some(job) = next.take() {
            match self.change(job) {
                Ok(change) => done.push(change),
                Err((change, fault)) => {
                    done.push(change);
                    return answer(done, Some(&Lost::RolledBack(fault)));
                }
            }
            if done.len() < GROUP_CHANGES && self.clock.monotonic_ms() < until_ms {
                next = waiting.try_recv().ok();
            }
        }
        let lost = self.commit.run(&[]).err().map(Lost::Unknown);
        if self.raw.in_transaction() {
            // It did not commit; whatever this answers, the next BEGIN finds out.
            let _ = self.rollback.run(&[]);
        }
        answer(done, lost.as_ref());
    }

    /// Makes one change in its savepoint. An error means that the whole transaction is gone.
    fn change(&mut self, job: Job) -> Result<Done, (Done, Fault)> {
        if let Err(fault) = self.savepoint.run(&[]) {
            let _ = self.rollback.run(&[]);
            return Err((Done::untried(job), fault));
        }
        let done = match job {
            Job::Append(append, reply) => Done::Append(reply, self.changes.append(&append)),
            Job::Write(write, reply) => Done::Write(reply, self.changes.write(&write)),
        };
        let closed = match done.is_refused() {
            // Some failures end the transaction by themselves; then there is no savepoint to go back to.
            true if !self.raw.in_transaction() => Err(interrupted()),
            true => self.undo.run(&[]).and_then(|_| self.release.run(&[])),
            false => self.release.run(&[]),
        };
        match closed {
            Ok(_) => Ok(done),
            Err(fault) => {
                if self.raw.in_transaction() {
                    let _ = self.rollback.run(&[]);
                }
                Err((done, fault))
            }
        }
    }
}

fn interrupted() -> Fault {
    Fault {
        code: libsqlite3_sys::SQLITE_IOERR,
        message: "a change in the same group ended the transaction".to_owned(),
    }
}

fn answer(done: Vec<Done>, lost: Option<&Lost>) {
    for change in done {
        change.answer(lost);
    }
}

/// What became of a group that was not plainly committed.
enum Lost {
    /// Nothing of it was written, for certain.
    RolledBack(Fault),
    /// The commit itself failed.
    Unknown(Fault),
}

/// A change that was tried, with its answer should the group commit.
enum Done {
    Append(oneshot::Sender<Result<Seq, AppendError>>, Result<Seq, AppendError>),
    Write(oneshot::Sender<Result<Written, StoreError>>, Result<Written, StoreError>),
}

impl Done {
    /// A change that the group never came to.
    fn untried(job: Job) -> Self {
        match job {
            Job::Append(_, reply) => Self::Append(reply, Ok(Seq::default())),
            Job::Write(_, reply) => Self::Write(reply, Ok(Written::Nothing)),
        }
    }

    fn is_refused(&self) -> bool {
        match self {
            Self::Append(_, result) => result.is_err(),
            Self::Write(_, result) => result.is_err(),
        }
    }

    /// Answers. A refusal stands whatever became of the group. Whoever no longer waits, does not hear it.
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
        }
    }
}
