//! What runs used, summed up for those who pay and look after them.
//!
//! Sums of the runs' own totals; what a figure means is said there.

use serde::Serialize;
use windlass_machine::{MicroUsd, ModelName, Principal, ThreadId, Timestamp};

use super::StoreError;

/// Parts of a time at most; a chart has fewer points.
const BUCKETS_MAX: u64 = 10_000;

/// Which runs to sum up, and by what parts of time.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct UsageQuery {
    /// Only those of this tenant.
    pub workspace: Option<String>,
    /// Only those in threads of this owner.
    pub owner: Option<Principal>,
    /// Only those in this thread.
    pub thread: Option<ThreadId>,
    /// Only those that began at this time or after it.
    pub from: Timestamp,
    /// Only those that began before this time.
    pub until: Timestamp,
    /// How long each part of that time is, counted from its beginning; 0 makes one part of it all.
    pub bucket_ms: u64,
}

impl UsageQuery {
    /// Length of each part, in milliseconds. Returns an error if the query has too many parts.
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

/// What runs used.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Usage {
    /// By part of the time, then model, then agent, then owner. A part without runs has no row.
    pub rows: Vec<UsageRow>,
    /// Threads with runs, by the beginning of the part of the time: a thread counts once in each.
    pub threads_by_bucket: Vec<(Timestamp, u64)>,
    /// Threads with runs in all of the time; each counts once.
    pub threads: u64,
}

/// What the runs of one agent with one model used for one owner, of those that began in one part of the time.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct UsageRow {
    /// When the part begins.
    pub bucket: Timestamp,
    /// The model that the runs used last.
    pub model: ModelName,
    /// Name of the agent.
    pub agent: String,
    /// Whose threads they are in.
    pub owner: Principal,
    /// Runs.
    pub runs: u64,
    /// Threads with such runs. One with several models or agents counts in several rows.
    pub threads: u64,
    /// Prompt tokens, cached ones included, as far as they were reported.
    pub input: u64,
    /// Generated tokens, as far as they were reported.
    pub output: u64,
    /// Prompt tokens read from a cache, as far as they were reported.
    pub cached: u64,
    /// Known cost.
    pub cost: MicroUsd,
    /// Runs whose cost is not known; none of it is in `cost`.
    pub cost_unknown: u64,
    /// Calls that were dispatched because people approved them.
    pub approved: u64,
    /// Calls that people denied.
    pub denied: u64,
    /// Sum of the times to the first fragment, in milliseconds.
    pub ttft_ms: u64,
    /// Runs in that sum.
    pub ttft_runs: u64,
    /// Sum of the times from start to end of runs that have ended, in milliseconds.
    pub duration_ms: u64,
    /// Runs in that sum.
    pub ended: u64,
}
