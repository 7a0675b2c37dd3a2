//! Decodes the reply of a messages endpoint from its events.
//!
//! Each content block becomes one block, in the provider's order. The decoder keeps its item if
//! the provider would accept the item in a later request. Examples are thinking with its
//! signature, and a call with an object as its input.

use std::collections::{HashSet, VecDeque};
use std::sync::Arc;

use serde_json::{Map, Value, json};
use windlass_engine::port::model::{Delta as LiveDelta, ModelError, Reply};
use windlass_machine::{Block, Content, FailureClass, Native, Origin, StopReason, ToolCall, ToolName, Usage};

use crate::config::WireKind;
use crate::failure;
use crate::messages::event::{Delta, Event, Message, MessagesUsage};
use crate::native::{self, Own};
use crate::stream::decoder::Decoder;
use crate::stream::lenient::{self, Object};
use crate::stream::sse::Flow;

/// Reads one reply.
pub(crate) struct MessagesDecoder {
    origin: Arc<Origin>,
    lenient: bool,
    blocks: Vec<Draft>,
    start: MessagesUsage,
    usage: Usage,
    model: Option<String>,
    container: Option<Map<String, Value>>,
    stop: Option<StopReason>,
    /// Whether `message_stop` has arrived.
    ended: bool,
}

/// A block in progress.
struct Draft {
    index: u64,
    kind: Kind,
    /// The initial item; `text`, `thinking` and `input` are inserted when the block ends.
    item: Map<String, Value>,
    /// Text, reasoning, or the JSON of an input.
    text: String,
    /// Whether `content_block_stop` has arrived.
    stopped: bool,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Kind {
    Text,
    Thinking,
    Redacted,
    Call,
    /// The item of a hosted tool, or an item of an unknown type.
    Opaque,
    /// Names the fallback model that replaced the requested one before any output.
    Fallback,
}

impl MessagesDecoder {
    /// Creates a decoder for one reply. Items of the reply are stored with `origin`; an unknown stop reason
    /// fails the reply unless `lenient`.
    pub(crate) fn new(origin: Arc<Origin>, lenient: bool) -> Self {
        Self {
            origin,
            lenient,
            blocks: Vec::new(),
            start: MessagesUsage::default(),
            usage: Usage::default(),
            model: None,
            container: None,
            stop: None,
            ended: false,
        }
    }

    fn begin_message(&mut self, message: Message<'_>) {
        self.start = message.usage.0.unwrap_or_default();
        self.model = message.model.0.map(Into::into);
        self.container = message.container.0.or(self.container.take());
    }

    fn begin_block(
        &mut self,
        index: u64,
        item: Map<String, Value>,
        deltas: &mut VecDeque<LiveDelta>,
    ) -> Result<(), ModelError> {
        let Some(kind) = item.get("type").and_then(Value::as_str) else {
            return Err(malformed("a content block without a type"));
        };
        if self.blocks.iter().any(|block| block.index == index && !block.stopped) {
            return Err(malformed("two open content blocks with one index"));
        }
        let kind = match kind {
            "text" => Kind::Text,
            "thinking" => Kind::Thinking,
            "redacted_thinking" => Kind::Redacted,
            "tool_use" => Kind::Call,
            "fallback" if self.blocks.iter().any(|block| block.kind != Kind::Fallback) => {
                return Err(malformed("a fallback to another model after the output began"));
            }
            "fallback" => Kind::Fallback,
            _ => Kind::Opaque,
        };
        let part = self.blocks.len() as u32;
        let initial = |key: &str| item.get(key).and_then(Value::as_str).unwrap_or_default().to_owned();
        let text = match kind {
            Kind::Text => initial("text"),
            Kind::Thinking => initial("thinking"),
            Kind::Redacted | Kind::Call | Kind::Opaque | Kind::Fallback => String::new(),
        };
        if kind == Kind::Call {
            let name = item.get("name").and_then(Value::as_str).filter(|name| !name.is_empty());
            let Some(name) = name else { return Err(malformed("a tool call without a name")) };
            deltas.push_back(LiveDelta::Call { part, name: Some(name.into()), arguments: "".into() });
        }
        if !text.is_empty() {
            deltas.push_back(match kind {
                Kind::Text => LiveDelta::Text { part, text: text.as_str().into() },
                _ => LiveDelta::Reasoning { part, text: text.as_str().into() }, // tidy: only these two have text
            });
        }
        self.blocks.push(Draft { index, kind, item, text, stopped: false });
        Ok(())
    }

