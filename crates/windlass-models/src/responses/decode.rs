//! Decodes the reply of a responses endpoint from its events.
//!
//! Each output item becomes one block, in output order. A block keeps its item if the provider's final
//! statement contains the item. Reasoning is kept only together with the item that follows it.

use std::collections::{HashMap, HashSet, VecDeque};
use std::sync::Arc;

use serde_json::{Map, Value};
use windlass_engine::port::model::{Delta, ModelError, Reply};
use windlass_machine::{Block, Content, FailureClass, Native, Origin, StopReason, ToolCall, ToolName, Usage};

use crate::config::WireKind;
use crate::failure;
use crate::native::{self, Own};
use crate::responses::draft::{Draft, Kind, Stream, id_of, text_field};
use crate::responses::event::{Event, Response};
use crate::stream::decoder::Decoder;
use crate::stream::lenient::{self, List, Object};
use crate::stream::sse::Flow;

/// Maximum number of items in a response. Typical replies have fewer than ten.
const ITEMS_MAX: usize = 4_096;

/// Types of items that the client must execute. Windlass offers none of these
/// tools, so it has no result to send back.
const CLIENT_EXECUTED: [&str; 5] =
    ["computer_call", "local_shell_call", "shell_call", "apply_patch_call", "mcp_approval_request"];

/// Reads one reply.
pub(crate) struct ResponsesDecoder {
    origin: Arc<Origin>,
    lenient: bool,
    /// The items in the order in which they began.
    items: Vec<Draft>,
    /// The position of the newest item at each output index.
    indexed: HashMap<u64, usize>,
    /// The position of the item of the last event.
    current: Option<usize>,
    /// Whether a message contained a refusal.
    refused: bool,
    end: Option<End>,
}

/// The end of the response: its finish reason or failure.
struct End {
    stop: StopReason,
    usage: Usage,
    model: Option<String>,
}

impl ResponsesDecoder {
    /// Creates a decoder for one reply. Items of the reply are stored with `origin`; an unknown finish reason
    /// fails the reply unless `lenient`.
    pub(crate) fn new(origin: Arc<Origin>, lenient: bool) -> Self {
        Self {
            origin,
            lenient,
            items: Vec::new(),
            indexed: HashMap::new(),
            current: None,
            refused: false,
            end: None,
        }
    }

    /// Finds the item of an event, by its index or its id. An event with neither
    /// belongs to the open item of the last event.
    fn addressed(&self, index: Option<u64>, id: Option<&str>, kind: Kind) -> Option<usize> {
        if let Some(at) = index.and_then(|index| self.indexed.get(&index)) {
            return Some(*at);
        }
        let named = id.filter(|id| !id.is_empty());
        if let Some(at) =
            named.and_then(|id| self.items.iter().rposition(|item| item.id.as_deref() == Some(id)))
        {
            return Some(at);
        }
        self.current.filter(|at| {
            let item = &self.items[*at];
            item.open
                && item.kind.is_like(kind)
                && (index.is_none() || !self.indexed.values().any(|known| known == at))
        })
    }

    /// Begins an item. An open item at the same index ends without a final statement.
    fn begin(
        &mut self,
        index: Option<u64>,
        item: &Map<String, Value>,
        deltas: &mut VecDeque<Delta>,
    ) -> Result<usize, ModelError> {
        if self.items.len() >= ITEMS_MAX {
            return Err(malformed("too many output items"));
        }
        if let Some(previous) = index.and_then(|index| self.indexed.get(&index)) {
            self.items[*previous].open = false;
        }
        let place = index.filter(|index| !self.items.iter().any(|item| item.place == Some(*index)));
        let at = self.items.len();
        let mut draft = Draft::new(at as u32, place, item);
        if draft.kind.is_call() {
            draft.show_call(deltas);
        }
        self.items.push(draft);
        if let Some(index) = index {
            self.indexed.insert(index, at);
        }
        self.current = Some(at);
        Ok(at)
    }

    fn text(
        &mut self,
        event: &Event<'_>,
        stream: Stream,
        deltas: &mut VecDeque<Delta>,
    ) -> Result<(), ModelError> {
        let Some(more) = event.delta.filled() else { return Ok(()) };
        let known = self.addressed(event.output_index.0, event.item_id.0.as_deref(), stream.kind());
        let at = match known.filter(|at| self.items[*at].kind == stream.kind()) {
            Some(at) => at,
            // Some gateways omit the beginning of an item.
            None => {
                let kind = if stream == Stream::Text { "message" } else { "reasoning" };
                let item = Map::from_iter([("type".to_owned(), kind.into())]);
                self.begin(event.output_index.0, &item, deltas)?
            }
        };
        // The text of an ended item is final.
        if self.items[at].open {
            let part = if stream == Stream::Summary { event.summary_index } else { event.content_index };
            deltas.extend(self.items[at].add_text(stream, part.0.unwrap_or(0), more));
        }
        Ok(())
    }

