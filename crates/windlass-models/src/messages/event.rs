//! One event of a messages stream, borrowed from its bytes.
//!
//! Text, reasoning, signatures and input are parsed into structs. Initial blocks and other deltas stay JSON, because
//! they are returned to the provider unchanged.

use serde::Deserialize;
use serde_json::{Map, Value};
use windlass_machine::Usage;

use crate::stream::lenient::{Count, Object, Text};

/// An event.
#[derive(Default, Deserialize)]
#[serde(default)]
pub(crate) struct Event<'a> {
    /// The kind.
    #[serde(borrow, rename = "type")]
    pub kind: Text<'a>,
    /// The position of the block.
    pub index: Count,
    /// The content added to the block or to the message.
    #[serde(borrow)]
    pub delta: Object<Delta<'a>>,
    /// The initial state of a block.
    pub content_block: Object<Map<String, Value>>,
    /// The initial state of the message.
    #[serde(borrow)]
    pub message: Object<Message<'a>>,
    /// Total token counts at the end.
    pub usage: Object<MessagesUsage>,
}

/// The initial state of a message.
#[derive(Default, Deserialize)]
#[serde(default)]
pub(crate) struct Message<'a> {
    /// The name of the responding model.
    #[serde(borrow)]
    pub model: Text<'a>,
    /// Total token counts of the prompt.
    pub usage: Object<MessagesUsage>,
    /// The container that hosted tools run in.
    pub container: Object<Map<String, Value>>,
}

/// The content that an event adds.
#[derive(Default, Deserialize)]
#[serde(default)]
pub(crate) struct Delta<'a> {
    /// The kind, in deltas of blocks.
    #[serde(borrow, rename = "type")]
    pub kind: Text<'a>,
    /// More text.
    #[serde(borrow)]
    pub text: Text<'a>,
    /// More reasoning.
    #[serde(borrow)]
    pub thinking: Text<'a>,
    /// More of a call's input.
    #[serde(borrow)]
    pub partial_json: Text<'a>,
    /// Another citation.
    pub citation: Value,
    /// Why the message ended.
    #[serde(borrow)]
    pub stop_reason: Text<'a>,
    /// The container that hosted tools ran in.
    pub container: Object<Map<String, Value>>,
}

/// Token counts. `input_tokens` excludes cached and written tokens.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
pub(crate) struct MessagesUsage {
    input_tokens: Count,
    output_tokens: Count,
    cache_read_input_tokens: Count,
    cache_creation_input_tokens: Count,
    output_tokens_details: Object<OutputDetails>,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
struct OutputDetails {
    thinking_tokens: Count,
}

impl MessagesUsage {
    /// Combines the counts at the start and the end. Counts that are absent at the end are taken from
    /// `start`. Some gateways report zeros at the end.
    pub(crate) fn totals(self, start: &Self) -> Usage {
        let of = |end: Count, start: Count| end.0.filter(|tokens| *tokens > 0).or(start.0).or(end.0);
        let cached = of(self.cache_read_input_tokens, start.cache_read_input_tokens);
        let cache_written = of(self.cache_creation_input_tokens, start.cache_creation_input_tokens);
        let input = of(self.input_tokens, start.input_tokens);
        let beside = cached.unwrap_or(0).saturating_add(cache_written.unwrap_or(0));
        Usage {
            input: input.map(|input| input.saturating_add(beside)),
            output: self.output_tokens.0,
            cached,
            cache_written,
            reasoning: self.output_tokens_details.0.and_then(|details| details.thinking_tokens.0),
        }
    }
}
