//! Maintains the sums of what runs used, in the transaction that changes a run.
//!
//! A run that changes with each step is not counted: see `009_rows.sql`. `read/usage.rs` reads the sums.

use std::sync::Arc;

use sqlx::{AssertSqlSafe, SqliteConnection};
use windlass_engine::port::journal::StoreError;
use windlass_machine::RunId;

use crate::fault::{Fault, store_error};
use crate::writer::raw::{Raw, Row, Statement, Value};

/// A quarter of a day in milliseconds. Charts of a week and longer have steps that are multiples of it.
pub(crate) const QUARTER_MS: i64 = 6 * 60 * 60 * 1000;

/// Stands for "none" where a quarter is stored or read.
pub(crate) const NO_QUARTER: i64 = -1;

/// The sum of a figure of the totals. A provider's invented figure must not overflow it: no run uses so much.
macro_rules! sum {
    ($figure:literal) => {
        concat!("sum(min(coalesce(json_extract(totals, '$.", $figure, "'), 0), 1000000000000))")
    };
}

/// The figures of a row of `usage`, with their sums over rows of `runs`.
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

/// Adds the counted runs that meet a condition to `usage`, `sign` times.
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

/// Adds the threads of the counted runs that meet a condition to `usage_threads`, `sign` times.
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
// A row without runs counts nothing. `?1` to `?3` narrow the search to the quarter, the tenant and the owner of a change.
const CLEAR_RUNS: &str =
    "DELETE FROM usage WHERE quarter = ?1 AND workspace = ?2 AND owner = ?3 AND runs = 0";
const CLEAR_THREADS: &str =
    "DELETE FROM usage_threads WHERE quarter = ?1 AND workspace = ?2 AND owner = ?3 AND threads = 0";
const NEXT_QUARTER: &str = "SELECT started_at / ?3, workspace, owner FROM runs INDEXED BY runs_by_time \
    WHERE number = ?1 AND started_at >= ?2 ORDER BY started_at LIMIT 1";

/// The counted runs of a thread around a quarter, of one model and agent or of all: whether there is one in the quarter,
/// and the nearest quarters before and after it that have one.
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

/// Fills the sums from the rows of runs.
pub(crate) async fn sum_all(connection: &mut SqliteConnection) -> Result<(), StoreError> {
    // Runs of threads that are driven are counted as soon as their rows stand still.
    const COUNT_ALL: &str = "UPDATE runs SET counted = 1 WHERE queued IS NULL AND (status IS NOT NULL \
        OR (SELECT status FROM threads WHERE threads.number = runs.number) <> 1)";
    sqlx::query(COUNT_ALL).execute(&mut *connection).await.map_err(store_error)?;
    for text in [add_runs(1, OF_ALL), add_threads(1, OF_ALL)] {
        // Made of constants alone.
        sqlx::query(AssertSqlSafe(text)).execute(&mut *connection).await.map_err(store_error)?;
    }
    Ok(())
}

/// The prepared statements of the sums.
pub(super) struct UsageSums {
    row: Statement,
    count: Statement,
    near: Statement,
    add: Statement,
    subtract: Statement,
    add_thread: Statement,
    clear_runs: Statement,
    clear_threads: Statement,
    next_quarter: Statement,
    subtract_all: [Statement; 2],
}

/// A run's place in the sums.
struct Place {
    quarter: i64,
    workspace: String,
    owner: String,
    model: String,
    agent: String,
    is_counted: bool,
}

impl Place {
    fn read(row: &Row<'_>) -> Self {
        let text = |column| row.text(column).unwrap_or_default();
        Self {
            quarter: row.integer(0) / QUARTER_MS,
            workspace: text(1),
            owner: text(2),
            model: text(3),
            agent: text(4),
            is_counted: row.integer(5) != 0,
        }
    }
}

impl UsageSums {
    /// Prepares every statement.
    pub fn prepare(raw: &Arc<Raw>) -> Result<Self, Fault> {
        Ok(Self {
            row: raw.prepare(ROW)?,
            count: raw.prepare(COUNT)?,
            near: raw.prepare(&near())?,
            add: raw.prepare(&add_runs(1, OF_RUN))?,
            subtract: raw.prepare(&add_runs(-1, OF_RUN))?,
            add_thread: raw.prepare(ADD_THREAD)?,
            clear_runs: raw.prepare(CLEAR_RUNS)?,
            clear_threads: raw.prepare(CLEAR_THREADS)?,
            next_quarter: raw.prepare(NEXT_QUARTER)?,
            subtract_all: [raw.prepare(&add_runs(-1, OF_THREAD))?, raw.prepare(&add_threads(-1, OF_THREAD))?],
        })
    }

