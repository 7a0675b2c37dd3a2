//! Converts values to and from columns: times, counts, statuses and outcomes.
//!
//! Executes no statement.

use windlass_engine::port::journal::{InboxOutcome, Posted, StoreError, ThreadStatus};
use windlass_machine::{RunStatus, Timestamp};

use super::fault::damaged;

/// Retention of a consumed input's outcome, in milliseconds.
pub(super) const OUTCOME_KEPT_MS: u64 = 24 * 60 * 60 * 1000;

/// Format version of a thread's stored interrupts. Rows of another version are ignored,
/// because the journal has the same data.
pub(super) const ASKS_VERSION: u32 = 1;

/// Encodes a small value as JSON.
pub(super) fn encode<T: serde::Serialize>(value: &T) -> String {
    // Cannot fail: outcomes, totals and inputs contain only strings, numbers and JSON values.
    serde_json::to_string(value).expect("a stored value is always JSON")
}

/// Decodes the stored outcome of an input.
pub(super) fn posted(outcome: Option<&str>) -> Result<Posted, StoreError> {
    let Some(outcome) = outcome else { return Ok(Posted::Waiting) };
    let outcome: InboxOutcome = serde_json::from_str(outcome).map_err(|error| damaged(&error.to_string()))?;
    Ok(Posted::Consumed(outcome))
}

/// Converts a time to whole minutes, the unit of the list indexes.
pub(super) fn minute(at: Timestamp) -> i64 {
    i64::try_from(at.0).unwrap_or(i64::MAX) / 60_000
}

/// Converts a thread's status to its stored number.
pub(super) fn thread_status_code(status: ThreadStatus) -> i64 {
    match status {
        ThreadStatus::Idle => 0,
        ThreadStatus::Running => 1,
        ThreadStatus::Waiting => 2,
        ThreadStatus::Sleeping => 3,
    }
}

/// Converts a run's status to its stored number.
pub(super) fn run_status_code(status: RunStatus) -> i64 {
    match status {
        RunStatus::Done => 0,
        RunStatus::Failed => 1,
        RunStatus::Cancelled => 2,
    }
}

/// Converts a limit to a column value.
pub(super) fn stored(limit: usize) -> i64 {
    i64::try_from(limit).unwrap_or(i64::MAX)
}

/// Converts a stored time.
pub(super) fn time(stored: i64) -> Timestamp {
    Timestamp(stored.max(0).cast_unsigned())
}

/// Converts a number to a column value.
pub(super) fn whole(number: u64) -> i64 {
    i64::try_from(number).unwrap_or(i64::MAX)
}
