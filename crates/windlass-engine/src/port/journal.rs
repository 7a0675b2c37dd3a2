//! The journal port: threads, appends, the inbox, ownership and list views.
//!
//! An append is one transaction: all or nothing. If the store gave no answer, the outcome is *unknown*, never "not
//! written": the caller reads the head and compares it with its own batch.

pub(super) mod epoch;
mod list;
mod usage;

use std::sync::Arc;

use async_trait::async_trait;
use bytes::Bytes;
use serde::{Deserialize, Serialize};
use windlass_machine::{
    BlobRef, Digest, Event, Fact, Input, InputId, InterruptId, Principal, Reject, RunId, Seq, ThreadId,
};

pub use self::list::{
    AskedCall, RunQuery, RunRow, RunView, ThreadAsks, ThreadCounts, ThreadQuery, ThreadRow, ThreadStatus,
    ThreadView,
};
pub use self::usage::{Usage, UsageQuery, UsageRow};
use super::budget::{Amounts, BudgetRow, Reserve, Settle};
pub use super::fault::{AppendError, StoreError};
use super::records::RecordChange;
pub use crate::port::journal::epoch::Epoch;

/// Threads and their journals.
#[async_trait]
pub trait Journal: Send + Sync {
    /// Returns the name of this process among the processes that have the store open. Names are never reused.
    fn node(&self) -> &str;

    /// Whether the process with this name is alive. Returns `true` if the store cannot detect it.
    fn is_alive(&self, node: &str) -> bool;

    /// Returns the milliseconds after which a claim ends unless it is renewed. `None` if the store itself detects the
    /// end of a process, for example by a file lock: a claim is then valid until the process ends.
    fn lease_ms(&self) -> Option<u64> {
        None
    }

    /// Claims the right to drive a thread for this node and raises its epoch. A thread that does not exist yet is
    /// created with an empty journal. Returns [`Claim::Held`] if another live node holds it.
    async fn claim(&self, thread: &ThreadId) -> Result<Claim, StoreError>;

    /// Finds at most `limit` threads that need a driver and claims them atomically, so that no two nodes
    /// receive the same thread. A thread needs a driver if any of these holds: its run is neither waiting
    /// nor ended; its deadline has passed by the store's clock; it has an unconsumed input; or it has a
    /// deadline and its row was last changed two minutes or more in the future. The last case occurs if
    /// the clock was set back. Threads that a live node holds, including this node, and threads in
    /// `except` are skipped. Must not read waiting or sleeping threads that are not yet due.
    async fn claim_due(&self, except: &[ThreadId], limit: usize) -> Result<Vec<Due>, StoreError>;

    /// Renews claims of this node, each in its epoch. Returns the threads that this node no longer holds. Not called
    /// if claims have no lease.
    async fn renew(&self, _claims: &[(ThreadId, Epoch)]) -> Result<Vec<ThreadId>, StoreError> {
        Ok(Vec::new())
    }

    /// Releases a claim, if this node still holds it in this epoch.
    async fn release(&self, thread: &ThreadId, epoch: Epoch) -> Result<(), StoreError>;

    /// Returns the head of a thread's journal; `None` if the thread does not exist.
    async fn head(&self, thread: &ThreadId) -> Result<Option<Head>, StoreError>;

    /// Appends one batch atomically: events, blobs, consumed inbox rows, list views, budget changes and record
    /// changes.
    async fn append(&self, batch: Batch) -> Result<Seq, AppendError>;

    /// Reads up to `limit` events after a position, in journal order.
    async fn read(&self, thread: &ThreadId, after: Seq, limit: usize) -> Result<Vec<Recorded>, StoreError>;

    /// Reads the last `limit` events before a position, in journal order. To read the previous page, pass the first
    /// position of the last page. `Seq(u64::MAX)` starts at the journal's end.
    async fn read_back(
        &self,
        thread: &ThreadId,
        before: Seq,
        limit: usize,
    ) -> Result<Vec<Recorded>, StoreError>;

    /// Whether a thread's events or pending inputs reference a blob. A
    /// caller with read access to the thread may read such a blob.
    async fn names_blob(&self, thread: &ThreadId, digest: &Digest) -> Result<bool, StoreError>;

    /// Returns the newest snapshot, if the store has one.
    async fn snapshot(&self, thread: &ThreadId) -> Result<Option<StoredSnapshot>, StoreError>;

    /// Replaces the thread's snapshot. Snapshots are written outside appends and may
    /// arrive late: the store ignores a snapshot whose epoch is not the thread's. The
    /// epoch also distinguishes a deleted thread from a new thread of the same id.
    async fn put_snapshot(
        &self,
        thread: &ThreadId,
        epoch: Epoch,
        snapshot: StoredSnapshot,
    ) -> Result<(), StoreError>;

    /// Adds an input to the inbox of a thread. A repeated id returns the state of the first input. Returns
    /// [`StoreError::Unavailable`] if [`INBOX_MAX`] inputs of the thread are pending.
    async fn post(&self, thread: &ThreadId, id: &InputId, input: &Input) -> Result<Posted, StoreError>;

