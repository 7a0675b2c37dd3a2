//! The request to a model: what `context/` builds from State and nothing else does.
//!
//! It is prefix plus tail. Large parts stand in it by digest; the driver puts the bytes beside it
//! before an adapter sees it.

use std::sync::Arc;

use serde::Serialize;

use crate::agent::ModelSettings;
use crate::id::ModelName;
use crate::message::{BlobRef, Block, Content, Message, estimate_tokens};
use crate::mode::Mode;

/// A whole request to a model.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct ModelRequest {
    /// Which model, `provider/model`.
    pub model: ModelName,
    /// Instructions, stable parts first. The first cache mark stands after them.
    pub system: Vec<Content>,
    /// The tool catalogue by digest. The second cache mark stands after it.
    pub tools: Option<BlobRef>,
    /// The tools that the thread has loaded beside it, as they were then: a JSON object whose `specs` they are.
    pub loaded: Option<Content>,
    /// The history, oldest first: valid by construction, newest message last.
    pub messages: Vec<Arc<Message>>,
    /// Texts rebuilt for each step (time, reminders, nudges), after the last cache mark; sent as user text.
    pub tail: Vec<String>,
    /// The mode, in which some of the tools are withheld.
    pub mode: Mode,
    /// How the model is asked.
    pub settings: ModelSettings,
}

impl ModelRequest {
    /// A request that belongs to no step: nothing but instructions and messages.
    pub fn aside(
        model: ModelName,
        system: Vec<Content>,
        messages: Vec<Arc<Message>>,
        settings: ModelSettings,
    ) -> Self {
        Self {
            model,
            system,
            tools: None,
            loaded: None,
            mode: Mode::default(),
            messages,
            tail: Vec::new(),
            settings,
        }
    }

    /// Estimated tokens of the prompt.
    pub fn tokens(&self) -> u64 {
        let system = self.system.iter().map(Content::tokens);
        let tools = self.tools.iter().map(|tools| tools.tokens);
        let blocks = self.messages.iter().flat_map(|message| &message.blocks).map(tokens);
        let tail = self.tail.iter().map(|text| estimate_tokens(text.len() as u64));
        let loaded = self.loaded.iter().map(Content::tokens);
        system.chain(tools).chain(loaded).chain(blocks).chain(tail).fold(0, u64::saturating_add)
    }
}

/// Estimated tokens of a block.
pub(super) fn tokens(block: &Block) -> u64 {
    match block {
        Block::Text { text, .. } | Block::Reasoning { text, .. } => text.tokens(),
        Block::Image { blob } | Block::File { blob, .. } => blob.tokens,
        Block::ToolCall(call) => call.asked.tokens(),
        Block::ToolResult(result) => result.content.iter().map(tokens).fold(0, u64::saturating_add),
        Block::Opaque { native } => estimate_tokens(native.item.to_string().len() as u64),
    }
}
