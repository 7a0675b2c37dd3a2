//! Creates stores with many threads: a few real ones, played against the model server,
//! and copies of them that SQL inserts.
//!
//! Half of the copies are finished threads of one user; the other half wait for a person and belong to another user.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use anyhow::{Context, Result, ensure};
use windlass::clock::SystemClock;
use windlass::machine::{Annotations, Principal, ThreadId, Timestamp};
use windlass::models::{ProviderCatalog, ProviderConfig, Secret};
use windlass::port::clock::Clock;
use windlass::port::journal::ThreadQuery;
use windlass::sqlite::{SqliteStore, StoreOptions};
use windlass::tool::FunctionTool;
use windlass::{AgentConfig, Engine, Status, Task};

use super::Store;
use crate::drive::{PROMPT, TOOL_DESCRIPTION, TOOL_NAME};

/// The owners of the finished and of the waiting threads.
pub(super) const OWN: &str = "local";
pub(super) const OTHER: &str = "bob";

/// Maximum age in days of the copies' runs when they began.
pub(super) const DAYS: u64 = 30;
pub(super) const DAY_MS: u64 = 24 * 60 * 60 * 1000;

/// Number of runs of the one long thread, each with two messages.
const LONG_RUNS: usize = 40;

/// Scripts: a text of one token, and a run whose first step calls a tool.
const ONE_STEP: &str = "openai-chat/1";
const WITH_CALL: &str = "openai-chat/loop-2";

#[derive(serde::Deserialize, schemars::JsonSchema)]
struct Echo {
    text: String,
}

/// A store with many threads, and an engine on it.
pub(super) struct World {
    pub(super) engine: Engine,
    pub(super) store: Store,
    pub(super) agent: AgentConfig,
    pub(super) workspace: String,
    /// The thread with many runs.
    pub(super) long: ThreadId,
    /// The sort key of the last thread on the owner's first page.
    pub(super) last_of_first_page: (Timestamp, ThreadId),
    /// Number of the owner's waiting threads.
    pub(super) waiting_own: usize,
    pub(super) now_ms: u64,
    folder: PathBuf,
}

impl World {
    /// Creates a store with this many threads.
    pub(super) async fn make(folder: &Path, base_url: &str, threads: u64) -> Result<Self> {
        let store_folder = folder.join("store");
        let (engine, store) = open(&store_folder, base_url).await?;
        let mut world = Self {
            engine,
            store,
            agent: AgentConfig::from(ONE_STEP),
            workspace: String::new(),
            long: ThreadId::from("thr_long"),
            last_of_first_page: (Timestamp(u64::MAX), ThreadId::from("")),
            waiting_own: 1,
            now_ms: SystemClock::new().now().0,
            folder: folder.to_owned(),
        };
        for _ in 0..LONG_RUNS {
            let thread = Some(world.long.clone());
            world.run(Task { thread, ..Task::new(world.agent.clone(), "Talk about one thing") }).await?;
        }
        let finished = Task::new(world.agent.clone(), "Talk about subject 0 alone");
        world.run(Task { thread: Some("thr_finished".into()), ..finished }).await?;
        let waiting = Task::new(AgentConfig::from(WITH_CALL), PROMPT);
        let waiting = world.engine.run_task(Task { thread: Some("thr_waiting".into()), ..waiting }).await?;
        ensure!(waiting.status == Status::Paused, "the run with a call is {:?}", waiting.status);
        world.workspace = world.engine.thread(&world.long).row().await?.view.workspace;
        copy(&store_folder, threads, world.now_ms)?;
        let owner = Some(Principal::from(OWN));
        let page = world.engine.threads(&ThreadQuery { owner, ..ThreadQuery::default() }).await?;
        let last = page.last().context("the store has no threads")?;
        world.last_of_first_page = (last.view.updated_at, last.thread.clone());
        Ok(world)
    }

    /// Runs a task to its end.
    pub(super) async fn run(&self, task: Task) -> Result<()> {
        let outcome = self.engine.run_task(task).await?;
        ensure!(outcome.status == Status::Done, "a run ended as {:?}: {:?}", outcome.status, outcome.errors);
        Ok(())
    }

    /// Backs up the store to another folder, and deletes the backup.
    pub(super) async fn back_up(&self) -> Result<()> {
        let into = self.folder.join("copy");
        windlass::sqlite::backup(&self.folder.join("store"), &into).await?;
        Ok(std::fs::remove_dir_all(into)?)
    }
}

async fn open(folder: &Path, base_url: &str) -> Result<(Engine, Store)> {
    let clock = Arc::new(SystemClock::new());
    let store = Arc::new(SqliteStore::open(folder, StoreOptions::default(), clock.clone()).await?);
    let provider = ProviderConfig {
        base_url: Some(base_url.to_owned()),
        api_key: Some(Secret::new("none")),
        ..ProviderConfig::default()
    };
    let models = ProviderCatalog::builder().provider("openai-chat", provider).build()?;
    let echo = FunctionTool::new(TOOL_NAME, TOOL_DESCRIPTION, |_, echo: Echo| async move { echo.text });
    let engine = windlass::builder()
        .models(Arc::new(models))
        .tools(windlass::registry().add(Arc::new(echo.annotations(Annotations::default())))?)
        .clock(clock)
        .ports(store.clone(), store.clone(), store.clone())
        .build()
        .await?;
    Ok((engine, store))
}