    /// Reads up to `limit` unconsumed inputs, in order.
    async fn inbox(&self, thread: &ThreadId, limit: usize) -> Result<Vec<(InputId, Left)>, StoreError>;

    /// Returns the threads with unconsumed inputs, regardless of their owner.
    async fn waiting_inboxes(&self) -> Result<Vec<ThreadId>, StoreError>;

    /// Returns the state of a posted input; `None` if no input has this id or the input is older than 24 h.
    async fn posted(&self, thread: &ThreadId, id: &InputId) -> Result<Option<Posted>, StoreError>;

    /// Lists threads, most recently active first.
    async fn threads(&self, query: &ThreadQuery) -> Result<Vec<ThreadRow>, StoreError>;

    /// Returns a thread's row.
    async fn thread(&self, thread: &ThreadId) -> Result<Option<ThreadRow>, StoreError>;

    /// Returns a run's row by its id, also for a queued run.
    async fn run(&self, run: &RunId) -> Result<Option<RunRow>, StoreError>;

    /// Returns the rows of several runs, in any order. Unknown ids are skipped.
    async fn runs_by_id(&self, runs: &[RunId]) -> Result<Vec<RunRow>, StoreError> {
        let mut found = Vec::new();
        for run in runs {
            found.extend(self.run(run).await?);
        }
        Ok(found)
    }

    /// Lists started runs by start time, newest first; runs of one thread by their position in its journal.
    async fn runs(&self, query: &RunQuery) -> Result<Vec<RunRow>, StoreError>;

    /// Counts the unfinished runs of an owner, up to `limit`.
    async fn active_runs(&self, owner: &Principal, limit: usize) -> Result<usize, StoreError>;

    /// Counts threads by status. Must not read the threads' rows.
    async fn thread_counts(&self) -> Result<ThreadCounts, StoreError>;

    /// Sums up the usage of runs, by time, model and agent. Runs of deleted threads are excluded.
    async fn usage(&self, query: &UsageQuery) -> Result<Usage, StoreError>;

    /// Returns the node that holds a thread, alive or dead; `None` if no node does.
    async fn holder(&self, thread: &ThreadId) -> Result<Option<String>, StoreError>;

    /// Lists budgets whose name has this prefix, ordered by name, at most
    /// [`BUDGETS_MAX`](super::budget::BUDGETS_MAX).
    async fn budgets(&self, prefix: &str) -> Result<Vec<BudgetRow>, StoreError>;

    /// Returns the unsettled reservations of a thread, ordered by key. The process that opens the thread settles the
    /// reservations of a dead process.
    async fn open_reservations(&self, thread: &ThreadId) -> Result<Vec<(String, Amounts)>, StoreError>;

    /// Deletes a thread with its journal, inbox and own budgets. Fails while a run is active. The thread's
    /// reservations in other budgets are released; used amounts remain.
    async fn delete(&self, thread: &ThreadId) -> Result<(), StoreError>;

    /// Checks that the store is intact and writable. Returns a description of the checks.
    async fn check(&self) -> Result<String, StoreError>;
}

/// Maximum number of pending inputs in a thread's inbox. It exceeds the number that accumulates between two polls of
/// a driver, and keeps a thread without a driver from filling the store.
pub const INBOX_MAX: usize = 1_000;

/// Returns the error for an input to a full inbox.
pub fn inbox_is_full(thread: &ThreadId) -> StoreError {
    let why = format!(
        "{INBOX_MAX} inputs wait in thread `{thread}` for the process that drives it; wait until it has taken some"
    );
    StoreError::Unavailable { why }
}

/// Random id of a batch. After an unknown outcome, the driver recognises its own append by this id.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct BatchId(pub u64);

/// An input as read from an inbox. The error describes why the
/// input cannot be decoded; a newer build may have written it.
pub type Left = Result<Input, String>;

/// Result of a claim.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Claim {
    /// This node now holds the thread.
    Taken {
        /// Current head of the journal.
        head: Head,
        /// Whether the inbox has rows.
        inbox: bool,
    },
    /// Another live node holds the thread.
    Held {
        /// Name of that node.
        node: String,
    },
}

/// A thread that needs a driver, claimed for this node.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Due {
    /// The claimed thread.
    pub thread: ThreadId,
    /// Current head of the thread's journal.
    pub head: Head,
    /// Whether the thread's inbox has rows.
    pub inbox: bool,
}

/// The head of a thread's journal.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Head {
    /// Position of the last event.
    pub seq: Seq,
    /// Fencing number of the current owner.
    pub epoch: Epoch,
    /// Id of the last appended batch.
    pub batch: BatchId,
}

