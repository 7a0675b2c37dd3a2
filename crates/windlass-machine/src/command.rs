//! What should be in flight: a function of the state alone.
//!
//! It says nothing of how a command is carried out; that is the driver's.

use serde::{Deserialize, Serialize};

use crate::agent::EffectClass;
use crate::id::{Attempt, CallKey, EffectId, ModelName, ToolName};
use crate::message::Content;

/// What should be in flight.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
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
    },
}
