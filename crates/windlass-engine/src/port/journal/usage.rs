//! Usage of runs, summed up for billing and monitoring.
//!
//! The sums add the totals of the runs; [`Totals`](windlass_machine::Totals) defines each figure.

use serde::Serialize;
use windlass_machine::{MicroUsd, ModelName, Principal, ThreadId, Timestamp};

use super::StoreError;

/// Maximum number of buckets in a query. A chart shows fewer.
const BUCKETS_MAX: u64 = 10_000;

/// Filters for usage sums, and the size of their time buckets.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct UsageQuery {
    /// Only runs of this tenant.
    pub workspace: Option<String>,
    /// Only runs in threads of this owner.
    pub owner: Option<Principal>,
    /// Only runs in this thread.
    pub thread: Option<ThreadId>,
    /// Only runs that started at this time or later.
    pub from: Timestamp,
    /// Only runs that started before this time.
    pub until: Timestamp,
    /// Length of a bucket in milliseconds, counted from `from`; 0 makes one bucket of the whole time.
    pub bucket_ms: u64,
}

impl UsageQuery {
    /// Returns the length of a bucket in milliseconds. Fails if the query has too many buckets.
    pub fn part_ms(&self) -> Result<u64, StoreError> {
        let whole_ms = self.until.since(self.from).max(1);
        let part_ms = if self.bucket_ms == 0 { whole_ms } else { self.bucket_ms };
        let parts = whole_ms.div_ceil(part_ms);
        if parts > BUCKETS_MAX {
            let why = format!(
                "parts of {part_ms} ms make {parts} of the time asked for; at most {BUCKETS_MAX} are told: ask for \
                 longer parts or a shorter time"
            );
            return Err(StoreError::Refused { why });
        }
        Ok(part_ms)
    }
}

/// Usage sums of the matching runs.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Usage {
    /// Sums, ordered by bucket, model, agent and owner. A bucket without runs has no row.
    pub rows: Vec<UsageRow>,
    /// Number of threads with runs in each bucket, by the bucket's start. A thread is counted once per bucket.
    pub threads_by_bucket: Vec<(Timestamp, u64)>,
    /// Number of threads with runs in the whole time; each thread is counted once.
    pub threads: u64,
}

/// Usage of the runs that started in one bucket, with one model, agent and owner.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct UsageRow {
    /// Start of the bucket.
    pub bucket: Timestamp,
    /// The model that the runs used last.
    pub model: ModelName,
    /// Name of the agent.
    pub agent: String,
    /// Owner of the threads.
    pub owner: Principal,
    /// Number of runs.
    pub runs: u64,
    /// Number of threads with such runs. A thread with several models or agents is counted in several rows.
    pub threads: u64,
    /// Prompt tokens including cached ones, if providers reported them.
    pub input: u64,
    /// Generated tokens, if providers reported them.
    pub output: u64,
    /// Prompt tokens read from a cache, if providers reported them.
    pub cached: u64,
    /// Sum of the known costs.
    pub cost: MicroUsd,
    /// Number of runs with unknown cost; `cost` does not include these runs.
    pub cost_unknown: u64,
    /// Number of calls that were dispatched after people approved them.
    pub approved: u64,
    /// Number of calls that people denied.
    pub denied: u64,
    /// Sum of the times to the first fragment, in milliseconds.
    pub ttft_ms: u64,
    /// Number of runs in `ttft_ms`.
    pub ttft_runs: u64,
    /// Sum of the run times from start to end, in milliseconds, of runs that have ended.
    pub duration_ms: u64,
    /// Number of runs in `duration_ms`.
    pub ended: u64,
}
