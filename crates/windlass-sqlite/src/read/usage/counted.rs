//! Usage from the sums that `writer/usage.rs` maintains.
//!
//! Rows of runs are read only for two kinds of runs: uncounted runs, whose threads are being driven, and runs that
//! began in the quarter of a day in which the queried time ends.

use std::collections::{BTreeMap, HashSet};

use rusqlite::{Row, params};
use windlass_engine::port::journal::{StoreError, Usage, UsageQuery, UsageRow};
use windlass_machine::{MicroUsd, Principal, Timestamp};

use super::usage_row;
use crate::column::{time, whole};
use crate::database::Database;
use crate::writer::usage::{FIGURES, NO_QUARTER, QUARTER_MS};

/// SQL for the quarters from `?1` up to `?2` that have sums. Jumps from one quarter to the next by the key.
const QUARTERS: &str = "WITH RECURSIVE quarters (quarter) AS ( \
    SELECT min(quarter) FROM usage WHERE quarter >= ?1 \
    UNION ALL SELECT (SELECT min(usage.quarter) FROM usage WHERE usage.quarter > quarters.quarter) FROM quarters \
        WHERE quarters.quarter < ?2)";

/// Returns the condition for the rows that match the query. A row is found by quarter, tenant and owner.
fn which(query: &UsageQuery) -> &'static str {
    match (&query.workspace, &query.owner) {
        (Some(_), Some(_)) => "quarter < ?2 AND workspace = ?3 AND owner = ?4",
        (Some(_), None) => "quarter < ?2 AND workspace = ?3 AND ?4 IS NULL",
        (None, Some(_)) => "quarter < ?2 AND ?3 IS NULL AND owner = ?4",
        (None, None) => "quarter < ?2 AND ?3 IS NULL AND ?4 IS NULL",
    }
}

/// The queried time, in milliseconds and in quarters of a day.
struct Span {
    from: i64,
    until: i64,
    part_ms: i64,
    /// The first quarter.
    first: i64,
    /// The quarter after the last one whose sums are used.
    end: i64,
}

impl Span {
    /// Returns the start of the interval that contains a time.
    fn bucket(&self, at: i64) -> i64 {
        self.from + (at - self.from) / self.part_ms * self.part_ms
    }
}

/// Returns the usage of runs. The caller has begun a transaction, so that all reads see the same snapshot.
pub(super) fn usage(db: &Database, query: &UsageQuery, part_ms: u64) -> Result<Usage, StoreError> {
    if query.until <= query.from {
        return Ok(Usage::default());
    }
    let (from, until) = (whole(query.from.0), whole(query.until.0));
    let last = until / QUARTER_MS;
    // The queried time usually ends now, so no run of its last quarter began later.
    let is_last_whole = until % QUARTER_MS != 0 && !has_later(db, query, until)?;
    let end = if is_last_whole { last + 1 } else { last };
    let span = Span { from, until, part_ms: whole(part_ms), first: from / QUARTER_MS, end };
    let mut sums = Sums::default();
    sums.add_counted(db, query, &span)?;
    sums.add_threads(db, query, &span)?;
    sums.add_others(db, query, &span)?;
    Ok(sums.into_usage())
}

/// Whether a run began at `until` or later in the same quarter.
fn has_later(db: &Database, query: &UsageQuery, until: i64) -> Result<bool, StoreError> {
    const OF_OWNER: &str = "SELECT EXISTS (SELECT 1 FROM runs INDEXED BY runs_by_owner \
        WHERE owner = ?3 AND started_at >= ?1 AND started_at < ?2)";
    const OF_ALL: &str = "SELECT EXISTS (SELECT 1 FROM runs INDEXED BY runs_by_start \
        WHERE started_at >= ?1 AND started_at < ?2 AND ?3 IS NULL)";
    let text = if query.owner.is_some() { OF_OWNER } else { OF_ALL };
    let end = (until / QUARTER_MS).saturating_add(1).saturating_mul(QUARTER_MS);
    Ok(db.value(text, params![until, end, query.owner.as_ref().map(Principal::as_str)])?)
}

/// Key of a result row: start of its interval, model, agent and owner.
type Key = (i64, String, String, String);

#[derive(Default)]
struct Sums {
    rows: BTreeMap<Key, UsageRow>,
    threads_by_bucket: BTreeMap<i64, u64>,
    threads: u64,
}

