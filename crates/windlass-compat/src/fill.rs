//! Fetches the offloaded texts of an event, so that the mapping to a dialect is a pure function.
//!
//! A mark replaces a text that is missing or exceeds the size limit.

use std::sync::Arc;

use windlass::machine::{Block, Content, Event, Fact, InterruptKind, Message};
use windlass::{Engine, Update};

/// Maximum number of bytes fetched for one response. Texts beyond this limit are not fetched.
pub const ROOM_BYTES: u64 = 16 * 1024 * 1024;

/// Fills in the texts of an update.
pub async fn filled(engine: &Engine, mut update: Update) -> Update {
    if let Update::Event(recorded) = &mut update {
        fill(engine, &mut recorded.event, &mut { ROOM_BYTES }).await;
    }
    update
}

/// Fetches the client-visible texts of an event, as far as the remaining `room` in bytes allows.
pub async fn fill(engine: &Engine, event: &mut Event, room: &mut u64) {
    match &mut event.fact {
        Fact::MessageReceived { message, .. }
        | Fact::MessageEdited { message, .. }
        | Fact::StepReplied { message, .. } => {
            fill_message(engine, message, room).await;
        }
        Fact::MessageQueued { queued, .. } => fill_message(engine, &mut queued.message, room).await,
        Fact::ToolFinished { content, .. } => fill_blocks(engine, content, room).await,
        Fact::CallJudged { arguments: Some(arguments), .. } | Fact::CallEdited { arguments, .. } => {
            fill_text(engine, arguments, room).await;
        }
        Fact::InterruptOpened { kind: InterruptKind::Approval { preview: Some(preview), .. }, .. } => {
            fill_text(engine, preview, room).await;
        }
        Fact::RunFinished { output, .. } => {
            if let Some(text) = &mut output.text {
                fill_text(engine, text, room).await;
            }
        }
        _ => {} // tidy: the other kinds have no texts that clients are shown
    }
}

async fn fill_message(engine: &Engine, message: &mut Arc<Message>, room: &mut u64) {
    let apart = message.blocks.iter().any(|block| match block {
        Block::Text { text, .. } | Block::Reasoning { text, .. } => text.inline().is_none(),
        Block::ToolCall(call) => call.asked.inline().is_none(),
        Block::Image { .. } | Block::File { .. } | Block::ToolResult(_) | Block::Opaque { .. } => false,
    });
    if apart {
        let mut whole = Message::clone(message);
        fill_blocks(engine, &mut whole.blocks, room).await;
        *message = Arc::new(whole);
    }
}

async fn fill_blocks(engine: &Engine, blocks: &mut [Block], room: &mut u64) {
    for block in blocks {
        match block {
            Block::Text { text, .. } | Block::Reasoning { text, .. } => fill_text(engine, text, room).await,
            Block::ToolCall(call) => fill_text(engine, &mut call.asked, room).await,
            Block::Image { .. } | Block::File { .. } | Block::ToolResult(_) | Block::Opaque { .. } => {}
        }
    }
}

/// Fetches one text if it fits into `room`.
async fn fill_text(engine: &Engine, text: &mut Content, room: &mut u64) {
    if text.inline().is_some() {
        return;
    }
    let Some(left) = room.checked_sub(text.size_bytes()) else { return };
    *room = left;
    match engine.text(text).await {
        Ok(whole) => *text = Content::Inline(whole),
        Err(error) => tracing::warn!(%error, "a stored text could not be read"),
    }
}
