//! Converts a finished reply to blocks.
//!
//! This module makes missing and duplicate call ids unique.

use std::collections::HashSet;
use std::sync::Arc;

use rig_core::completion::{CompletionResponse, Usage as RigUsage};
use rig_core::message::{AssistantContent, CallId, ToolCall as RigCall};
use serde_json::Value;
use windlass_engine::port::model::{ModelError, Reply};
use windlass_machine::{Block, Content, FailureClass, Native, Origin, StopReason, ToolCall, ToolName, Usage};

use crate::config::WireKind;
use crate::failure;
use crate::library::stop;
use crate::native::{self, Own};

/// The argument text of one call, collected while it streamed.
pub(crate) struct Streamed {
    /// The call, once its part has ended.
    pub id: Option<CallId>,
    /// The fragments, concatenated.
    pub arguments: String,
}

/// Converts the library's reply.
pub(crate) fn build(
    kind: WireKind,
    origin: &Arc<Origin>,
    response: CompletionResponse,
    streamed: &[Streamed],
) -> Result<Reply, ModelError> {
    let stop = stop::reason(kind, &response);
    if stop != StopReason::MaxTokens && response.finish_reason().is_none() {
        return Err(ModelError::new(FailureClass::Truncated, "the reply ended without a finish reason"));
    }
    if let StopReason::Other(word) = &stop
        && !response.accepts_unknown_finish_reasons()
    {
        return Err(failure::unknown_reason(word));
    }
    let is_reason_guessed = kind == WireKind::OpenaiChat
        && response.raw.pointer("/choices/0/finish_reason").and_then(Value::as_str).is_none();
    let mut ids = HashSet::new();
    let mut blocks = Vec::with_capacity(response.choice.len());
    for (part, content) in response.choice.iter().enumerate() {
        if let AssistantContent::ToolCall(call) = content {
            match unfinished(content, call, &stop, is_reason_guessed) {
                None => blocks.push(tool_call(kind, origin, content, call, part, streamed, &mut ids)),
                Some(()) if stop == StopReason::MaxTokens => {}
                Some(()) => {
                    return Err(ModelError::new(
                        FailureClass::Truncated,
                        "the reply ended with an incomplete tool call",
                    ));
                }
            }
            continue;
        }
        blocks.extend(block(kind, origin, content));
    }
    Ok(Reply { blocks, stop, usage: usage(&response.usage), model: response.origin.response_model.clone() })
}

/// Detects a call that was truncated by the output cap or by a stream that ends without a reason. The library keeps a
/// provider's item only with a complete call.
fn unfinished(
    content: &AssistantContent,
    call: &RigCall,
    stop: &StopReason,
    is_reason_guessed: bool,
) -> Option<()> {
    let provider_named = call.id.provider().is_some();
    if is_reason_guessed && call.function.invalid_arguments.is_some() {
        return Some(());
    }
    let cut = *stop == StopReason::MaxTokens
        && (call.function.invalid_arguments.is_some() || content.native_item().is_none() && provider_named);
    cut.then_some(())
}

fn block(kind: WireKind, origin: &Arc<Origin>, content: &AssistantContent) -> Option<Block> {
    let native = |own: Own<'_>| native::keep(kind, origin, own, content.native_item()?);
    match content {
        AssistantContent::Text(text) => Some(Block::Text {
            native: native(Own::Text(&text.text)),
            text: Content::Inline(text.text.clone()),
        }),
        AssistantContent::Reasoning(reasoning) => Some(Block::Reasoning {
            native: native(Own::Reasoning(&reasoning.text)),
            text: Content::Inline(reasoning.text.clone()),
        }),
        AssistantContent::Opaque(opaque) => opaque.replay.then(|| Block::Opaque {
            native: Arc::new(Native { origin: Arc::clone(origin), item: opaque.item.clone() }),
        }),
        // An image that the model created. It is kept for requests to its origin. Calls are converted
        // elsewhere, and the library's enum is non-exhaustive.
        _ => content.native_item().map(|item| Block::Opaque {
            native: Arc::new(Native { origin: Arc::clone(origin), item: item.clone() }),
        }),
    }
}

fn tool_call(
    kind: WireKind,
    origin: &Arc<Origin>,
    content: &AssistantContent,
    call: &RigCall,
    part: usize,
    streamed: &[Streamed],
    ids: &mut HashSet<String>,
) -> Block {
    let name = call.function.name.as_str();
    let item = content.native_item();
    let asked = asked(call, item, streamed);
    let given = call.id.provider().map(|id| id.as_str().to_owned());
    let mut id = given.unwrap_or_else(|| format!("call_{part}"));
    while !ids.insert(id.clone()) {
        id.push_str("_1");
    }
    let own = Own::Call { id: &id, name, asked: &asked };
    let native = item.and_then(|item| native::keep(kind, origin, own, item));
    Block::ToolCall(ToolCall {
        id: id.clone(),
        name: ToolName::from(name),
        asked: Content::Inline(asked),
        native,
    })
}

/// Returns the arguments as the model wrote them: from the call's item, or from the streamed text.
fn asked(call: &RigCall, item: Option<&Value>, streamed: &[Streamed]) -> String {
    let stated = ["/arguments", "/function/arguments"]
        .iter()
        .find_map(|pointer| item?.pointer(pointer)?.as_str())
        .filter(|text| !text.trim().is_empty());
    if let Some(stated) = stated {
        return stated.to_owned();
    }
    let fragments = streamed.iter().find(|part| part.id.as_ref() == Some(&call.id));
    match fragments.filter(|part| !part.arguments.trim().is_empty()) {
        Some(part) => part.arguments.clone(),
        None => call.function.arguments_value().to_string(),
    }
}

fn usage(usage: &RigUsage) -> Usage {
    Usage {
        input: usage.input_tokens,
        output: usage.output_tokens,
        cached: usage.cached_input_tokens,
        cache_written: usage.cache_creation_input_tokens,
        reasoning: usage.reasoning_tokens,
    }
}
