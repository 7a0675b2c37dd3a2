//! Converts tools to the library's form.
//!
//! Rewrites schema parts that a provider would reject. The tool still
//! validates arguments against the whole schema.

use rig_core::completion::ToolDefinition;
use rig_core::message::ToolName;
use windlass_engine::port::model::{ModelCall, ModelError};
use windlass_machine::FailureClass;

use crate::config::WireKind;
use crate::schema::for_gemini;

/// Returns the tools of a call in the library's form.
pub(crate) fn tools(call: &ModelCall, kind: WireKind) -> Result<Vec<ToolDefinition>, ModelError> {
    call.tools
        .iter()
        .map(|tool| {
            let name = ToolName::new(tool.name.as_str())
                .map_err(|_| ModelError::new(FailureClass::InvalidRequest, "a tool has no name"))?;
            let parameters = match kind {
                WireKind::Gemini => for_gemini(&tool.input_schema),
                WireKind::Anthropic
                | WireKind::OpenaiChat
                | WireKind::OpenaiResponses
                | WireKind::Converse => tool.input_schema.clone(),
            };
            Ok(ToolDefinition::new(name, tool.description.clone(), parameters))
        })
        .collect()
}
