//! Messages and their blocks: the content of the history.
//!
//! A block has Windlass's own form, and may also contain the provider's item as opaque JSON with its origin. The same
//! provider gets its item back byte for byte, and other providers never see it. Large texts and media are references
//! by digest; this module reads no blobs.

use std::sync::Arc;

use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::id::{Digest, ModelName, ToolName};
use crate::policy::check_json;

/// Maximum size of an inline text in bytes; longer texts are stored as blobs.
pub const INLINE_MAX_BYTES: usize = 16 * 1024;

/// Placeholder for a text that is stored as a blob.
pub const LONG_TEXT: &str = "[a long text]";

/// Author role of a message.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Role {
    /// Instructions from the engine or the host program.
    System,
    /// A person or program that gives the task.
    User,
    /// The model.
    Assistant,
    /// Results of tool calls.
    Tool,
}

/// An entry of the history.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Message {
    /// Author role of the message.
    pub role: Role,
    /// Content, in order.
    pub blocks: Vec<Block>,
}

impl Message {
    /// Creates a message with one text block.
    pub fn text(role: Role, text: impl Into<String>) -> Self {
        Self { role, blocks: vec![Block::text(text)] }
    }

    /// Returns all inline text of the text blocks, concatenated.
    pub fn plain_text(&self) -> String {
        let mut all = String::new();
        for block in &self.blocks {
            if let Block::Text { text: Content::Inline(text), .. } = block {
                all.push_str(text);
            }
        }
        all
    }

    /// Returns the texts of the text blocks, in order.
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

    /// Returns all text of the text blocks, with a placeholder for each text stored as a blob.
    pub fn shown_text(&self) -> String {
        self.texts().map(|text| text.inline().unwrap_or(LONG_TEXT)).collect()
    }

    /// Whether the message has content for a reader, or requests a tool call.
    pub fn has_answer(&self) -> bool {
        self.blocks.iter().any(|block| match block {
            Block::Text { text, .. } => text.inline().is_none_or(|text| !text.trim().is_empty()),
            Block::Image { .. } | Block::File { .. } | Block::ToolCall(_) | Block::ToolResult(_) => true,
            Block::Reasoning { .. } | Block::Opaque { .. } => false,
        })
    }

    /// Whether a reply belongs in the history: it has an answer, or items that its provider needs again.
    pub fn is_worth_keeping(&self) -> bool {
        self.has_answer() || self.blocks.iter().any(|block| matches!(block, Block::Opaque { .. }))
    }

    /// Returns the tool calls of the message, in order.
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
        /// Content of the block.
        text: Content,
        /// The provider's own item.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        native: Option<Arc<Native>>,
    },
    /// An image.
    Image {
        /// Reference to the bytes.
        blob: BlobRef,
    },
    /// A document of another media type.
    File {
        /// Name shown to the model.
        name: String,
        /// Reference to the bytes.
        blob: BlobRef,
    },
    /// The model's reasoning. Only the provider that generated it can use it.
    Reasoning {
        /// Readable part; may be empty.
        text: Content,
        /// The provider's own item (signature, encrypted content).
        #[serde(default, skip_serializing_if = "Option::is_none")]
        native: Option<Arc<Native>>,
    },
    /// A tool call that the model requests.
    ToolCall(ToolCall),
    /// The result of a tool call.
    ToolResult(ToolResult),
    /// A provider's item that Windlass does not interpret: the item is stored and only sent back to its origin.
    Opaque {
        /// The provider's own item.
        native: Arc<Native>,
    },
}

impl Block {
    /// Creates a text block without a provider's item.
    pub fn text(text: impl Into<String>) -> Self {
        Self::Text { text: Content::Inline(text.into()), native: None }
    }

