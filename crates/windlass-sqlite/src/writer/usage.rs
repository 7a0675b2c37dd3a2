//! Maintains the sums of the usage of runs, in the transaction that changes a run.
//!
//! A run that changes with each step is not counted: see `009_rows.sql`. `read/usage.rs` reads the sums.

use std::sync::LazyLock;

use rusqlite::{Row, params};
use windlass_engine::port::journal::StoreError;
use windlass_machine::RunId;

use crate::database::Database;
use crate::fault::Fault;

/// A quarter of a day in milliseconds. The steps of charts of a week or longer are multiples of it.
pub(crate) const QUARTER_MS: i64 = 6 * 60 * 60 * 1000;

/// Means "no quarter" in stored and queried values.
pub(crate) const NO_QUARTER: i64 = -1;

/// Sums a figure of the totals. The limit prevents an overflow by a provider's
/// invented figure: no real run uses so much.
macro_rules! sum {
    ($figure:literal) => {
        concat!("sum(min(coalesce(json_extract(totals, '$.", $figure, "'), 0), 1000000000000))")
    };
}

/// The figures of a row of `usage`, each with the SQL that sums it over rows of `runs`.
pub(crate) const FIGURES: [(&str, &str); 12] = [
    ("runs", "count(*)"),
    ("ended", "count(finished_at)"),
    (
        "duration_ms",
        "sum(CASE WHEN finished_at IS NULL THEN 0 ELSE min(max(finished_at - started_at, 0), 1000000000000) END)",
    ),
    ("input", sum!("usage.input")),
    ("output", sum!("usage.output")),
    ("cached", sum!("usage.cached")),
    ("cost", sum!("cost")),
    ("approved", sum!("approved")),
    ("denied", sum!("denied")),
    ("ttft_ms", sum!("ttft_ms")),
    ("ttft_runs", "sum(json_extract(totals, '$.ttft_ms') IS NOT NULL)"),
    ("cost_unknown", "sum(json_extract(totals, '$.cost') IS NULL)"),
];

const OF_RUN: &str = "run = ?2 AND number = ?1";
const OF_THREAD: &str = "number = ?1";
const OF_ALL: &str = "TRUE";

/// Returns the statement that adds the counted runs that meet a condition to `usage`, `sign` times.
fn add_runs(sign: i64, which: &str) -> String {
    let names = FIGURES.map(|(name, _)| name).join(", ");
    let sums = FIGURES.map(|(_, sum)| format!("{sign} * {sum}")).join(", ");
    let set = FIGURES.map(|(name, _)| format!("{name} = {name} + excluded.{name}")).join(", ");
    format!(
        "INSERT INTO usage (quarter, workspace, owner, model, agent, {names}) \
         SELECT started_at / {QUARTER_MS}, workspace, owner, model, agent, {sums} FROM runs \
         WHERE {which} AND counted = 1 GROUP BY 1, 2, 3, 4, 5 \
         ON CONFLICT (quarter, workspace, owner, model, agent) DO UPDATE SET {set}"
    )
}

/// Returns the statement that adds the threads of the counted runs that meet a
/// condition to `usage_threads`, `sign` times.
fn add_threads(sign: i64, which: &str) -> String {
    format!(
        "WITH found AS (SELECT DISTINCT number, started_at / {QUARTER_MS} AS quarter, workspace, owner, model, agent \
             FROM runs WHERE {which} AND counted = 1), \
         quarters AS (SELECT quarter, lag(quarter) OVER (PARTITION BY number, model, agent ORDER BY quarter) AS previous, \
                 workspace, owner, 1 AS by_model, model, agent FROM found \
             UNION ALL SELECT quarter, lag(quarter) OVER (PARTITION BY number ORDER BY quarter), \
                 workspace, owner, 0, '', '' FROM (SELECT DISTINCT number, quarter, workspace, owner FROM found)), \
         counts AS (SELECT quarter, workspace, owner, {NO_QUARTER} AS previous, by_model, model, agent FROM quarters \
             UNION ALL SELECT quarter, workspace, owner, previous, by_model, model, agent FROM quarters \
                 WHERE previous IS NOT NULL) \
         INSERT INTO usage_threads (quarter, workspace, owner, previous, by_model, model, agent, threads) \
         SELECT quarter, workspace, owner, previous, by_model, model, agent, {sign} * count(*) FROM counts \
         GROUP BY 1, 2, 3, 4, 5, 6, 7 HAVING TRUE \
         ON CONFLICT (quarter, workspace, owner, previous, by_model, model, agent) \
         DO UPDATE SET threads = threads + excluded.threads"
    )
}

