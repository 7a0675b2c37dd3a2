//! Lists of threads and runs, each read by the index that suits its filter.
//!
//! Writes nothing.

mod title;

use std::sync::LazyLock;

use rusqlite::{Row, params};
use windlass_engine::port::journal::{
    RunQuery, RunRow, RunView, StoreError, ThreadAsks, ThreadCounts, ThreadQuery, ThreadRow, ThreadStatus,
    ThreadView,
};
use windlass_machine::{ForkPoint, InputId, ModelName, Principal, RunId, RunStatus, Seq, ThreadId, Totals};

use self::title::Found;
use crate::column::{ASKS_VERSION, encode, run_status_code, stored, thread_status_code, time, whole};
use crate::database::Database;
use crate::fault::damaged;

/// Reads a row of `THREAD_COLUMNS` and `asks`.
fn thread_row(row: &Row<'_>) -> rusqlite::Result<Result<ThreadRow, StoreError>> {
    let thread = ThreadId::from(row.get::<_, String>("thread")?);
    let status = match row.get::<_, i64>("status")? {
        0 => ThreadStatus::Idle,
        1 => ThreadStatus::Running,
        2 => ThreadStatus::Waiting,
        3 => ThreadStatus::Sleeping,
        other => return Ok(Err(damaged(&format!("thread `{thread}` has status {other}")))),
    };
    let forked_from: Option<(String, i64)> =
        Option::zip(row.get::<_, Option<String>>("forked_from")?, row.get("forked_until")?);
    let view = ThreadView {
        workspace: row.get("workspace")?,
        owner: Principal::from(row.get::<_, String>("owner")?),
        title: row.get("title")?,
        status,
        folder: row.get("folder")?,
        deadline: row.get::<_, Option<i64>>("deadline")?.map(time),
        interrupts: row.get("interrupts")?,
        updated_at: time(row.get("updated_at")?),
        forked_from: forked_from
            .map(|(thread, until)| ForkPoint { thread: thread.into(), until: Seq(until.cast_unsigned()) }),
        asks: row.get_ref("asks")?.as_str_or_null()?.and_then(asks).map(Box::new),
    };
    let (head, created_at) = (Seq(row.get::<_, i64>("head")?.cast_unsigned()), time(row.get("created_at")?));
    Ok(Ok(ThreadRow { thread, head, created_at, view }))
}

/// Decodes a thread's stored interrupts. Returns `None` if another build stored them in a different format.
fn asks(stored: &str) -> Option<ThreadAsks> {
    let (version, asks) = serde_json::from_str::<(u32, serde_json::Value)>(stored).ok()?;
    serde_json::from_value(asks).ok().filter(|_| version == ASKS_VERSION)
}

const THREAD_COLUMNS: &str = "thread, head, created_at, workspace, owner, title, status, folder, deadline, \
    interrupts, updated_at, forked_from, forked_until";