/// One append: the events, and all other changes of the same transaction.
#[derive(Clone, Debug)]
pub struct Batch {
    /// Thread whose journal the batch extends.
    pub thread: ThreadId,
    /// Fencing number under which the owner writes.
    pub epoch: Epoch,
    /// Whether the batch creates the thread and owns it in epoch 1 without a claim. The creation is safe because no
    /// other process knows the new id. If the thread exists, the batch is fenced.
    pub is_new: bool,
    /// Head of the journal that the batch requires.
    pub expected: Seq,
    /// Id of this batch.
    pub id: BatchId,
    /// The events, in order. May be empty if a batch only consumes inbox rows.
    pub events: Arc<[Event]>,
    /// New blobs that the events reference, each below 1 MiB.
    pub blobs: Vec<(BlobRef, Bytes)>,
    /// Inbox rows that this batch consumes, with their outcomes.
    pub consumed: Vec<(InputId, InboxOutcome)>,
    /// The thread's list columns after this batch.
    pub thread_view: ThreadView,
    /// Queued runs whose message is no longer queued. Their rows are removed before the rows in `runs` are written.
    pub unqueued: Vec<RunId>,
    /// List columns of the runs that this batch changes.
    pub runs: Vec<RunView>,
    /// Reservations that end with this batch.
    pub settle: Vec<Settle>,
    /// Reservations that this batch makes, after the settlements.
    pub reserve: Vec<Reserve>,
    /// Changes of records; a conflict fails the whole batch.
    pub records: Vec<RecordChange>,
}

/// Result of an accepted input.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Accepted {
    /// Position of the first event that the input caused.
    pub seq: Seq,
    /// The run that a message started or joined, or will start after the active run.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub run: Option<RunId>,
    /// The run that was active when a message was queued.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub behind: Option<RunId>,
    /// Whether a message is queued. `false` if the active run accepted the message immediately.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub waits: bool,
    /// Position of the event that contains the message.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub message: Option<Seq>,
    /// The interrupts that the answers closed. An answer to any other interrupt is one of several required votes.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub closed: Vec<InterruptId>,
}

impl Accepted {
    /// Derives the result from the events of an input. The first event is at `seq`.
    pub(crate) fn of(seq: Seq, events: &[Event]) -> Self {
        let mut accepted = Self { seq, ..Self::default() };
        let mut waiting = None;
        for (at, event) in (seq.0..).zip(events) {
            match &event.fact {
                Fact::MessageQueued { id, queued } => {
                    accepted.message = accepted.message.or(Some(Seq(at)));
                    accepted.run = accepted.run.or_else(|| Some(queued.run.clone()));
                    accepted.behind.clone_from(&event.run);
                    waiting = Some(id);
                }
                Fact::MessageTaken { id } if waiting == Some(id) => waiting = None,
                Fact::MessageReceived { .. } => accepted.message = accepted.message.or(Some(Seq(at))),
                Fact::InterruptClosed { interrupt, .. } => accepted.closed.push(interrupt.clone()),
                _ => {} // tidy: no other event is a result that callers ask for
            }
            accepted.run = accepted.run.or_else(|| event.run.clone());
        }
        accepted.waits = waiting.is_some();
        accepted
    }
}

/// Outcome of a consumed inbox row.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum InboxOutcome {
    /// The machine accepted the input.
    Accepted(Box<Accepted>),
    /// The machine rejected the input, without events.
    Rejected(Reject),
}

/// State of a posted input.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Posted {
    /// Waits for the thread's owner.
    Waiting,
    /// Consumed by the owner, with this outcome.
    Consumed(InboxOutcome),
}

/// An event with its position.
#[derive(Clone, Debug, PartialEq)]
pub struct Recorded {
    /// Position in the thread's journal.
    pub seq: Seq,
    /// The decoded event.
    pub event: Event,
}

/// A snapshot as stored.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StoredSnapshot {
    /// Version of the fold that produced the snapshot. The driver ignores a snapshot with another version.
    pub fold: u32,
    /// Position of the last event that the snapshot covers.
    pub seq: Seq,
    /// The encoded state.
    pub bytes: Bytes,
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    /// Derives the result of these events. The first event is at position 5.
    fn accepted(events: &[Value]) -> Accepted {
        let decoded: Vec<_> = events.iter().map(|event| Event::decode(&event.to_string()).unwrap()).collect();
        Accepted::of(Seq(5), &decoded)
    }

    #[test]
    fn a_message_waits_until_it_is_taken_itself() {
        let message = json!({"role": "user", "blocks": [{"kind": "text", "text": "hi"}]});
        let agent = json!({"name": "a", "models": ["test/a"]});
        let queued = json!({"at": 1, "run": "run_1", "type": "message.queued", "id": "m2", "queued":
            {"message": message, "by": "ann", "place": "after_run", "run": "run_2", "agent": agent, "options": {}}});
        let taken = |id: &str| json!({"at": 1, "run": "run_1", "type": "message.taken", "id": id});
        let waits = Accepted {
            seq: Seq(5),
            run: Some("run_2".into()),
            behind: Some("run_1".into()),
            waits: true,
            message: Some(Seq(5)),
            closed: Vec::new(),
        };
        assert_eq!(accepted(std::slice::from_ref(&queued)), waits);
        assert_eq!(accepted(&[queued.clone(), taken("m1")]), waits);
        assert_eq!(accepted(&[queued, taken("m2")]), Accepted { waits: false, ..waits });
    }
}
