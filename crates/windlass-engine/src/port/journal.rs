//! The journal port: threads, appends, the inbox, ownership and list views.
//!
//! An append is one transaction, all or nothing. A call that failed without an answer is
//! *unknown*, never "did not happen": the caller reads the head and looks for its own batch.

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
    /// This process's name among those that have the store open; no other ever has it.
    fn node(&self) -> &str;

    /// Whether the process of a name is alive. One that the store cannot judge counts as alive.
    fn is_alive(&self, node: &str) -> bool;

    /// For how long a claim holds unless it is renewed, in milliseconds. `None` where the store detects the end of a process
    /// by itself, as by a lock that ends with it: a claim then holds until that end.
    fn lease_ms(&self) -> Option<u64> {
        None
    }

    /// Takes the right to drive a thread for this node and raises its epoch. A thread that does not exist
    /// yet is made, with an empty journal. Refused while another live node holds it.
    async fn claim(&self, thread: &ThreadId) -> Result<Claim, StoreError>;

    /// Finds threads that need a driver, at most `limit`, and claims them in the same step: none is given to two nodes. A
    /// thread needs a driver if it has a run that is neither waiting nor ended, a deadline that has passed by the store's
    /// clock, an unconsumed input, or a deadline in a row that lies two minutes ahead of that clock or further, because the
    /// clock was set back since. Those that a live node holds, this one included, and those in `except` are left out. Must
    /// not read threads that wait or sleep and are not yet due.
    async fn claim_due(&self, except: &[ThreadId], limit: usize) -> Result<Vec<Due>, StoreError>;

    /// Renews claims of this node, each in its epoch. Returns the threads that it does not hold any more. Not called where
    /// claims have no lease.
    async fn renew(&self, _claims: &[(ThreadId, Epoch)]) -> Result<Vec<ThreadId>, StoreError> {
        Ok(Vec::new())
    }

    /// Gives the right back, where this node still holds it in this epoch.
    async fn release(&self, thread: &ThreadId, epoch: Epoch) -> Result<(), StoreError>;

    /// Where a thread stands; `None` where it does not exist.
    async fn head(&self, thread: &ThreadId) -> Result<Option<Head>, StoreError>;

    /// Appends one batch: events, blobs, consumed inbox rows, list views, what is drawn from budgets and changes of
    /// records, all or nothing.
    async fn append(&self, batch: Batch) -> Result<Seq, AppendError>;

    /// Reads up to `limit` events after a position, in order.
    async fn read(&self, thread: &ThreadId, after: Seq, limit: usize) -> Result<Vec<Recorded>, StoreError>;

    /// Reads the last `limit` events before a position, in the order of the journal: the page that ends where the one
    /// that was read last begins. `Seq(u64::MAX)` begins at the journal's end.
    async fn read_back(
        &self,
        thread: &ThreadId,
        before: Seq,
        limit: usize,
    ) -> Result<Vec<Recorded>, StoreError>;

    /// Whether a thread's events, or inputs left for it, name a blob. Whoever may read the thread may read that.
    async fn names_blob(&self, thread: &ThreadId, digest: &Digest) -> Result<bool, StoreError>;

    /// The newest snapshot, where there is one.
    async fn snapshot(&self, thread: &ThreadId) -> Result<Option<StoredSnapshot>, StoreError>;

    /// Keeps a snapshot in place of the one before. Outside any append, so that it may arrive late: it is ignored if the
    /// thread has another epoch, which also tells a deleted thread from a new one of the same id.
    async fn put_snapshot(
        &self,
        thread: &ThreadId,
        epoch: Epoch,
        snapshot: StoredSnapshot,
    ) -> Result<(), StoreError>;

    /// Leaves an input for a thread's owner. The same id returns what became of the first. Fails as unavailable while
    /// [`INBOX_MAX`] inputs of the thread wait.
    async fn post(&self, thread: &ThreadId, id: &InputId, input: &Input) -> Result<Posted, StoreError>;

    /// Reads up to `limit` inputs that nobody has consumed, in order.
    async fn inbox(&self, thread: &ThreadId, limit: usize) -> Result<Vec<(InputId, Left)>, StoreError>;

    /// Threads whose inbox holds something that nobody has consumed, whoever owns them.
    async fn waiting_inboxes(&self) -> Result<Vec<ThreadId>, StoreError>;

    /// What became of a posted input; `None` where there is no such input (or it is older than 24 h).
    async fn posted(&self, thread: &ThreadId, id: &InputId) -> Result<Option<Posted>, StoreError>;

    /// Threads, newest activity first.
    async fn threads(&self, query: &ThreadQuery) -> Result<Vec<ThreadRow>, StoreError>;

    /// One thread's row.
    async fn thread(&self, thread: &ThreadId) -> Result<Option<ThreadRow>, StoreError>;

    /// Finds a run by its id, also one that is queued.
    async fn run(&self, run: &RunId) -> Result<Option<RunRow>, StoreError>;

    /// Finds several runs by their ids, in any order. Ids without a run are left out.
    async fn runs_by_id(&self, runs: &[RunId]) -> Result<Vec<RunRow>, StoreError> {
        let mut found = Vec::new();
        for run in runs {
            found.extend(self.run(run).await?);
        }
        Ok(found)
    }

    /// Runs that have begun, newest first: by when they began, those of one thread by where they stand in its journal.
    async fn runs(&self, query: &RunQuery) -> Result<Vec<RunRow>, StoreError>;

    /// Counts the runs of an owner that have begun and not ended, up to `limit`.
    async fn active_runs(&self, owner: &Principal, limit: usize) -> Result<usize, StoreError>;

    /// Counts threads by what they do. Reads no row of a thread.
    async fn thread_counts(&self) -> Result<ThreadCounts, StoreError>;

    /// What runs used, by time, model and agent. Runs of deleted threads are not in it.
    async fn usage(&self, query: &UsageQuery) -> Result<Usage, StoreError>;

    /// The node that holds a thread, alive or dead; `None` if no node does.
    async fn holder(&self, thread: &ThreadId) -> Result<Option<String>, StoreError>;

    /// Budgets whose name begins with a text, in the order of their names, at most
    /// [`BUDGETS_MAX`](super::budget::BUDGETS_MAX).
    async fn budgets(&self, prefix: &str) -> Result<Vec<BudgetRow>, StoreError>;

    /// What a thread has reserved and not settled, in the order of the keys: whoever opens it settles what a dead
    /// process left.
    async fn open_reservations(&self, thread: &ThreadId) -> Result<Vec<(String, Amounts)>, StoreError>;

    /// Deletes a thread with its journal, inbox and own budgets. Refused while a run is active. What it has reserved of
    /// others is free again, and what it has used stays used.
    async fn delete(&self, thread: &ThreadId) -> Result<(), StoreError>;

    /// Checks that the store is whole and can be written to; the text says what was checked.
    async fn check(&self) -> Result<String, StoreError>;
}

