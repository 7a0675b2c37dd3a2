//! The outcome of a run: status, text, figures and open interrupts. (LM-R3)
//!
//! The outcome is computed from the journal and never stored. Host programs choose the form in which they serve it.

use windlass_machine::{
    EffectId, InterruptId, InterruptKind, MicroUsd, Principal, RunId, Seq, Terms, ThreadId, Timestamp,
};

use crate::error::EngineError;
use crate::port::journal::{RunRow, ThreadRow};

/// The state of a run, with measured figures also after a failure.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct Outcome {
    /// Id of the run.
    pub run: RunId,
    /// Thread of the run.
    pub thread: ThreadId,
    /// Current or final status.
    pub status: Status,
    /// The final text if the run is done, or the text to review if it is paused; otherwise `None`.
    pub text: Option<String>,
    /// The text of the run's last reply, with any status.
    pub output: Option<String>,
    /// Whether the engine wrote the text, because the model gave none.
    pub is_fallback: bool,
    /// Name of the model in use, `provider/model`.
    pub model: String,
    /// Usage of the run.
    pub figures: Figures,
    /// Position of the run's first event in the journal.
    pub from: Seq,
    /// The open interrupts of the run.
    pub interrupts: Vec<OpenInterrupt>,
    /// Tools that the run is missing. While the run is active: its own tools that calls wait for, because only other
    /// processes have them. After the run ended: tools whose calls failed because the tools were unavailable. (LM-B4)
    pub missing_tools: Vec<String>,
    /// The errors; empty unless the run failed or was cancelled.
    pub errors: Vec<ErrorInfo>,
    /// Whether the run was cancelled, or is being cancelled.
    pub cancelled: bool,
    /// Time at which the outcome was computed.
    pub at: Timestamp,
}

/// Status of a run. (LM-R12)
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Status {
    /// Waits behind another run of the thread.
    Queued,
    /// Active; steps or calls are in progress or scheduled.
    Running,
    /// Waits for an answer to an interrupt.
    Paused,
    /// Ended with an answer.
    Done,
    /// Ended with an error.
    Failed,
    /// Ended because a person or program cancelled it.
    Cancelled,
}

/// Usage of a run. (LM-R4)
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Figures {
    /// Number of started steps.
    pub steps: u32,
    /// Number of dispatched tool calls.
    pub calls: u32,
    /// Token counts, as reported by the provider.
    pub tokens: Tokens,
    /// Total cost; `None` if a price is unknown.
    pub cost: Option<MicroUsd>,
    /// Milliseconds from the start to the end, or to now.
    pub duration_ms: u64,
}

/// Token counts of a run. `None` means "not reported", not zero.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Tokens {
    /// Prompt tokens, cached ones included.
    pub input: Option<u64>,
    /// Generated tokens, reasoning included.
    pub output: Option<u64>,
    /// Prompt tokens read from a cache.
    pub cache_read_input: Option<u64>,
}

/// An interrupt that a run waits for.
#[derive(Clone, Debug, PartialEq)]
pub struct OpenInterrupt {
    /// Id that an answer must name.
    pub interrupt: InterruptId,
    /// The input that the interrupt waits for.
    pub kind: InterruptKind,
    /// Tool of the waiting call; `None` if the run as a whole waits.
    pub tool: Option<String>,
    /// Tool server of the waiting call; `None` for a tool of the
    /// engine, and for a tool that this engine does not offer.
    pub server: Option<String>,
    /// The complete arguments that will be sent, as JSON.
    pub arguments: Option<String>,
    /// Description of the call's effects, if the tool can provide one.
    pub preview: Option<String>,
    /// The evidence about a call that is in doubt.
    pub evidence: Option<Evidence>,
    /// Time at which the interrupt was opened.
    pub since: Timestamp,
    /// Time at which the interrupt expires and its default applies.
    pub expires_at: Option<Timestamp>,
    /// The required number of approvals, the approvers, and the action on expiry.
    pub terms: Terms,
    /// The people who have approved, if several approvals are needed.
    pub approved_by: Vec<Principal>,
}

/// Evidence about a call whose outcome is unknown.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Evidence {
    /// The reason why the outcome is unknown.
    pub reason: String,
    /// Stable id of the effect, which the tool received.
    pub effect: EffectId,
    /// Time of the call's last dispatch.
    pub begun_at: Timestamp,
}

/// A thread with open interrupts.
#[derive(Debug)]
pub struct Waiting {
    /// The thread's row in lists.
    pub thread: ThreadRow,
    /// The thread's active run; `None` if the run has ended since the query.
    pub run: Option<RunRow>,
    /// The open interrupts; empty if they were answered since the
    /// query. An error describes why the journal cannot be read.
    pub open: Result<Vec<OpenInterrupt>, EngineError>,
}

impl OpenInterrupt {
    /// Returns the text that a person should review.
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

/// An error of a run. (LM-X)
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ErrorInfo {
    /// A stable code, such as `ERR_LOST`.
    pub code: String,
    /// A description in plain language.
    pub message: String,
    /// Whether a retry of the same run may succeed later.
    pub retryable: bool,
}
