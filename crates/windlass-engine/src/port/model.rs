//! The model port: one request in, a stream of fragments and one finished reply out.
//!
//! An adapter retries nothing, stores nothing and decides nothing: what goes wrong is typed and
//! handed back. Dropping the stream closes the connection to the provider.

use std::collections::HashMap;
use std::sync::Arc;

use bytes::Bytes;
use futures_util::stream::BoxStream;
use serde::{Deserialize, Serialize};
use windlass_machine::{
    Block, Content, Digest, FailureClass, MicroUsd, ModelName, ModelRequest, ModelSettings, StopReason,
    ToolSpec, Usage,
};

/// A model of some provider.
pub trait Model: Send + Sync {
    /// What is known of the model.
    fn info(&self) -> &ModelInfo;

    /// Sends one request. The stream ends after [`ModelEvent::Finished`] or an error, whichever comes first;
    /// an end without either is a defect of the adapter. It is polled in the run's own task and must not block its
    /// thread.
    fn stream(&self, call: ModelCall) -> BoxStream<'static, Result<ModelEvent, ModelError>>;
}

/// Finds models by name.
pub trait Models: Send + Sync {
    /// Resolves `provider/model`; the error says what to configure. Does not talk to the provider.
    fn resolve(&self, name: &ModelName) -> Result<Arc<dyn Model>, ModelError>;
}

/// A request with the bytes that it names.
#[derive(Clone, Debug)]
pub struct ModelCall {
    /// The request as the machine built it.
    pub request: ModelRequest,
    /// The tools that `request.tools` and `request.loaded` name, in the order in which they are shown.
    pub tools: Arc<[ToolSpec]>,
    /// Every blob that the request names, catalogue excepted.
    pub blobs: HashMap<Digest, Bytes>,
}

impl ModelCall {
    /// The text of a content, inline or from the blobs; `None` where a blob is missing or not UTF-8.
    pub fn text<'a>(&'a self, content: &'a Content) -> Option<&'a str> {
        match content {
            Content::Inline(text) => Some(text),
            Content::Blob(blob) => std::str::from_utf8(self.blobs.get(&blob.digest)?).ok(),
        }
    }
}

/// What is known of a model before it is called; `None` is "unknown", never zero.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct ModelInfo {
    /// `provider/model`.
    pub name: String,
    /// The wire it speaks.
    pub api: String,
    /// Prompt and output together, in tokens.
    pub context_tokens: Option<u64>,
    /// The largest output, in tokens.
    pub max_output_tokens: Option<u64>,
    /// Whether it calls tools.
    pub tool_calls: Option<bool>,
    /// Whether it can be held to a JSON schema.
    pub structured_output: Option<bool>,
    /// Whether it reasons.
    pub reasoning: Option<bool>,
    /// List price.
    pub price: Option<Price>,
}

/// What a run may ask of a model beyond text. (SK-L13)
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ability {
    /// To call tools.
    ToolCalls,
    /// To answer by a JSON schema.
    StructuredOutput,
}

impl ModelInfo {
    /// Whether the model has an ability; `None`: nobody knows.
    pub fn can(&self, ability: Ability) -> Option<bool> {
        match ability {
            Ability::ToolCalls => self.tool_calls,
            Ability::StructuredOutput => self.structured_output,
        }
    }

    /// The first of these abilities that the model is known to lack. One that nobody knows of is not lacking.
    pub fn lacks(&self, needed: impl IntoIterator<Item = Ability>) -> Option<Ability> {
        needed.into_iter().find(|ability| self.can(*ability) == Some(false))
    }
}

impl Ability {
    /// What an agent with tools needs under these settings.
    pub fn needed(settings: &ModelSettings) -> impl Iterator<Item = Self> + use<> {
        let schema = settings.output_schema.is_some().then_some(Self::StructuredOutput);
        [Self::ToolCalls].into_iter().chain(schema)
    }

    /// What is said of a model that lacks it.
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
    /// Prompt tokens that no cache had.
    pub input: f64,
    /// Generated tokens.
    pub output: f64,
    /// Prompt tokens read from a cache; `None`: as `input`.
    pub cached: Option<f64>,
    /// Prompt tokens written to a cache; `None`: as `input`.
    pub cache_written: Option<f64>,
}

impl Price {
    /// What a call cost; `None` where the provider did not report its tokens. (SK-L12)
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

/// What a stream brings.
#[derive(Clone, Debug, PartialEq)]
pub enum ModelEvent {
    /// A live fragment; never recorded.
    Delta(Delta),
    /// The whole reply; the last event.
    Finished(Box<Reply>),
}

/// A live fragment of a reply. `part` counts the reply's blocks from 0 and keys the live display.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "type")]
pub enum Delta {
    /// More of a text block.
    #[serde(rename = "message.delta")]
    Text {
        /// The block.
        part: u32,
        /// The fragment.
        text: Arc<str>,
    },
    /// More of a reasoning block.
    #[serde(rename = "reasoning.delta")]
    Reasoning {
        /// The block.
        part: u32,
        /// The fragment.
        text: Arc<str>,
    },
    /// More of a tool call.
    #[serde(rename = "call.delta")]
    Call {
        /// The block.
        part: u32,
        /// The tool's name, once known.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        name: Option<Arc<str>>,
        /// A fragment of the arguments' JSON text.
        arguments: Arc<str>,
    },
}

/// A whole reply.
#[derive(Clone, Debug, PartialEq)]
pub struct Reply {
    /// Text, reasoning, tool-call and opaque blocks, in the provider's order. An unfinished call is left out.
    /// Call ids are unique within the reply and not empty.
    pub blocks: Vec<Block>,
    /// Why it ended.
    pub stop: StopReason,
    /// Tokens, as reported.
    pub usage: Usage,
    /// The model that answered, in the provider's words, where it said so.
    pub model: Option<String>,
}

/// Why a model call failed.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
#[error("{message}")]
pub struct ModelError {
    /// What kind of failure; decides about retries.
    pub class: FailureClass,
    /// What happened, in plain words, without secrets.
    pub message: String,
    /// How long the provider asks to wait.
    pub retry_after_ms: Option<u64>,
    /// HTTP status, where there was one.
    pub status: Option<u16>,
}

impl ModelError {
    /// An error of a class.
    pub fn new(class: FailureClass, message: impl Into<String>) -> Self {
        Self { class, message: message.into(), retry_after_ms: None, status: None }
    }
}
