//! Lists of threads and runs, each read by the index that suits its filter.
//!
//! Nothing here writes.

mod title;

use sqlx::sqlite::SqliteRow;
use sqlx::{AssertSqlSafe, FromRow, Row, SqlitePool};
use windlass_engine::port::journal::{
    RunQuery, RunRow, RunView, StoreError, ThreadAsks, ThreadCounts, ThreadQuery, ThreadRow, ThreadStatus,
    ThreadView,
};
use windlass_machine::{ForkPoint, InputId, ModelName, Principal, RunId, RunStatus, Seq, ThreadId, Totals};

use self::title::Found;
use crate::column::{ASKS_VERSION, encode, run_status_code, stored, thread_status_code, time, whole};
use crate::fault::{damaged, store_error};

struct ThreadColumns {
    thread: String,
    head: i64,
    created_at: i64,
    workspace: String,
    owner: String,
    title: Option<String>,
    status: i64,
    folder: Option<String>,
    deadline: Option<i64>,
    interrupts: u32,
    updated_at: i64,
    forked_from: Option<String>,
    forked_until: Option<i64>,
    asks: Option<String>,
}

impl FromRow<'_, SqliteRow> for ThreadColumns {
    fn from_row(row: &SqliteRow) -> Result<Self, sqlx::Error> {
        Ok(Self {
            thread: row.try_get("thread")?,
            head: row.try_get("head")?,
            created_at: row.try_get("created_at")?,
            workspace: row.try_get("workspace")?,
            owner: row.try_get("owner")?,
            title: row.try_get("title")?,
            status: row.try_get("status")?,
            folder: row.try_get("folder")?,
            deadline: row.try_get("deadline")?,
            interrupts: row.try_get("interrupts")?,
            updated_at: row.try_get("updated_at")?,
            forked_from: row.try_get("forked_from")?,
            forked_until: row.try_get("forked_until")?,
            asks: row.try_get("asks")?,
        })
    }
}

impl ThreadColumns {
    fn row(self) -> Result<ThreadRow, StoreError> {
        let status = match self.status {
            0 => ThreadStatus::Idle,
            1 => ThreadStatus::Running,
            2 => ThreadStatus::Waiting,
            3 => ThreadStatus::Sleeping,
            other => return Err(damaged(&format!("thread `{}` has status {other}", self.thread))),
        };
        let forked_from = self.forked_from.zip(self.forked_until);
        Ok(ThreadRow {
            thread: self.thread.into(),
            head: Seq(self.head.cast_unsigned()),
            created_at: time(self.created_at),
            view: ThreadView {
                workspace: self.workspace,
                owner: Principal::from(self.owner),
                title: self.title,
                status,
                folder: self.folder,
                deadline: self.deadline.map(time),
                interrupts: self.interrupts,
                updated_at: time(self.updated_at),
                forked_from: forked_from.map(|(thread, until)| ForkPoint {
                    thread: thread.into(),
                    until: Seq(until.cast_unsigned()),
                }),
                asks: self.asks.as_deref().and_then(asks).map(Box::new),
            },
        })
    }
}

/// Decodes a thread's stored interrupts; `None` if another build stored them in another form.
fn asks(stored: &str) -> Option<ThreadAsks> {
    let (version, asks) = serde_json::from_str::<(u32, serde_json::Value)>(stored).ok()?;
    serde_json::from_value(asks).ok().filter(|_| version == ASKS_VERSION)
}

const THREAD_COLUMNS: &str = "thread, head, created_at, workspace, owner, title, status, folder, deadline, \
    interrupts, updated_at, forked_from, forked_until";

