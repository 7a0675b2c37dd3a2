//! The request to a model, built from the state only by `context/`.
//!
//! A request consists of a prefix and a tail. Large parts are references; the driver adds their bytes before an
//! adapter receives the request.

use std::sync::Arc;

use serde::Serialize;

use crate::agent::ModelSettings;
use crate::id::ModelName;
use crate::message::{BlobRef, Block, Content, Message, estimate_tokens};
use crate::mode::Mode;

/// A complete request to a model.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct ModelRequest {
    /// Model to call, `provider/model`.
    pub model: ModelName,
    /// Instructions, stable parts first. The first cache mark follows them.
    pub system: Vec<Content>,
    /// The tool catalogue as a blob. The second cache mark follows it.
    pub tools: Option<BlobRef>,
    /// Tools that the thread has loaded, in their form at that time: a JSON object with tool specs under `specs`.
    pub loaded: Option<Content>,
    /// The history, oldest first; valid by construction.
    pub messages: Vec<Arc<Message>>,
    /// Texts rebuilt for each step (time, reminders, nudges), after the last cache mark; sent as user text.
    pub tail: Vec<String>,
    /// Mode of the run, which withholds some tools.
    pub mode: Mode,
    /// Settings of the model call.
    pub settings: ModelSettings,
}

impl ModelRequest {
    /// Creates a request outside of any step, with instructions and messages only.
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

    /// Returns the estimated number of tokens of the prompt.
    pub fn tokens(&self) -> u64 {
        let system = self.system.iter().map(Content::tokens);
        let tools = self.tools.iter().map(|tools| tools.tokens);
        let blocks = self.messages.iter().flat_map(|message| &message.blocks).map(tokens);
        let tail = self.tail.iter().map(|text| estimate_tokens(text.len() as u64));
        let loaded = self.loaded.iter().map(Content::tokens);
        system.chain(tools).chain(loaded).chain(blocks).chain(tail).fold(0, u64::saturating_add)
    }
}

/// Returns the estimated number of tokens of a block.
pub(super) fn tokens(block: &Block) -> u64 {
    match block {
        Block::Text { text, .. } | Block::Reasoning { text, .. } => text.tokens(),
        Block::Image { blob } | Block::File { blob, .. } => blob.tokens,
        Block::ToolCall(call) => call.asked.tokens(),
        Block::ToolResult(result) => result.content.iter().map(tokens).fold(0, u64::saturating_add),
        Block::Opaque { native } => estimate_tokens(native.item.to_string().len() as u64),
    }
}
