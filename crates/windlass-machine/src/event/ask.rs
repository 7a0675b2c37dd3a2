//! Types of events about interrupts and answers.
//!
//! The types are part of the permanent journal format. This module makes no decisions.

use std::collections::BTreeSet;

use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::StepMode;
use crate::id::{Digest, ToolName};
use crate::message::{Content, INLINE_MAX_BYTES};
use crate::policy::{Approver, check_json};

/// Kind of input that an interrupt waits for.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum InterruptKind {
    /// May this call run?
    Approval {
        /// Tool of the call.
        tool: ToolName,
        /// Digest that the approval is bound to.
        approval: Digest,
        /// Description of the call's effects, if the tool can provide one.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        preview: Option<Content>,
    },
    /// The host program's hook requires a person to review this call.
    Hook {
        /// Tool of the call.
        tool: ToolName,
        /// The hook's reason.
        reason: String,
    },
    /// The agent or a tool's server asks a question.
    Question(Box<Question>),
    /// A person has to sign in at a tool's server first, or to open a page of the server.
    SignIn {
        /// Name of the server.
        server: String,
        /// Address to open.
        url: String,
        /// The server's explanation of its page; absent if Windlass needs authorisation.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        message: Option<String>,
    },
    /// A runner of the host program carries out the call and answers with its result. (LM-B5)
    Handoff {
        /// Name of the runner.
        runner: String,
    },
    /// A dispatched call's outcome is unknown: did the call take effect?
    InDoubt {
        /// Tool of the call.
        tool: ToolName,
    },
    /// A limit was reached: raise it, or stop?
    Limit(Box<LimitAsked>),
}

impl InterruptKind {
    /// Whether the answer itself permits the dispatch of the call. A call in doubt keeps its earlier permission.
    pub(crate) fn is_about_leave(&self) -> bool {
        match self {
            Self::Approval { .. } | Self::Hook { .. } => true,
            Self::Question(_)
            | Self::SignIn { .. }
            | Self::Handoff { .. }
            | Self::InDoubt { .. }
            | Self::Limit(_) => false,
        }
    }
}

impl InterruptKind {
    /// Checks that a question of a tool or a model can be recorded inline and decoded. Questions are inline because
    /// every list of open interrupts contains them. The error completes a sentence about the question.
    pub fn check(&self) -> Result<(), String> {
        match self {
            Self::Question(question) => question.check(),
            Self::SignIn { server, url, message } => {
                let message = message.as_deref().unwrap_or_default();
                let mut parts =
                    [("server", server.as_str()), ("url", url.as_str()), ("message", message)].into_iter();
                parts.try_for_each(|(name, text)| fits(name, text.len()))
            }
            Self::Handoff { runner } => fits("runner", runner.len()),
            Self::Approval { .. } | Self::Hook { .. } | Self::InDoubt { .. } | Self::Limit(_) => Ok(()),
        }
    }
}

impl Question {
    fn check(&self) -> Result<(), String> {
        fits("checkpoint", self.checkpoint.as_ref().map_or(0, String::len))?;
        fits("summary", self.summary.len())?;
        fits("options", self.options.iter().map(String::len).sum())?;
        if self.options.len() > OPTIONS_MAX {
            return Err(format!("has {} `options`; at most {OPTIONS_MAX}", self.options.len()));
        }
        for (name, value) in [("params", &self.params), ("schema", &self.schema)] {
            match value {
                // A null would be decoded as absent.
                Some(Value::Null) => return Err(format!("has `{name}`, which is null; leave it out")),
                Some(value) => {
                    check_json(value).map_err(|why| format!("has `{name}`, which {why}"))?;
                    fits(name, value.to_string().len())?;
                }
                None => {}
            }
        }
        Ok(())
    }
}

/// Maximum number of options of a question. A person does not read longer lists.
const OPTIONS_MAX: usize = 100;

fn fits(name: &str, size_bytes: usize) -> Result<(), String> {
    if size_bytes <= INLINE_MAX_BYTES {
        return Ok(());
    }
    Err(format!("has `{name}` of {size_bytes} bytes; at most {INLINE_MAX_BYTES}"))
}

/// A question to people. (WT-H1)
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Question {
    /// A short name of the point in the work, given by the model.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub checkpoint: Option<String>,
    /// Text of the question.
    pub summary: String,
    /// Values to approve or change.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub params: Option<Value>,
    /// Options to choose from.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub options: Vec<String>,
    /// Whether a free-text answer is accepted.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub free_input: bool,
    /// A JSON schema of the requested values.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub schema: Option<Value>,
}

/// A reached limit, and the step that the run was about to start.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct LimitAsked {
    /// Name of the limit.
    pub limit: String,
    /// Value of the limit.
    pub figure: u64,
    /// Amount already used.
    pub used: u64,
    /// The run's next action after the limit is raised; absent for a limit on a call.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub next: Option<Next>,
}

/// The next action of a run after a raised limit.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Next {
    /// Start another step.
    Step(StepMode),
    /// Retry the same step.
    Retry,
}

/// A budget of the store whose remaining amount is too small for a start.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Refused {
    /// Amount used or reserved.
    pub taken: u64,
    /// Amount requested.
    pub wanted: u64,
    /// The approvers that may raise the cap; empty: everyone who may answer the interrupt.
    #[serde(default, skip_serializing_if = "BTreeSet::is_empty")]
    pub approvers: BTreeSet<Approver>,
}

/// An answer to an interrupt.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "answer", rename_all = "snake_case")]
pub enum Answer {
    /// The call may run.
    Approve,
    /// The call may run with other arguments.
    Edit {
        /// The new arguments as JSON.
        arguments: Content,
    },
    /// The call may not run, or the question is declined.
    Deny {
        /// Reason, which the model receives.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        reason: Option<String>,
    },
    /// A reply to a question.
    Reply(Box<Reply>),
    /// The call in doubt took effect, with this result.
    Done {
        /// Result, which the model receives.
        result: String,
    },
    /// The call in doubt did not take effect: dispatch it again.
    /// For a limit: the limit was raised elsewhere, so retry.
    Retry,
    /// Treat the call in doubt as failed.
    Fail {
        /// Reason, which the model receives.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        reason: Option<String>,
    },
    /// Raise the limit for the rest of the run.
    Raise {
        /// New value of the limit.
        to: u64,
    },
    /// Keep the limit and end the run.
    Stop,
    /// The run ended before an answer arrived, or the question has changed.
    Withdrawn,
}

/// A reply to a question. (WT-H6)
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Reply {
    /// The chosen option.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub selected: Option<String>,
    /// A free-text answer.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub text: Option<String>,
    /// The requested values, or new values for members of `params`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub values: Option<Value>,
}
