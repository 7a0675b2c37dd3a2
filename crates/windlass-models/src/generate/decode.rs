//! Decodes Gemini's reply from its events.
//!
//! Text extends the block before it while the kind stays the same; every other part is a separate block. A thought
//! signature stays with its part. The reply ends with the connection, because rounds of hosted tools report their own
//! finish reasons.

use std::collections::{HashSet, VecDeque};
use std::sync::Arc;

use serde_json::{Map, Value};
use windlass_engine::port::model::{Delta, ModelError, Reply};
use windlass_machine::{Block, Content, FailureClass, Native, Origin, StopReason, ToolCall, ToolName, Usage};

use crate::config::WireKind;
use crate::failure;
use crate::generate::chunk::{Chunk, UsageMetadata};
use crate::native::{self, Own};
use crate::stream::decoder::Decoder;
use crate::stream::lenient::{self, Object};
use crate::stream::sse::Flow;

/// The field of a thought signature.
const SIGNATURE: &str = "thoughtSignature";

/// Reads one reply.
pub(crate) struct GenerateDecoder {
    origin: Arc<Origin>,
    lenient: bool,
    blocks: Vec<Draft>,
    /// Whether the next fragment may extend the last block.
    grows: bool,
    /// A signature that arrived before any block.
    signature: Option<String>,
    usage: Option<UsageMetadata>,
    model: Option<String>,
    reason: Option<String>,
    /// Whether the provider refused the prompt.
    blocked: bool,
}

/// A block in progress.
struct Draft {
    kind: Kind,
    /// The part; `text` is inserted when the block ends.
    item: Map<String, Value>,
    /// Text, or the JSON of a call's arguments.
    text: String,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Kind {
    Text,
    Thought,
    Call,
    /// An image, or a part of an unknown kind.
    Opaque,
    /// A part without content, which is not sent back.
    Empty,
}

impl Draft {
    fn is_signed(&self) -> bool {
        signature(&self.item).is_some()
    }
}

impl GenerateDecoder {
    /// Creates a decoder for one reply. Items of the reply are stored with `origin`; an unknown finish reason
    /// fails the reply unless `lenient`.
    pub(crate) fn new(origin: Arc<Origin>, lenient: bool) -> Self {
        Self {
            origin,
            lenient,
            blocks: Vec::new(),
            grows: false,
            signature: None,
            usage: None,
            model: None,
            reason: None,
            blocked: false,
        }
    }

    fn candidate(
        &mut self,
        candidate: Map<String, Value>,
        deltas: &mut VecDeque<Delta>,
    ) -> Result<Flow, ModelError> {
        let mut candidate = candidate;
        let stated = match candidate.get("finishReason") {
            Some(Value::String(reason)) => Some(reason.clone()),
            Some(Value::Number(number)) => Some(format!("FINISH_REASON_{number}")),
            _ => None,
        };
        let parts = match candidate.get_mut("content").map(Value::take) {
            None | Some(Value::Null) => Value::Null,
            Some(Value::Object(mut content)) => content.get_mut("parts").map(Value::take).unwrap_or_default(),
            Some(_) => return Err(malformed("content that is not an object")),
        };
        match parts {
            Value::Null => {}
            Value::Array(parts) => {
                for part in parts {
                    self.part(part, deltas)?;
                }
            }
            _ => return Err(malformed("parts that are not a list")),
        }
        let Some(stated) = stated else { return Ok(Flow::More) };
        // More content may follow a normal stop; a failure is final.
        let is_final = !matches!(stated.as_str(), "STOP" | "MAX_TOKENS");
        self.reason = Some(stated);
        Ok(if is_final { Flow::End } else { Flow::More })
    }