/// Non-empty threads, most recent activity first.
pub(crate) async fn threads(pool: &SqlitePool, query: &ThreadQuery) -> Result<Vec<ThreadRow>, StoreError> {
    let title = query.title_contains.as_ref().map(|text| text.to_lowercase());
    let found = match &title {
        Some(title) => title::find(pool, title).await?,
        None => Found::Many,
    };
    let (from, condition) = match &found {
        Found::Few(numbers) if numbers.is_empty() => return Ok(Vec::new()),
        Found::Few(_) => {
            ("threads", "number IN (SELECT value FROM json_each(?9)) AND (?5 IS NULL OR owner = ?5)")
        }
        Found::Many => by_index(query),
    };
    let text = format!(
        "SELECT {THREAD_COLUMNS}, iif(?7, asks, NULL) AS asks FROM {from} WHERE {condition} \
         AND deleted = 0 AND head > 0 AND minute <= ?1 / 60000 AND (updated_at, thread) < (?1, ?2) \
         AND (?3 IS NULL OR workspace = ?3) AND (?4 IS NULL OR instr(title_lower, ?4) > 0) \
         AND (?6 IS NULL OR status = ?6) AND (?7 = 0 OR interrupts > 0) \
         ORDER BY minute DESC, updated_at DESC, thread DESC LIMIT ?8"
    );
    let (at, thread) = match &query.before {
        Some((at, thread)) => (whole(at.0), thread.as_str()),
        None => (i64::MAX, ""),
    };
    let numbers = match &found {
        Found::Few(numbers) => Some(encode(numbers)),
        Found::Many => None,
    };
    // Built from constants only.
    let rows: Vec<ThreadColumns> = sqlx::query_as(AssertSqlSafe(text))
        .bind(at)
        .bind(thread)
        .bind(query.workspace.as_deref())
        .bind(title)
        .bind(query.owner.as_ref().map(Principal::as_str))
        .bind(query.status.map(thread_status_code))
        .bind(query.asking)
        .bind(stored(query.rows()))
        .bind(numbers)
        .fetch_all(pool)
        .await
        .map_err(store_error)?;
    rows.into_iter().map(ThreadColumns::row).collect()
}

/// The index for a list of threads, with its condition. The query planner knows neither the number of owners nor that
/// few threads wait.
fn by_index(query: &ThreadQuery) -> (&'static str, &'static str) {
    let status = query.status.filter(|status| *status != ThreadStatus::Idle);
    match (&query.owner, status, &query.workspace) {
        (Some(_), ..) if query.asking => {
            ("threads INDEXED BY threads_asking_by_owner", "owner = ?5 AND interrupts > 0")
        }
        (Some(_), Some(_), _) => {
            ("threads INDEXED BY threads_busy", "status = ?6 AND status <> 0 AND owner = ?5")
        }
        (Some(_), None, _) => ("threads INDEXED BY threads_by_owner", "owner = ?5"),
        (None, Some(ThreadStatus::Waiting), _) => {
            ("threads INDEXED BY threads_asking", "?5 IS NULL AND (status = 2 OR interrupts > 0)")
        }
        (None, _, _) if query.asking => {
            ("threads INDEXED BY threads_asking", "?5 IS NULL AND (status = 2 OR interrupts > 0)")
        }
        (None, Some(_), _) => {
            ("threads INDEXED BY threads_busy", "status = ?6 AND status <> 0 AND ?5 IS NULL")
        }
        (None, None, Some(_)) => ("threads INDEXED BY threads_by_workspace", "workspace = ?3 AND ?5 IS NULL"),
        (None, None, None) => ("threads INDEXED BY threads_by_minute", "?5 IS NULL"),
    }
}

/// Counts threads by status.
pub(crate) async fn counts(pool: &SqlitePool) -> Result<ThreadCounts, StoreError> {
    const COUNTS: &str = "SELECT status, threads, interrupts FROM standings";
    let rows: Vec<(i64, i64, i64)> = sqlx::query_as(COUNTS).fetch_all(pool).await.map_err(store_error)?;
    let count = |count: i64| count.max(0).cast_unsigned();
    let threads = |status: ThreadStatus| {
        let row = rows.iter().find(|(code, ..)| *code == thread_status_code(status));
        count(row.map_or(0, |(_, threads, _)| *threads))
    };
    Ok(ThreadCounts {
        running: threads(ThreadStatus::Running),
        waiting: threads(ThreadStatus::Waiting),
        sleeping: threads(ThreadStatus::Sleeping),
        interrupts: rows.iter().map(|(.., interrupts)| count(*interrupts)).sum(),
    })
}

