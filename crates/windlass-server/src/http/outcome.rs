//! The flat shape of a run's outcome (LM-R3) as the API describes it.
//!
//! Field by field the library's `Outcome`; it exists so that the API's document can name every field.

use serde::Serialize;
use serde_json::Value;
use utoipa::ToSchema;
use windlass::{ErrorInfo, Outcome, Status, machine};

use super::failure::{Failure, explain};

/// What became of a run, with real figures also on failure.
#[derive(Clone, Debug, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
#[schema(as = Outcome)]
pub struct RunOutcome {
    /// The run.
    run_id: String,
    /// How it stands.
    status: Standing,
    /// The final text when done; what a person is to review when paused; else null.
    data: Option<String>,
    /// Figures.
    meta: RunMeta,
    /// What went wrong; empty unless failed or cancelled.
    errors: Vec<RunError>,
    /// When this was said, in milliseconds since the Unix epoch.
    timestamp: u64,
}

/// How a run stands.
#[derive(Clone, Copy, Debug, Serialize, ToSchema)]
#[serde(rename_all = "snake_case")]
enum Standing {
    /// It waits behind another run.
    Queued,
    /// It goes on.
    Running,
    /// It waits for an outside reply.
    Paused,
    /// It ended with an answer.
    Done,
    /// It ended with an error.
    Failed,
    /// It was stopped.
    Cancelled,
}

impl From<Status> for Standing {
    fn from(status: Status) -> Self {
        match status {
            Status::Queued => Self::Queued,
            Status::Running => Self::Running,
            Status::Paused => Self::Paused,
            Status::Done => Self::Done,
            Status::Failed => Self::Failed,
            Status::Cancelled => Self::Cancelled,
        }
    }
}

/// Figures of a run.
#[derive(Clone, Debug, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
#[schema(as = Meta)]
struct RunMeta {
    /// Its thread.
    thread_id: String,
    /// The model in use.
    model: String,
    /// Steps that were started.
    turns: u32,
    /// Tool calls that were dispatched.
    tool_calls: u32,
    /// Tokens.
    tokens_used: TokensUsed,
    /// Cost in US dollars; absent where a price is unknown.
    #[serde(skip_serializing_if = "Option::is_none")]
    cost_usd: Option<f64>,
    /// From start to end, or to now.
    duration_ms: u64,
    /// Position of its first event in its thread's journal.
    from: u64,
    /// The text that had come, whatever the status.
    #[serde(skip_serializing_if = "Option::is_none")]
    output: Option<String>,
    /// Whether the text is the engine's own words because the model gave none.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    #[schema(default = false)]
    model_fallback: bool,
    /// What it waits for, as `GET /interrupts` has it in other letters.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    #[schema(value_type = Vec<Object>, default = json!([]))]
    interrupts: Vec<Value>,
    /// Tools that it lacks: its own that its calls wait for, or, once it has ended, those whose calls found them missing.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    #[schema(default = json!([]))]
    capabilities_missing: Vec<String>,
    /// Whether it was stopped by a person or program.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    #[schema(default = false)]
    cancelled: bool,
}

/// Tokens of a run; null is "not reported", not zero.
#[derive(Clone, Copy, Debug, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
#[schema(as = Tokens)]
struct TokensUsed {
    /// Prompt tokens, cached ones included.
    input: Option<u64>,
    /// Generated tokens, reasoning included.
    output: Option<u64>,
    /// Prompt tokens read from a cache.
    #[serde(skip_serializing_if = "Option::is_none")]
    cache_read_input: Option<u64>,
}

/// What went wrong in a run.
#[derive(Clone, Debug, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
#[schema(as = RunError)]
struct RunError {
    /// A stable code.
    #[schema(example = "ERR_RATE_LIMIT")]
    code: String,
    /// In plain words.
    message: String,
    /// Whether the same run may succeed later.
    retryable: bool,
    /// What went wrong, in the server's own words for people.
    words: &'static str,
    /// What to do.
    hint: &'static str,
}

impl From<ErrorInfo> for RunError {
    fn from(ErrorInfo { code, message, retryable }: ErrorInfo) -> Self {
        let error = machine::RunError { code, message, retryable };
        let Failure { words, hint, code: _ } = explain(&error);
        Self { code: error.code, message: error.message, retryable, words, hint }
    }
}

impl From<Outcome> for RunOutcome {
    fn from(outcome: Outcome) -> Self {
        let Outcome { run_id, status, data, meta, errors, timestamp } = outcome;
        let open = meta.interrupts.iter().filter_map(|open| serde_json::to_value(open).ok());
        Self {
            run_id: run_id.to_string(),
            status: status.into(),
            data,
            meta: RunMeta {
                thread_id: meta.thread_id.to_string(),
                model: meta.model,
                turns: meta.turns,
                tool_calls: meta.tool_calls,
                tokens_used: TokensUsed {
                    input: meta.tokens_used.input,
                    output: meta.tokens_used.output,
                    cache_read_input: meta.tokens_used.cache_read_input,
                },
                cost_usd: meta.cost_usd,
                duration_ms: meta.duration_ms,
                from: meta.from.0,
                output: meta.output,
                model_fallback: meta.model_fallback,
                interrupts: open.collect(),
                capabilities_missing: meta.capabilities_missing,
                cancelled: meta.cancelled,
            },
            errors: errors.into_iter().map(RunError::from).collect(),
            timestamp: timestamp.0,
        }
    }
}
