//! Decodes the reply of a chat endpoint from its events.
//!
//! All reasoning of a message becomes one block, which comes first even if it arrived late. Each sequence of
//! text, and each call, image or unknown part, is a block. Deltas keep the order of arrival.

use std::collections::{HashSet, VecDeque};
use std::sync::Arc;

use serde_json::{Map, Value, json};
use windlass_engine::port::model::{Delta, ModelError, Reply};
use windlass_machine::{
    Block, Content as Stored, FailureClass, Native, Origin, StopReason, ToolCall, ToolName,
};

use crate::chat::call::{Call, Calls, Kind};
use crate::chat::chunk::{ChatUsage, Choice, Chunk, Content, Delta as MessageDelta};
use crate::chat::dialect::Dialect;
use crate::config::WireKind;
use crate::failure;
use crate::native::{self, Own};
use crate::stream::decoder::Decoder;
use crate::stream::lenient::{self, Object};
use crate::stream::sse::Flow;

/// The data of the event that ends a stream.
const DONE: &[u8] = b"[DONE]";

/// Reads one reply.
pub(crate) struct ChatDecoder {
    dialect: Dialect,
    origin: Arc<Origin>,
    /// Blocks in order of arrival, except reasoning.
    blocks: Vec<Draft>,
    calls: Calls,
    reasoning: Option<Reasoning>,
    /// Number of parts of the live display so far.
    parts: u32,
    /// Whether the message contained a refusal.
    refused: bool,
    /// The id of an audio answer, stored with its text.
    audio: Option<Value>,
    usage: Option<ChatUsage>,
    model: Option<String>,
    stop: Option<StopReason>,
    /// Whether the provider sent the finish reason. Otherwise, the decoder derived it from `[DONE]`.
    stop_is_stated: bool,
    ended: bool,
    /// Whether any chunk arrived.
    begun: bool,
}

enum Draft {
    Text {
        part: u32,
        text: String,
        audio: Option<Value>,
    },
    Thinking {
        part: u32,
        text: String,
    },
    /// An image or a part of an unknown kind.
    Opaque(Value),
    /// A call, by its position.
    Call(usize),
}

struct Reasoning {
    part: u32,
    text: String,
    field: Option<&'static str>,
    details: Vec<Value>,
}

impl ChatDecoder {
    /// Creates a decoder for one reply. Items of the reply are stored with `origin`.
    pub(crate) fn new(dialect: Dialect, origin: Arc<Origin>) -> Self {
        Self {
            dialect,
            origin,
            blocks: Vec::new(),
            calls: Calls::default(),
            reasoning: None,
            parts: 0,
            refused: false,
            audio: None,
            usage: None,
            model: None,
            stop: None,
            stop_is_stated: false,
            ended: false,
            begun: false,
        }
    }

    fn chunk(&mut self, chunk: Chunk<'_>, deltas: &mut VecDeque<Delta>) -> Flow {
        if let Some(model) = chunk.model.filled()
            && self.model.as_deref() != Some(model)
        {
            self.model = Some(model.to_owned());
        }
        if let Object(Some(usage)) = chunk.usage {
            self.usage = Some(usage);
        }
        let object = chunk.object.0;
        self.begun |= chunk.choices.present || object.as_deref() == Some("chat.completion.chunk");
        let Some(choice) = chunk.choices.first else { return Flow::More };
        if let Some(reason) = self.reason(&choice) {
            self.stop = Some(reason);
            self.stop_is_stated = true;
            self.ended = true;
        }
        if let Object(Some(usage)) = choice.usage {
            self.usage = Some(usage);
        }
        let whole =
            object.as_deref() == Some("chat.completion") || object.is_none() && choice.message.0.is_some();
        if whole {
            if let Some(mut message) = choice.message.0 {
                for (index, call) in message.tool_calls.0.iter_mut().enumerate() {
                    if let Value::Object(call) = call {
                        call.insert("index".to_owned(), index.into());
                    }
                }
                // MiniMax repeats the whole message at the end of a stream.
                if self.parts == 0 {
                    self.delta(message, deltas);
                }
                self.ended = true;
            }
            return Flow::End;
        }
        if let Some(delta) = choice.delta.0 {
            self.delta(delta, deltas);
        }
        if self.stop == Some(StopReason::ToolCalls) {
            self.calls.close_complete();
        }
        Flow::More
    }