/// One thread's row.
pub(crate) async fn thread(pool: &SqlitePool, thread: &ThreadId) -> Result<Option<ThreadRow>, StoreError> {
    let text =
        format!("SELECT {THREAD_COLUMNS}, NULL AS asks FROM threads WHERE thread = ?1 AND deleted = 0");
    let row: Option<ThreadColumns> = sqlx::query_as(AssertSqlSafe(text))
        .bind(thread.as_str())
        .fetch_optional(pool)
        .await
        .map_err(store_error)?;
    row.map(ThreadColumns::row).transpose()
}

struct RunColumns {
    thread: String,
    workspace: String,
    owner: String,
    title: Option<String>,
    asking: bool,
    run: String,
    agent: String,
    model: String,
    queued: Option<String>,
    status: Option<i64>,
    from_seq: i64,
    started_at: i64,
    finished_at: Option<i64>,
    totals: String,
}

impl FromRow<'_, SqliteRow> for RunColumns {
    fn from_row(row: &SqliteRow) -> Result<Self, sqlx::Error> {
        Ok(Self {
            thread: row.try_get("thread")?,
            workspace: row.try_get("workspace")?,
            owner: row.try_get("owner")?,
            run: row.try_get("run")?,
            title: row.try_get("title")?,
            asking: row.try_get("asking")?,
            agent: row.try_get("agent")?,
            model: row.try_get("model")?,
            queued: row.try_get("queued")?,
            status: row.try_get("status")?,
            from_seq: row.try_get("from_seq")?,
            started_at: row.try_get("started_at")?,
            finished_at: row.try_get("finished_at")?,
            totals: row.try_get("totals")?,
        })
    }
}

impl RunColumns {
    fn row(self) -> Result<RunRow, StoreError> {
        let status = match self.status {
            None => None,
            Some(0) => Some(RunStatus::Done),
            Some(1) => Some(RunStatus::Failed),
            Some(2) => Some(RunStatus::Cancelled),
            Some(other) => return Err(damaged(&format!("run `{}` has status {other}", self.run))),
        };
        let totals: Totals = serde_json::from_str(&self.totals)
            .map_err(|error| damaged(&format!("run `{}`: {error}", self.run)))?;
        let view = RunView {
            run: RunId::from(self.run),
            agent: self.agent,
            model: ModelName::from(self.model),
            queued: self.queued.map(InputId::from),
            status,
            from: Seq(self.from_seq.cast_unsigned()),
            started_at: time(self.started_at),
            finished_at: self.finished_at.map(time),
            totals,
        };
        let (workspace, owner) = (self.workspace, Principal::from(self.owner));
        let (title, asking) = (self.title, self.asking);
        Ok(RunRow { thread: self.thread.into(), workspace, owner, title, asking, view })
    }
}

const RUN_COLUMNS: &str = "thread, runs.workspace AS workspace, runs.owner AS owner, title, run, agent, model, \
    runs.status IS NULL AND queued IS NULL AND interrupts > 0 AS asking, queued, runs.status AS status, from_seq, \
    started_at, finished_at, totals";

/// A run by its id.
pub(crate) async fn run(pool: &SqlitePool, run: &RunId) -> Result<Option<RunRow>, StoreError> {
    let text = format!("SELECT {RUN_COLUMNS} FROM runs JOIN threads USING (number) WHERE run = ?1");
    let row: Option<RunColumns> = sqlx::query_as(AssertSqlSafe(text))
        .bind(run.as_str())
        .fetch_optional(pool)
        .await
        .map_err(store_error)?;
    row.map(RunColumns::row).transpose()
}

/// Runs by their ids.
pub(crate) async fn runs_by_id(pool: &SqlitePool, runs: &[RunId]) -> Result<Vec<RunRow>, StoreError> {
    let text = format!(
        "SELECT {RUN_COLUMNS} FROM json_each(?1) CROSS JOIN runs ON run = value CROSS JOIN threads USING (number)"
    );
    // Built from constants only.
    let rows: Vec<RunColumns> =
        sqlx::query_as(AssertSqlSafe(text)).bind(encode(&runs)).fetch_all(pool).await.map_err(store_error)?;
    rows.into_iter().map(RunColumns::row).collect()
}

