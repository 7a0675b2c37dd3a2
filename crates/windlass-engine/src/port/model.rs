//! The model port: one request in, a stream of fragments and one finished reply out.
//!
//! An adapter does not retry, store or decide anything; it returns typed errors. Dropping the stream closes the
//! connection to the provider.

use std::collections::HashMap;
use std::sync::Arc;

use bytes::Bytes;
use futures_util::stream::BoxStream;
use serde::{Deserialize, Serialize};
use windlass_machine::{
    Block, Content, Digest, FailureClass, MicroUsd, ModelName, ModelRequest, ModelSettings, StopReason,
    ToolSpec, Usage,
};

/// A model that an adapter can call.
pub trait Model: Send + Sync {
    /// Returns the model's known properties.
    fn info(&self) -> &ModelInfo;

    /// Sends one request. The stream ends after [`ModelEvent::Finished`] or an error; an end without either is a
    /// defect of the adapter. The driver polls the stream in the run's own task, so it must not block its thread.
    fn stream(&self, call: ModelCall) -> BoxStream<'static, Result<ModelEvent, ModelError>>;
}

/// Finds models by name.
pub trait Models: Send + Sync {
    /// Resolves `provider/model`. An error describes the required configuration. Does not contact the provider.
    fn resolve(&self, name: &ModelName) -> Result<Arc<dyn Model>, ModelError>;
}

/// A request together with the bytes that it references.
#[derive(Clone, Debug)]
pub struct ModelCall {
    /// The request that the machine built.
    pub request: ModelRequest,
    /// The tools that `request.tools` and `request.loaded` name, in display order.
    pub tools: Arc<[ToolSpec]>,
    /// The blobs that the request references, except the tool catalogue.
    pub blobs: HashMap<Digest, Bytes>,
}

impl ModelCall {
    /// Returns the text of a content; `None` if its blob is missing or not UTF-8.
    pub fn text<'a>(&'a self, content: &'a Content) -> Option<&'a str> {
        match content {
            Content::Inline(text) => Some(text),
            Content::Blob(blob) => std::str::from_utf8(self.blobs.get(&blob.digest)?).ok(),
        }
    }
}

/// Known properties of a model. `None` means unknown, never zero.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct ModelInfo {
    /// Name of the model, `provider/model`.
    pub name: String,
    /// Name of the wire protocol that the adapter uses.
    pub api: String,
    /// Size of prompt and output together, in tokens.
    pub context_tokens: Option<u64>,
    /// Maximum size of the output, in tokens.
    pub max_output_tokens: Option<u64>,
    /// Whether the model supports tool calls.
    pub tool_calls: Option<bool>,
    /// Whether the model supports output that follows a JSON schema.
    pub structured_output: Option<bool>,
    /// Whether the model generates reasoning.
    pub reasoning: Option<bool>,
    /// The provider's list price.
    pub price: Option<Price>,
}

/// An ability that a run may require of a model besides text. (SK-L13)
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ability {
    /// Tool calls.
    ToolCalls,
    /// Output that follows a JSON schema.
    StructuredOutput,
}

impl ModelInfo {
    /// Whether the model has an ability; `None` if unknown.
    pub fn can(&self, ability: Ability) -> Option<bool> {
        match ability {
            Ability::ToolCalls => self.tool_calls,
            Ability::StructuredOutput => self.structured_output,
        }
    }

    /// Returns the first of these abilities that the model is known
    /// to lack. An unknown ability is not treated as lacking.
    pub fn lacks(&self, needed: impl IntoIterator<Item = Ability>) -> Option<Ability> {
        needed.into_iter().find(|ability| self.can(*ability) == Some(false))
    }
}

impl Ability {
    /// Returns the abilities that an agent with these settings requires.
    pub fn needed(settings: &ModelSettings) -> impl Iterator<Item = Self> + use<> {
        let schema = settings.output_schema.is_some().then_some(Self::StructuredOutput);
        [Self::ToolCalls].into_iter().chain(schema)
    }

