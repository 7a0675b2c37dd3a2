//! Usage sums of the store in memory.
//!
//! The sums are computed for each query.

use std::collections::{BTreeMap, BTreeSet};

use windlass_machine::{MicroUsd, ThreadId, Timestamp};

use super::state::State;
use crate::port::journal::{RunRow, StoreError, Usage, UsageQuery, UsageRow};

impl State {
    /// See [`Journal::usage`](crate::port::journal::Journal::usage).
    pub fn usage(&self, query: &UsageQuery) -> Result<Usage, StoreError> {
        let part_ms = query.part_ms()?;
        let wanted = |row: &RunRow| {
            row.view.queued.is_none()
                && query.workspace.as_ref().is_none_or(|workspace| row.workspace == *workspace)
                && query.owner.as_ref().is_none_or(|owner| row.owner == *owner)
                && query.thread.as_ref().is_none_or(|thread| row.thread == *thread)
                && (query.from..query.until).contains(&row.view.started_at)
        };
        let mut rows: BTreeMap<_, (UsageRow, BTreeSet<ThreadId>)> = BTreeMap::new();
        let mut threads: BTreeMap<Timestamp, BTreeSet<ThreadId>> = BTreeMap::new();
        let mut all = BTreeSet::new();
        for row in self.run_rows().filter(wanted) {
            let bucket = query.from.plus_ms(row.view.started_at.since(query.from) / part_ms * part_ms);
            let key = (bucket, row.view.model.clone(), row.view.agent.clone(), row.owner.clone());
            let (sum, seen) = rows.entry(key).or_insert_with(|| (nothing(&row, bucket), BTreeSet::new()));
            add(sum, &row);
            seen.insert(row.thread.clone());
            threads.entry(bucket).or_default().insert(row.thread.clone());
            all.insert(row.thread);
        }
        let rows = rows.into_values().map(|(row, seen)| UsageRow { threads: seen.len() as u64, ..row });
        let threads_by_bucket = threads.into_iter().map(|(at, seen)| (at, seen.len() as u64));
        Ok(Usage {
            rows: rows.collect(),
            threads_by_bucket: threads_by_bucket.collect(),
            threads: all.len() as u64,
        })
    }
}

fn nothing(row: &RunRow, bucket: Timestamp) -> UsageRow {
    UsageRow {
        bucket,
        model: row.view.model.clone(),
        agent: row.view.agent.clone(),
        owner: row.owner.clone(),
        runs: 0,
        threads: 0,
        input: 0,
        output: 0,
        cached: 0,
        cost: MicroUsd(0),
        cost_unknown: 0,
        approved: 0,
        denied: 0,
        ttft_ms: 0,
        ttft_runs: 0,
        duration_ms: 0,
        ended: 0,
    }
}

fn add(sum: &mut UsageRow, row: &RunRow) {
    let totals = &row.view.totals;
    let figures = [
        (&mut sum.runs, Some(1)),
        (&mut sum.input, totals.usage.input),
        (&mut sum.output, totals.usage.output),
        (&mut sum.cached, totals.usage.cached),
        (&mut sum.cost.0, totals.cost.map(|cost| cost.0)),
        (&mut sum.cost_unknown, totals.cost.is_none().then_some(1)),
        (&mut sum.approved, Some(totals.approved.into())),
        (&mut sum.denied, Some(totals.denied.into())),
        (&mut sum.ttft_ms, totals.ttft_ms),
        (&mut sum.ttft_runs, totals.ttft_ms.map(|_| 1)),
        (&mut sum.duration_ms, row.view.finished_at.map(|at| at.since(row.view.started_at))),
        (&mut sum.ended, row.view.finished_at.map(|_| 1)),
    ];
    for (into, more) in figures {
        *into = into.saturating_add(more.unwrap_or(0));
    }
}
