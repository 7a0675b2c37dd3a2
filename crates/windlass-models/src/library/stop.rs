//! Reads the finish reason from the provider's document, because the library merges several reasons into one.
//!
//! An unknown reason is returned unchanged.

use rig_core::completion::{CompletionResponse, FinishReason};
use serde_json::Value;
use windlass_machine::StopReason;

use crate::config::WireKind;

/// Reads the reason.
pub(crate) fn reason(kind: WireKind, response: &CompletionResponse) -> StopReason {
    let raw = |pointer: &str| response.raw.pointer(pointer).and_then(Value::as_str);
    let told = match kind {
        WireKind::Anthropic => raw("/stop_reason").and_then(anthropic),
        WireKind::OpenaiChat => {
            let refusal = raw("/choices/0/message/refusal").filter(|text| !text.is_empty());
            refusal.map(|_| StopReason::Refusal)
        }
        WireKind::OpenaiResponses => refused(&response.raw).then_some(StopReason::Refusal),
        WireKind::Gemini => raw("/candidates/0/finishReason").and_then(gemini),
        WireKind::Converse => {
            (raw("/stopReason") == Some("stop_sequence")).then_some(StopReason::StopSequence)
        }
    };
    told.unwrap_or_else(|| normalized(response))
}

fn anthropic(word: &str) -> Option<StopReason> {
    match word {
        "pause_turn" => Some(StopReason::Pause),
        "refusal" => Some(StopReason::Refusal),
        "stop_sequence" => Some(StopReason::StopSequence),
        _ => None,
    }
}

fn gemini(word: &str) -> Option<StopReason> {
    match word {
        "RECITATION" | "LANGUAGE" => Some(StopReason::Refusal),
        _ => None,
    }
}

fn refused(response: &Value) -> bool {
    let items = response.get("output").and_then(Value::as_array).into_iter().flatten();
    items
        .filter_map(|item| item.get("content")?.as_array())
        .flatten()
        .any(|part| part.get("type").and_then(Value::as_str) == Some("refusal"))
}

fn normalized(response: &CompletionResponse) -> StopReason {
    let calls = response.tool_calls().next().is_some();
    match response.finish_reason() {
        Some(FinishReason::Length) => StopReason::MaxTokens,
        Some(FinishReason::ContentFilter) => StopReason::Refusal,
        Some(FinishReason::ToolCalls) => StopReason::ToolCalls,
        Some(FinishReason::Other(word)) => StopReason::Other(word),
        Some(FinishReason::Stop) | None if calls => StopReason::ToolCalls,
        Some(FinishReason::Stop) | None => StopReason::End,
        // The library's enum is non-exhaustive.
        Some(other) => StopReason::Other(format!("{other:?}")),
    }
}
