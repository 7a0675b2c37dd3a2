//! The flat shape of a run's outcome (LM-R3) in the API.
//!
//! Maps the library's `Outcome` to the API's vocabulary and documents every field for the OpenAPI document.

use serde::Serialize;
use serde_json::{Value, json};
use utoipa::ToSchema;
use windlass::machine::{self, EffectId, InterruptId, InterruptKind, Principal, Terms, Timestamp};
use windlass::{ErrorInfo, OpenInterrupt, Outcome, Status};

use super::failure::{Failure, explain};

/// The outcome of a run. Figures are present for failed runs, too.
#[derive(Clone, Debug, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
#[schema(as = Outcome)]
pub struct RunOutcome {
    /// Id of the run.
    run_id: String,
    /// Current status.
    status: Standing,
    /// Final text of a completed run, or the text to review of a paused one; otherwise null.
    data: Option<String>,
    /// Figures of the run.
    meta: RunMeta,
    /// Errors; empty unless the run failed or was cancelled.
    errors: Vec<RunError>,
    /// When this outcome was computed, in milliseconds since the Unix epoch.
    timestamp: u64,
}

/// Status of a run.
#[derive(Clone, Copy, Debug, Serialize, ToSchema)]
#[serde(rename_all = "snake_case")]
enum Standing {
    /// Waits behind another run of the thread.
    Queued,
    /// In progress.
    Running,
    /// Waits for an outside reply, such as an approval.
    Paused,
    /// Completed.
    Done,
    /// Failed with an error.
    Failed,
    /// Stopped by a cancellation.
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
    /// Id of the thread.
    thread_id: String,
    /// The model in use.
    model: String,
    /// Number of steps started.
    turns: u32,
    /// Number of tool calls dispatched.
    tool_calls: u32,
    /// Tokens used.
    tokens_used: TokensUsed,
    /// Cost in US dollars; absent if a price is unknown.
    #[serde(skip_serializing_if = "Option::is_none")]
    cost_usd: Option<f64>,
    /// Milliseconds from the start of the run to its end, or to now.
    duration_ms: u64,
    /// Position of the run's first event in its thread's journal.
    from: u64,
    /// Text received so far, for any status.
    #[serde(skip_serializing_if = "Option::is_none")]
    output: Option<String>,
    /// Whether the engine wrote the text because the model returned none.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    #[schema(default = false)]
    model_fallback: bool,
    /// Open interrupts of the run: the content of `GET /interrupts` with camelCase keys.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    #[schema(value_type = Vec<Object>, default = json!([]))]
    interrupts: Vec<Value>,
    /// Missing tools. During a run: its own tools that its calls wait for. After its end: tools whose calls found them
    /// missing.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    #[schema(default = json!([]))]
    capabilities_missing: Vec<String>,
    /// Whether a person or program cancelled the run.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    #[schema(default = false)]
    cancelled: bool,
}

/// Tokens of a run; null means "not reported", not zero.
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

/// An error of a run.
#[derive(Clone, Debug, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
#[schema(as = RunError)]
struct RunError {
    /// Stable error code.
    #[schema(example = "ERR_RATE_LIMIT")]
    code: String,
    /// Human-readable message.
    message: String,
    /// Whether the same run may succeed later.
    retryable: bool,
    /// Explanation written by the server for people.
    words: &'static str,
    /// What to do next.
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
        let figures = outcome.figures;
        Self {
            run_id: outcome.run.to_string(),
            status: outcome.status.into(),
            data: outcome.text,
            meta: RunMeta {
                thread_id: outcome.thread.to_string(),
                model: outcome.model,
                turns: figures.steps,
                tool_calls: figures.calls,
                tokens_used: TokensUsed {
                    input: figures.tokens.input,
                    output: figures.tokens.output,
                    cache_read_input: figures.tokens.cache_read_input,
                },
                cost_usd: figures.cost.map(|cost| cost.0 as f64 / 1e6),
                duration_ms: figures.duration_ms,
                from: outcome.from.0,
                output: outcome.output,
                model_fallback: outcome.is_fallback,
                interrupts: outcome.interrupts.iter().map(interrupt).collect(),
                capabilities_missing: outcome.missing_tools,
                cancelled: outcome.cancelled,
            },
            errors: outcome.errors.into_iter().map(RunError::from).collect(),
            timestamp: outcome.at.0,
        }
    }
}

/// Encodes an open interrupt of a run for its outcome.
pub fn interrupt(open: &OpenInterrupt) -> Value {
    json!(Interrupt::of(open))
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Interrupt<'a> {
    interrupt: &'a InterruptId,
    kind: &'a InterruptKind,
    #[serde(skip_serializing_if = "Option::is_none")]
    tool: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    server: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    arguments: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    preview: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    evidence: Option<CallEvidence<'a>>,
    since: Timestamp,
    #[serde(skip_serializing_if = "Option::is_none")]
    expires_at: Option<Timestamp>,
    terms: &'a Terms,
    #[serde(skip_serializing_if = "<[Principal]>::is_empty")]
    approved_by: &'a [Principal],
}

/// Evidence about a call whose outcome is unknown.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct CallEvidence<'a> {
    reason: &'a str,
    effect: &'a EffectId,
    begun_at: Timestamp,
}

impl<'a> Interrupt<'a> {
    fn of(open: &'a OpenInterrupt) -> Self {
        let evidence = open.evidence.as_ref().map(|it| CallEvidence {
            reason: &it.reason,
            effect: &it.effect,
            begun_at: it.begun_at,
        });
        Self {
            interrupt: &open.interrupt,
            kind: &open.kind,
            tool: open.tool.as_deref(),
            server: open.server.as_deref(),
            arguments: open.arguments.as_deref(),
            preview: open.preview.as_deref(),
            evidence,
            since: open.since,
            expires_at: open.expires_at,
            terms: &open.terms,
            approved_by: &open.approved_by,
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use serde_json::Map;
    use windlass::Task;
    use windlass::machine::{AutoRun, EffectClass};
    use windlass::port::tool::{CallContext, ToolOutput};
    use windlass::testing::scripted::{Line, ScriptedModels, results};
    use windlass::tool::FunctionTool;

    use super::*;

    // rows: LM-B4
    #[tokio::test]
    async fn an_outcome_names_the_tools_that_were_missing() {
        let look = FunctionTool::new("look", "Looks", |_: CallContext, _: Map<String, Value>| async {
            ToolOutput::unavailable("its server is away")
        });
        let tools = windlass::registry().add(Arc::new(look.effect_class(EffectClass::Pure))).unwrap();
        let models = Arc::new(ScriptedModels::new(|call| match results(call) {
            0 => Line::tool("look", "{}"),
            _ => Line::Say("without it, then".into()),
        }));
        let builder = windlass::builder().models(models).tools(tools).auto_run(AutoRun::Everything);
        let outcome =
            builder.build().await.unwrap().run_task(Task::new("test/scripted".into(), "go")).await.unwrap();
        let shape = json!(RunOutcome::from(outcome));
        assert_eq!(shape["data"], "without it, then");
        assert_eq!(shape["meta"]["capabilitiesMissing"], json!(["look"]));
        assert_eq!(shape["meta"]["turns"], 2);
    }
}