const ROW: &str =
    "SELECT started_at, workspace, owner, model, agent, counted FROM runs WHERE run = ?2 AND number = ?1";
const COUNT: &str = "UPDATE runs SET counted = ?3 WHERE run = ?2 AND number = ?1";
const ADD_THREAD: &str = "INSERT INTO usage_threads (quarter, workspace, owner, previous, by_model, model, agent, threads) \
    VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8) \
    ON CONFLICT (quarter, workspace, owner, previous, by_model, model, agent) DO UPDATE SET threads = threads + ?8";
// A row without runs is obsolete. `?1` to `?3` limit the search to the quarter, the tenant and the owner of a change.
const CLEAR_RUNS: &str =
    "DELETE FROM usage WHERE quarter = ?1 AND workspace = ?2 AND owner = ?3 AND runs = 0";
const CLEAR_THREADS: &str =
    "DELETE FROM usage_threads WHERE quarter = ?1 AND workspace = ?2 AND owner = ?3 AND threads = 0";
const NEXT_QUARTER: &str = "SELECT started_at / ?3, workspace, owner FROM runs INDEXED BY runs_by_time \
    WHERE number = ?1 AND started_at >= ?2 ORDER BY started_at LIMIT 1";

/// Returns a query for a thread's counted runs around a quarter, of one model and agent or of all. The query returns
/// whether the quarter has such a run, and the nearest quarters before and after it that have one.
fn near() -> String {
    let runs = "FROM runs INDEXED BY runs_by_time WHERE number = ?1 AND counted = 1 \
        AND (?3 IS NULL OR model = ?3 AND agent = ?4)";
    let from = format!("?2 * {QUARTER_MS}");
    let until = format!("(?2 + 1) * {QUARTER_MS}");
    format!(
        "SELECT EXISTS (SELECT 1 {runs} AND started_at >= {from} AND started_at < {until}), \
         coalesce((SELECT started_at / {QUARTER_MS} {runs} AND started_at < {from} ORDER BY started_at DESC LIMIT 1), \
             {NO_QUARTER}), \
         coalesce((SELECT started_at / {QUARTER_MS} {runs} AND started_at >= {until} ORDER BY started_at LIMIT 1), \
             {NO_QUARTER})"
    )
}

/// Statements that are assembled once from constants.
static ADD: LazyLock<String> = LazyLock::new(|| add_runs(1, OF_RUN));
static SUBTRACT: LazyLock<String> = LazyLock::new(|| add_runs(-1, OF_RUN));
static NEAR: LazyLock<String> = LazyLock::new(near);
static SUBTRACT_ALL: LazyLock<[String; 2]> =
    LazyLock::new(|| [add_runs(-1, OF_THREAD), add_threads(-1, OF_THREAD)]);

/// Fills the sums from the rows of runs.
pub(crate) fn sum_all(db: &Database) -> Result<(), StoreError> {
    // Runs of driven threads are counted as soon as their rows no longer change.
    const COUNT_ALL: &str = "UPDATE runs SET counted = 1 WHERE queued IS NULL AND (status IS NOT NULL \
        OR (SELECT status FROM threads WHERE threads.number = runs.number) <> 1)";
    db.run(COUNT_ALL, [])?;
    db.run(&add_runs(1, OF_ALL), [])?;
    db.run(&add_threads(1, OF_ALL), [])?;
    Ok(())
}

/// The key of a run's row in the sums.
struct Place {
    quarter: i64,
    workspace: String,
    owner: String,
    model: String,
    agent: String,
    is_counted: bool,
}

impl Place {
    fn find(db: &Database, number: i64, run: &RunId) -> Result<Option<Self>, Fault> {
        db.first(ROW, params![number, run.as_str()], |row| {
            Ok(Self {
                quarter: row.get::<_, i64>(0)? / QUARTER_MS,
                workspace: row.get(1)?,
                owner: row.get(2)?,
                model: row.get(3)?,
                agent: row.get(4)?,
                is_counted: row.get(5)?,
            })
        })
    }
}

