//! Retry policy of model calls: the failures that are retried, the number of retries, and their delays.
//!
//! The functions are pure arithmetic. They add no jitter, because a thread calls one model at a time.

use serde::{Deserialize, Serialize};

/// Kind of a failed model call.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum FailureClass {
    /// 429: too many requests.
    RateLimited,
    /// 529 or the provider's equivalent: overloaded.
    Overloaded,
    /// 5xx, connection refused or reset, or an error event mid-stream.
    Transient,
    /// No byte arrived within the timeout.
    Timeout,
    /// The stream ended before the reply was complete.
    Truncated,
    /// The response violates the protocol.
    Malformed,
    /// 401 or 403: the key is missing, wrong or not allowed.
    Auth,
    /// The prompt does not fit the model. (HTTP 413, `context_length_exceeded`)
    ContextTooLong,
    /// The provider rejects the request (other 4xx), or the model does not exist.
    InvalidRequest,
    /// The model cannot be called as configured: unknown provider, missing key.
    Config,
    /// The reply had neither text nor calls. (WT-L9)
    Empty,
    /// A blob that the request references is missing or damaged.
    MissingBlob,
    /// The process with the call in flight has ended. The call may have been charged.
    Lost,
    /// The run was cancelled, or the process with the call in flight ended in an orderly shutdown.
    Cancelled,
}

/// Number of failures of one step, by family. A model switch resets the numbers.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Failures {
    /// Failures with status 429.
    pub rate_limited: u32,
    /// Consecutive failures with status 529.
    pub overloaded: u32,
    /// Other temporary failures.
    pub transient: u32,
    /// Prompts that were too long for the model.
    pub too_long: u32,
    /// Attempts whose process crashed during the call.
    pub lost: u32,
}

impl Failures {
    /// Counts a failure.
    pub fn count(&mut self, class: FailureClass) {
        if class != FailureClass::Overloaded && class != FailureClass::Lost {
            self.overloaded = 0;
        }
        match class {
            FailureClass::RateLimited => self.rate_limited += 1,
            FailureClass::Overloaded => self.overloaded += 1,
            FailureClass::Transient | FailureClass::Timeout | FailureClass::Truncated => self.transient += 1,
            FailureClass::ContextTooLong => self.too_long += 1,
            FailureClass::Lost => self.lost += 1,
            FailureClass::Malformed
            | FailureClass::Auth
            | FailureClass::InvalidRequest
            | FailureClass::Config
            | FailureClass::Empty
            | FailureClass::MissingBlob
            | FailureClass::Cancelled => {}
        }
    }
}

/// Maximum number of lost attempts at one step by one model; the run then fails. Each
/// attempt may have been charged, and the reply itself may crash the process. An attempt
/// that an orderly shutdown interrupts does not count. A model switch resets the count.
pub const LOST_ATTEMPTS_MAX: u32 = 3;

/// Returns the number of attempts that may follow a failure, if
/// each fails in the same way; 0 if the step is not retried.
///
/// `before` are the earlier failures of the step.
pub fn retries_left(class: FailureClass, before: Failures) -> u32 {
    match class {
        FailureClass::RateLimited => RETRIES_MAX.saturating_sub(before.rate_limited),
        FailureClass::Overloaded => OVERLOADED_RETRIES_MAX.saturating_sub(before.overloaded),
        FailureClass::Transient | FailureClass::Timeout | FailureClass::Truncated => {
            RETRIES_MAX.saturating_sub(before.transient)
        }
        FailureClass::Lost => (LOST_ATTEMPTS_MAX - 1).saturating_sub(before.lost),
        FailureClass::Malformed
        | FailureClass::Auth
        | FailureClass::ContextTooLong
        | FailureClass::InvalidRequest
        | FailureClass::Config
        | FailureClass::Empty
        | FailureClass::MissingBlob
        | FailureClass::Cancelled => 0,
    }
}

/// Maximum number of retries after a 429, and after a temporary failure. (SK-L6, SK-L7)
const RETRIES_MAX: u32 = 3;
/// Maximum number of retries after a 529: the fifth consecutive 529 ends the run. (LM-X6)
const OVERLOADED_RETRIES_MAX: u32 = 4;

