//! One event of a Gemini stream.
//!
//! Totals and names are parsed into structs. Candidates stay JSON, because their parts are returned to the provider
//! unchanged.

use serde::Deserialize;
use serde_json::Value;
use windlass_machine::Usage;

use crate::stream::lenient::{Count, Object, Text};

/// A chunk of a reply, or an error.
#[derive(Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub(crate) struct Chunk<'a> {
    /// The name of the responding model.
    #[serde(borrow)]
    pub model_version: Text<'a>,
    /// The alternatives. Requests ask for one only.
    pub candidates: Value,
    /// Total token counts so far.
    pub usage_metadata: Object<UsageMetadata>,
    /// The provider's assessment of the prompt.
    pub prompt_feedback: Object<PromptFeedback>,
    /// An error in the middle of a stream.
    pub error: Value,
}

/// The provider's assessment of the prompt.
#[derive(Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub(crate) struct PromptFeedback {
    block_reason: Value,
}

impl PromptFeedback {
    /// Returns why the provider blocked the prompt; `None` if it was not blocked.
    pub(crate) fn block_reason(&self) -> Option<String> {
        let reason = match &self.block_reason {
            Value::String(reason) => reason.clone(),
            // The provider sends a reason that its schema does not know as a number.
            Value::Number(number) => format!("BLOCK_REASON_{number}"),
            Value::Null | Value::Bool(_) | Value::Array(_) | Value::Object(_) => return None,
        };
        let is_stated = !matches!(reason.as_str(), "BLOCK_REASON_UNSPECIFIED" | "BLOCKED_REASON_UNSPECIFIED");
        is_stated.then_some(reason)
    }
}

/// Token counts. Zeros are omitted from the JSON.
#[derive(Clone, Copy, Debug, Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub(crate) struct UsageMetadata {
    prompt_token_count: Count,
    tool_use_prompt_token_count: Count,
    candidates_token_count: Count,
    thoughts_token_count: Count,
    cached_content_token_count: Count,
}

impl UsageMetadata {
    /// Converts the counts to Windlass's form, in which totals include their parts.
    pub(crate) fn totals(&self) -> Usage {
        let sum = |one: Count, other: Count| one.0.unwrap_or(0).saturating_add(other.0.unwrap_or(0));
        Usage {
            input: Some(sum(self.prompt_token_count, self.tool_use_prompt_token_count)),
            output: Some(sum(self.candidates_token_count, self.thoughts_token_count)),
            cached: self.cached_content_token_count.0,
            cache_written: None,
            reasoning: self.thoughts_token_count.0,
        }
    }
}
