//! Trial calls: single tool calls outside of conversations, for people who set up tools.
//!
//! The gate judges them as it would judge a call in a run of the caller. This module does not record trial calls: a
//! program that offers them over a network must audit them.

use std::sync::Arc;

use serde_json::Value;
use tokio_util::sync::CancellationToken;
use windlass_machine::{Party, Rule, ToolName, Verdict};

use crate::port::tool::OutputPart;
use crate::tool::WorkingFolder;

/// A request for a trial call.
#[derive(Clone)]
pub struct Trial {
    /// Name of the tool to call.
    pub tool: ToolName,
    /// Arguments, validated against the tool's schema.
    pub arguments: Value,
    /// The caller, who may also approve the call.
    pub by: Party,
    /// The working folder for the call.
    pub folder: Option<Arc<WorkingFolder>>,
    /// Whether the caller approves the call if the gate asks.
    pub consent: Consent,
    /// Milliseconds without progress after which the call is stopped.
    pub timeout_ms: u64,
    /// Milliseconds after which the call is stopped despite
    /// progress; `None`: no limit while the call reports progress.
    pub at_most_ms: Option<u64>,
    /// Token that stops the call when it is cancelled.
    pub stop: CancellationToken,
    /// Whether the caller's own approval is sufficient if a rule names approvers or a quorum.
    pub counts_as_approver: bool,
}

/// Whether the caller approves their own call if the gate asks.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum Consent {
    /// Not approved: the caller wants to see the preview first.
    #[default]
    NotYet,
    /// Approved, if the caller's own approval suffices.
    Given,
    /// Approved for this preview only. If the preview has changed, the caller has to approve again.
    AsShown(String),
}

/// Result of a trial call request.
#[derive(Clone, Debug, PartialEq)]
pub enum Tried {
    /// The tool does not exist or is switched off.
    Unknown,
    /// The arguments do not match the schema, or the call needs a conversation.
    Unfit {
        /// The requirement that is not met.
        reason: String,
    },
    /// The gate denied the call.
    Denied {
        /// The rule or default that decided.
        by: String,
        /// The hook's reason, if the hook decided.
        reason: Option<String>,
    },
    /// The gate requires an approval before the call.
    Asks {
        /// The rule or default that decided.
        by: String,
        /// Whether the caller's own approval suffices.
        yours: bool,
        /// Description of the call's effects, if the tool can provide one.
        preview: Option<String>,
    },
    /// The call was dispatched.
    Ran(TrialResult),
}

/// The answer of a trial call.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct TrialResult {
    /// The rule or default that allowed the call, as the gate names it.
    pub by: String,
    /// Parts of the answer; texts are truncated as for a model.
    pub parts: Vec<OutputPart>,
    /// Whether the tool reported an error.
    pub error: bool,
    /// Whether the call asked people or deferred itself, which needs a
    /// conversation. The call was abandoned, and the tool was notified.
    pub given_up: bool,
    /// Milliseconds from dispatch to the end.
    pub duration_ms: u64,
}

/// A hypothetical call: evaluates the policy without running the tool.
#[derive(Clone, Debug)]
pub struct Supposed {
    /// Name of the tool.
    pub tool: ToolName,
    /// Arguments; `None` if they are unknown: the tool is judged by its general traits, and conditions on arguments
    /// are undecided.
    pub arguments: Option<Value>,
    /// The caller that the call would be made for.
    pub by: Party,
    /// Rules to evaluate instead of the active rules.
    pub rules: Option<Vec<Rule>>,
}

/// The gate's verdict on a hypothetical call.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Standing {
    /// Allow, ask or deny.
    pub verdict: Verdict,
    /// The rule or default that decided.
    pub by: String,
    /// Whether the caller's own approval suffices, if the verdict is ask.
    pub yours: bool,
}