    fn grow_block(
        &mut self,
        index: u64,
        delta: &Delta<'_>,
        data: &[u8],
        deltas: &mut VecDeque<LiveDelta>,
    ) -> Result<(), ModelError> {
        let Some(kind) = delta.kind.0.as_deref() else { return Err(malformed("a delta without a type")) };
        let begun = self.blocks.iter().any(|block| block.index == index);
        // Some gateways omit the beginning of a block.
        match kind {
            "text_delta" if !begun => {
                self.begin_block(index, object(json!({"type": "text", "text": ""})), deltas)?
            }
            "thinking_delta" if !begun => {
                self.begin_block(index, object(json!({"type": "thinking", "thinking": ""})), deltas)?;
            }
            _ => {}
        }
        let at = self.blocks.iter().rposition(|block| block.index == index && !block.stopped);
        let Some(at) = at else {
            // Late deltas are ignored unless they contain visible content.
            let is_seen = matches!(kind, "text_delta" | "thinking_delta" | "input_json_delta");
            return if is_seen || !begun {
                Err(malformed("a delta for a block that is not open"))
            } else {
                Ok(())
            };
        };
        let part = at as u32;
        let block = &mut self.blocks[at];
        let fragment = |text: &Option<std::borrow::Cow<'_, str>>| {
            text.as_deref().map(str::to_owned).ok_or_else(|| malformed("a delta without its text"))
        };
        match (kind, block.kind) {
            ("text_delta", Kind::Text) => {
                let text = fragment(&delta.text.0)?;
                block.text.push_str(&text);
                if !text.is_empty() {
                    deltas.push_back(LiveDelta::Text { part, text: text.into() });
                }
            }
            ("thinking_delta", Kind::Thinking) => {
                let text = fragment(&delta.thinking.0)?;
                block.text.push_str(&text);
                if !text.is_empty() {
                    deltas.push_back(LiveDelta::Reasoning { part, text: text.into() });
                }
            }
            ("input_json_delta", Kind::Call | Kind::Opaque) => {
                let json = fragment(&delta.partial_json.0)?;
                block.text.push_str(&json);
                if block.kind == Kind::Call && !json.is_empty() {
                    deltas.push_back(LiveDelta::Call { part, name: None, arguments: json.into() });
                }
            }
            ("text_delta" | "thinking_delta" | "input_json_delta", _) => {
                return Err(malformed("a delta for a block of another kind"));
            }
            ("citations_delta", _) => match block.item.get_mut("citations") {
                Some(Value::Array(citations)) => citations.push(delta.citation.clone()),
                _ => drop(block.item.insert("citations".to_owned(), json!([delta.citation]))),
            },
            (_, _) => merge(&mut block.item, rest(data)),
        }
        Ok(())
    }

    fn end_message(&mut self, delta: Option<&Delta<'_>>, usage: Option<MessagesUsage>) {
        let Some(delta) = delta else { return };
        if let Object(Some(container)) = &delta.container {
            self.container = Some(container.clone());
        }
        // Only a delta with a reason ends the message.
        let Some(reason) = delta.stop_reason.0.as_deref() else { return };
        self.stop = Some(match reason {
            "end_turn" => StopReason::End,
            "stop_sequence" => StopReason::StopSequence,
            "pause_turn" => StopReason::Pause,
            "max_tokens" | "model_context_window_exceeded" => StopReason::MaxTokens,
            "tool_use" => StopReason::ToolCalls,
            "refusal" => StopReason::Refusal,
            other => StopReason::Other(other.to_owned()),
        });
        self.usage = usage.unwrap_or_default().totals(&self.start);
    }

