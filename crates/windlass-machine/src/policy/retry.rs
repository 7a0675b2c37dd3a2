//! Retry policy of model calls: which failures are tried again, how often, and after how long.
//!
//! Pure arithmetic; it draws no jitter, because a thread calls one model at a time.

use serde::{Deserialize, Serialize};

/// What kind of failure ended a model call.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum FailureClass {
    /// 429: too many requests.
    RateLimited,
    /// 529 or the provider's word for it: overloaded.
    Overloaded,
    /// 5xx, connection refused or reset, an error event in mid-stream.
    Transient,
    /// No byte for too long.
    Timeout,
    /// The stream ended before the reply did.
    Truncated,
    /// The answer is not what the protocol says.
    Malformed,
    /// 401 or 403: the key is missing, wrong or not allowed.
    Auth,
    /// The prompt does not fit the model. (HTTP 413, `context_length_exceeded`)
    ContextTooLong,
    /// The provider refuses the request as it is (other 4xx), or the model does not exist.
    InvalidRequest,
    /// The model cannot be called as configured: unknown provider, missing key.
    Config,
    /// The reply had neither text nor calls. (WT-L9)
    Empty,
    /// A blob that the request names is missing or damaged.
    MissingBlob,
    /// The process that had the call in flight is gone; not counted as a try.
    Lost,
    /// A person or program stopped the run.
    Cancelled,
}
