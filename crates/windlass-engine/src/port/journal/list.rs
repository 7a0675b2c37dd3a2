//! Lists of threads and runs: the columns that each append writes, and what can be asked of them.
//!
//! They repeat what the journals say; no decision is made from them.

use serde::{Deserialize, Serialize};
use windlass_machine::{
    Asked, Content, Doubt, ForkPoint, InputId, ModelName, Principal, RunId, RunStatus, Seq, ThreadId,
    Timestamp, ToolName, Totals,
};

/// Rows in a list where the caller names no limit.
const DEFAULT_LIMIT: usize = 50;

/// What a thread is doing.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ThreadStatus {
    /// No run is active.
    #[default]
    Idle,
    /// A run is active.
    Running,
    /// A run is parked on an outside reply.
    Waiting,
    /// A run goes on at the row's deadline, and nothing of it is in flight until then.
    Sleeping,
}

/// A thread's columns in lists, written with each append.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct ThreadView {
    /// The tenant.
    pub workspace: String,
    /// Whose it is: who sent its first message. Nobody's, as long as it holds nothing.
    pub owner: Principal,
    /// The title.
    pub title: Option<String>,
    /// What it is doing.
    pub status: ThreadStatus,
    /// The folder that its tools work in.
    pub folder: Option<String>,
    /// When to look at it again without an outside input, by the wall clock.
    pub deadline: Option<Timestamp>,
    /// Open interrupts.
    pub interrupts: u32,
    /// When it last changed.
    pub updated_at: Timestamp,
    /// The thread that it is a fork of.
    pub forked_from: Option<ForkPoint>,
    /// What its run asks. A single row has it, and rows of a list for threads that ask ([`ThreadQuery::asking`]). `None`
    /// also if another build wrote it in another format: the journal has it too.
    #[serde(skip)]
    pub asks: Option<Box<ThreadAsks>>,
}

/// What the run of a thread asks.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct ThreadAsks {
    /// The run.
    pub run: RunId,
    /// When it began.
    pub run_started_at: Timestamp,
    /// Its open interrupts.
    pub interrupts: Vec<AskedCall>,
}

/// An open interrupt, and the call that it is about.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct AskedCall {
    /// The interrupt.
    pub asked: Asked,
    /// When silence is taken for an answer.
    pub expires_at: Option<Timestamp>,
    /// The tool of the call; `None` where the run as a whole waits.
    pub tool: Option<ToolName>,
    /// The arguments that will be sent.
    pub arguments: Option<Content>,
    /// When the call in doubt was dispatched, and the evidence about its outcome.
    pub doubt: Option<(Timestamp, Doubt)>,
}

impl Default for ThreadView {
    fn default() -> Self {
        Self {
            workspace: String::new(),
            owner: Principal::from(""),
            title: None,
            status: ThreadStatus::default(),
            folder: None,
            deadline: None,
            interrupts: 0,
            updated_at: Timestamp::default(),
            forked_from: None,
            asks: None,
        }
    }
}

/// A run's columns in lists.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct RunView {
    /// The run.
    pub run: RunId,
    /// Name of its agent.
    pub agent: String,
    /// The model in use.
    pub model: ModelName,
    /// The message that is to start it, while that waits in the thread's queue. Lists of runs leave it out then.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub queued: Option<InputId>,
    /// How it ended; `None` while it is queued or active.
    pub status: Option<RunStatus>,
    /// Position of its first event; of a queued one, of the event that queued it.
    pub from: Seq,
    /// When it began, or was queued.
    pub started_at: Timestamp,
    /// When it ended.
    pub finished_at: Option<Timestamp>,
    /// What it used.
    pub totals: Totals,
}

/// A thread in a list.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct ThreadRow {
    /// The thread.
    pub thread: ThreadId,
    /// Position of its last event.
    pub head: Seq,
    /// When it was made.
    pub created_at: Timestamp,
    /// Its columns.
    #[serde(flatten)]
    pub view: ThreadView,
}

/// Counts of the threads that do something.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ThreadCounts {
    /// Threads with an active run that neither waits nor sleeps.
    pub running: u64,
    /// Threads whose run waits for an outside reply.
    pub waiting: u64,
    /// Threads whose run waits for a time.
    pub sleeping: u64,
    /// Open interrupts of all threads.
    pub interrupts: u64,
}

impl ThreadCounts {
    /// Runs that have begun and not ended: a thread has at most one.
    pub fn active_runs(&self) -> u64 {
        self.running + self.waiting + self.sleeping
    }
}

/// A run in a list.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct RunRow {
    /// Its thread.
    pub thread: ThreadId,
    /// Its thread's tenant.
    pub workspace: String,
    /// Whose thread it is.
    pub owner: Principal,
    /// Its thread's title.
    pub title: Option<String>,
    /// Whether it is active, and somebody's reply is waited for.
    pub asking: bool,
    /// Its columns.
    #[serde(flatten)]
    pub view: RunView,
}

/// Which threads to list.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ThreadQuery {
    /// Only those of this tenant.
    pub workspace: Option<String>,
    /// Only those of this owner.
    pub owner: Option<Principal>,
    /// Only those whose title contains this text, letter case aside.
    pub title_contains: Option<String>,
    /// Only those that do this.
    pub status: Option<ThreadStatus>,
    /// Only those with open interrupts, also where other calls of the same step still run.
    pub asking: bool,
    /// Only those last changed before this time (and id, for equal times): the cursor of the next page.
    pub before: Option<(Timestamp, ThreadId)>,
    /// At most this many; 0 means 50.
    pub limit: usize,
}

impl ThreadQuery {
    /// The number of rows to return at most.
    pub fn rows(&self) -> usize {
        rows(self.limit)
    }
}

/// Which runs to list.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct RunQuery {
    /// Only those of this tenant.
    pub workspace: Option<String>,
    /// Only those in threads of this owner.
    pub owner: Option<Principal>,
    /// Only those of this thread.
    pub thread: Option<ThreadId>,
    /// Only those that are active, or only those that have ended.
    pub active: Option<bool>,
    /// Only those that ended so.
    pub ended: Option<RunStatus>,
    /// Only active ones with open interrupts.
    pub asking: bool,
    /// Only those that began at this time or after it.
    pub from: Option<Timestamp>,
    /// Only those that began before this time.
    pub until: Option<Timestamp>,
    /// Only those after this one in the list, by when it began and its id: the cursor of the next page.
    pub before: Option<(Timestamp, RunId)>,
    /// At most this many; 0 means 50.
    pub limit: usize,
}

impl RunQuery {
    /// The newest runs, at most so many.
    pub fn newest(limit: usize) -> Self {
        Self { limit, ..Self::default() }
    }

    /// The newest runs of a thread, at most so many.
    pub fn of(thread: &ThreadId, limit: usize) -> Self {
        Self { thread: Some(thread.clone()), ..Self::newest(limit) }
    }

    /// The number of rows to return at most.
    pub fn rows(&self) -> usize {
        rows(self.limit)
    }
}

fn rows(limit: usize) -> usize {
    if limit == 0 { DEFAULT_LIMIT } else { limit }
}