/// Inputs of a thread that may wait in its inbox: more than a driver leaves there between two looks, and few enough that
/// a thread without a driver does not fill the store.
pub const INBOX_MAX: usize = 1_000;

/// What a caller learns whose input has no room.
pub fn inbox_is_full(thread: &ThreadId) -> StoreError {
    let why = format!(
        "{INBOX_MAX} inputs wait in thread `{thread}` for the process that drives it; wait until it has taken some"
    );
    StoreError::Unavailable { why }
}

/// Id of a batch, drawn by the driver, by which it recognises its own append.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct BatchId(pub u64);

/// An input as it was found in an inbox; the error says why it cannot be read: a newer build has left it, perhaps.
pub type Left = Result<Input, String>;

/// What a claim brings.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Claim {
    /// This node drives the thread now.
    Taken {
        /// Where the thread stands.
        head: Head,
        /// Whether its inbox has rows.
        inbox: bool,
    },
    /// Another live node drives it.
    Held {
        /// Which.
        node: String,
    },
}

/// A thread that needs a driver, claimed for this node.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Due {
    /// The thread.
    pub thread: ThreadId,
    /// Where it stands.
    pub head: Head,
    /// Whether its inbox has rows.
    pub inbox: bool,
}

/// Where a thread stands.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Head {
    /// Position of the last event.
    pub seq: Seq,
    /// The owner's fencing number.
    pub epoch: Epoch,
    /// The batch that was appended last.
    pub batch: BatchId,
}

/// One append.
#[derive(Clone, Debug)]
pub struct Batch {
    /// Whose journal.
    pub thread: ThreadId,
    /// The owner's fencing number.
    pub epoch: Epoch,
    /// Whether the thread is made by this batch and taken in epoch 1, without a claim: nobody else can know its id.
    /// A thread that exists fences the batch.
    pub is_new: bool,
    /// The last position before this batch.
    pub expected: Seq,
    /// The batch's own id.
    pub id: BatchId,
    /// The events, in order. May be empty where a batch only consumes inbox rows.
    pub events: Arc<[Event]>,
    /// Blobs that the events name and that are new, each below 1 MiB.
    pub blobs: Vec<(BlobRef, Bytes)>,
    /// Inbox rows consumed by this batch.
    pub consumed: Vec<(InputId, InboxOutcome)>,
    /// The thread's row in lists, after this batch.
    pub thread_view: ThreadView,
    /// Queued runs whose message no longer waits: their rows are removed before `runs` are written.
    pub unqueued: Vec<RunId>,
    /// Rows of the runs that this batch touched.
    pub runs: Vec<RunView>,
    /// Reservations that end with this batch.
    pub settle: Vec<Settle>,
    /// What this batch sets aside, once those have ended.
    pub reserve: Vec<Reserve>,
    /// Records that change with this batch.
    pub records: Vec<RecordChange>,
}

/// What an accepted input led to.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Accepted {
    /// Position of the first event.
    pub seq: Seq,
    /// The run that a message started or joined, or will start once the active run has ended.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub run: Option<RunId>,
    /// The run that was active when a message was queued.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub behind: Option<RunId>,
    /// Whether a message waits. `false` if the active run has taken it at once.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub waits: bool,
    /// Position of the event that has the message.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub message: Option<Seq>,
    /// The interrupts that answers closed. An answer to another one is one vote of several.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub closed: Vec<InterruptId>,
}

impl Accepted {
    /// Reads the result from the events of an input, the first of which is at `seq`.
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

/// What became of an inbox row.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum InboxOutcome {
    /// Accepted, with what it led to.
    Accepted(Box<Accepted>),
    /// Refused, without events.
    Rejected(Reject),
}

/// What is known of a posted input.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Posted {
    /// It waits for the thread's owner.
    Waiting,
    /// It was consumed.
    Consumed(InboxOutcome),
}

/// An event with its position.
#[derive(Clone, Debug, PartialEq)]
pub struct Recorded {
    /// The position.
    pub seq: Seq,
    /// The event.
    pub event: Event,
}

/// A snapshot as the store keeps it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StoredSnapshot {
    /// Version of the fold that made it; another one is ignored.
    pub fold: u32,
    /// The last event that it covers.
    pub seq: Seq,
    /// The state's bytes.
    pub bytes: Bytes,
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    /// What events lead to, the first of which is at position 5.
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
