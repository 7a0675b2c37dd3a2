//! Sums up what runs used.
//!
//! It reads precomputed sums, or rows of runs if an interval begins within a quarter of a day; never a journal.

mod counted;

use sqlx::sqlite::SqliteRow;
use sqlx::{AssertSqlSafe, FromRow, Row, SqlitePool};
use windlass_engine::port::journal::{StoreError, Usage, UsageQuery, UsageRow};
use windlass_machine::{MicroUsd, ModelName, Principal, ThreadId, Timestamp};

use crate::column::{time, whole};
use crate::fault::store_error;
use crate::writer::usage::{FIGURES, QUARTER_MS};

/// A row's beginning of its part of the time.
const BUCKET: &str = "?1 + (started_at - ?1) / ?3 * ?3";

/// A row of sums: the part of the time, model, agent, owner and threads, then the figures in their order.
struct UsageColumns(UsageRow);

impl FromRow<'_, SqliteRow> for UsageColumns {
    fn from_row(row: &SqliteRow) -> Result<Self, sqlx::Error> {
        let figure = |index: usize| row.try_get::<i64, _>(index).map(|figure| figure.max(0).cast_unsigned());
        Ok(Self(UsageRow {
            bucket: time(row.try_get(0)?),
            model: ModelName::from(row.try_get::<String, _>(1)?),
            agent: row.try_get(2)?,
            owner: Principal::from(row.try_get::<String, _>(3)?),
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
        }))
    }
}

/// What runs used.
pub(crate) async fn usage(pool: &SqlitePool, query: &UsageQuery) -> Result<Usage, StoreError> {
    let part_ms = query.part_ms()?;
    if query.thread.is_none() && begins_in_quarters(query, part_ms) {
        return counted::usage(pool, query, part_ms).await;
    }
    of_rows(pool, query, part_ms).await
}

/// Whether every part of the time begins with a quarter.
fn begins_in_quarters(query: &UsageQuery, part_ms: u64) -> bool {
    let is_whole = |ms: u64| ms.is_multiple_of(QUARTER_MS.cast_unsigned());
    is_whole(query.from.0) && (is_whole(part_ms) || query.until.since(query.from) <= part_ms)
}

async fn of_rows(pool: &SqlitePool, query: &UsageQuery, part_ms: u64) -> Result<Usage, StoreError> {
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