/// SQL columns for the threads of a quarter, see `009_rows.sql`.
struct ThreadColumns {
    quarter: i64,
    owner: String,
    previous: i64,
    by_model: bool,
    model: String,
    agent: String,
    threads: i64,
}

impl ThreadColumns {
    fn read(row: &Row<'_>) -> rusqlite::Result<Self> {
        Ok(Self {
            quarter: row.get("quarter")?,
            owner: row.get("owner")?,
            previous: row.get("previous")?,
            by_model: row.get("by_model")?,
            model: row.get("model")?,
            agent: row.get("agent")?,
            threads: row.get("threads")?,
        })
    }
}

/// SQL columns for a run that the sums do not include, compared with the counted runs of its thread.
struct OtherColumns {
    number: i64,
    row: UsageRow,
    /// Whether a counted run has the same interval, model and agent.
    is_alike_there: bool,
    /// Whether a counted run has the same interval.
    is_there: bool,
    /// Whether the thread has any counted run.
    is_anywhere: bool,
}

impl OtherColumns {
    fn read(row: &Row<'_>) -> rusqlite::Result<Self> {
        Ok(Self {
            number: row.get("number")?,
            row: usage_row(row)?,
            is_alike_there: row.get("is_alike_there")?,
            is_there: row.get("is_there")?,
            is_anywhere: row.get("is_anywhere")?,
        })
    }
}

impl Sums {
    /// Adds the figures of the precomputed sums.
    fn add_counted(&mut self, db: &Database, query: &UsageQuery, span: &Span) -> Result<(), StoreError> {
        let figures = FIGURES.map(|(name, _)| name).join(", ");
        let text = format!(
            "{QUARTERS} SELECT quarter * {QUARTER_MS}, model, agent, owner, 0, {figures} \
             FROM quarters CROSS JOIN usage USING (quarter) WHERE {} AND runs > 0",
            which(query)
        );
        let values = params![
            span.first,
            span.end,
            query.workspace.as_deref(),
            query.owner.as_ref().map(Principal::as_str),
        ];
        db.all(&text, values, usage_row)?.into_iter().for_each(|row| drop(self.add(row, span)));
        Ok(())
    }

    /// Adds the numbers of threads of the precomputed sums.
    fn add_threads(&mut self, db: &Database, query: &UsageQuery, span: &Span) -> Result<(), StoreError> {
        // The key excludes threads whose previous quarter is before the queried time.
        let text = format!(
            "{QUARTERS}, places AS (SELECT DISTINCT quarter, workspace, owner \
                 FROM quarters CROSS JOIN usage USING (quarter) WHERE {}) \
             SELECT quarter, owner, previous, by_model, model, agent, threads FROM places \
                 CROSS JOIN usage_threads USING (quarter, workspace, owner) WHERE previous = {NO_QUARTER} \
             UNION ALL SELECT quarter, owner, previous, by_model, model, agent, threads FROM places \
                 CROSS JOIN usage_threads USING (quarter, workspace, owner) WHERE previous >= ?1",
            which(query)
        );
        let values = params![
            span.first,
            span.end,
            query.workspace.as_deref(),
            query.owner.as_ref().map(Principal::as_str),
        ];
        let rows = db.all(&text, values, ThreadColumns::read)?;
        // Add all threads first, then subtract those counted twice, so that no sum falls below 0 in between.
        let (all, again): (Vec<_>, Vec<_>) = rows.into_iter().partition(|row| row.previous == NO_QUARTER);
        for row in all {
            let threads = row.threads.max(0).cast_unsigned();
            let bucket = span.bucket(row.quarter * QUARTER_MS);
            if row.by_model {
                if let Some(known) = self.rows.get_mut(&(bucket, row.model, row.agent, row.owner)) {
                    known.threads += threads;
                }
            } else {
                *self.threads_by_bucket.entry(bucket).or_default() += threads;
                self.threads += threads;
            }
        }
        for row in again {
            let threads = row.threads.max(0).cast_unsigned();
            let bucket = span.bucket(row.quarter * QUARTER_MS);
            let is_in_bucket = row.previous * QUARTER_MS >= bucket;
            if row.by_model && is_in_bucket {
                if let Some(known) = self.rows.get_mut(&(bucket, row.model, row.agent, row.owner)) {
                    known.threads = known.threads.saturating_sub(threads);
                }
            } else if !row.by_model {
                self.threads = self.threads.saturating_sub(threads);
                if let Some(known) = self.threads_by_bucket.get_mut(&bucket).filter(|_| is_in_bucket) {
                    *known = known.saturating_sub(threads);
                }
            }
        }
        Ok(())
    }

