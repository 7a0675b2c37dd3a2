//! What runs used, summed up by the database.
//!
//! It reads rows of runs, never a journal.

use sqlx::sqlite::SqliteRow;
use sqlx::{AssertSqlSafe, FromRow, Row, SqlitePool};
use windlass_engine::port::journal::{StoreError, Usage, UsageQuery, UsageRow};
use windlass_machine::{MicroUsd, ModelName, Principal, ThreadId, Timestamp};

use crate::column::{time, whole};
use crate::fault::store_error;

/// A row's beginning of its part of the time.
const BUCKET: &str = "?1 + (started_at - ?1) / ?3 * ?3";

/// The sum of a figure of the totals. What a provider makes up must not overflow it: no run uses so much.
macro_rules! sum {
    ($figure:literal) => {
        concat!("sum(min(coalesce(json_extract(totals, '$.", $figure, "'), 0), 1000000000000))")
    };
}

const FIGURES: [&str; 9] = [
    sum!("usage.input"),
    sum!("usage.output"),
    sum!("usage.cached"),
    sum!("cost"),
    sum!("approved"),
    sum!("denied"),
    sum!("ttft_ms"),
    "sum(json_extract(totals, '$.ttft_ms') IS NOT NULL)",
    "sum(json_extract(totals, '$.cost') IS NULL)",
];

struct UsageColumns(UsageRow);

impl FromRow<'_, SqliteRow> for UsageColumns {
    fn from_row(row: &SqliteRow) -> Result<Self, sqlx::Error> {
        // The order of the columns: the keys, the counts, then the figures.
        let figure = |index: usize| row.try_get::<i64, _>(index).map(|figure| figure.max(0).cast_unsigned());
        Ok(Self(UsageRow {
            bucket: time(row.try_get(0)?),
            model: ModelName::from(row.try_get::<String, _>(1)?),
            agent: row.try_get(2)?,
            owner: Principal::from(row.try_get::<String, _>(3)?),
            runs: figure(4)?,
            threads: figure(5)?,
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
        }))
    }
}

/// What runs used.
pub(crate) async fn usage(pool: &SqlitePool, query: &UsageQuery) -> Result<Usage, StoreError> {
    let part_ms = query.part_ms()?;
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
    let figures = FIGURES.join(", ");
    let rows = format!(
        "SELECT {BUCKET}, model, agent, owner, count(*), count(DISTINCT number), count(finished_at), \
         sum(CASE WHEN finished_at IS NULL THEN 0 ELSE max(finished_at - started_at, 0) END), {figures} \
         {of} GROUP BY 1, 2, 3, 4 ORDER BY 1, 2, 3, 4"
    );
    let threads = format!("SELECT {BUCKET}, count(DISTINCT number) {of} GROUP BY 1 ORDER BY 1");
    let all = format!("SELECT ?3, count(DISTINCT number) {of}");
    // The three agree with each other.
    let mut transaction = pool.begin().await.map_err(store_error)?;
    macro_rules! ask {
        ($row:ty, $text:expr) => {
            // Made of constants alone.
            sqlx::query_as::<_, $row>(AssertSqlSafe($text))
                .bind(whole(query.from.0))
                .bind(whole(query.until.0))
                .bind(whole(part_ms))
                .bind(query.owner.as_ref().map(Principal::as_str))
                .bind(query.workspace.as_deref())
                .bind(query.thread.as_ref().map(ThreadId::as_str))
                .fetch_all(&mut *transaction)
                .await
                .map_err(store_error)?
        };
    }
    let rows = ask!(UsageColumns, rows).into_iter().map(|columns| columns.0).collect();
    let threads: Vec<(i64, i64)> = ask!((i64, i64), threads);
    let all: Vec<(i64, i64)> = ask!((i64, i64), all);
    let counted = |(at, count): (i64, i64)| -> (Timestamp, u64) { (time(at), count.max(0).cast_unsigned()) };
    Ok(Usage {
        rows,
        threads_by_bucket: threads.into_iter().map(counted).collect(),
        threads: all.into_iter().map(|row| counted(row).1).sum(),
    })
}
