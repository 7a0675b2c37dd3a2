//! One event of a chat completions stream, borrowed from its bytes.
//!
//! The common fields are parsed into structs. Rare fields stay JSON, as do those that are returned to the provider
//! unchanged (tool calls, reasoning details, content parts).

use std::fmt;

use serde::Deserialize;
use serde::de::{Deserializer, IgnoredAny, MapAccess, SeqAccess, Visitor};
use serde_json::{Map, Value};
use windlass_machine::Usage;

use crate::stream::lenient::{Count, List, Object, Text, absent};

/// A `chat.completion.chunk`, a whole `chat.completion`, or an error.
#[derive(Default, Deserialize)]
#[serde(default)]
pub(crate) struct Chunk<'a> {
    /// `chat.completion.chunk`; several gateways omit it.
    #[serde(borrow)]
    pub object: Text<'a>,
    /// The name of the responding model.
    #[serde(borrow)]
    pub model: Text<'a>,
    /// The first alternative. Requests never ask for more than one alternative.
    #[serde(borrow)]
    pub choices: Choices<'a>,
    /// Total token counts, in a separate chunk or with the last choice.
    pub usage: Object<ChatUsage>,
    /// An error in the middle of a stream.
    pub error: InBandError,
}

/// The choices of a chunk.
#[derive(Default)]
pub(crate) struct Choices<'a> {
    /// The choice with index 0, or the first choice without an index.
    pub first: Option<Choice<'a>>,
    /// Whether the field is present.
    pub present: bool,
}

/// One choice.
#[derive(Default, Deserialize)]
#[serde(default)]
pub(crate) struct Choice<'a> {
    index: Count,
    /// The content that this chunk adds to the message.
    #[serde(borrow)]
    pub delta: Object<Delta<'a>>,
    /// The whole message, if the provider responds without streaming.
    #[serde(borrow)]
    pub message: Object<Delta<'a>>,
    /// Why the reply ended.
    #[serde(borrow)]
    pub finish_reason: Text<'a>,
    /// The reason in the notation of the provider behind a gateway.
    #[serde(borrow)]
    pub native_finish_reason: Text<'a>,
    /// Total token counts, which Moonshot reports in the choice.
    pub usage: Object<ChatUsage>,
}

/// Fields of the assistant's message.
#[derive(Default, Deserialize)]
#[serde(default)]
pub(crate) struct Delta<'a> {
    /// Text of the answer, or its parts.
    #[serde(borrow)]
    pub content: Content<'a>,
    /// Text of a refusal.
    #[serde(borrow)]
    pub refusal: Text<'a>,
    #[serde(borrow)]
    reasoning_content: Text<'a>,
    #[serde(borrow)]
    reasoning: Text<'a>,
    #[serde(borrow)]
    reasoning_text: Text<'a>,
    /// Structured reasoning with signatures. (OpenRouter)
    pub reasoning_details: List<Value>,
    /// Generated images.
    pub images: List<Value>,
    /// A spoken answer: its id and transcript.
    pub audio: Object<Map<String, Value>>,
    /// Fragments of tool calls.
    pub tool_calls: List<Value>,
}

impl Delta<'_> {
    /// Returns the reasoning text and the name of its field. Servers
    /// that send several fields repeat the text.
    pub(crate) fn reasoning(&self) -> Option<(&'static str, &str)> {
        [
            ("reasoning_content", &self.reasoning_content),
            ("reasoning", &self.reasoning),
            ("reasoning_text", &self.reasoning_text),
        ]
        .into_iter()
        .find_map(|(field, text)| Some((field, text.filled()?)))
    }
}

/// The `content` of a message.
#[derive(Default)]
pub(crate) enum Content<'a> {
    /// Absent, `null`, or of no known form.
    #[default]
    None,
    /// Text.
    Text(Text<'a>),
    /// Content parts.
    Parts(Vec<Value>),
}