    /// Adds the runs that the sums do not include.
    fn add_others(&mut self, db: &Database, query: &UsageQuery, span: &Span) -> Result<(), StoreError> {
        // Each run is a group of one row.
        let figures = FIGURES.map(|(_, sum)| sum).join(", ");
        let bucket = "(?1 + (runs.started_at - ?1) / ?3 * ?3)";
        let counted = "SELECT 1 FROM runs AS known INDEXED BY runs_by_time \
            WHERE known.number = runs.number AND known.counted = 1 AND known.started_at < ?6";
        let there =
            format!("{counted} AND known.started_at >= {bucket} AND known.started_at - ?3 < {bucket}");
        let select = format!(
            "SELECT started_at, model, agent, owner, 0, {figures}, number, \
             EXISTS ({there} AND known.model = runs.model AND known.agent = runs.agent) AS is_alike_there, \
             EXISTS ({there}) AS is_there, \
             EXISTS ({counted} AND known.started_at >= ?1) AS is_anywhere"
        );
        let of = "(?4 IS NULL OR workspace = ?4) AND (?5 IS NULL OR owner = ?5) GROUP BY run, number";
        let begun = match query.owner {
            Some(_) => "runs_by_owner WHERE owner = ?5",
            None => "runs_by_start WHERE TRUE",
        };
        let text = format!(
            "{select} FROM runs INDEXED BY runs_uncounted \
                 WHERE counted = 0 AND queued IS NULL AND started_at >= ?1 AND started_at < ?2 AND {of} \
             UNION ALL {select} FROM runs INDEXED BY {begun} \
                 AND counted = 1 AND started_at >= max(?1, ?6) AND started_at < ?2 AND {of}"
        );
        let values = params![
            span.from,
            span.until,
            span.part_ms,
            query.workspace.as_deref(),
            query.owner.as_ref().map(Principal::as_str),
            span.end.saturating_mul(QUARTER_MS),
        ];
        let others = db.all(&text, values, OtherColumns::read)?;
        let (mut alike, mut there, mut anywhere) = (HashSet::new(), HashSet::new(), HashSet::new());
        for OtherColumns { number, row, is_alike_there, is_there, is_anywhere } in others {
            let key = self.add(row, span);
            if !is_there && there.insert((key.0, number)) {
                *self.threads_by_bucket.entry(key.0).or_default() += 1;
            }
            if !is_anywhere && anywhere.insert(number) {
                self.threads += 1;
            }
            if !is_alike_there
                && let Some(known) = self.rows.get_mut(&key)
                && alike.insert((key, number))
            {
                known.threads += 1;
            }
        }
        Ok(())
    }

    /// Adds a row's figures, except its threads, to the interval that contains the row's `bucket`.
    fn add(&mut self, row: UsageRow, span: &Span) -> Key {
        let bucket = span.bucket(whole(row.bucket.0));
        let key = (bucket, row.model.to_string(), row.agent.clone(), row.owner.to_string());
        let Some(sum) = self.rows.get_mut(&key) else {
            self.rows.insert(key.clone(), UsageRow { bucket: time(bucket), threads: 0, ..row });
            return key;
        };
        for (into, more) in [
            (&mut sum.runs, row.runs),
            (&mut sum.input, row.input),
            (&mut sum.output, row.output),
            (&mut sum.cached, row.cached),
            (&mut sum.cost_unknown, row.cost_unknown),
            (&mut sum.approved, row.approved),
            (&mut sum.denied, row.denied),
            (&mut sum.ttft_ms, row.ttft_ms),
            (&mut sum.ttft_runs, row.ttft_runs),
            (&mut sum.duration_ms, row.duration_ms),
            (&mut sum.ended, row.ended),
        ] {
            *into = into.saturating_add(more);
        }
        sum.cost = MicroUsd(sum.cost.0.saturating_add(row.cost.0));
        key
    }

    fn into_usage(self) -> Usage {
        let bucket = |(at, count): (i64, u64)| -> (Timestamp, u64) { (time(at), count) };
        Usage {
            rows: self.rows.into_values().collect(),
            threads_by_bucket: self.threads_by_bucket.into_iter().map(bucket).collect(),
            threads: self.threads,
        }
    }
}
