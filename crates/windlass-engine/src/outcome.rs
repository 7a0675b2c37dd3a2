//! The one flat shape that every call returns, whatever became of the run. (LM-R3)
//!
//! It is a view of the journal and is stored nowhere.

use serde::Serialize;
use windlass_machine::{
    EffectId, InterruptId, InterruptKind, MicroUsd, Principal, RunId, Seq, Terms, ThreadId, Timestamp,
};

use crate::error::EngineError;
use crate::port::journal::{RunRow, ThreadRow};

/// What became of a run, with real figures also on failure.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Outcome {
    /// The run.
    pub run_id: RunId,
    /// How it stands.
    pub status: Status,
    /// The final text when done; what a person is to review when paused; else null.
    pub data: Option<String>,
    /// Figures.
    pub meta: Meta,
    /// What went wrong; empty unless failed or cancelled.
    pub errors: Vec<ErrorInfo>,
    /// When this was said, in milliseconds since the Unix epoch.
    pub timestamp: Timestamp,
}

/// How a run stands, in the outward words. (LM-R12)
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Status {
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

/// Figures of a run. (LM-R4)
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Meta {
    /// Its thread.
    pub thread_id: ThreadId,
    /// The model in use.
    pub model: String,
    /// Steps that were started.
    pub turns: u32,
    /// Tool calls that were dispatched.
    pub tool_calls: u32,
    /// Tokens.
    pub tokens_used: Tokens,
    /// Cost in US dollars; absent where a price is unknown.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cost_usd: Option<f64>,
    /// From start to end, or to now.
    pub duration_ms: u64,
    /// Position of its first event in its thread's journal.
    pub from: Seq,
    /// The text that had come, whatever the status.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub output: Option<String>,
    /// Whether the text is the engine's own words because the model gave none.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub model_fallback: bool,
    /// What it waits for.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub interrupts: Vec<OpenInterrupt>,
    /// Tools that it lacks: those that its calls wait for, because they are its own and no process that has them drives
    /// it; and, once it has ended, those whose calls found them missing. (LM-B4)
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub capabilities_missing: Vec<String>,
    /// Whether it was stopped by a person or program.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub cancelled: bool,
}

/// Tokens of a run; absent is "not reported", not zero.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Tokens {
    /// Prompt tokens, cached ones included.
    pub input: Option<u64>,
    /// Generated tokens, reasoning included.
    pub output: Option<u64>,
    /// Prompt tokens read from a cache.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cache_read_input: Option<u64>,
}

/// Something a run waits for.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct OpenInterrupt {
    /// Its id: what an answer names.
    pub interrupt: InterruptId,
    /// What is asked.
    pub kind: InterruptKind,
    /// The tool of the call that waits; absent where the run as a whole does.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub tool: Option<String>,
    /// The tool server that the call goes to; absent for a tool of the engine, and for one that is not offered here.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub server: Option<String>,
    /// The arguments that will be sent, whole.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub arguments: Option<String>,
    /// What the call would do, where the tool can tell.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub preview: Option<String>,
    /// What is known of a call that is in doubt.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub evidence: Option<Evidence>,
    /// Since when it waits.
    pub since: Timestamp,
    /// When silence is taken for an answer.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub expires_at: Option<Timestamp>,
    /// How many approvals are needed, out of whom, and what silence means.
    pub terms: Terms,
    /// Who has approved so far.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub approved_by: Vec<Principal>,
}

/// What is known of a call whose outcome is not.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Evidence {
    /// Why its outcome is unknown.
    pub reason: String,
    /// The effect's stable id, which the tool was given.
    pub effect: EffectId,
    /// When the call was begun; of several times, the last.
    pub begun_at: Timestamp,
}

/// A thread that asks something.
#[derive(Debug)]
pub struct Waiting {
    /// The thread.
    pub thread: ThreadRow,
    /// Its active run; `None` where that has ended meanwhile.
    pub run: Option<RunRow>,
    /// What it asks; nothing where it was answered meanwhile. The error says why the thread's journal cannot be read.
    pub open: Result<Vec<OpenInterrupt>, EngineError>,
}

impl OpenInterrupt {
    /// What a person is to look at.
    pub(crate) fn to_review(&self) -> Option<String> {
        match &self.kind {
            InterruptKind::Question(question) => Some(question.summary.clone()),
            InterruptKind::SignIn { url, message, .. } => Some(match message {
                Some(message) => format!("{message}\n{url}"),
                None => url.clone(),
            }),
            InterruptKind::Limit(limit) => {
                Some(format!("{} of {} `{}`", limit.used, limit.figure, limit.limit))
            }
            InterruptKind::Approval { .. }
            | InterruptKind::Hook { .. }
            | InterruptKind::InDoubt { .. }
            | InterruptKind::Handoff { .. } => self.arguments.clone(),
        }
    }
}

/// What went wrong. (LM-X)
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct ErrorInfo {
    /// A stable code.
    pub code: String,
    /// In plain words.
    pub message: String,
    /// Whether the same run may succeed later.
    pub retryable: bool,
}

/// Millionths of a dollar as dollars.
pub(crate) fn dollars(cost: MicroUsd) -> f64 {
    cost.0 as f64 / 1e6
}
