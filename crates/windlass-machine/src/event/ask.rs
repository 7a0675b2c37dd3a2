//! The words of events about what people are asked, and what they say.
//!
//! Part of what is serialised for ever; nothing here decides.

use std::collections::BTreeSet;

use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::StepMode;
use crate::id::{Digest, ToolName};
use crate::message::{Content, INLINE_MAX_BYTES};
use crate::policy::{Approver, check_json};

/// What an interrupt asks.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum InterruptKind {
    /// May this call run?
    Approval {
        /// The tool.
        tool: ToolName,
        /// What the approval is bound to.
        approval: Digest,
        /// What the call would do, where the tool can tell beforehand.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        preview: Option<Content>,
    },
    /// The host program's hook wants somebody to look at this call.
    Hook {
        /// The tool.
        tool: ToolName,
        /// Why.
        reason: String,
    },
    /// The agent or a tool's server asks something.
    Question(Box<Question>),
    /// Somebody has to sign in at a tool's server first, or to open a page that it names.
    SignIn {
        /// The server.
        server: String,
        /// Where.
        url: String,
        /// What the server says of a page of its own; absent where it is Windlass that has to be let in.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        message: Option<String>,
    },
    /// The call is done by a runner of the host program, which replies with its result. (LM-B5)
    Handoff {
        /// Which runner.
        runner: String,
    },
    /// A dispatched call's outcome is unknown: was it done?
    InDoubt {
        /// The tool.
        tool: ToolName,
    },
    /// A limit is reached: go on with a higher one, or stop?
    Limit(Box<LimitAsked>),
}

impl InterruptKind {
    /// Whether the reply says by itself that the call may be dispatched. What was let through once and is in doubt keeps
    /// the leave that it had.
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
    /// Checks that what a tool or a model asks can be recorded in one piece and read back: every list of what waits for
    /// people holds it. The error completes a sentence about it.
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
                // It would be read back as one that was left out.
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

/// Choices of one question: more than a person reads.
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
    /// What is asked.
    pub summary: String,
    /// Values to approve or change.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub params: Option<Value>,
    /// Choices.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub options: Vec<String>,
    /// Whether an answer in one's own words is taken.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub free_input: bool,
    /// A JSON schema of the values that are asked for.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub schema: Option<Value>,
}

/// A limit that is reached, and what was to be done next.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct LimitAsked {
    /// Its name.
    pub limit: String,
    /// Its figure.
    pub figure: u64,
    /// What is used of it.
    pub used: u64,
    /// What goes on when it is raised; absent for a limit on a call.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub next: Option<Next>,
}

/// What a run goes on with.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Next {
    /// Another step.
    Step(StepMode),
    /// Another try at the same step.
    Retry,
}

/// A budget that the store keeps count of and that has no room for what was to be started.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Refused {
    /// What is used or reserved of it.
    pub taken: u64,
    /// What was wanted.
    pub wanted: u64,
    /// Who may raise it; empty: whoever may answer at all.
    #[serde(default, skip_serializing_if = "BTreeSet::is_empty")]
    pub approvers: BTreeSet<Approver>,
}

/// A reply to an interrupt.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "answer", rename_all = "snake_case")]
pub enum Answer {
    /// The call may run.
    Approve,
    /// The call may run with other arguments.
    Edit {
        /// Those, as JSON.
        arguments: Content,
    },
    /// The call may not run; the question is declined.
    Deny {
        /// Told to the model.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        reason: Option<String>,
    },
    /// What was asked for.
    Reply(Box<Reply>),
    /// The call in doubt was done, with this result.
    Done {
        /// Told to the model.
        result: String,
    },
    /// The call in doubt was not done: dispatch it again. The limit was raised elsewhere: try again.
    Retry,
    /// The call in doubt counts as failed.
    Fail {
        /// Told to the model.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        reason: Option<String>,
    },
    /// The limit is this for the rest of the run.
    Raise {
        /// The new figure.
        to: u64,
    },
    /// The limit stays, and the run ends.
    Stop,
    /// The run ended before a reply came, or what was asked has changed.
    Withdrawn,
}

/// A reply to a question. (WT-H6)
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Reply {
    /// One of the options.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub selected: Option<String>,
    /// In one's own words.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub text: Option<String>,
    /// The values that were asked for, or those of `params` that are to be others.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub values: Option<Value>,
}
