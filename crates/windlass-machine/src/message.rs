//! Messages and their blocks: what the history is made of.
//!
//! A block keeps what Windlass needs in its own form and, beside it, the provider's own item as
//! opaque JSON with its origin, so that the same provider gets it back byte for byte and another
//! one never sees it. Large texts and media are named by digest; nothing here reads a blob.

use std::sync::Arc;

use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::id::{Digest, ModelName, ToolName};
use crate::policy::check_json;

/// Texts longer than this are stored apart as blobs. (design: "What is recorded")
pub const INLINE_MAX_BYTES: usize = 16 * 1024;

/// What stands where a text that is stored apart cannot be shown.
pub const LONG_TEXT: &str = "[a long text]";

/// Who speaks.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Role {
    /// The engine's or the host program's instructions.
    System,
    /// A person or a program that gives the task.
    User,
    /// The model.
    Assistant,
    /// Results of tool calls.
    Tool,
}

/// One entry of the history.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Message {
    /// Who speaks.
    pub role: Role,
    /// What is said, in order.
    pub blocks: Vec<Block>,
}

impl Message {
    /// A message of one text block.
    pub fn text(role: Role, text: impl Into<String>) -> Self {
        Self { role, blocks: vec![Block::text(text)] }
    }

    /// All inline text of the message's text blocks, put together.
    pub fn plain_text(&self) -> String {
        let mut all = String::new();
        for block in &self.blocks {
            if let Block::Text { text: Content::Inline(text), .. } = block {
                all.push_str(text);
            }
        }
        all
    }

    /// The text blocks' texts, in order.
    pub fn texts(&self) -> impl Iterator<Item = &Content> {
        self.blocks.iter().filter_map(|block| match block {
            Block::Text { text, .. } => Some(text),
            Block::Image { .. }
            | Block::File { .. }
            | Block::Reasoning { .. }
            | Block::ToolCall(_)
            | Block::ToolResult(_)
            | Block::Opaque { .. } => None,
        })
    }

    /// All text of the message's text blocks, with a mark in place of each that is stored apart.
    pub fn shown_text(&self) -> String {
        self.texts().map(|text| text.inline().unwrap_or(LONG_TEXT)).collect()
    }

    /// Whether the message says something to a reader or asks for a tool.
    pub fn has_answer(&self) -> bool {
        self.blocks.iter().any(|block| match block {
            Block::Text { text, .. } => text.inline().is_none_or(|text| !text.trim().is_empty()),
            Block::Image { .. } | Block::File { .. } | Block::ToolCall(_) | Block::ToolResult(_) => true,
            Block::Reasoning { .. } | Block::Opaque { .. } => false,
        })
    }

    /// Whether a reply belongs in the history: it has an answer, or items that its provider wants back.
    pub fn is_worth_keeping(&self) -> bool {
        self.has_answer() || self.blocks.iter().any(|block| matches!(block, Block::Opaque { .. }))
    }

    /// The tool calls of the message, in order.
    pub fn calls(&self) -> impl Iterator<Item = &ToolCall> {
        self.blocks.iter().filter_map(|block| match block {
            Block::ToolCall(call) => Some(call),
            Block::Text { .. }
            | Block::Image { .. }
            | Block::File { .. }
            | Block::Reasoning { .. }
            | Block::ToolResult(_)
            | Block::Opaque { .. } => None,
        })
    }
}

/// A part of a message.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "snake_case")]
pub enum Block {
    /// Text for the reader.
    Text {
        /// The text.
        text: Content,
        /// The provider's own item.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        native: Option<Arc<Native>>,
    },
    /// A picture.
    Image {
        /// Its bytes, by digest.
        blob: BlobRef,
    },
    /// A document of another media type.
    File {
        /// The name shown to the model.
        name: String,
        /// Its bytes, by digest.
        blob: BlobRef,
    },
    /// The model's reasoning. It belongs to the provider that minted it.
    Reasoning {
        /// The readable part; may be empty.
        text: Content,
        /// The provider's own item (signature, encrypted content).
        #[serde(default, skip_serializing_if = "Option::is_none")]
        native: Option<Arc<Native>>,
    },
    /// The model asks for a tool.
    ToolCall(ToolCall),
    /// What a tool answered.
    ToolResult(ToolResult),
    /// A provider's item that Windlass does not interpret: kept, replayed to its origin, shown to nobody else.
    Opaque {
        /// The provider's own item.
        native: Arc<Native>,
    },
}

impl Block {
    /// A text block without a provider's item.
    pub fn text(text: impl Into<String>) -> Self {
        Self::Text { text: Content::Inline(text.into()), native: None }
    }

    /// The provider's own item of the block.
    pub fn native(&self) -> Option<&Native> {
        match self {
            Self::Text { native, .. } | Self::Reasoning { native, .. } => native.as_deref(),
            Self::ToolCall(call) => call.native.as_deref(),
            Self::Opaque { native } => Some(native),
            Self::Image { .. } | Self::File { .. } | Self::ToolResult(_) => None,
        }
    }

    /// Checks that the block can be recorded and read back: providers' items are JSON from outside, and a result holds no
    /// results. The error completes a sentence about the block.
    pub fn check(&self) -> Result<(), String> {
        let flat = |block: &Self| match block {
            Self::ToolResult(_) => Err("holds a result within a result".to_owned()),
            Self::Text { .. }
            | Self::Image { .. }
            | Self::File { .. }
            | Self::Reasoning { .. }
            | Self::ToolCall(_)
            | Self::Opaque { .. } => block.check(),
        };
        if let Self::ToolResult(result) = self {
            return result.content.iter().try_for_each(flat);
        }
        self.native().map_or(Ok(()), |native| check_json(&native.item))
    }
}

