//! The demo model: a script that identifies itself as one, to try Windlass without a key.
//!
//! The model is stateless: its next reply depends on the request's messages alone, so that a run resumes
//! after a crash. It emits words slowly, so that a user can watch a run and kill the process.

mod insight;
mod script;

use std::collections::VecDeque;
use std::time::Duration;

use futures::stream::{self, BoxStream, StreamExt};
use windlass_engine::port::model::{
    Delta, Model, ModelCall, ModelError, ModelEvent, ModelInfo, Price, Reply,
};
use windlass_machine::{Block, Content, StopReason, ToolCall, ToolName, Usage, estimate_tokens};

use script::Turn;

/// The full name of the demo model.
pub const DEMO_MODEL: &str = "demo/script";

/// Pause after each word: about reading speed.
const WORD_PAUSE: Duration = Duration::from_millis(15);

/// The built-in demo model (`demo/script`).
pub struct DemoModel {
    info: ModelInfo,
    pause: Duration,
}

impl Default for DemoModel {
    fn default() -> Self {
        Self::with_pause(WORD_PAUSE)
    }
}

impl DemoModel {
    /// Creates a demo model that waits this long after each word.
    pub fn with_pause(pause: Duration) -> Self {
        let info = ModelInfo {
            name: DEMO_MODEL.to_owned(),
            api: "demo".to_owned(),
            context_tokens: Some(200_000),
            max_output_tokens: Some(8_192),
            tool_calls: Some(true),
            structured_output: Some(false),
            reasoning: Some(false),
            // The demo model is known to be free; `None` would mean an unknown price.
            price: Some(Price::default()),
        };
        Self { info, pause }
    }
}

impl Model for DemoModel {
    fn info(&self) -> &ModelInfo {
        &self.info
    }

    fn stream(&self, call: ModelCall) -> BoxStream<'static, Result<ModelEvent, ModelError>> {
        let turn = script::next(&call);
        let events = events(&call, turn);
        let pause = self.pause;
        stream::unfold(events, move |mut events| async move {
            let event = events.pop_front()?;
            if matches!(event, ModelEvent::Delta(_)) && !pause.is_zero() {
                tokio::time::sleep(pause).await;
            }
            Some((Ok(event), events))
        })
        .boxed()
    }
}

fn events(call: &ModelCall, turn: Turn) -> VecDeque<ModelEvent> {
    let mut events: VecDeque<ModelEvent> = turn
        .text
        .split_inclusive(' ')
        .map(|word| ModelEvent::Delta(Delta::Text { part: 0, text: word.into() }))
        .collect();
    let mut blocks = vec![Block::text(turn.text.clone())];
    let mut output = turn.text.len();
    let mut stop = StopReason::End;
    if let Some((tool, arguments)) = turn.call {
        let asked = arguments.to_string();
        output += asked.len();
        events.push_back(ModelEvent::Delta(Delta::Call {
            part: 1,
            name: Some(tool.into()),
            arguments: asked.as_str().into(),
        }));
        blocks.push(Block::ToolCall(ToolCall {
            id: format!("demo_{}", call.request.messages.len()),
            name: ToolName::from(tool),
            asked: Content::Inline(asked),
            native: None,
        }));
        stop = StopReason::ToolCalls;
    }
    let input: u64 = call.request.messages.iter().flat_map(|message| &message.blocks).map(tokens).sum();
    let usage =
        Usage { input: Some(input), output: Some(estimate_tokens(output as u64)), ..Usage::default() };
    events.push_back(ModelEvent::Finished(Box::new(Reply {
        blocks,
        stop,
        usage,
        model: Some(DEMO_MODEL.to_owned()),
    })));
    events
}

fn tokens(block: &Block) -> u64 {
    match block {
        Block::Text { text, .. } | Block::Reasoning { text, .. } => text.tokens(),
        Block::ToolCall(call) => call.asked.tokens(),
        Block::ToolResult(result) => result.content.iter().map(tokens).sum(),
        Block::Image { blob } | Block::File { blob, .. } => blob.tokens,
        Block::Opaque { .. } => 0,
    }
}
