//! The parts of a request with their kinds, for displaying prompts.
//!
//! The parts describe a built request and do not change it.

use std::sync::Arc;

use serde::{Deserialize, Serialize};

use super::request::{ModelRequest, tokens};
use crate::message::{BlobRef, Block, Content, Message};

/// Kind of a part of a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum PartKind {
    /// The agent's instructions.
    Instructions,
    /// The tool catalogue.
    Tools,
    /// A message of the history.
    History,
    /// Texts that are rebuilt for each step, such as the time.
    Tail,
}

/// A part of a request.
#[derive(Clone, Debug, PartialEq)]
pub struct Part {
    /// Kind of the part.
    pub kind: PartKind,
    /// Content of the part.
    pub content: PartContent,
    /// Size of the part's texts and media in bytes.
    pub size_bytes: u64,
    /// Estimated number of tokens of the part.
    pub tokens: u64,
}

/// Content of a part of a request.
#[derive(Clone, Debug, PartialEq)]
pub enum PartContent {
    /// A text from the engine or the agent.
    Text(Content),
    /// A JSON array of tools, as a blob.
    Catalogue(BlobRef),
    /// A message.
    Message(Arc<Message>),
}

impl ModelRequest {
    /// Returns the request's parts in the order in which they are sent.
    pub fn parts(&self) -> Vec<Part> {
        let system = self.system.iter().map(|text| of_text(PartKind::Instructions, text.clone()));
        let tools = self.tools.iter().map(|tools| Part {
            kind: PartKind::Tools,
            content: PartContent::Catalogue(tools.clone()),
            size_bytes: tools.size_bytes,
            tokens: tools.tokens,
        });
        let loaded = self.loaded.iter().map(|loaded| of_text(PartKind::Tools, loaded.clone()));
        let history = self.messages.iter().map(|message| Part {
            kind: PartKind::History,
            content: PartContent::Message(message.clone()),
            size_bytes: message.blocks.iter().map(size).fold(0, u64::saturating_add),
            tokens: message.blocks.iter().map(tokens).fold(0, u64::saturating_add),
        });
        let tail = self.tail.iter().map(|text| of_text(PartKind::Tail, text.as_str().into()));
        system.chain(tools).chain(loaded).chain(history).chain(tail).collect()
    }
}

fn of_text(kind: PartKind, text: Content) -> Part {
    let (size_bytes, tokens) = (text.size_bytes(), text.tokens());
    Part { kind, content: PartContent::Text(text), size_bytes, tokens }
}

fn size(block: &Block) -> u64 {
    match block {
        Block::Text { text, .. } | Block::Reasoning { text, .. } => text.size_bytes(),
        Block::Image { blob } | Block::File { blob, .. } => blob.size_bytes,
        Block::ToolCall(call) => call.asked.size_bytes(),
        Block::ToolResult(result) => result.content.iter().map(size).fold(0, u64::saturating_add),
        Block::Opaque { native } => native.item.to_string().len() as u64,
    }
}