/// A text that is either here or stored apart.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(untagged)]
pub enum Content {
    /// The text itself, at most [`INLINE_MAX_BYTES`] bytes when recorded.
    Inline(String),
    /// A UTF-8 text by digest.
    Blob(BlobRef),
}

impl Content {
    /// Size in bytes.
    pub fn size_bytes(&self) -> u64 {
        match self {
            Self::Inline(text) => text.len() as u64,
            Self::Blob(blob) => blob.size_bytes,
        }
    }
    /// Estimated tokens.
    pub fn tokens(&self) -> u64 {
        match self {
            Self::Inline(text) => estimate_tokens(text.len() as u64),
            Self::Blob(blob) => blob.tokens,
        }
    }
    /// Digest of the text's bytes.
    pub fn digest(&self) -> Digest {
        match self {
            Self::Inline(text) => Digest::of(text.as_bytes()),
            Self::Blob(blob) => blob.digest,
        }
    }
    /// The text, where it is here.
    pub fn inline(&self) -> Option<&str> {
        match self {
            Self::Inline(text) => Some(text),
            Self::Blob(_) => None,
        }
    }
}

impl From<&str> for Content {
    fn from(text: &str) -> Self {
        Self::Inline(text.to_owned())
    }
}

impl From<String> for Content {
    fn from(text: String) -> Self {
        Self::Inline(text)
    }
}

/// A blob named by its content.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct BlobRef {
    /// BLAKE3 of the bytes.
    pub digest: Digest,
    /// Media type, for example `text/plain` or `image/png`.
    pub media_type: String,
    /// Size in bytes.
    pub size_bytes: u64,
    /// Estimated tokens for the model.
    pub tokens: u64,
}

/// Estimates tokens from a text's bytes: four bytes each, rounded up.
///
/// Good enough for windows and budgets; the provider's own count replaces it once reported.
pub fn estimate_tokens(size_bytes: u64) -> u64 {
    size_bytes.div_ceil(4)
}

/// A tool call as the model asked for it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct ToolCall {
    /// The provider's id of the call; the result names it. Unique within a reply (the adapter sees to it).
    pub id: String,
    /// Which tool.
    pub name: ToolName,
    /// The arguments exactly as the model wrote them, normally a JSON object, replayed to it for ever.
    pub asked: Content,
    /// The provider's own item.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub native: Option<Arc<Native>>,
}

/// What the model sees of a call's outcome. Every call has exactly one.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct ToolResult {
    /// The provider's id of the call.
    pub call_id: String,
    /// Which tool.
    pub name: ToolName,
    /// Text, image and file blocks.
    pub content: Vec<Block>,
    /// Whether the outcome is an error.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub error: bool,
}

impl ToolResult {
    /// The inline text of the content, put together.
    pub fn plain_text(&self) -> String {
        let mut all = String::new();
        for block in &self.content {
            if let Block::Text { text: Content::Inline(text), .. } = block {
                all.push_str(text);
            }
        }
        all
    }
}

/// A provider's item with where it came from.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Native {
    /// Who minted it.
    pub origin: Arc<Origin>,
    /// The item, key order and number text kept.
    pub item: Value,
}

/// Where a reply came from. Only the same origin gets its items back.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Origin {
    /// The wire: `anthropic`, `openai-chat`, `openai-responses`, `gemini`, …
    pub api: String,
    /// Provider and model, as configured.
    pub model: ModelName,
}

/// Tokens of one or more model calls. Totals contain their parts; absent is not zero.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Usage {
    /// Prompt tokens, cached and cache-written ones included.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub input: Option<u64>,
    /// Generated tokens, reasoning included.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub output: Option<u64>,
    /// Prompt tokens read from a cache.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cached: Option<u64>,
    /// Prompt tokens written to a cache.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cache_written: Option<u64>,
    /// Generated tokens that were reasoning.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reasoning: Option<u64>,
}

impl Usage {
    /// Adds another call's usage; a figure is absent only where both lack it.
    pub fn add(&mut self, other: &Self) {
        fn sum(into: &mut Option<u64>, more: Option<u64>) {
            if let Some(more) = more {
                *into = Some(into.unwrap_or(0).saturating_add(more));
            }
        }
        sum(&mut self.input, other.input);
        sum(&mut self.output, other.output);
        sum(&mut self.cached, other.cached);
        sum(&mut self.cache_written, other.cache_written);
        sum(&mut self.reasoning, other.reasoning);
    }
}

/// Why a reply ended.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum StopReason {
    /// The model had finished.
    End,
    /// The model waits for the results of its calls.
    ToolCalls,
    /// The output cap was reached; the message may be incomplete.
    MaxTokens,
    /// The model or its provider declined to answer.
    Refusal,
    /// The provider paused a long turn and wants it sent back as it is to go on.
    Pause,
    /// A configured stop text came up.
    StopSequence,
    /// A person or program stopped the run in the middle; the message holds what had come.
    Cancelled,
    /// A reason that the adapter does not know, in the provider's words.
    Other(String),
}

/// Money in millionths of a US dollar.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(transparent)]
pub struct MicroUsd(pub u64);
