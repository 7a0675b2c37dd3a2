//! Lists of threads and runs: the columns that each append writes, and the queries for them.
//!
//! The columns repeat content of the journals. No decision depends on them.

use serde::{Deserialize, Serialize};
use windlass_machine::{
    Asked, Content, Doubt, ForkPoint, InputId, ModelName, Principal, RunId, RunStatus, Seq, ThreadId,
    Timestamp, ToolName, Totals,
};

/// Maximum number of rows if the caller sets no limit.
const DEFAULT_LIMIT: usize = 50;

/// Current activity of a thread.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ThreadStatus {
    /// No run is active.
    #[default]
    Idle,
    /// A run is active, and a step or call of it is in progress.
    Running,
    /// A run waits for an answer to an interrupt.
    Waiting,
    /// A run resumes at the row's deadline, and none of its commands is in flight before.
    Sleeping,
}

/// A thread's columns in lists, written with each append.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct ThreadView {
    /// The tenant of the thread.
    pub workspace: String,
    /// The user who sent the first message. Empty while the thread has no events.
    pub owner: Principal,
    /// Title shown in lists; `None` until a title is set.
    pub title: Option<String>,
    /// Current activity.
    pub status: ThreadStatus,
    /// Folder that the thread's tools work in.
    pub folder: Option<String>,
    /// Next time at which the thread needs a driver without an outside input, by the wall clock.
    pub deadline: Option<Timestamp>,
    /// Number of open interrupts.
    pub interrupts: u32,
    /// Time of the last change.
    pub updated_at: Timestamp,
    /// The thread and position that this thread was forked from.
    pub forked_from: Option<ForkPoint>,
    /// The open interrupts of the thread's run. Filled in a single row and in lists of asking threads
    /// ([`ThreadQuery::asking`]). Also `None` if another build encoded them differently: the journal has them as well.
    #[serde(skip)]
    pub asks: Option<Box<ThreadAsks>>,
}

/// The open interrupts of a thread's run.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct ThreadAsks {
    /// Id of the run.
    pub run: RunId,
    /// Start time of the run.
    pub run_started_at: Timestamp,
    /// The run's open interrupts, with their calls.
    pub interrupts: Vec<AskedCall>,
}

/// An open interrupt with the call that it concerns.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct AskedCall {
    /// The interrupt from the machine's state.
    pub asked: Asked,
    /// Time at which the interrupt expires and its default applies.
    pub expires_at: Option<Timestamp>,
    /// Tool of the call; `None` if the run as a whole waits.
    pub tool: Option<ToolName>,
    /// The arguments that will be sent.
    pub arguments: Option<Content>,
    /// Dispatch time of a call in doubt, with the evidence about its outcome.
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
    /// Id of the run.
    pub run: RunId,
    /// Name of the run's agent.
    pub agent: String,
    /// Name of the model in use, `provider/model`.
    pub model: ModelName,
    /// Message that will start the run, if the run is queued. Lists of runs omit such runs.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub queued: Option<InputId>,
    /// Final status; `None` while the run is queued or active.
    pub status: Option<RunStatus>,
    /// Position of the run's first event; for a queued run, of the event that queued it.
    pub from: Seq,
    /// Time at which the run started or was queued.
    pub started_at: Timestamp,
    /// Time at which the run ended.
    pub finished_at: Option<Timestamp>,
    /// Usage of the run.
    pub totals: Totals,
}

/// A thread in a list.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct ThreadRow {
    /// Id of the thread.
    pub thread: ThreadId,
    /// Position of the last event.
    pub head: Seq,
    /// Time at which the thread was created.
    pub created_at: Timestamp,
    /// Columns that appends write.
    #[serde(flatten)]
    pub view: ThreadView,
}

/// Numbers of threads with an active run, by activity.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ThreadCounts {
    /// Number of threads with an active run that neither waits nor sleeps.
    pub running: u64,
    /// Number of threads whose run waits for an answer.
    pub waiting: u64,
    /// Number of threads whose run sleeps until a deadline.
    pub sleeping: u64,
    /// Number of open interrupts of all threads.
    pub interrupts: u64,
}

impl ThreadCounts {
    /// Returns the number of unfinished runs; a thread has at most one.
    pub fn active_runs(&self) -> u64 {
        self.running + self.waiting + self.sleeping
    }
}

/// A run in a list.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct RunRow {
    /// Thread of the run.
    pub thread: ThreadId,
    /// Tenant of the thread.
    pub workspace: String,
    /// Owner of the thread.
    pub owner: Principal,
    /// Title of the thread.
    pub title: Option<String>,
    /// Whether the run is active and has open interrupts.
    pub asking: bool,
    /// Columns that appends write.
    #[serde(flatten)]
    pub view: RunView,
}

/// Filters for a list of threads.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ThreadQuery {
    /// Only threads of this tenant.
    pub workspace: Option<String>,
    /// Only threads of this owner.
    pub owner: Option<Principal>,
    /// Only threads whose title contains this text, ignoring case.
    pub title_contains: Option<String>,
    /// Only threads with this status.
    pub status: Option<ThreadStatus>,
    /// Only threads with open interrupts, even if other calls of the same step still run.
    pub asking: bool,
    /// Only threads last changed before this time, or at this time with a smaller id: the cursor of the next page.
    pub before: Option<(Timestamp, ThreadId)>,
    /// Maximum number of rows; 0 means 50.
    pub limit: usize,
}

impl ThreadQuery {
    /// Returns the maximum number of rows.
    pub fn rows(&self) -> usize {
        rows(self.limit)
    }
}

/// Filters for a list of runs.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct RunQuery {
    /// Only runs of this tenant.
    pub workspace: Option<String>,
    /// Only runs in threads of this owner.
    pub owner: Option<Principal>,
    /// Only runs of this thread.
    pub thread: Option<ThreadId>,
    /// Only active runs, or only runs that have ended.
    pub active: Option<bool>,
    /// Only runs with this final status.
    pub ended: Option<RunStatus>,
    /// Only active runs with open interrupts.
    pub asking: bool,
    /// Only runs that started at this time or later.
    pub from: Option<Timestamp>,
    /// Only runs that started before this time.
    pub until: Option<Timestamp>,
    /// Only runs after this run in the list, by start time and id: the cursor of the next page.
    pub before: Option<(Timestamp, RunId)>,
    /// Maximum number of rows; 0 means 50.
    pub limit: usize,
}

impl RunQuery {
    /// Returns a query for the newest runs of the store.
    pub fn newest(limit: usize) -> Self {
        Self { limit, ..Self::default() }
    }

    /// Returns a query for the newest runs of a thread.
    pub fn of(thread: &ThreadId, limit: usize) -> Self {
        Self { thread: Some(thread.clone()), ..Self::newest(limit) }
    }

    /// Returns the maximum number of rows.
    pub fn rows(&self) -> usize {
        rows(self.limit)
    }
}

fn rows(limit: usize) -> usize {
    if limit == 0 { DEFAULT_LIMIT } else { limit }
}
