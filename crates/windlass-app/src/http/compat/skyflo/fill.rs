//! Fetches the texts of an event that are stored apart, so that what follows is a pure mapping.
//!
//! A text that cannot be had stays apart and is shown as a mark.

use std::sync::Arc;

use windlass::machine::{Block, Content, Event, Fact, InterruptKind, Message};
use windlass::{Engine, Update};

/// An update whose texts are all there.
pub async fn filled(engine: &Engine, mut update: Update) -> Update {
    if let Update::Event(recorded) = &mut update {
        fill(engine, &mut recorded.event).await;
    }
    update
}

/// Fetches what clients are shown of an event.
pub async fn fill(engine: &Engine, event: &mut Event) {
    match &mut event.fact {
        Fact::MessageReceived { message, .. }
        | Fact::MessageEdited { message, .. }
        | Fact::StepReplied { message, .. } => {
            fill_message(engine, message).await;
        }
        Fact::MessageQueued { queued, .. } => fill_message(engine, &mut queued.message).await,
        Fact::ToolFinished { content, .. } => fill_blocks(engine, content).await,
        Fact::CallJudged { arguments: Some(arguments), .. } | Fact::CallEdited { arguments, .. } => {
            fill_text(engine, arguments).await;
        }
        Fact::InterruptOpened { kind: InterruptKind::Approval { preview: Some(preview), .. }, .. } => {
            fill_text(engine, preview).await;
        }
        Fact::RunFinished { output, .. } => {
            if let Some(text) = &mut output.text {
                fill_text(engine, text).await;
            }
        }
        _ => {} // tidy: the other kinds have no texts that clients are shown
    }
}

async fn fill_message(engine: &Engine, message: &mut Arc<Message>) {
    let apart = message.blocks.iter().any(|block| match block {
        Block::Text { text, .. } | Block::Reasoning { text, .. } => text.inline().is_none(),
        Block::ToolCall(call) => call.asked.inline().is_none(),
        Block::Image { .. } | Block::File { .. } | Block::ToolResult(_) | Block::Opaque { .. } => false,
    });
    if apart {
        let mut whole = Message::clone(message);
        fill_blocks(engine, &mut whole.blocks).await;
        *message = Arc::new(whole);
    }
}

async fn fill_blocks(engine: &Engine, blocks: &mut [Block]) {
    for block in blocks {
        match block {
            Block::Text { text, .. } | Block::Reasoning { text, .. } => fill_text(engine, text).await,
            Block::ToolCall(call) => fill_text(engine, &mut call.asked).await,
            Block::Image { .. } | Block::File { .. } | Block::ToolResult(_) | Block::Opaque { .. } => {}
        }
    }
}

/// Fetches one text.
pub async fn fill_text(engine: &Engine, text: &mut Content) {
    if text.inline().is_some() {
        return;
    }
    match engine.text(text).await {
        Ok(whole) => *text = Content::Inline(whole),
        Err(error) => tracing::warn!(%error, "a text that is stored apart cannot be read"),
    }
}
