//! Commands: the operations that should be in flight, as a function of the state.
//!
//! This module runs no commands: the driver decides how to carry them out.

use serde::{Deserialize, Serialize};

use crate::agent::EffectClass;
use crate::event::Answer;
use crate::id::{Attempt, CallKey, EffectId, ModelName, ToolName};
use crate::message::Content;

/// An operation that should be in flight.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "command", rename_all = "snake_case")]
pub enum Command {
    /// A model call; `Machine::request` builds the request.
    CallModel {
        /// Step and attempt of the call.
        attempt: Attempt,
        /// Model to call.
        model: ModelName,
    },
    /// A tool call.
    CallTool {
        /// Step and index of the call.
        call: CallKey,
        /// Number of this start; 1 for the first.
        start: u32,
        /// Tool to call.
        tool: ToolName,
        /// Stable id of the effect.
        effect: EffectId,
        /// Determines whether the call may be repeated if its outcome is lost.
        class: EffectClass,
        /// Arguments to send.
        arguments: Content,
        /// Milliseconds without progress after which the call is stopped.
        timeout_ms: u64,
        /// The answer to the call's question, with the state that the tool returned.
        reply: Option<Box<Replied>>,
        /// The state of a deferred call that resumes.
        resumed: Option<Box<Resumed>>,
    },
    /// A preview: requests from the tool a description of the call's effects.
    PreviewTool {
        /// Call to preview.
        call: CallKey,
        /// Number of earlier previews.
        round: u32,
        /// Tool of the call.
        tool: ToolName,
        /// Arguments that would be sent.
        arguments: Content,
        /// Milliseconds after which the preview is stopped.
        timeout_ms: u64,
    },
    /// A read that may reveal the outcome of a dispatched call.
    Reconcile {
        /// The call in question.
        call: CallKey,
        /// Number of the read.
        attempt: u32,
        /// Tool of the call.
        tool: ToolName,
        /// Stable id of the effect.
        effect: EffectId,
        /// Arguments that were sent.
        arguments: Content,
        /// Milliseconds after which the read is stopped.
        timeout_ms: u64,
    },
}

impl Command {
    /// Returns the tool that the command uses; `None` for a model call.
    pub fn tool(&self) -> Option<&ToolName> {
        match self {
            Self::CallModel { .. } => None,
            Self::CallTool { tool, .. } | Self::PreviewTool { tool, .. } | Self::Reconcile { tool, .. } => {
                Some(tool)
            }
        }
    }
}

/// The answer to a tool's question.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Replied {
    /// Content of the answer.
    pub answer: Answer,
    /// The state that the tool returned with its question.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub state: Option<Content>,
}

/// State of a deferred call that resumes.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Resumed {
    /// Number of times that the call was deferred.
    pub times: u32,
    /// The state that the tool returned with its deferral.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub state: Option<Content>,
}
