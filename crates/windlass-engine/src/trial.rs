//! Trial calls: one call of a tool outside of any conversation, for people who set tools up.
//!
//! It passes the same gate as a model's calls, and is judged as a run of its caller would be. Nothing of it is recorded
//! here: a program that lets people make such calls over a network keeps a record of them.

use std::sync::Arc;

use serde_json::Value;
use tokio_util::sync::CancellationToken;
use windlass_machine::{Party, Rule, ToolName, Verdict};

use crate::port::tool::OutputPart;
use crate::tool::WorkingFolder;

/// A trial call.
#[derive(Clone)]
pub struct Trial {
    /// The tool.
    pub tool: ToolName,
    /// Its arguments.
    pub arguments: Value,
    /// Who makes it, and approves it where they say so.
    pub by: Party,
    /// The folder that it works in.
    pub folder: Option<Arc<WorkingFolder>>,
    /// Whether its caller lets it run where the gate asks.
    pub consent: Consent,
    /// How long it may take, in milliseconds, without a sign of progress.
    pub timeout_ms: u64,
    /// How long it may take in all, in milliseconds, whatever progress it shows; `None`: as long as it shows some.
    pub at_most_ms: Option<u64>,
    /// Stops the call when it is cancelled.
    pub stop: CancellationToken,
    /// Whether the caller's own approval counts if a rule names approvers or a quorum.
    pub counts_as_approver: bool,
}

/// Whether a caller lets their own call run where the gate asks.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum Consent {
    /// They want to see first what would be done.
    #[default]
    NotYet,
    /// It may run, as far as their word is enough.
    Given,
    /// The same, as long as it would still do what they were shown, which is this: else they are asked again.
    AsShown(String),
}

/// What became of a trial call.
#[derive(Clone, Debug, PartialEq)]
pub enum Tried {
    /// There is no such tool, or it is switched off.
    Unknown,
    /// The arguments do not fit its schema, or it needs a conversation.
    Unfit {
        /// Why.
        reason: String,
    },
    /// The gate does not let it through.
    Denied {
        /// What decided.
        by: String,
        /// The hook's reason, where it decided.
        reason: Option<String>,
    },
    /// The gate asks first.
    Asks {
        /// What decided.
        by: String,
        /// Whether the caller's word is enough.
        yours: bool,
        /// What the call would do, where the tool can tell.
        preview: Option<String>,
    },
    /// It ran.
    Ran(TrialResult),
}

/// What a trial call answered.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct TrialResult {
    /// What let it through, in the gate's words.
    pub by: String,
    /// The parts of its answer; texts are cut as a model's are.
    pub parts: Vec<OutputPart>,
    /// Whether it went wrong.
    pub error: bool,
    /// Whether it waited for people or for a time, which takes a conversation: it was given up, and the far side told so.
    pub given_up: bool,
    /// From dispatch to the end, in milliseconds.
    pub duration_ms: u64,
}

/// A call that nobody makes, of which it is asked what the gate would say.
#[derive(Clone, Debug)]
pub struct Supposed {
    /// The tool.
    pub tool: ToolName,
    /// Its arguments; `None`: as far as they do not matter.
    pub arguments: Option<Value>,
    /// Whose call it would be.
    pub by: Party,
    /// Rules in place of those that count.
    pub rules: Option<Vec<Rule>>,
}

/// What the gate says of a call.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Standing {
    /// Whether it may run.
    pub verdict: Verdict,
    /// What decided.
    pub by: String,
    /// Whether its caller's own word is enough, where it asks.
    pub yours: bool,
}
