//! What should be in flight: a function of the state alone.
//!
//! It says nothing of how a command is carried out; that is the driver's.

use serde::{Deserialize, Serialize};

use crate::agent::EffectClass;
use crate::event::Answer;
use crate::id::{Attempt, CallKey, EffectId, ModelName, ToolName};
use crate::message::Content;

/// What should be in flight.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "command", rename_all = "snake_case")]
pub enum Command {
    /// A model call; `Machine::request` builds what is sent.
    CallModel {
        /// Which step and try.
        attempt: Attempt,
        /// Which model.
        model: ModelName,
    },
    /// A tool call.
    CallTool {
        /// Which call.
        call: CallKey,
        /// How often it has been started, this start included.
        start: u32,
        /// The tool.
        tool: ToolName,
        /// The effect's stable id.
        effect: EffectId,
        /// What may be done again.
        class: EffectClass,
        /// The arguments that are sent.
        arguments: Content,
        /// How long it may take, in milliseconds.
        timeout_ms: u64,
        /// What people said to what the call asked, with what the tool wanted back.
        reply: Option<Box<Replied>>,
        /// What a call that was put off until now gets back.
        resumed: Option<Box<Resumed>>,
    },
    /// A look at what a call would do, without doing it.
    PreviewTool {
        /// Which call.
        call: CallKey,
        /// How often it was looked at before.
        round: u32,
        /// The tool.
        tool: ToolName,
        /// The arguments that would be sent.
        arguments: Content,
        /// How long it may take, in milliseconds.
        timeout_ms: u64,
    },
    /// A read that may tell the outcome of a dispatched call.
    Reconcile {
        /// Which call.
        call: CallKey,
        /// Which try.
        attempt: u32,
        /// The tool that was called.
        tool: ToolName,
        /// The effect's stable id.
        effect: EffectId,
        /// The arguments that were sent.
        arguments: Content,
        /// How long it may take, in milliseconds.
        timeout_ms: u64,
    },
}

impl Command {
    /// The tool that it wants at work.
    pub fn tool(&self) -> Option<&ToolName> {
        match self {
            Self::CallModel { .. } => None,
            Self::CallTool { tool, .. } | Self::PreviewTool { tool, .. } | Self::Reconcile { tool, .. } => {
                Some(tool)
            }
        }
    }
}

/// A reply on its way to the tool that asked.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Replied {
    /// What was said.
    pub answer: Answer,
    /// What the tool wanted back.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub state: Option<Content>,
}

/// What a call that was put off gets back when its time has come.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Resumed {
    /// How often it was put off.
    pub times: u32,
    /// What the tool wanted back.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub state: Option<Content>,
}
