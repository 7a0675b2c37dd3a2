//! The measured operations: the calls of routes with which people and programs use a store.
//!
//! An operation reads or writes the same amount for a store of any size. Operations that read
//! the whole store are marked as linear.

use anyhow::{Context, Result, ensure};
use windlass::Task;
use windlass::machine::{Principal, Timestamp};
use windlass::port::journal::{Journal, RunQuery, ThreadQuery, ThreadRow, ThreadStatus, UsageQuery};

use super::fill::{DAY_MS, DAYS, OTHER, OWN, World};

/// Number of rows in a page.
const PAGE: usize = 50;
/// Maximum count of a user's active runs, as in the server's check before a run starts.
const RUNS_PER_USER: usize = 100;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Operation {
    OpenThread,
    Run,
    Thread,
    Threads,
    SecondPage,
    WorkspaceThreads,
    SearchMiss,
    SearchShortMiss,
    SearchHit,
    StatusMiss,
    ActiveRuns,
    Runs,
    Interrupts,
    Usage,
    Metrics,
    Messages,
    ClaimDue,
    Check,
    Backup,
}

impl Operation {
    pub(super) const ALL: [Self; 19] = [
        Self::OpenThread,
        Self::Run,
        Self::Thread,
        Self::Threads,
        Self::SecondPage,
        Self::WorkspaceThreads,
        Self::SearchMiss,
        Self::SearchShortMiss,
        Self::SearchHit,
        Self::StatusMiss,
        Self::ActiveRuns,
        Self::Runs,
        Self::Interrupts,
        Self::Usage,
        Self::Metrics,
        Self::Messages,
        Self::ClaimDue,
        Self::Check,
        Self::Backup,
    ];

    /// Returns the name in the table. Half of all threads wait for a person and belong to another user.
    pub(super) fn name(self) -> &'static str {
        match self {
            Self::OpenThread => "open a thread",
            Self::Run => "a new run of one step, beside the waiting runs of another user",
            Self::Thread => "one thread's row",
            Self::Threads => "list of 50 threads",
            Self::SecondPage => "list of 50 threads, second page",
            Self::WorkspaceThreads => "list of 50 threads of a workspace",
            Self::SearchMiss => "search for a title that no thread has",
            Self::SearchShortMiss => "search for two characters that no title has",
            Self::SearchHit => "search for a title that one thread has",
            Self::StatusMiss => "list of an owner's running threads, of which there is none",
            Self::ActiveRuns => "count of an owner's active runs",
            Self::Runs => "list of an owner's active runs",
            Self::Interrupts => "list of what 50 threads ask",
            Self::Usage => "usage of 30 days",
            Self::Metrics => "metrics",
            Self::Messages => "page of 50 messages",
            Self::ClaimDue => "sweep for threads that need a driver",
            Self::Check => "check of the store (`windlass doctor`)",
            Self::Backup => "backup",
        }
    }

    /// Whether the operation reads the whole store.
    pub(super) fn is_linear(self) -> bool {
        matches!(self, Self::Check | Self::Backup)
    }

    pub(super) async fn play(self, world: &World) -> Result<()> {
        let engine = &world.engine;
        match self {
            Self::OpenThread => drop(engine.thread(&world.long).folded().await?),
            Self::Run => world.run(Task::new(world.agent.clone(), "Talk about something new")).await?,
            Self::Thread => drop(engine.thread(&world.long).row().await?),
            Self::Threads => drop(page(world, own()).await?),
            Self::SecondPage => {
                let last = world.last_of_first_page.clone();
                drop(page(world, ThreadQuery { before: Some(last), ..own() }).await?);
            }
            Self::WorkspaceThreads => {
                let all = ThreadQuery { workspace: Some(world.workspace.clone()), owner: None, ..own() };
                drop(page(world, all).await?);
            }
            Self::SearchMiss => found(world, "zebra", 0).await?,
            Self::SearchShortMiss => found(world, "qz", 0).await?,
            Self::SearchHit => found(world, "subject 42 ", 1).await?,
            Self::StatusMiss => {
                let running = ThreadQuery { status: Some(ThreadStatus::Running), ..own() };
                ensure!(engine.threads(&running).await?.is_empty(), "a thread of the owner runs");
            }
            Self::ActiveRuns => {
                let count = engine.active_runs(&Principal::from(OWN), RUNS_PER_USER).await?;
                ensure!(count <= world.waiting_own, "{count} runs of the owner are active");
            }
            Self::Runs => {
                let owner = Some(Principal::from(OWN));
                let active = RunQuery { owner, active: Some(true), ..RunQuery::newest(PAGE) };
                drop(engine.runs(&active).await?);
            }
            Self::Interrupts => {
                let owner = Some(Principal::from(OTHER));
                let waiting =
                    engine.waiting(&ThreadQuery { owner, limit: PAGE, ..ThreadQuery::default() }).await?;
                for thread in &waiting {
                    let open = thread.open.as_ref().ok().context("a thread cannot be read")?;
                    ensure!(open.len() == 1, "{} asks {} things", thread.thread.thread, open.len());
                }
            }
            Self::Usage => {
                let until = world.now_ms.div_ceil(DAY_MS) * DAY_MS;
                let (from, until) = (Timestamp(until - DAYS * DAY_MS), Timestamp(until));
                let (workspace, owner) = (Some(world.workspace.clone()), None);
                let query = UsageQuery { workspace, owner, from, until, bucket_ms: DAY_MS, thread: None };
                ensure!(engine.usage(&query).await?.threads > 0, "no thread has runs");
            }
            Self::Metrics => drop(engine.thread_counts().await?),
            Self::Messages => {
                let messages = engine.thread(&world.long).messages(None, PAGE).await?;
                ensure!(messages.len() == PAGE, "the page has {} messages", messages.len());
            }
            Self::ClaimDue => {
                let due = world.store.claim_due(&[], 32).await?;
                ensure!(due.is_empty(), "{} threads need a driver", due.len());
            }
            Self::Check => drop(engine.check_store().await?),
            Self::Backup => world.back_up().await?,
        }
        Ok(())
    }
}

fn own() -> ThreadQuery {
    ThreadQuery { owner: Some(Principal::from(OWN)), limit: PAGE, ..ThreadQuery::default() }
}

async fn page(world: &World, query: ThreadQuery) -> Result<Vec<ThreadRow>> {
    let rows = world.engine.threads(&query).await?;
    ensure!(rows.len() == PAGE, "the page has {} threads", rows.len());
    Ok(rows)
}

async fn found(world: &World, part: &str, count: usize) -> Result<()> {
    let query = ThreadQuery { title_contains: Some(part.to_owned()), ..own() };
    let found = world.engine.threads(&query).await?.len();
    ensure!(found == count, "{found} titles contain `{part}`");
    Ok(())
}