    fn block(&self, draft: Draft, at: usize, is_cut: bool, ids: &mut HashSet<String>) -> Option<Block> {
        let Draft { kind, mut item, text, stopped, .. } = draft;
        match kind {
            Kind::Text if text.is_empty() => None,
            Kind::Text => {
                item.insert("text".to_owned(), text.as_str().into());
                let kept = !text.trim().is_empty();
                let native = kept.then(|| self.native(Own::Text(&text), item)).flatten();
                Some(Block::Text { native, text: Content::Inline(text) })
            }
            Kind::Thinking => {
                item.insert("thinking".to_owned(), text.as_str().into());
                let signed =
                    item.get("signature").and_then(Value::as_str).is_some_and(|sign| !sign.is_empty());
                let native = signed.then(|| self.native(Own::Reasoning(&text), item)).flatten();
                Some(Block::Reasoning { native, text: Content::Inline(text) })
            }
            Kind::Redacted => {
                let has_data = item.get("data").and_then(Value::as_str).is_some_and(|data| !data.is_empty());
                let native = has_data.then(|| self.native(Own::Reasoning(""), item)).flatten();
                Some(Block::Reasoning { native, text: Content::Inline(String::new()) })
            }
            // A stopped block is complete, unless its input is incomplete.
            Kind::Call if is_cut && (!stopped || !is_object(&text)) => None,
            Kind::Call => self.call(item, text, at, ids),
            Kind::Opaque => {
                if !text.is_empty() {
                    // The input of a hosted tool that is not an object is incomplete.
                    let input = serde_json::from_str::<Map<String, Value>>(&text).ok()?;
                    item.insert("input".to_owned(), Value::Object(input));
                }
                let native = Native { origin: Arc::clone(&self.origin), item: Value::Object(item) };
                Some(Block::Opaque { native: Arc::new(native) })
            }
            Kind::Fallback => None,
        }
    }

    fn call(
        &self,
        mut item: Map<String, Value>,
        text: String,
        at: usize,
        ids: &mut HashSet<String>,
    ) -> Option<Block> {
        let input = match serde_json::from_str::<Value>(&text) {
            Ok(Value::Object(input)) => Some(input),
            _ if text.trim().is_empty() => match item.get("input") {
                Some(Value::Object(input)) => Some(input.clone()),
                Some(Value::Null) | None => Some(Map::new()),
                Some(_) => None,
            },
            Ok(_) | Err(_) => None,
        };
        let given = item.get("id").and_then(Value::as_str).filter(|id| !id.is_empty() && !ids.contains(*id));
        let mut id = given.map_or_else(|| format!("call_{at}"), str::to_owned);
        while !ids.insert(id.clone()) {
            id.push_str("_1");
        }
        let name = ToolName::from(item.get("name").and_then(Value::as_str).unwrap_or_default());
        let asked = match &input {
            Some(input) if text.trim().is_empty() => Value::Object(input.clone()).to_string(),
            Some(_) | None => text,
        };
        let native = input.and_then(|input| {
            item.insert("id".to_owned(), id.as_str().into());
            item.insert("input".to_owned(), Value::Object(input));
            self.native(Own::Call { id: &id, name: name.as_str(), asked: &asked }, item)
        });
        Some(Block::ToolCall(ToolCall { id, name, asked: Content::Inline(asked), native }))
    }

    fn native(&self, own: Own<'_>, item: Map<String, Value>) -> Option<Arc<Native>> {
        native::keep(WireKind::Anthropic, &self.origin, own, &Value::Object(item))
    }
}