/// Copies the finished and the waiting thread, with all rows except inboxes and blobs.
fn copy(folder: &Path, threads: u64, now_ms: u64) -> Result<()> {
    let database = rusqlite::Connection::open(folder.join("windlass.db"))?;
    let step_ms = DAYS * DAY_MS / (threads + 1);
    let copies = format!(
        "CREATE TEMP TABLE copies AS WITH RECURSIVE list (nth) AS ( \
             SELECT 1 UNION ALL SELECT nth + 1 FROM list WHERE nth < {threads}) \
         SELECT nth, (SELECT max(number) FROM threads) + nth AS number, printf('thr_copy%08d', nth) AS thread, \
             (SELECT number FROM threads WHERE thread = iif(nth % 2, 'thr_waiting', 'thr_finished')) AS origin, \
             iif(nth % 2, '{OTHER}', '{OWN}') AS owner, {now_ms} - nth * {step_ms} AS at FROM list"
    );
    let scripts = [copies.as_str(), ROWS, EVENTS, SUMS, MERGE, "PRAGMA wal_checkpoint(TRUNCATE)"];
    for script in scripts {
        database.execute_batch(script)?;
    }
    Ok(())
}

/// SQL that merges the index of titles. Titles inserted in one transaction leave large segments, which the next titles
/// would have to merge. In a store that grew title by title, these segments are already merged.
const MERGE: &str = "INSERT INTO titles (titles) VALUES ('optimize')";

/// SQL that copies the threads. A row is inserted idle and without a title, so that the triggers see both changes.
const ROWS: &str = "BEGIN IMMEDIATE; \
    INSERT INTO threads (number, thread, epoch, head, batch, created_at, updated_at, minute, workspace, owner, folder) \
    SELECT copies.number, copies.thread, epoch, head, batch, at, at, at / 60000, workspace, copies.owner, folder \
    FROM copies JOIN threads ON threads.number = origin; \
    UPDATE threads SET title = 'Talk about subject ' || nth || ' alone', \
        title_lower = 'talk about subject ' || nth || ' alone' \
    FROM copies WHERE copies.number = threads.number; \
    UPDATE threads SET status = 2, interrupts = 1, asks = (SELECT asks FROM threads WHERE thread = 'thr_waiting') \
    FROM copies WHERE copies.number = threads.number AND nth % 2; \
    INSERT INTO runs (run, number, workspace, owner, agent, model, status, from_seq, started_at, finished_at, totals, \
        queued, counted) \
    SELECT printf('run_copy%08d', nth), copies.number, workspace, copies.owner, agent, model, status, from_seq, at, \
        iif(status IS NULL, NULL, at + 50), totals, NULL, 1 FROM copies JOIN runs ON runs.number = origin; \
    COMMIT";

/// SQL that copies the events. The first event contains the thread's id. A row
/// without a checksum is from an older build.
const EVENTS: &str = "INSERT INTO events (position, body, checksum) \
    SELECT (copies.number << 32) | (position & 4294967295), iif((position & 4294967295) = 1, \
        replace(body, (SELECT thread FROM threads WHERE number = origin), copies.thread), body), NULL \
    FROM copies JOIN events ON position BETWEEN (origin << 32) AND (origin << 32) | 4294967295 ORDER BY 1";

const SUMS: &str = "INSERT INTO usage \
    SELECT started_at / 21600000, runs.workspace, runs.owner, model, agent, count(*), count(finished_at), 0, 0, 0, 0, 0, \
        0, 0, 0, 0, 0 FROM copies JOIN runs USING (number) GROUP BY 1, 2, 3, 4, 5 HAVING TRUE \
    ON CONFLICT (quarter, workspace, owner, model, agent) DO UPDATE SET runs = runs + excluded.runs; \
    INSERT INTO usage_threads \
    SELECT started_at / 21600000, runs.workspace, runs.owner, -1, 1, model, agent, count(*) \
        FROM copies JOIN runs USING (number) GROUP BY 1, 2, 3, 4, 5, 6, 7 HAVING TRUE \
    ON CONFLICT (quarter, workspace, owner, previous, by_model, model, agent) \
        DO UPDATE SET threads = threads + excluded.threads; \
    INSERT INTO usage_threads \
    SELECT started_at / 21600000, runs.workspace, runs.owner, -1, 0, '', '', count(*) \
        FROM copies JOIN runs USING (number) GROUP BY 1, 2, 3, 4, 5, 6, 7 HAVING TRUE \
    ON CONFLICT (quarter, workspace, owner, previous, by_model, model, agent) \
        DO UPDATE SET threads = threads + excluded.threads";