    fn arguments(&mut self, event: &Event<'_>, deltas: &mut VecDeque<Delta>) {
        let known = self.addressed(event.output_index.0, event.item_id.0.as_deref(), Kind::Function);
        if let Some(item) = known.map(|at| &mut self.items[at])
            && item.open
            && item.kind.is_call()
        {
            item.add_arguments(event.delta.0.as_deref().unwrap_or_default(), deltas);
        }
    }

    fn item(
        &mut self,
        index: Option<u64>,
        item: Map<String, Value>,
        deltas: &mut VecDeque<Delta>,
    ) -> Result<(), ModelError> {
        let id = id_of(&item);
        let known = self.addressed(index, id, Kind::of(&item));
        let at = match known.map(|at| (at, &self.items[at])) {
            Some((at, draft))
                if draft.open
                    && draft.kind.is_like(Kind::of(&item))
                    && (index.is_some()
                        || id.is_none()
                        || draft.id.is_none()
                        || draft.id.as_deref() == id) =>
            {
                at
            }
            // The provider has already stated this item.
            Some((_, draft)) if id.is_some() && draft.id.as_deref() == id => return Ok(()),
            Some(_) | None => self.begin(index, &item, deltas)?,
        };
        self.items[at].end(item, deltas);
        Ok(())
    }

    /// Finds the unstated item that the final output restates at an index: by id, by index, or as the first of a
    /// matching kind. Some gateways shift the indices.
    fn restated(
        &self,
        index: usize,
        item: &Map<String, Value>,
        output: &[Value],
        taken: &HashSet<usize>,
    ) -> Option<usize> {
        let (id, kind) = (id_of(item), Kind::of(item));
        let free = |at: &usize| !taken.contains(at) && self.items[*at].kind.is_like(kind);
        let find = |fits: &dyn Fn(usize, &Draft) -> bool| {
            (0..self.items.len()).filter(free).find(|at| fits(*at, &self.items[*at]))
        };
        let may_be = |draft: &Draft| id.is_none() || draft.id.is_none();
        let index_of =
            |at: usize| self.indexed.iter().find(|(_, known)| **known == at).map(|(index, _)| *index);
        let is_elsewhere = |streamed: u64| {
            let other = usize::try_from(streamed).ok().and_then(|at| output.get(at)?.as_object());
            other.is_none_or(|other| !Kind::of(other).is_like(kind))
        };
        id.and_then(|id| find(&|_, draft| draft.id.as_deref() == Some(id)))
            .or_else(|| self.indexed.get(&(index as u64)).copied().filter(free))
            .or_else(|| find(&|at, draft| index_of(at).is_none() && may_be(draft)))
            .or_else(|| find(&|at, draft| may_be(draft) && index_of(at).is_some_and(is_elsewhere)))
    }

    /// Handles the end of the response: applies its final items and its finish reason.
    fn finish_response(
        &mut self,
        response: Response<'_>,
        is_incomplete: bool,
        data: &[u8],
        deltas: &mut VecDeque<Delta>,
    ) -> Result<Flow, ModelError> {
        let List(mut output) = response.output;
        let mut taken = HashSet::new();
        for index in 0..output.len() {
            let Some(item) = output[index].as_object() else { continue };
            let at = match self.restated(index, item, &output, &taken) {
                Some(at) if !self.items[at].open => {
                    if self.items[at].kind == Kind::Reasoning {
                        self.items[at].add_ciphertext(item);
                    }
                    taken.insert(at);
                    continue;
                }
                Some(at) => at,
                None => {
                    let item = item.clone();
                    let free = Some(index as u64).filter(|index| !self.indexed.contains_key(index));
                    self.begin(free, &item, deltas)?
                }
            };
            taken.insert(at);
            if let Value::Object(item) = output[index].take() {
                // A removed item leaves an object with its type at its index.
                output[index] = Value::Object(Map::from_iter(
                    item.get("type").map(|kind| ("type".to_owned(), kind.clone())),
                ));
                self.items[at].end(item, deltas);
            }
        }
        let status = if is_incomplete { Some("incomplete") } else { response.status.filled() };
        let reason = response.incomplete_details.0.as_ref().and_then(|details| details.reason.filled());
        let stop = match (status, reason) {
            (None | Some("completed"), _) => StopReason::End,
            (Some("incomplete"), Some("max_output_tokens")) => StopReason::MaxTokens,
            (Some("incomplete"), Some("content_filter")) => StopReason::Refusal,
            (Some("incomplete"), Some(reason)) => StopReason::Other(format!("incomplete: {reason}")),
            (Some("failed"), _) => return Err(failure::in_band(&String::from_utf8_lossy(data))),
            (Some("cancelled"), _) => {
                return Err(ModelError::new(FailureClass::Transient, "the provider cancelled the response"));
            }
            (Some("queued" | "in_progress"), _) => return Err(failure::truncated()),
            (Some(status), _) => StopReason::Other(status.to_owned()),
        };
        self.end = Some(End {
            stop,
            usage: response.usage.0.map(|usage| usage.totals()).unwrap_or_default(),
            model: response.model.filled().map(str::to_owned),
        });
        Ok(Flow::End)
    }