impl Decoder for MessagesDecoder {
    fn event(
        &mut self,
        name: &str,
        data: &[u8],
        deltas: &mut VecDeque<LiveDelta>,
    ) -> Result<Flow, ModelError> {
        if data.trim_ascii().is_empty() {
            return Ok(Flow::More);
        }
        let event = match serde_json::from_slice::<Object<Event<'_>>>(data) {
            Ok(Object(Some(event))) => event,
            Ok(Object(None)) => return Ok(Flow::More),
            // The message is complete; only the confirmation is missing.
            Err(_) if self.stop.is_some() => return Ok(Flow::More),
            Err(error) => match lenient::repaired(data, &error) {
                Some(data) => return self.event(name, &data, deltas),
                None => return Err(failure::malformed(&error)),
            },
        };
        let index = || event.index.0.ok_or_else(|| malformed("a content block without an index"));
        // Some gateways send an error without a type.
        let kind = if name == "error" { name } else { event.kind.0.as_deref().unwrap_or_default() };
        match kind {
            // Events after the stop reason do not belong to the message.
            "content_block_start" | "content_block_delta" | "content_block_stop" if self.stop.is_some() => {}
            "message_delta" if self.stop.is_some() => {
                if let Object(Some(usage)) = event.usage {
                    self.usage = usage.totals(&self.start);
                }
            }
            "message_start" => {
                if let Object(Some(message)) = event.message {
                    self.begin_message(message);
                }
            }
            "content_block_start" => {
                let index = index()?;
                self.begin_block(index, event.content_block.0.unwrap_or_default(), deltas)?;
            }
            "content_block_delta" => {
                let index = index()?;
                self.grow_block(index, &event.delta.0.unwrap_or_default(), data, deltas)?;
            }
            "content_block_stop" => {
                let index = index()?;
                let open = self.blocks.iter_mut().rfind(|block| block.index == index && !block.stopped);
                let Some(block) = open else { return Err(malformed("the end of a block that is not open")) };
                block.stopped = true;
            }
            "message_delta" => self.end_message(event.delta.0.as_ref(), event.usage.0),
            "message_stop" => self.ended = true,
            "error" => return Err(failure::in_band(&String::from_utf8_lossy(data))),
            // `ping`, and additions of later protocol versions.
            _ => {}
        }
        Ok(if self.ended && self.stop.is_some() { Flow::End } else { Flow::More })
    }

    fn finish(&mut self) -> Result<Reply, ModelError> {
        let Some(stop) = self.stop.take().filter(|_| self.ended) else { return Err(failure::truncated()) };
        if let StopReason::Other(reason) = &stop
            && !self.lenient
        {
            return Err(failure::unknown_reason(reason));
        }
        // A truncated call is not dispatched.
        let is_cut = matches!(
            stop,
            StopReason::MaxTokens | StopReason::Refusal | StopReason::Pause | StopReason::Other(_)
        );
        let mut ids = HashSet::new();
        let drafts = std::mem::take(&mut self.blocks).into_iter().enumerate();
        let mut blocks: Vec<Block> =
            drafts.filter_map(|(at, draft)| self.block(draft, at, is_cut, &mut ids)).collect();
        if let Some(container) = self.container.take() {
            let item = json!({"type": "container", "container": container});
            blocks
                .push(Block::Opaque { native: Arc::new(Native { origin: Arc::clone(&self.origin), item }) });
        }
        let called = blocks.iter().any(|block| matches!(block, Block::ToolCall(_)));
        let stop = if stop == StopReason::End && called { StopReason::ToolCalls } else { stop };
        Ok(Reply { blocks, stop, usage: self.usage, model: self.model.take() })
    }
}

/// Whether the JSON of an input is an object. Empty text refers to the input with which the block began.
fn is_object(input: &str) -> bool {
    input.trim().is_empty() || serde_json::from_str::<Map<String, Value>>(input).is_ok()
}

fn malformed(what: &str) -> ModelError {
    ModelError::new(FailureClass::Malformed, format!("the provider sent {what}"))
}

fn object(value: Value) -> Map<String, Value> {
    match value {
        Value::Object(fields) => fields,
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) | Value::Array(_) => Map::new(),
    }
}

/// Returns the delta of an event whose kind has no struct.
fn rest(data: &[u8]) -> Map<String, Value> {
    let event = serde_json::from_slice::<Value>(data).unwrap_or_default();
    let mut delta = object(event.get("delta").cloned().unwrap_or_default());
    delta.shift_remove("type");
    delta
}

/// Merges a delta into an item: text and lists are appended, objects are
/// merged by key, and other values are replaced.
fn merge(item: &mut Map<String, Value>, delta: Map<String, Value>) {
    for (key, value) in delta {
        match (item.get_mut(&key), value) {
            (Some(Value::String(known)), Value::String(more)) => known.push_str(&more),
            (Some(Value::Array(known)), Value::Array(more)) => known.extend(more),
            (Some(Value::Object(known)), Value::Object(more)) => merge(known, more),
            (_, value) => {
                item.insert(key, value);
            }
        }
    }
}
