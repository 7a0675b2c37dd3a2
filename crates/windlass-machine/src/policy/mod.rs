//! Policies: small pure judgements that `on/` asks for.
//!
//! They see no state and record nothing.

mod gate;
mod limit;
mod retry;
mod rule;

pub use gate::{AutoRun, judge};
pub use limit::{RESULT_MAX_CHARS, shorten_result};
pub use retry::{FailureClass, Failures, RETRY_AFTER_MAX_MS, error_code, retry_delay_ms};
pub use rule::{Expiry, Judgement, Policy, Subject, Terms};