    fn part(&mut self, part: Value, deltas: &mut VecDeque<Delta>) -> Result<(), ModelError> {
        let Value::Object(item) = part else {
            self.open(Kind::Empty, Map::new(), String::new());
            return Ok(());
        };
        let is_thought = item.get("thought").and_then(Value::as_bool) == Some(true);
        if let Some(text) = item.get("text").and_then(Value::as_str) {
            let text = text.to_owned();
            self.text(if is_thought { Kind::Thought } else { Kind::Text }, item, text, deltas);
            return Ok(());
        }
        if let Some(Value::Object(call)) = item.get("functionCall") {
            let name = call.get("name").and_then(Value::as_str).filter(|name| !name.is_empty());
            let Some(name) = name else { return Err(malformed("a tool call without a name")) };
            // Empty arguments are omitted from the JSON.
            let arguments = call.get("args").map_or_else(|| "{}".to_owned(), Value::to_string);
            let (name, shown) = (name.into(), arguments.as_str().into());
            let part = self.blocks.len() as u32;
            self.open(Kind::Call, item, arguments);
            deltas.push_back(Delta::Call { part, name: Some(name), arguments: shown });
            return Ok(());
        }
        let is_content = |key: &String| !matches!(key.as_str(), "thought" | SIGNATURE | "partMetadata");
        let has_content = item.keys().any(is_content);
        if !has_content && let Some(signature) = signature(&item) {
            let signature = signature.to_owned();
            match self.blocks.last_mut() {
                Some(block) => drop(block.item.insert(SIGNATURE.to_owned(), signature.into())),
                None => self.signature = Some(signature),
            }
            return Ok(());
        }
        self.open(if has_content { Kind::Opaque } else { Kind::Empty }, item, String::new());
        Ok(())
    }

    /// Adds text to the last block, or begins a block. A second signed part begins a separate block.
    fn text(&mut self, kind: Kind, item: Map<String, Value>, text: String, deltas: &mut VecDeque<Delta>) {
        let is_signed = signature(&item).is_some();
        if text.is_empty() && !is_signed {
            return;
        }
        let continues = self.grows
            && self.blocks.last().is_some_and(|last| last.kind == kind && !(last.is_signed() && is_signed));
        if continues && let Some(last) = self.blocks.last_mut() {
            last.text.push_str(&text);
            for (key, value) in item {
                if key != "text" && (key != SIGNATURE || value.as_str() != Some("")) {
                    last.item.insert(key, value);
                }
            }
        } else {
            self.open(kind, item, text.clone());
        }
        if text.is_empty() {
            return;
        }
        let part = self.blocks.len() as u32 - 1;
        deltas.push_back(match kind {
            Kind::Thought => Delta::Reasoning { part, text: text.into() },
            Kind::Text | Kind::Call | Kind::Opaque | Kind::Empty => Delta::Text { part, text: text.into() },
        });
    }

    fn open(&mut self, kind: Kind, mut item: Map<String, Value>, text: String) {
        if let Some(signature) = self.signature.take() {
            item.entry(SIGNATURE).or_insert_with(|| signature.into());
        }
        self.grows = matches!(kind, Kind::Text | Kind::Thought);
        self.blocks.push(Draft { kind, item, text });
    }

