//! Sums up the usage of runs.
//!
//! Reads precomputed sums, or rows of runs if an interval begins within a quarter of a day. Never reads a journal.

mod counted;

use rusqlite::{Row, params};
use windlass_engine::port::journal::{StoreError, Usage, UsageQuery, UsageRow};
use windlass_machine::{MicroUsd, ModelName, Principal, ThreadId, Timestamp};

use crate::column::{time, whole};
use crate::database::Database;
use crate::writer::usage::{FIGURES, QUARTER_MS};

/// SQL for the start of the interval that contains a row.
const BUCKET: &str = "?1 + (started_at - ?1) / ?3 * ?3";

/// Reads a row of sums: the interval, model, agent, owner and threads, then the figures in their order.
fn usage_row(row: &Row<'_>) -> rusqlite::Result<UsageRow> {
    let figure = |index: usize| row.get::<_, i64>(index).map(|figure| figure.max(0).cast_unsigned());
    Ok(UsageRow {
        bucket: time(row.get(0)?),
        model: ModelName::from(row.get::<_, String>(1)?),
        agent: row.get(2)?,
        owner: Principal::from(row.get::<_, String>(3)?),
        threads: figure(4)?,
        runs: figure(5)?,
        ended: figure(6)?,
        duration_ms: figure(7)?,
        input: figure(8)?,
        output: figure(9)?,
        cached: figure(10)?,
        cost: MicroUsd(figure(11)?),
        approved: figure(12)?,
        denied: figure(13)?,
        ttft_ms: figure(14)?,
        ttft_runs: figure(15)?,
        cost_unknown: figure(16)?,
    })
}

/// Returns the usage of runs.
pub(crate) fn usage(db: &Database, query: &UsageQuery) -> Result<Usage, StoreError> {
    let part_ms = query.part_ms()?;
    if query.thread.is_none() && begins_in_quarters(query, part_ms) {
        return db.transaction("BEGIN", || counted::usage(db, query, part_ms));
    }
    // In one transaction, so that all statements read the same snapshot.
    db.transaction("BEGIN", || of_rows(db, query, part_ms))
}

/// Whether every interval begins at the start of a quarter of a day.
fn begins_in_quarters(query: &UsageQuery, part_ms: u64) -> bool {
    let is_whole = |ms: u64| ms.is_multiple_of(QUARTER_MS.cast_unsigned());
    is_whole(query.from.0) && (is_whole(part_ms) || query.until.since(query.from) <= part_ms)
}

fn of_rows(db: &Database, query: &UsageQuery, part_ms: u64) -> Result<Usage, StoreError> {
    let (index, which) = match (&query.thread, &query.owner) {
        (Some(_), _) => (
            "runs_by_thread",
            "number = (SELECT number FROM threads WHERE thread = ?6 AND deleted = 0) AND (?4 IS NULL OR owner = ?4)",
        ),
        (None, Some(_)) => ("runs_by_owner", "owner = ?4 AND ?6 IS NULL"),
        (None, None) => ("runs_by_start", "?4 IS NULL AND ?6 IS NULL"),
    };
    let of = format!(
        "FROM runs INDEXED BY {index} WHERE {which} AND queued IS NULL AND (?5 IS NULL OR workspace = ?5) \
         AND started_at >= ?1 AND started_at < ?2"
    );
    let figures = FIGURES.map(|(_, sum)| sum).join(", ");
    let rows = format!(
        "SELECT {BUCKET}, model, agent, owner, count(DISTINCT number), {figures} \
         {of} GROUP BY 1, 2, 3, 4 ORDER BY 1, 2, 3, 4"
    );
    let threads = format!("SELECT {BUCKET}, count(DISTINCT number) {of} GROUP BY 1 ORDER BY 1");
    let all = format!("SELECT ?3, count(DISTINCT number) {of}");
    let values = params![
        whole(query.from.0),
        whole(query.until.0),
        whole(part_ms),
        query.owner.as_ref().map(Principal::as_str),
        query.workspace.as_deref(),
        query.thread.as_ref().map(ThreadId::as_str),
    ];
    let counted = |row: &Row<'_>| -> rusqlite::Result<(Timestamp, u64)> {
        Ok((time(row.get(0)?), row.get::<_, i64>(1)?.max(0).cast_unsigned()))
    };
    Ok(Usage {
        rows: db.all(&rows, values, usage_row)?,
        threads_by_bucket: db.all(&threads, values, counted)?,
        threads: db.all(&all, values, counted)?.into_iter().map(|(_, threads)| threads).sum(),
    })
}