    fn reason(&self, choice: &Choice<'_>) -> Option<StopReason> {
        if let Some(reason) = choice.finish_reason.filled() {
            return Some(self.dialect.stop(reason));
        }
        let native = choice.native_finish_reason.filled().filter(|_| self.dialect.native_finish_reason);
        native.map(Dialect::native_stop)
    }

    fn delta(&mut self, mut delta: MessageDelta<'_>, deltas: &mut VecDeque<Delta>) {
        if let Some((field, text)) = delta.reasoning() {
            let reasoning = self.open_reasoning();
            reasoning.field.get_or_insert(field);
            reasoning.text.push_str(text);
            deltas.push_back(Delta::Reasoning { part: reasoning.part, text: text.into() });
        }
        if !delta.reasoning_details.0.is_empty() {
            let details = std::mem::take(&mut delta.reasoning_details.0);
            merge_details(&mut self.open_reasoning().details, details);
        }
        let audio = delta.audio.0.unwrap_or_default();
        if let Some(id) = audio.get("id").filter(|id| !id.is_null()) {
            self.audio = Some(id.clone());
        }
        let refusal = delta.refusal.filled();
        self.refused |= refusal.is_some();
        match &delta.content {
            Content::Parts(parts) => parts.iter().for_each(|part| self.part(part, deltas)),
            Content::Text(text) if text.filled().is_some() => {
                self.text(text.filled().unwrap_or_default(), deltas);
                self.text(refusal.unwrap_or_default(), deltas);
            }
            Content::Text(_) | Content::None => {
                let spoken = audio.get("transcript").and_then(Value::as_str).filter(|text| !text.is_empty());
                if let Some(text) = refusal.or(spoken) {
                    self.text(text, deltas);
                }
            }
        }
        for image in delta.images.0 {
            self.opaque(image);
        }
        for call in delta.tool_calls.0 {
            let Value::Object(fragment) = call else { continue };
            self.call(fragment, deltas);
        }
    }

    fn call(&mut self, fragment: Map<String, Value>, deltas: &mut VecDeque<Delta>) {
        self.close_text();
        let (at, began, added) = self.calls.add(fragment, self.parts);
        if began {
            self.parts += 1;
            self.blocks.push(Draft::Call(at));
        }
        if self.calls.get(at).is_none_or(|call| call.kind() == Kind::Unknown) {
            return;
        }
        if added.name.is_some() || !added.arguments.is_empty() {
            let name = added.name.map(|name| name.as_str().into());
            deltas.push_back(Delta::Call { part: added.part, name, arguments: added.arguments.into() });
        }
    }

    fn open_reasoning(&mut self) -> &mut Reasoning {
        self.reasoning.get_or_insert_with(|| {
            self.parts += 1;
            Reasoning { part: self.parts - 1, text: String::new(), field: None, details: Vec::new() }
        })
    }

    fn text(&mut self, text: &str, deltas: &mut VecDeque<Delta>) {
        if text.is_empty() {
            return;
        }
        let part = match self.blocks.last_mut() {
            Some(Draft::Text { part, text: known, .. }) => {
                known.push_str(text);
                *part
            }
            Some(Draft::Thinking { .. } | Draft::Opaque(_) | Draft::Call(_)) | None => {
                self.blocks.push(Draft::Text { part: self.parts, text: text.to_owned(), audio: None });
                self.parts += 1;
                self.parts - 1
            }
        };
        deltas.push_back(Delta::Text { part, text: text.into() });
    }

    fn thinking(&mut self, text: &str, deltas: &mut VecDeque<Delta>) {
        if text.is_empty() {
            return;
        }
        let part = match self.blocks.last_mut() {
            Some(Draft::Thinking { part, text: known }) => {
                known.push_str(text);
                *part
            }
            Some(Draft::Text { .. } | Draft::Opaque(_) | Draft::Call(_)) | None => {
                self.close_text();
                self.blocks.push(Draft::Thinking { part: self.parts, text: text.to_owned() });
                self.parts += 1;
                self.parts - 1
            }
        };
        deltas.push_back(Delta::Reasoning { part, text: text.into() });
    }

    fn opaque(&mut self, item: Value) {
        self.close_text();
        self.blocks.push(Draft::Opaque(item));
        self.parts += 1;
    }

    /// Ends a sequence of text. Its item holds the id of the audio answer.
    fn close_text(&mut self) {
        if let Some(Draft::Text { audio, .. }) = self.blocks.last_mut()
            && self.audio.is_some()
        {
            *audio = self.audio.take();
        }
    }