/// Runs, newest first.
pub(crate) async fn runs(pool: &SqlitePool, query: &RunQuery) -> Result<Vec<RunRow>, StoreError> {
    // Within a thread, the journal determines the order, even if two runs begin in the same millisecond.
    const AFTER: &str = "(started_at, run) < (?1, ?2)";
    const AFTER_IN_THREAD: &str = "(?2 IS NULL OR from_seq < (SELECT from_seq FROM runs AS last \
        WHERE last.run = ?2 AND last.number = runs.number))";
    const BY_START: &str = "started_at DESC, run DESC";
    let (index, condition, after, order) = match (&query.thread, &query.owner, query.active) {
        (Some(_), ..) => {
            let of_thread = "runs.number = (SELECT number FROM threads WHERE thread = ?3)";
            ("runs_by_thread", of_thread, AFTER_IN_THREAD, "from_seq DESC")
        }
        (None, Some(_), Some(true)) => {
            ("runs_active_by_owner", "runs.owner = ?4 AND runs.status IS NULL", AFTER, BY_START)
        }
        (None, None, Some(true)) => ("runs_active", "runs.status IS NULL", AFTER, BY_START),
        (None, Some(_), _) => ("runs_by_owner", "runs.owner = ?4", AFTER, BY_START),
        (None, None, _) => ("runs_by_start", "TRUE", AFTER, BY_START),
    };
    let text = format!(
        "SELECT {RUN_COLUMNS} FROM runs INDEXED BY {index} CROSS JOIN threads USING (number) \
         WHERE {condition} AND queued IS NULL AND {after} AND (?3 IS NULL OR thread = ?3) AND (?4 IS NULL OR runs.owner = ?4) \
         AND (?5 IS NULL OR runs.workspace = ?5) AND (?6 IS NULL OR (runs.status IS NULL) = ?6) \
         AND started_at >= ?7 AND started_at < ?8 AND (?10 IS NULL OR runs.status = ?10) \
         AND (?11 = 0 OR (runs.status IS NULL AND interrupts > 0)) ORDER BY {order} LIMIT ?9"
    );
    let end = (i64::MAX, query.thread.is_none().then_some(""));
    let (at, run) = query.before.as_ref().map_or(end, |(at, run)| (whole(at.0), Some(run.as_str())));
    // Built from constants only.
    let rows: Vec<RunColumns> = sqlx::query_as(AssertSqlSafe(text))
        .bind(at)
        .bind(run)
        .bind(query.thread.as_ref().map(ThreadId::as_str))
        .bind(query.owner.as_ref().map(Principal::as_str))
        .bind(query.workspace.as_deref())
        .bind(query.active)
        .bind(query.from.map_or(0, |at| whole(at.0)))
        .bind(query.until.map_or(i64::MAX, |at| whole(at.0)))
        .bind(stored(query.rows()))
        .bind(query.ended.map(run_status_code))
        .bind(query.asking)
        .fetch_all(pool)
        .await
        .map_err(store_error)?;
    rows.into_iter().map(RunColumns::row).collect()
}

/// Counts the active runs of an owner, up to `limit`.
pub(crate) async fn active_runs(
    pool: &SqlitePool,
    owner: &Principal,
    limit: usize,
) -> Result<usize, StoreError> {
    const TEXT: &str = "SELECT count(*) FROM (SELECT 1 FROM runs INDEXED BY runs_active_by_owner \
        WHERE owner = ?1 AND status IS NULL AND queued IS NULL LIMIT ?2)";
    let count: i64 = sqlx::query_scalar(TEXT)
        .bind(owner.as_str())
        .bind(stored(limit))
        .fetch_one(pool)
        .await
        .map_err(store_error)?;
    Ok(usize::try_from(count).unwrap_or_default())
}