/// Adds a run to the sums. Its row must have its newest figures.
pub(super) fn add(db: &Database, number: i64, run: &RunId) -> Result<(), Fault> {
    let Some(place) = Place::find(db, number, run)?.filter(|place| !place.is_counted) else {
        return Ok(());
    };
    change_threads(db, number, &place, 1)?;
    db.run(COUNT, params![number, run.as_str(), 1])?;
    db.run(&ADD, params![number, run.as_str()]).map(drop)
}

/// Subtracts a run from the sums if it is counted. Called before its row changes.
pub(super) fn remove(db: &Database, number: i64, run: &RunId) -> Result<(), Fault> {
    let Some(place) = Place::find(db, number, run)?.filter(|place| place.is_counted) else {
        return Ok(());
    };
    db.run(&SUBTRACT, params![number, run.as_str()])?;
    db.run(COUNT, params![number, run.as_str(), 0])?;
    change_threads(db, number, &place, -1)?;
    db.run(CLEAR_RUNS, params![place.quarter, place.workspace, place.owner]).map(drop)
}

/// Subtracts every run of a thread from the sums. Called before its rows are deleted.
pub(super) fn remove_thread(db: &Database, number: i64) -> Result<(), Fault> {
    for statement in &*SUBTRACT_ALL {
        db.run(statement, params![number])?;
    }
    let mut from = 0;
    loop {
        let read = |row: &Row<'_>| Ok((row.get(0)?, row.get(1)?, row.get(2)?));
        let next = db.first(NEXT_QUARTER, params![number, from, QUARTER_MS], read)?;
        let Some((quarter, workspace, owner)): Option<(i64, String, String)> = next else {
            return Ok(());
        };
        db.run(CLEAR_RUNS, params![quarter, workspace, owner])?;
        db.run(CLEAR_THREADS, params![quarter, workspace, owner])?;
        from = (quarter + 1) * QUARTER_MS;
    }
}

/// Adds or subtracts a thread in a quarter, unless the thread has another counted run in the quarter. Called
/// while the run itself is not counted.
fn change_threads(db: &Database, number: i64, place: &Place, sign: i64) -> Result<(), Fault> {
    change_threads_of(db, number, place, Runs::Alike, sign)?;
    change_threads_of(db, number, place, Runs::All, sign)
}

fn change_threads_of(db: &Database, number: i64, place: &Place, runs: Runs, sign: i64) -> Result<(), Fault> {
    let (model, agent) = match runs {
        Runs::Alike => (Some(place.model.as_str()), Some(place.agent.as_str())),
        Runs::All => (None, None),
    };
    let near = db.first(&NEAR, params![number, place.quarter, model, agent], Near::read)?.unwrap_or_default();
    if near.is_there {
        return Ok(());
    }
    add_thread(db, place, runs, place.quarter, NO_QUARTER, sign)?;
    if let Some(before) = near.before {
        add_thread(db, place, runs, place.quarter, before, sign)?;
    }
    if let Some(after) = near.after {
        // The later quarter's predecessor is now this quarter instead of `before`.
        add_thread(db, place, runs, after, place.quarter, sign)?;
        if let Some(before) = near.before {
            add_thread(db, place, runs, after, before, -sign)?;
        }
    }
    Ok(())
}

fn add_thread(
    db: &Database,
    place: &Place,
    runs: Runs,
    quarter: i64,
    previous: i64,
    sign: i64,
) -> Result<(), Fault> {
    let (by_model, model, agent) = match runs {
        Runs::Alike => (1, place.model.as_str(), place.agent.as_str()),
        Runs::All => (0, "", ""),
    };
    let (workspace, owner) = (&place.workspace, &place.owner);
    db.run(ADD_THREAD, params![quarter, workspace, owner, previous, by_model, model, agent, sign])?;
    if sign < 0 {
        db.run(CLEAR_THREADS, params![quarter, workspace, owner])?;
    }
    Ok(())
}

/// Which counted runs of a thread are compared.
#[derive(Clone, Copy)]
enum Runs {
    /// Runs of the same model and agent.
    Alike,
    /// All runs.
    All,
}

/// Counted runs of a thread around a quarter.
#[derive(Default)]
struct Near {
    /// Whether the quarter itself has a counted run.
    is_there: bool,
    before: Option<i64>,
    after: Option<i64>,
}

impl Near {
    fn read(row: &Row<'_>) -> rusqlite::Result<Self> {
        let quarter =
            |column| row.get(column).map(|quarter| Some(quarter).filter(|found| *found != NO_QUARTER));
        Ok(Self { is_there: row.get(0)?, before: quarter(1)?, after: quarter(2)? })
    }
}