    fn part(&mut self, part: &Value, deltas: &mut VecDeque<Delta>) {
        let text = |key: &str| part.get(key).and_then(Value::as_str);
        match text("type") {
            Some("text") => self.text(text("text").unwrap_or_default(), deltas),
            None if text("text").is_some() => self.text(text("text").unwrap_or_default(), deltas),
            Some("refusal") => {
                self.refused = true;
                self.text(text("refusal").unwrap_or_default(), deltas);
            }
            Some("thinking") => match part.get("thinking") {
                Some(Value::Array(chunks)) => {
                    let texts = chunks.iter().filter_map(|chunk| chunk.get("text")?.as_str());
                    let joined: String = texts.collect();
                    self.thinking(&joined, deltas);
                }
                _ => self.thinking(text("thinking").unwrap_or_default(), deltas),
            },
            _ => self.opaque(part.clone()),
        }
    }

    /// Returns the blocks in their final order, without a call that the output cap truncated.
    fn blocks(&mut self, stop: &StopReason) -> Result<Vec<Block>, ModelError> {
        let mut blocks = Vec::with_capacity(self.blocks.len() + 1);
        if let Some(reasoning) = self.reasoning.take() {
            blocks.push(self.reasoning_block(reasoning));
        }
        let lead = blocks.len();
        let mut calls: Vec<Option<Call>> = self.calls.take().into_iter().map(Some).collect();
        let mut ids = HashSet::new();
        for (at, draft) in std::mem::take(&mut self.blocks).into_iter().enumerate() {
            match draft {
                Draft::Text { text, audio, .. } => {
                    let item = audio.map(|id| json!({"audio": {"id": id}}));
                    let native = item.and_then(|item| self.native(Own::Text(&text), &item));
                    blocks.push(Block::Text { native, text: Stored::Inline(text) });
                }
                Draft::Thinking { text, .. } => {
                    let item = json!({"type": "thinking", "thinking": [{"type": "text", "text": text}]});
                    let native = self.native(Own::Reasoning(&text), &item);
                    blocks.push(Block::Reasoning { native, text: Stored::Inline(text) });
                }
                Draft::Opaque(item) => {
                    blocks.push(Block::Opaque {
                        native: Arc::new(Native { origin: Arc::clone(&self.origin), item }),
                    });
                }
                Draft::Call(call) => {
                    let Some(call) = calls.get_mut(call).and_then(Option::take) else { continue };
                    // Some gateways send empty fragments.
                    let is_empty = call.name.is_empty() && call.arguments.is_empty();
                    if call.kind() == Kind::Unknown || is_empty {
                        continue;
                    }
                    // A truncated call is not dispatched, even if it has no arguments yet.
                    let is_cut =
                        matches!(stop, StopReason::MaxTokens | StopReason::Refusal | StopReason::Other(_));
                    if is_cut && (!call.is_complete() || call.arguments.trim().is_empty()) {
                        continue;
                    }
                    if !self.stop_is_stated && !call.is_valid() {
                        return Err(unfinished_call());
                    }
                    blocks.push(self.call_block(call, lead + at, &mut ids)?);
                }
            }
        }
        Ok(blocks)
    }

    fn reasoning_block(&self, reasoning: Reasoning) -> Block {
        let mut item = Map::new();
        if let Some(field) = reasoning.field {
            item.insert(field.to_owned(), reasoning.text.as_str().into());
        }
        if !reasoning.details.is_empty() {
            item.insert("reasoning_details".to_owned(), Value::Array(reasoning.details));
        }
        let native = self.native(Own::Reasoning(&reasoning.text), &Value::Object(item));
        Block::Reasoning { native, text: Stored::Inline(reasoning.text) }
    }

    fn call_block(&self, call: Call, at: usize, ids: &mut HashSet<String>) -> Result<Block, ModelError> {
        if call.name.is_empty() {
            let text = "the provider sent a tool call without a name";
            return Err(ModelError::new(FailureClass::Malformed, text));
        }
        let mut id = match &call.id {
            Some(id) if !ids.contains(id) => id.clone(),
            Some(_) | None => format!("call_{at}"),
        };
        while !ids.insert(id.clone()) {
            id.push_str("_1");
        }
        let asked = call.asked();
        let name = ToolName::from(call.name.as_str());
        let native = if call.is_plain() && native::is_plain_id(&id) {
            None
        } else {
            let mut item = call.into_item();
            // A repeated id is replaced in the item as well, so that the result names it.
            if let Some(slot) = item.get_mut("id") {
                *slot = id.as_str().into();
            }
            self.native(Own::Call { id: &id, name: name.as_str(), asked: &asked }, &item)
        };
        Ok(Block::ToolCall(ToolCall { id, name, asked: Stored::Inline(asked), native }))
    }

