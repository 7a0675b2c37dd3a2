//! Policies: small pure judgements that `on/` asks for.
//!
//! They see no state and record nothing.

mod gate;
mod limit;
mod retry;

pub use gate::{AutoRun, judge};
pub use limit::{FAILURE_MAX_CHARS, RESULT_MAX_CHARS, RESULT_MAX_PARTS, shorten_failure, shorten_result};
pub use retry::{FailureClass, Failures, RETRY_AFTER_MAX_MS, error_code, retry_delay_ms};
