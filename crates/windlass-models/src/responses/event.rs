//! One event of a responses stream, borrowed from its bytes.
//!
//! Deltas are parsed into structs. Items stay JSON, because they are returned to the provider unchanged.

use serde::Deserialize;
use serde_json::{Map, Value};
use windlass_machine::Usage;

use crate::stream::lenient::{Count, List, Object, Text};

/// An event.
#[derive(Default, Deserialize)]
#[serde(default)]
pub(crate) struct Event<'a> {
    /// The kind.
    #[serde(borrow, rename = "type")]
    pub kind: Text<'a>,
    /// The position of the item.
    pub output_index: Count,
    /// The id of the item.
    #[serde(borrow)]
    pub item_id: Text<'a>,
    /// The part of the item's content.
    pub content_index: Count,
    /// The part of the item's summary.
    pub summary_index: Count,
    /// More text, reasoning, arguments or input.
    #[serde(borrow)]
    pub delta: Text<'a>,
    /// The initial or the final state of an item.
    pub item: Object<Map<String, Value>>,
    /// The response, in events about the whole response.
    #[serde(borrow)]
    pub response: Object<Response<'a>>,
}

/// The response as stated in its last event.
#[derive(Default, Deserialize)]
#[serde(default)]
pub(crate) struct Response<'a> {
    /// The state of the response.
    #[serde(borrow)]
    pub status: Text<'a>,
    /// Why the response is incomplete.
    #[serde(borrow)]
    pub incomplete_details: Object<IncompleteDetails<'a>>,
    /// All items.
    pub output: List<Value>,
    /// Token counts.
    pub usage: Object<ResponsesUsage>,
    /// The name of the responding model.
    #[serde(borrow)]
    pub model: Text<'a>,
}

/// Why a response is incomplete.
#[derive(Default, Deserialize)]
#[serde(default)]
pub(crate) struct IncompleteDetails<'a> {
    /// The provider's reason code.
    #[serde(borrow)]
    pub reason: Text<'a>,
}

/// Token counts. Totals include their parts.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
pub(crate) struct ResponsesUsage {
    input_tokens: Count,
    output_tokens: Count,
    input_tokens_details: Object<InputDetails>,
    output_tokens_details: Object<OutputDetails>,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
struct InputDetails {
    cached_tokens: Count,
    cache_write_tokens: Count,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
struct OutputDetails {
    reasoning_tokens: Count,
}

impl ResponsesUsage {
    /// Converts the counts to Windlass's form. An absent count is unknown.
    pub(crate) fn totals(&self) -> Usage {
        let input = self.input_tokens_details.0.as_ref();
        Usage {
            input: self.input_tokens.0,
            output: self.output_tokens.0,
            cached: input.and_then(|details| details.cached_tokens.0),
            cache_written: input.and_then(|details| details.cache_write_tokens.0),
            reasoning: self.output_tokens_details.0.as_ref().and_then(|details| details.reasoning_tokens.0),
        }
    }
}