/// Returns the delay before the next attempt in milliseconds; `None` without a next attempt.
///
/// 429: min(60, 2^n) s, three retries (SK-L6). Transient: min(30, 2^n) s, three (SK-L7). 529: min(60, 2^(n+1)) s,
/// until the fifth consecutive failure (LM-X6). The provider's own delay takes precedence, up to ten minutes. Lost:
/// immediately after the first loss, because a single restart is common; then 2^n s, until [`LOST_ATTEMPTS_MAX`]
/// attempts are lost. `before` are the earlier failures of the step.
pub fn retry_delay_ms(class: FailureClass, before: Failures, retry_after_ms: Option<u64>) -> Option<u64> {
    let seconds = |n: u32, cap: u64| 2u64.saturating_pow(n).min(cap);
    if retries_left(class, before) == 0 {
        return None;
    }
    let own = match class {
        FailureClass::RateLimited => seconds(before.rate_limited + 1, 60),
        FailureClass::Overloaded => seconds(before.overloaded + 2, 60),
        FailureClass::Transient | FailureClass::Timeout | FailureClass::Truncated => {
            seconds(before.transient + 1, 30)
        }
        FailureClass::Lost if before.lost == 0 => 0,
        FailureClass::Lost => seconds(before.lost + 1, 30),
        FailureClass::Malformed
        | FailureClass::Auth
        | FailureClass::ContextTooLong
        | FailureClass::InvalidRequest
        | FailureClass::Config
        | FailureClass::Empty
        | FailureClass::MissingBlob
        | FailureClass::Cancelled => return None,
    };
    match retry_after_ms {
        Some(asked) if asked > RETRY_AFTER_MAX_MS => None,
        Some(asked) => Some(asked),
        None => Some(own * 1000),
    }
}

/// Maximum delay in milliseconds that a provider may request.
/// After a request for a longer delay, the call is not retried.
pub const RETRY_AFTER_MAX_MS: u64 = 600_000;

/// Returns the stable error code of a failure that ends a run, and whether a retry of the run may succeed.
/// (LM-X1..X11)
pub fn error_code(class: FailureClass) -> (&'static str, bool) {
    match class {
        FailureClass::RateLimited => ("ERR_RATE_LIMIT", true),
        FailureClass::Overloaded => ("ERR_API_OVERLOADED", true),
        FailureClass::Transient | FailureClass::Timeout => ("ERR_API", true),
        FailureClass::Truncated => ("ERR_STREAM_INCOMPLETE", true),
        FailureClass::Malformed => ("ERR_STREAM_PARSE", false),
        FailureClass::Auth => ("ERR_AUTH", false),
        FailureClass::ContextTooLong => ("ERR_CONTEXT_LENGTH", false),
        FailureClass::InvalidRequest => ("ERR_REQUEST", false),
        FailureClass::Config => ("ERR_CONFIG", false),
        FailureClass::Empty => ("ERR_EMPTY_REPLY", true),
        FailureClass::MissingBlob => ("ERR_STORE", true),
        FailureClass::Lost => ("ERR_LOST", true),
        FailureClass::Cancelled => ("CANCELLED", false),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const CLASSES: [FailureClass; 6] = [
        FailureClass::RateLimited,
        FailureClass::Overloaded,
        FailureClass::Transient,
        FailureClass::Lost,
        FailureClass::Auth,
        FailureClass::Cancelled,
    ];

    #[test]
    fn a_failure_that_repeats_is_retried_as_often_as_the_first_one_says() {
        for class in CLASSES {
            let mut before = Failures::default();
            let most = retries_left(class, before);
            let mut retries = 0;
            while retry_delay_ms(class, before, None).is_some() {
                assert_eq!(retries_left(class, before), most - retries, "{class:?}");
                before.count(class);
                retries += 1;
            }
            assert_eq!(retries, most, "{class:?}");
        }
        assert_eq!(CLASSES.map(|class| retries_left(class, Failures::default())), [3, 4, 3, 2, 0, 0]);
    }
}