    /// Decodes an event without a type: a complete response, or an error.
    fn untyped(&mut self, data: &[u8], deltas: &mut VecDeque<Delta>) -> Result<Flow, ModelError> {
        let fields = serde_json::from_slice::<Map<String, Value>>(data).unwrap_or_default();
        let has = |key: &str| fields.contains_key(key);
        if has("type") || !["object", "output", "status", "id", "error"].into_iter().any(has) {
            return Err(malformed("an event without a type"));
        }
        let is_error = fields.get("error").is_some_and(|error| !error.is_null());
        if is_error && !has("output") && !has("status") {
            return Err(failure::in_band(&String::from_utf8_lossy(data)));
        }
        match serde_json::from_slice::<Object<Response<'_>>>(data) {
            Ok(Object(response)) => self.finish_response(response.unwrap_or_default(), false, data, deltas),
            Err(error) => Err(failure::malformed(&error)),
        }
    }

    /// Returns the blocks in output order.
    fn blocks(&mut self, is_cut: bool) -> Result<Vec<Block>, ModelError> {
        let mut items = std::mem::take(&mut self.items);
        items.sort_by_key(|item| (item.place.unwrap_or(u64::MAX), item.part));
        // Items after the first unstated one may depend on an item that is missing.
        let mut kept = items.iter().position(|item| !item.is_stated()).unwrap_or(items.len());
        if kept < items.len() {
            while kept > 0 && items[kept - 1].kind == Kind::Reasoning {
                kept -= 1;
            }
        }
        let mut blocks = Vec::with_capacity(items.len());
        let mut ids = HashSet::new();
        for (at, mut item) in items.into_iter().enumerate() {
            if at >= kept {
                item.item = None;
            }
            if item.kind.is_call() {
                blocks.extend(self.call(item, at < kept, is_cut, blocks.len(), &mut ids)?);
            } else {
                blocks.extend(self.block(item));
            }
        }
        Ok(blocks)
    }

    fn block(&self, draft: Draft) -> Option<Block> {
        let Draft { kind, item, text, .. } = draft;
        if kind == Kind::Opaque {
            let item = item?;
            let is_replayed = text_field(&item, "type").is_some_and(|kind| !CLIENT_EXECUTED.contains(&kind));
            return is_replayed.then(|| Block::Opaque {
                native: Arc::new(Native { origin: Arc::clone(&self.origin), item: Value::Object(item) }),
            });
        }
        if text.is_empty() && item.is_none() {
            return None;
        }
        let own = if kind == Kind::Reasoning { Own::Reasoning(&text) } else { Own::Text(&text) };
        let native = item.and_then(|item| self.native(own, item));
        let text = Content::Inline(text);
        Some(if kind == Kind::Reasoning {
            Block::Reasoning { text, native }
        } else {
            Block::Text { text, native }
        })
    }

    fn call(
        &self,
        mut draft: Draft,
        is_stated: bool,
        is_cut: bool,
        at: usize,
        ids: &mut HashSet<String>,
    ) -> Result<Option<Block>, ModelError> {
        // A truncated call is not dispatched.
        if is_cut && !(is_stated && draft.is_whole()) {
            return Ok(None);
        }
        if draft.name.is_empty() {
            return Err(malformed("a tool call without a name"));
        }
        if !is_stated && !draft.is_whole() {
            let text = "the reply ended with an incomplete tool call";
            return Err(ModelError::new(FailureClass::Truncated, text));
        }
        let asked = draft.asked();
        let given = draft.call_id.take();
        let is_renamed = given.as_ref().is_some_and(|id| ids.contains(id));
        let mut id = given.filter(|_| !is_renamed).unwrap_or_else(|| format!("call_{at}"));
        while !ids.insert(id.clone()) {
            id.push_str("_1");
        }
        let name = ToolName::from(draft.name.as_str());
        let own = Own::Call { id: &id, name: name.as_str(), asked: &asked };
        // The item of a renamed call contains another call's id.
        let native = draft.item.filter(|_| !is_renamed).and_then(|item| self.native(own, item));
        Ok(Some(Block::ToolCall(ToolCall { id, name, asked: Content::Inline(asked), native })))
    }

    fn native(&self, own: Own<'_>, item: Map<String, Value>) -> Option<Arc<Native>> {
        native::keep(WireKind::OpenaiResponses, &self.origin, own, &Value::Object(item))
    }
}