    /// Returns the error message for a model that lacks the ability.
    pub fn refusal(self, model: &ModelName) -> String {
        match self {
            Self::ToolCalls => format!("model `{model}` cannot call tools, which an agent needs"),
            Self::StructuredOutput => {
                format!("model `{model}` cannot be held to a JSON schema, which this agent asks for")
            }
        }
    }
}

/// List price in US dollars per million tokens.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Price {
    /// Price of prompt tokens that were not read from or written to a cache.
    pub input: f64,
    /// Price of generated tokens.
    pub output: f64,
    /// Price of prompt tokens read from a cache; `None`: the price of `input`.
    pub cached: Option<f64>,
    /// Price of prompt tokens written to a cache; `None`: the price of `input`.
    pub cache_written: Option<f64>,
}

impl Price {
    /// Computes the cost of a call; `None` if the provider did not report its tokens. (SK-L12)
    pub fn cost(&self, usage: &Usage) -> Option<MicroUsd> {
        let (input, output) = (usage.input?, usage.output?);
        let cached = usage.cached.unwrap_or(0).min(input);
        let written = usage.cache_written.unwrap_or(0).min(input - cached);
        let plain = input - cached - written;
        // Dollars per million tokens are micro-dollars per token.
        let micro = plain as f64 * self.input
            + cached as f64 * self.cached.unwrap_or(self.input)
            + written as f64 * self.cache_written.unwrap_or(self.input)
            + output as f64 * self.output;
        Some(MicroUsd(micro.round() as u64))
    }
}

/// An item of a reply's stream.
#[derive(Clone, Debug, PartialEq)]
pub enum ModelEvent {
    /// A live fragment; never journaled.
    Delta(Delta),
    /// The whole reply; always the last item.
    Finished(Box<Reply>),
}

/// A live fragment of a reply. `part` is the index of its block in the reply, counted from 0.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "type")]
pub enum Delta {
    /// An addition to a text block.
    #[serde(rename = "message.delta")]
    Text {
        /// Index of the block.
        part: u32,
        /// Text to append.
        text: Arc<str>,
    },
    /// An addition to a reasoning block.
    #[serde(rename = "reasoning.delta")]
    Reasoning {
        /// Index of the block.
        part: u32,
        /// Text to append.
        text: Arc<str>,
    },
    /// An addition to a tool call.
    #[serde(rename = "call.delta")]
    Call {
        /// Index of the block.
        part: u32,
        /// Name of the tool, if already known.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        name: Option<Arc<str>>,
        /// Part of the arguments' JSON text, to append.
        arguments: Arc<str>,
    },
}

/// A finished reply of a model.
#[derive(Clone, Debug, PartialEq)]
pub struct Reply {
    /// Text, reasoning, tool-call and opaque blocks, in the provider's order. Unfinished calls are omitted. Call ids
    /// are unique within the reply and not empty.
    pub blocks: Vec<Block>,
    /// The reason why the model stopped.
    pub stop: StopReason,
    /// Token counts, as reported by the provider.
    pub usage: Usage,
    /// The model that answered, as the provider names it; `None` if the provider does not report it.
    pub model: Option<String>,
}

/// The reason why a model call failed.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
#[error("{message}")]
pub struct ModelError {
    /// Kind of failure; determines whether the call is retried.
    pub class: FailureClass,
    /// Description in plain language, without secrets.
    pub message: String,
    /// Wait before a retry that the provider requests, in milliseconds.
    pub retry_after_ms: Option<u64>,
    /// HTTP status of the response; `None` without a response.
    pub status: Option<u16>,
}

impl ModelError {
    /// Creates an error without a retry time or HTTP status.
    pub fn new(class: FailureClass, message: impl Into<String>) -> Self {
        Self { class, message: message.into(), retry_after_ms: None, status: None }
    }
}
