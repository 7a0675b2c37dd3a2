//! Policies: small pure functions that the decisions in `on/` use.
//!
//! The functions do not access the state and record no facts.

mod gate;
mod limit;
mod retry;
mod rule;
mod subject;

pub use gate::{AllowedTool, AutoRun, Grant, Judgement, Policy};
pub use limit::{
    FAILURE_MAX_CHARS, JSON_MAX_DEPTH, RESULT_MAX_CHARS, RESULT_MAX_PARTS, check_json, shorten_failure,
    shorten_result,
};
pub use retry::{
    FailureClass, Failures, LOST_ATTEMPTS_MAX, RETRY_AFTER_MAX_MS, error_code, retries_left, retry_delay_ms,
};
pub use rule::{
    Approver, CONDITIONS_MAX, Condition, Direction, Expiry, Finding, GLOB_MAX_BYTES, Glob, LIST_MAX,
    PATTERN_MAX_BYTES, POINTER_MAX_DEPTH, PathArgument, PathTarget, Pattern, Predicate, Quorum, RULES_MAX,
    Rule, Severity, TEXT_MAX_BYTES, Terms, Unclear, UnclearPath, find_faults,
};
pub use subject::{Subject, Trust, only_reads};