impl Decoder for ResponsesDecoder {
    fn event(&mut self, _: &str, data: &[u8], deltas: &mut VecDeque<Delta>) -> Result<Flow, ModelError> {
        let data = data.trim_ascii();
        // The end of the response is a separate event.
        if data.is_empty() || data == b"[DONE]" {
            return Ok(Flow::More);
        }
        let mut event = match serde_json::from_slice::<Object<Event<'_>>>(data) {
            Ok(Object(Some(event))) => event,
            Ok(Object(None)) => return Ok(Flow::More),
            Err(error) => match lenient::repaired(data, &error) {
                Some(data) => return self.event("", &data, deltas),
                None => return Err(failure::malformed(&error)),
            },
        };
        let index = event.output_index.0;
        match event.kind.0.as_deref() {
            None => return self.untyped(data, deltas),
            Some("error" | "response.failed") => {
                return Err(failure::in_band(&String::from_utf8_lossy(data)));
            }
            Some(kind @ ("response.completed" | "response.incomplete")) => {
                let response = event.response.0.take().unwrap_or_default();
                return self.finish_response(response, kind == "response.incomplete", data, deltas);
            }
            Some("response.output_item.added") => {
                if let Object(Some(item)) = &event.item {
                    self.begin(index, item, deltas)?;
                }
            }
            Some("response.output_item.done") => {
                if let Object(Some(item)) = event.item {
                    self.item(index, item, deltas)?;
                }
            }
            Some("response.output_text.delta") => self.text(&event, Stream::Text, deltas)?,
            Some("response.refusal.delta") => {
                self.refused |= event.delta.filled().is_some();
                self.text(&event, Stream::Text, deltas)?;
            }
            Some("response.reasoning_summary_text.delta") => self.text(&event, Stream::Summary, deltas)?,
            Some("response.reasoning_text.delta") => self.text(&event, Stream::Reasoning, deltas)?,
            Some("response.function_call_arguments.delta" | "response.custom_tool_call_input.delta") => {
                self.arguments(&event, deltas);
            }
            // Events that later protocol versions add, and events that repeat deltas.
            Some(_) => {}
        }
        Ok(Flow::More)
    }

    fn finish(&mut self) -> Result<Reply, ModelError> {
        let Some(End { stop, usage, model }) = self.end.take() else { return Err(failure::truncated()) };
        let refused = self.refused || self.items.iter().any(is_refusal);
        let stop = if refused { StopReason::Refusal } else { stop };
        if let StopReason::Other(reason) = &stop
            && !self.lenient
        {
            return Err(failure::unknown_reason(reason));
        }
        let is_cut = matches!(stop, StopReason::MaxTokens | StopReason::Refusal | StopReason::Other(_));
        let blocks = self.blocks(is_cut)?;
        let called = blocks.iter().any(|block| matches!(block, Block::ToolCall(_)));
        let stop = if stop == StopReason::End && called { StopReason::ToolCalls } else { stop };
        Ok(Reply { blocks, stop, usage, model })
    }
}

fn is_refusal(draft: &Draft) -> bool {
    let content = draft.item.as_ref().and_then(|item| item.get("content")?.as_array());
    content.into_iter().flatten().any(|part| part.get("type").and_then(Value::as_str) == Some("refusal"))
}

fn malformed(what: &str) -> ModelError {
    ModelError::new(FailureClass::Malformed, format!("the provider sent {what}"))
}