/// Token counts in all known spellings.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
pub(crate) struct ChatUsage {
    prompt_tokens: Count,
    completion_tokens: Count,
    total_tokens: Count,
    prompt_tokens_details: Object<PromptDetails>,
    completion_tokens_details: Object<CompletionDetails>,
    /// Mistral's cached tokens.
    num_cached_tokens: Count,
    /// DeepSeek's cached tokens.
    prompt_cache_hit_tokens: Count,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
struct PromptDetails {
    audio_tokens: Count,
    cached_tokens: Count,
    cache_write_tokens: Count,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
struct CompletionDetails {
    reasoning_tokens: Count,
}

impl ChatUsage {
    /// Converts the counts to Windlass's form, in which totals include cached, written and reasoning tokens. A count
    /// that is missing in an existing details object is zero; any other missing count is unknown. The reasoning count
    /// is omitted unless `counts_reasoning`.
    pub(crate) fn totals(&self, counts_reasoning: bool) -> Usage {
        let prompt_details = self.prompt_tokens_details.0.as_ref();
        let completion_details = self.completion_tokens_details.0.as_ref();
        let (completion, total) = (self.completion_tokens.0, self.total_tokens.0);
        let audio = prompt_details.and_then(|details| details.audio_tokens.0).unwrap_or(0);
        let input = self.prompt_tokens.0.map(|prompt| {
            // Some providers count audio in addition to the prompt, which the total reveals.
            let beside = prompt.saturating_add(audio);
            let is_beside = Some(beside.saturating_add(completion.unwrap_or(0))) == total;
            if audio != 0 && is_beside { beside } else { prompt }
        });
        let reasoning = completion_details.map(|details| details.reasoning_tokens.0.unwrap_or(0));
        // xAI counts reasoning in addition to the completion, which the total reveals.
        let completion = completion.map(|completion| {
            let beside = completion.saturating_add(reasoning.unwrap_or(0));
            let is_beside = input.map(|input| input.saturating_add(beside)) == total;
            if total.is_some() && is_beside { beside } else { completion }
        });
        Usage {
            input,
            output: completion.or_else(|| total.map(|total| total.saturating_sub(input.unwrap_or(0)))),
            cached: prompt_details
                .and_then(|details| details.cached_tokens.0)
                .or(self.num_cached_tokens.0)
                .or(self.prompt_cache_hit_tokens.0)
                .or(prompt_details.map(|_| 0)),
            cache_written: prompt_details.and_then(|details| details.cache_write_tokens.0),
            reasoning: reasoning.filter(|_| counts_reasoning),
        }
    }
}

/// Whether an event has an `error` that is an object or a text. Any other value, such as `null`, accompanies valid
/// usage.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct InBandError(pub bool);

impl<'de> Deserialize<'de> for InBandError {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let is_error = match Value::deserialize(deserializer)? {
            Value::Object(_) => true,
            Value::String(message) => !message.is_empty(),
            Value::Null | Value::Bool(_) | Value::Number(_) | Value::Array(_) => false,
        };
        Ok(Self(is_error))
    }
}

impl<'de: 'a, 'a> Deserialize<'de> for Choices<'a> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct ChoicesVisitor;
        impl<'de> Visitor<'de> for ChoicesVisitor {
            type Value = Choices<'de>;
            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a list of choices")
            }
            fn visit_seq<A: SeqAccess<'de>>(self, mut list: A) -> Result<Self::Value, A::Error> {
                let mut choices = Choices { present: true, ..Choices::default() };
                while let Some(Object(choice)) = list.next_element::<Object<Choice<'de>>>()? {
                    let first = choice.filter(|choice| choice.index.0.unwrap_or(0) == 0);
                    choices.first = choices.first.or(first);
                }
                Ok(choices)
            }
            absent!(bool signed unsigned float null string object);
        }
        deserializer.deserialize_any(ChoicesVisitor)
    }
}

impl<'de: 'a, 'a> Deserialize<'de> for Content<'a> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct ContentVisitor;
        impl<'de> Visitor<'de> for ContentVisitor {
            type Value = Content<'de>;
            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("text or content parts")
            }
            fn visit_borrowed_str<E>(self, text: &'de str) -> Result<Self::Value, E> {
                Ok(Content::Text(Text(Some(text.into()))))
            }
            fn visit_str<E>(self, text: &str) -> Result<Self::Value, E> {
                Ok(Content::Text(Text(Some(text.to_owned().into()))))
            }
            fn visit_seq<A: SeqAccess<'de>>(self, list: A) -> Result<Self::Value, A::Error> {
                Vec::deserialize(serde::de::value::SeqAccessDeserializer::new(list)).map(Content::Parts)
            }
            fn visit_map<A: MapAccess<'de>>(self, object: A) -> Result<Self::Value, A::Error> {
                let part = Value::deserialize(serde::de::value::MapAccessDeserializer::new(object))?;
                Ok(Content::Parts(vec![part]))
            }
            absent!(bool signed unsigned float null);
        }
        deserializer.deserialize_any(ContentVisitor)
    }
}