/// Returns threads that are not empty, by most recent activity first.
pub(crate) fn threads(db: &Database, query: &ThreadQuery) -> Result<Vec<ThreadRow>, StoreError> {
    let title = query.title_contains.as_ref().map(|text| text.to_lowercase());
    let found = match &title {
        Some(title) => title::find(db, title)?,
        None => Found::Many,
    };
    let ((from, condition), numbered) = match &found {
        Found::Few(numbers) if numbers.is_empty() => return Ok(Vec::new()),
        Found::Few(_) => {
            (("threads", "(?5 IS NULL OR owner = ?5)"), "number IN (SELECT value FROM json_each(?9))")
        }
        Found::Many => (by_index(query), "?9 IS NULL"),
    };
    let text = format!(
        "SELECT {THREAD_COLUMNS}, iif(?7, asks, NULL) AS asks FROM {from} WHERE {condition} \
         AND deleted = 0 AND head > 0 AND minute <= ?1 / 60000 AND (updated_at, thread) < (?1, ?2) \
         AND (?3 IS NULL OR workspace = ?3) AND (?4 IS NULL OR instr(title_lower, ?4) > 0) \
         AND (?6 IS NULL OR status = ?6) AND (?7 = 0 OR interrupts > 0) AND ({numbered}) \
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
    let values = params![
        at,
        thread,
        query.workspace.as_deref(),
        title,
        query.owner.as_ref().map(Principal::as_str),
        query.status.map(thread_status_code),
        query.asking,
        stored(query.rows()),
        numbers,
    ];
    db.all(&text, values, thread_row)?.into_iter().collect()
}

/// Returns the index for a list of threads, and its condition. The query planner knows neither the number of
/// owners nor that few threads are waiting.
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
pub(crate) fn counts(db: &Database) -> Result<ThreadCounts, StoreError> {
    const COUNTS: &str = "SELECT status, threads, interrupts FROM standings";
    let rows: Vec<(i64, i64, i64)> = db.all(COUNTS, [], |row| Ok((row.get(0)?, row.get(1)?, row.get(2)?)))?;
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

/// Returns one thread's row.
pub(crate) fn thread(db: &Database, thread: &ThreadId) -> Result<Option<ThreadRow>, StoreError> {
    static ONE: LazyLock<String> = LazyLock::new(|| {
        format!("SELECT {THREAD_COLUMNS}, asks FROM threads WHERE thread = ?1 AND deleted = 0")
    });
    db.first(&ONE, params![thread.as_str()], thread_row)?.transpose()
}

/// Reads a row of `RUN_COLUMNS`.
fn run_row(row: &Row<'_>) -> rusqlite::Result<Result<RunRow, StoreError>> {
    let run = RunId::from(row.get::<_, String>("run")?);
    let status = match row.get::<_, Option<i64>>("status")? {
        None => None,
        Some(0) => Some(RunStatus::Done),
        Some(1) => Some(RunStatus::Failed),
        Some(2) => Some(RunStatus::Cancelled),
        Some(other) => return Ok(Err(damaged(&format!("run `{run}` has status {other}")))),
    };
    let totals: Totals = match serde_json::from_str(row.get_ref("totals")?.as_str()?) {
        Ok(totals) => totals,
        Err(error) => return Ok(Err(damaged(&format!("run `{run}`: {error}")))),
    };
    let view = RunView {
        run,
        agent: row.get("agent")?,
        model: ModelName::from(row.get::<_, String>("model")?),
        queued: row.get::<_, Option<String>>("queued")?.map(InputId::from),
        status,
        from: Seq(row.get::<_, i64>("from_seq")?.cast_unsigned()),
        started_at: time(row.get("started_at")?),
        finished_at: row.get::<_, Option<i64>>("finished_at")?.map(time),
        totals,
    };
    Ok(Ok(RunRow {
        thread: row.get::<_, String>("thread")?.into(),
        workspace: row.get("workspace")?,
        owner: Principal::from(row.get::<_, String>("owner")?),
        title: row.get("title")?,
        asking: row.get("asking")?,
        view,
    }))
}

const RUN_COLUMNS: &str = "thread, runs.workspace AS workspace, runs.owner AS owner, title, run, agent, model, \
    runs.status IS NULL AND queued IS NULL AND interrupts > 0 AS asking, queued, runs.status AS status, from_seq, \
    started_at, finished_at, totals";

/// Returns a run by its id.
pub(crate) fn run(db: &Database, run: &RunId) -> Result<Option<RunRow>, StoreError> {
    static ONE: LazyLock<String> = LazyLock::new(|| {
        format!("SELECT {RUN_COLUMNS} FROM runs JOIN threads USING (number) WHERE run = ?1")
    });
    db.first(&ONE, params![run.as_str()], run_row)?.transpose()
}

/// Returns runs by their ids.
pub(crate) fn runs_by_id(db: &Database, runs: &[RunId]) -> Result<Vec<RunRow>, StoreError> {
    static SOME: LazyLock<String> = LazyLock::new(|| {
        format!(
            "SELECT {RUN_COLUMNS} FROM json_each(?1) CROSS JOIN runs ON run = value CROSS JOIN threads USING (number)"
        )
    });
    db.all(&SOME, params![encode(&runs)], run_row)?.into_iter().collect()
}

/// Returns runs, newest first.
pub(crate) fn runs(db: &Database, query: &RunQuery) -> Result<Vec<RunRow>, StoreError> {
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
    let values = params![
        at,
        run,
        query.thread.as_ref().map(ThreadId::as_str),
        query.owner.as_ref().map(Principal::as_str),
        query.workspace.as_deref(),
        query.active,
        query.from.map_or(0, |at| whole(at.0)),
        query.until.map_or(i64::MAX, |at| whole(at.0)),
        stored(query.rows()),
        query.ended.map(run_status_code),
        query.asking,
    ];
    db.all(&text, values, run_row)?.into_iter().collect()
}

/// Counts the active runs of an owner, up to `limit`.
pub(crate) fn active_runs(db: &Database, owner: &Principal, limit: usize) -> Result<usize, StoreError> {
    const TEXT: &str = "SELECT count(*) FROM (SELECT 1 FROM runs INDEXED BY runs_active_by_owner \
        WHERE owner = ?1 AND status IS NULL AND queued IS NULL LIMIT ?2)";
    let count: i64 = db.value(TEXT, params![owner.as_str(), stored(limit)])?;
    Ok(usize::try_from(count).unwrap_or_default())
}