    /// Counts a run, whose row has its newest figures.
    pub fn add(&mut self, number: i64, run: &RunId) -> Result<(), Fault> {
        let key = [Value::Integer(number), Value::Text(run.as_str())];
        let Some(place) = self.row.first(&key, Place::read)?.filter(|place| !place.is_counted) else {
            return Ok(());
        };
        self.change_threads(number, &place, 1)?;
        self.count.run(&[key[0], key[1], Value::Integer(1)])?;
        self.add.run(&key).map(drop)
    }

    /// Takes a run out of the sums if it is counted. Called before its row changes.
    pub fn remove(&mut self, number: i64, run: &RunId) -> Result<(), Fault> {
        let key = [Value::Integer(number), Value::Text(run.as_str())];
        let Some(place) = self.row.first(&key, Place::read)?.filter(|place| place.is_counted) else {
            return Ok(());
        };
        self.subtract.run(&key)?;
        self.count.run(&[key[0], key[1], Value::Integer(0)])?;
        self.change_threads(number, &place, -1)?;
        let around =
            [Value::Integer(place.quarter), Value::Text(&place.workspace), Value::Text(&place.owner)];
        self.clear_runs.run(&around).map(drop)
    }

    /// Takes every run of a thread out of the sums. Called before its rows are deleted.
    pub fn remove_thread(&mut self, number: i64) -> Result<(), Fault> {
        for statement in &mut self.subtract_all {
            statement.run(&[Value::Integer(number)])?;
        }
        let mut from = 0;
        loop {
            let next = [Value::Integer(number), Value::Integer(from), Value::Integer(QUARTER_MS)];
            let place = |row: &Row<'_>| (row.integer(0), row.text(1), row.text(2));
            let Some((quarter, workspace, owner)) = self.next_quarter.first(&next, place)? else {
                return Ok(());
            };
            let (workspace, owner) = (workspace.unwrap_or_default(), owner.unwrap_or_default());
            let around = [Value::Integer(quarter), Value::Text(&workspace), Value::Text(&owner)];
            self.clear_runs.run(&around)?;
            self.clear_threads.run(&around)?;
            from = (quarter + 1) * QUARTER_MS;
        }
    }

    /// Counts a thread in a quarter, or no longer, unless it has another counted run there. Called while the run itself is
    /// not counted.
    fn change_threads(&mut self, number: i64, place: &Place, sign: i64) -> Result<(), Fault> {
        self.change_threads_of(number, place, Runs::Alike, sign)?;
        self.change_threads_of(number, place, Runs::All, sign)
    }

    fn change_threads_of(&mut self, number: i64, place: &Place, runs: Runs, sign: i64) -> Result<(), Fault> {
        let (model, agent) = match runs {
            Runs::Alike => (Value::Text(&place.model), Value::Text(&place.agent)),
            Runs::All => (Value::Null, Value::Null),
        };
        let around = [Value::Integer(number), Value::Integer(place.quarter), model, agent];
        let near = self.near.first(&around, Near::read)?.unwrap_or_default();
        if near.is_there {
            return Ok(());
        }
        self.add_thread(place, runs, place.quarter, NO_QUARTER, sign)?;
        if let Some(before) = near.before {
            self.add_thread(place, runs, place.quarter, before, sign)?;
        }
        if let Some(after) = near.after {
            // It follows this quarter now, and no longer the one before.
            self.add_thread(place, runs, after, place.quarter, sign)?;
            if let Some(before) = near.before {
                self.add_thread(place, runs, after, before, -sign)?;
            }
        }
        Ok(())
    }

    fn add_thread(
        &mut self,
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
        let (quarter, workspace) = (Value::Integer(quarter), Value::Text(&place.workspace));
        let owner = Value::Text(&place.owner);
        self.add_thread.run(&[
            quarter,
            workspace,
            owner,
            Value::Integer(previous),
            Value::Integer(by_model),
            Value::Text(model),
            Value::Text(agent),
            Value::Integer(sign),
        ])?;
        if sign < 0 {
            self.clear_threads.run(&[quarter, workspace, owner])?;
        }
        Ok(())
    }
}

/// Of which runs a thread is counted.
#[derive(Clone, Copy)]
enum Runs {
    /// Those of one model and agent.
    Alike,
    /// All.
    All,
}

/// Counted runs of a thread around a quarter.
#[derive(Default)]
struct Near {
    /// Whether there is one in the quarter.
    is_there: bool,
    before: Option<i64>,
    after: Option<i64>,
}

impl Near {
    fn read(row: &Row<'_>) -> Self {
        let quarter = |column| Some(row.integer(column)).filter(|quarter| *quarter != NO_QUARTER);
        Self { is_there: row.integer(0) != 0, before: quarter(1), after: quarter(2) }
    }
}