    fn block(&self, draft: Draft, at: usize, is_cut: bool, ids: &mut HashSet<String>) -> Option<Block> {
        let Draft { kind, mut item, text } = draft;
        match kind {
            Kind::Text | Kind::Thought => {
                item.insert("text".to_owned(), text.as_str().into());
                let own = if kind == Kind::Text { Own::Text(&text) } else { Own::Reasoning(&text) };
                let native = native::keep(WireKind::Gemini, &self.origin, own, &Value::Object(item));
                let text = Content::Inline(text);
                Some(match kind {
                    Kind::Text => Block::Text { native, text },
                    Kind::Thought | Kind::Call | Kind::Opaque | Kind::Empty => {
                        Block::Reasoning { native, text }
                    }
                })
            }
            Kind::Call => {
                let call = item.get("functionCall").and_then(Value::as_object)?;
                let is_object = call.get("args").is_none_or(|args| args.is_object() || args.is_null());
                if is_cut && !is_object {
                    return None;
                }
                let given = call.get("id").and_then(Value::as_str).filter(|id| !id.is_empty());
                let given = given.filter(|id| !ids.contains(*id));
                let mut id = given.map_or_else(|| format!("call_{at}"), str::to_owned);
                while !ids.insert(id.clone()) {
                    id.push_str("_1");
                }
                let name = ToolName::from(call.get("name").and_then(Value::as_str).unwrap_or_default());
                let own = Own::Call { id: &id, name: name.as_str(), asked: &text };
                let native = native::keep(WireKind::Gemini, &self.origin, own, &Value::Object(item.clone()));
                Some(Block::ToolCall(ToolCall { id, name, asked: Content::Inline(text), native }))
            }
            Kind::Opaque => {
                let native = Native { origin: Arc::clone(&self.origin), item: Value::Object(item) };
                Some(Block::Opaque { native: Arc::new(native) })
            }
            Kind::Empty => None,
        }
    }
}

impl Decoder for GenerateDecoder {
    fn event(&mut self, _: &str, data: &[u8], deltas: &mut VecDeque<Delta>) -> Result<Flow, ModelError> {
        if data.trim_ascii().is_empty() {
            return Ok(Flow::More);
        }
        let chunk = match serde_json::from_slice::<Object<Chunk<'_>>>(data) {
            Ok(Object(Some(chunk))) => chunk,
            Ok(Object(None)) => return Ok(Flow::More),
            Err(error) => match lenient::repaired(data, &error) {
                Some(data) => return self.event("", &data, deltas),
                None => return Err(failure::malformed(&error)),
            },
        };
        if let Some(model) = chunk.model_version.filled()
            && self.model.as_deref() != Some(model)
        {
            self.model = Some(model.to_owned());
        }
        if let Object(Some(usage)) = chunk.usage_metadata {
            self.usage = Some(usage);
        }
        if !chunk.error.is_null() {
            return Err(failure::in_band(&String::from_utf8_lossy(data)));
        }
        if let Some(reason) = chunk.prompt_feedback.0.and_then(|feedback| feedback.block_reason()) {
            self.blocked = matches!(
                reason.as_str(),
                "SAFETY" | "BLOCKLIST" | "PROHIBITED_CONTENT" | "IMAGE_SAFETY" | "MODEL_ARMOR" | "JAILBREAK"
            );
            let text = format!("the provider blocked the prompt: `{reason}`");
            let error = ModelError::new(FailureClass::Transient, text);
            return if self.blocked { Ok(Flow::End) } else { Err(error) };
        }
        match chunk.candidates {
            Value::Null => Ok(Flow::More),
            Value::Array(candidates) => match candidates.into_iter().next() {
                None => Ok(Flow::More),
                Some(Value::Object(candidate)) => self.candidate(candidate, deltas),
                Some(_) => Err(malformed("a candidate that is not an object")),
            },
            _ => Err(malformed("candidates that are not a list")),
        }
    }

    fn finish(&mut self) -> Result<Reply, ModelError> {
        if self.blocked {
            return Ok(Reply {
                blocks: Vec::new(),
                stop: StopReason::Refusal,
                usage: Usage::default(),
                model: None,
            });
        }
        let Some(reason) = self.reason.take() else { return Err(failure::truncated()) };
        let stop = match reason.as_str() {
            "STOP" => StopReason::End,
            "MAX_TOKENS" => StopReason::MaxTokens,
            "SAFETY"
            | "BLOCKLIST"
            | "PROHIBITED_CONTENT"
            | "SPII"
            | "IMAGE_SAFETY"
            | "IMAGE_PROHIBITED_CONTENT"
            | "MODEL_ARMOR"
            | "RECITATION"
            | "LANGUAGE" => StopReason::Refusal,
            _ if self.lenient => StopReason::Other(reason),
            _ => return Err(failure::unknown_reason(&reason)),
        };
        let is_cut = matches!(stop, StopReason::MaxTokens | StopReason::Refusal | StopReason::Other(_));
        let mut ids = HashSet::new();
        let drafts = std::mem::take(&mut self.blocks).into_iter().enumerate();
        let blocks: Vec<Block> =
            drafts.filter_map(|(at, draft)| self.block(draft, at, is_cut, &mut ids)).collect();
        let called = blocks.iter().any(|block| matches!(block, Block::ToolCall(_)));
        let stop = if stop == StopReason::End && called { StopReason::ToolCalls } else { stop };
        let usage = self.usage.map(|usage| usage.totals()).unwrap_or_default();
        Ok(Reply { blocks, stop, usage, model: self.model.take() })
    }
}

/// Returns the signature of a part, unless it is empty.
fn signature(item: &Map<String, Value>) -> Option<&str> {
    item.get(SIGNATURE).and_then(Value::as_str).filter(|signature| !signature.is_empty())
}

fn malformed(what: &str) -> ModelError {
    ModelError::new(FailureClass::Malformed, format!("the provider sent {what}"))
}