    fn native(&self, own: Own<'_>, item: &Value) -> Option<Arc<Native>> {
        native::keep(WireKind::OpenaiChat, &self.origin, own, item)
    }
}

impl Decoder for ChatDecoder {
    fn event(&mut self, name: &str, data: &[u8], deltas: &mut VecDeque<Delta>) -> Result<Flow, ModelError> {
        let data = data.trim_ascii();
        if data.is_empty() {
            return Ok(Flow::More);
        }
        if data == DONE {
            if !self.ended && self.begun && self.dialect.done_ends {
                let called = !self.calls.is_empty();
                self.stop = Some(if called { StopReason::ToolCalls } else { StopReason::End });
                self.ended = true;
            }
            return Ok(Flow::End);
        }
        match serde_json::from_slice::<Object<Chunk<'_>>>(data) {
            Ok(Object(Some(chunk))) => {
                // OpenRouter sends an error in the same chunk as a choice.
                if chunk.error.0 || name == "error" || chunk.object.0.as_deref() == Some("error") {
                    return Err(failure::in_band(&String::from_utf8_lossy(data)));
                }
                Ok(self.chunk(chunk, deltas))
            }
            // Any other JSON value is a keep-alive.
            Ok(Object(None)) => Ok(Flow::More),
            Err(error) => match lenient::repaired(data, &error) {
                Some(data) => self.event(name, &data, deltas),
                None => Err(failure::malformed(&error)),
            },
        }
    }

    fn finish(&mut self) -> Result<Reply, ModelError> {
        if !self.ended {
            return Err(failure::truncated());
        }
        self.close_text();
        let stated = self.stop.clone();
        let blocks = self.blocks(stated.as_ref().unwrap_or(&StopReason::End))?;
        let stop = match stated {
            _ if self.refused => StopReason::Refusal,
            Some(StopReason::End) if blocks.iter().any(|block| matches!(block, Block::ToolCall(_))) => {
                StopReason::ToolCalls
            }
            Some(StopReason::Other(reason)) if Dialect::failure(&reason).is_some() => {
                let class = Dialect::failure(&reason).unwrap_or(FailureClass::Transient);
                return Err(ModelError::new(class, format!("the provider ended the reply: `{reason}`")));
            }
            Some(StopReason::Other(reason)) if !self.dialect.lenient => {
                return Err(failure::unknown_reason(&reason));
            }
            Some(stop) => stop,
            None => {
                return Err(ModelError::new(
                    FailureClass::Truncated,
                    "the reply ended without a finish reason",
                ));
            }
        };
        let usage =
            self.usage.take().map(|usage| usage.totals(self.dialect.counts_reasoning)).unwrap_or_default();
        Ok(Reply { blocks, stop, usage, model: self.model.take() })
    }
}

fn unfinished_call() -> ModelError {
    ModelError::new(FailureClass::Truncated, "the reply ended with an incomplete tool call")
}

/// Merges streamed reasoning details. A text or summary fragment extends the last entry of its type and index, and
/// fills absent fields. Anything else becomes a separate entry.
fn merge_details(merged: &mut Vec<Value>, details: Vec<Value>) {
    for detail in details {
        let kind = detail.get("type").and_then(Value::as_str);
        let continues = matches!(kind, Some("reasoning.text" | "reasoning.summary"))
            && merged.last().is_some_and(|last| {
                last.get("type").and_then(Value::as_str) == kind && last.get("index") == detail.get("index")
            });
        match (continues, merged.last_mut(), detail) {
            (true, Some(Value::Object(last)), Value::Object(fields)) => {
                fields.into_iter().for_each(|(key, value)| {
                    let text = matches!(key.as_str(), "text" | "summary");
                    match (last.get_mut(&key), value) {
                        (Some(Value::String(known)), Value::String(more)) if text => known.push_str(&more),
                        (Some(known), _) if !known.is_null() && known.as_str() != Some("") => {}
                        (_, value) => {
                            last.insert(key, value);
                        }
                    }
                })
            }
            (_, _, detail) => merged.push(detail),
        }
    }
}
