//! The outcome of a run: its status, its text, its figures and what it waits for. (LM-R3)
//!
//! It is a view of the journal and is stored nowhere. Programs that serve it choose its outward shape.

use windlass_machine::{
    EffectId, InterruptId, InterruptKind, MicroUsd, Principal, RunId, Seq, Terms, ThreadId, Timestamp,
};

use crate::error::EngineError;
use crate::port::journal::{RunRow, ThreadRow};

/// How a run stands, with real figures also on failure.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct Outcome {
    /// The run.
    pub run: RunId,
    /// Its thread.
    pub thread: ThreadId,
    /// How it stands.
    pub status: Status,
    /// The final text when done; what a person is to review when paused; else `None`.
    pub text: Option<String>,
    /// The text of its last reply, whatever the status.
    pub output: Option<String>,
    /// Whether the text is the engine's own words because the model gave none.
    pub is_fallback: bool,
    /// The model in use.
    pub model: String,
    /// What it has used.
    pub figures: Figures,
    /// Position of its first event in its thread's journal.
    pub from: Seq,
    /// What it waits for.
    pub interrupts: Vec<OpenInterrupt>,
    /// Tools that it lacks: those that its calls wait for, because they are its own and no process that has them drives
    /// it; and, once it has ended, those whose calls found them missing. (LM-B4)
    pub missing_tools: Vec<String>,
    /// What went wrong; empty unless failed or cancelled.
    pub errors: Vec<ErrorInfo>,
    /// Whether a person or program has stopped it, or is stopping it.
    pub cancelled: bool,
    /// When this was looked up.
    pub at: Timestamp,
}

/// How a run stands. (LM-R12)
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Status {
    /// It waits behind another run.
    Queued,
    /// It is being carried out.
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

/// What a run has used. (LM-R4)
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Figures {
    /// Steps that were started.
    pub steps: u32,
    /// Tool calls that were dispatched.
    pub calls: u32,
    /// Tokens.
    pub tokens: Tokens,
    /// What it cost; `None` where a price is unknown.
    pub cost: Option<MicroUsd>,
    /// From start to end, or to now, in milliseconds.
    pub duration_ms: u64,
}

/// Tokens of a run; `None` is "not reported", not zero.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Tokens {
    /// Prompt tokens, cached ones included.
    pub input: Option<u64>,
    /// Generated tokens, reasoning included.
    pub output: Option<u64>,
    /// Prompt tokens read from a cache.
    pub cache_read_input: Option<u64>,
}

/// Something a run waits for.
#[derive(Clone, Debug, PartialEq)]
pub struct OpenInterrupt {
    /// Its id: what an answer names.
    pub interrupt: InterruptId,
    /// What is asked.
    pub kind: InterruptKind,
    /// The tool of the call that waits; absent where the run as a whole does.
    pub tool: Option<String>,
    /// The tool server that the call goes to; absent for a tool of the engine, and for one that is not offered here.
    pub server: Option<String>,
    /// The arguments that will be sent, whole.
    pub arguments: Option<String>,
    /// What the call would do, where the tool can tell.
    pub preview: Option<String>,
    /// What is known of a call that is in doubt.
    pub evidence: Option<Evidence>,
    /// Since when it waits.
    pub since: Timestamp,
    /// When silence is taken for an answer.
    pub expires_at: Option<Timestamp>,
    /// How many approvals are needed, out of whom, and what silence means.
    pub terms: Terms,
    /// Who has approved so far.
    pub approved_by: Vec<Principal>,
}

/// The evidence about a call with an unknown outcome.
#[derive(Clone, Debug, PartialEq, Eq)]
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
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ErrorInfo {
    /// A stable code.
    pub code: String,
    /// In plain words.
    pub message: String,
    /// Whether the same run may succeed later.
    pub retryable: bool,
}