    /// Returns the provider's own item of the block.
    pub fn native(&self) -> Option<&Native> {
        match self {
            Self::Text { native, .. } | Self::Reasoning { native, .. } => native.as_deref(),
            Self::ToolCall(call) => call.native.as_deref(),
            Self::Opaque { native } => Some(native),
            Self::Image { .. } | Self::File { .. } | Self::ToolResult(_) => None,
        }
    }

    /// Checks that the block can be recorded and decoded. Providers' items are external JSON, and results must not be
    /// nested. The error completes a sentence about the block.
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

/// A text, inline or stored as a blob.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(untagged)]
pub enum Content {
    /// An inline text, at most [`INLINE_MAX_BYTES`] bytes when recorded.
    Inline(String),
    /// Reference to a UTF-8 text.
    Blob(BlobRef),
}

impl Content {
    /// Returns the size in bytes.
    pub fn size_bytes(&self) -> u64 {
        match self {
            Self::Inline(text) => text.len() as u64,
            Self::Blob(blob) => blob.size_bytes,
        }
    }
    /// Returns the estimated number of tokens.
    pub fn tokens(&self) -> u64 {
        match self {
            Self::Inline(text) => estimate_tokens(text.len() as u64),
            Self::Blob(blob) => blob.tokens,
        }
    }
    /// Returns the digest of the text's bytes.
    pub fn digest(&self) -> Digest {
        match self {
            Self::Inline(text) => Digest::of(text.as_bytes()),
            Self::Blob(blob) => blob.digest,
        }
    }
    /// Returns the text if it is inline.
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

/// A reference to a blob by its digest.
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
/// The estimate is sufficient for windows and budgets; the provider's own count replaces it when it is reported.
pub fn estimate_tokens(size_bytes: u64) -> u64 {
    size_bytes.div_ceil(4)
}

/// A tool call as the model requested it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct ToolCall {
    /// The provider's id of the call, which its result references. Adapters make it unique within a reply.
    pub id: String,
    /// Name of the tool.
    pub name: ToolName,
    /// The arguments exactly as the model wrote them, normally a JSON object. Later requests repeat them unchanged.
    pub asked: Content,
    /// The provider's own item.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub native: Option<Arc<Native>>,
}

/// A call's result for the model. Every call has exactly one.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct ToolResult {
    /// The provider's id of the call.
    pub call_id: String,
    /// Name of the tool.
    pub name: ToolName,
    /// Text, image and file blocks.
    pub content: Vec<Block>,
    /// Whether the result is an error.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub error: bool,
}

impl ToolResult {
    /// Returns the inline text of the content, concatenated.
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

/// A provider's item with its origin.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Native {
    /// Provider and model that generated it.
    pub origin: Arc<Origin>,
    /// The item; key order and number texts are preserved.
    pub item: Value,
}

/// Origin of a reply. Provider items are only sent back to the same origin.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Origin {
    /// The wire protocol: `anthropic`, `openai-chat`, `openai-responses`, `gemini`, …
    pub api: String,
    /// Provider and model, as configured.
    pub model: ModelName,
}

/// Token counts of one or more model calls. Totals include their parts; absent does not mean zero.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Usage {
    /// Prompt tokens, including tokens read from and written to caches.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub input: Option<u64>,
    /// Generated tokens, including reasoning.
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
    /// Adds another call's usage. A count of the sum is only absent if it is absent in both.
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

/// The reason why a model stopped.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum StopReason {
    /// The reply is complete.
    End,
    /// The model waits for the results of its calls.
    ToolCalls,
    /// The output maximum was reached; the message may be incomplete.
    MaxTokens,
    /// The model or its provider declined to answer.
    Refusal,
    /// The provider paused a long turn and continues when the reply is sent back unchanged.
    Pause,
    /// A configured stop text was generated.
    StopSequence,
    /// The run was cancelled midway; the message contains the part received so far.
    Cancelled,
    /// A reason that the adapter does not know, as the provider names it.
    Other(String),
}

/// An amount of money in millionths of a US dollar.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(transparent)]
pub struct MicroUsd(pub u64);
