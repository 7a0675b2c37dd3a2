//! Encodes assistant messages: text, reasoning, calls, and provider-specific parts.
//!
//! Items that the endpoint created are returned to it unchanged; another endpoint's reasoning is omitted.

use std::borrow::Cow;

use serde_json::{Map, Value, json};
use windlass_engine::port::model::ModelError;
use windlass_machine::{Block, Message, Native, ToolCall};

use crate::chat::encode::{REASONING_FIELD, ReasoningField, Writer};
use crate::chat::ids;
use crate::history::text;
use crate::history::turn::native_of;
use crate::native;

impl<'a> Writer<'a, '_> {
    /// Writes an assistant message. Returns whether it has content to send.
    pub(super) fn assistant(&mut self, message: &'a Message) -> Result<bool, ModelError> {
        // Ids of another provider's message are kept if they are valid on every wire.
        let own = message.blocks.iter().any(|block| self.own(native_of(block)).is_some())
            || message.calls().all(|call| native::is_plain_id(&call.id));
        let mut turn = Turn::default();
        self.ids.begin_message();
        for block in &message.blocks {
            self.assistant_block(block, own, &mut turn)?;
        }
        if turn.content.is_empty() && turn.calls.is_empty() && !turn.fields.contains_key("audio") {
            return Ok(false);
        }
        self.end_user_side();
        self.begin("assistant");
        self.assistant_content(&turn.content);
        let everywhere = self.recipient.reasoning == ReasoningField::Everywhere && !turn.reasoned;
        if everywhere && !turn.reasoning.iter().any(|(field, _)| field == REASONING_FIELD) {
            turn.reasoning.insert(0, (REASONING_FIELD.to_owned(), String::new()));
        }
        if let Some(field) = self.recipient.dialect.reasoning_field
            && !turn.reasoning.iter().any(|(known, _)| known == field)
            && !turn.fields.contains_key(field)
        {
            turn.fields.insert(field.to_owned(), "".into());
        }
        for (field, text) in &turn.reasoning {
            self.body.field(field);
            self.body.string(text);
        }
        for (field, value) in &turn.fields {
            self.body.field(field);
            self.body.value(value);
        }
        for (at, call) in turn.calls.iter().enumerate() {
            self.body.raw(if at == 0 { ",\"tool_calls\":[" } else { "," });
            self.tool_call(call)?;
        }
        self.body.raw(if turn.calls.is_empty() { "}" } else { "]}" });
        Ok(true)
    }

    /// Writes the content: one string, or a list if some part is not text.
    fn assistant_content(&mut self, content: &[Segment<'_>]) {
        if content.is_empty() {
            return;
        }
        self.body.raw(",\"content\":");
        if let [Segment::Text(text)] = content {
            return self.body.string(text);
        }
        if content.iter().all(|segment| matches!(segment, Segment::Text(_))) {
            let texts = content.iter().map(|segment| match segment {
                Segment::Text(text) => text,
                Segment::Item(_) => "",
            });
            let joined: String = texts.collect();
            return self.body.string(&joined);
        }
        for (at, segment) in content.iter().enumerate() {
            self.body.raw(if at == 0 { "[" } else { "," });
            match segment {
                Segment::Text(text) => {
                    self.body.raw("{\"type\":\"text\",\"text\":");
                    self.body.string(text);
                    self.body.raw("}");
                }
                Segment::Item(item) => self.body.value(item),
            }
        }
        self.body.raw("]");
    }

    fn assistant_block(
        &mut self,
        block: &'a Block,
        own: bool,
        turn: &mut Turn<'a>,
    ) -> Result<(), ModelError> {
        match block {
            Block::Text { text: shown, native } => {
                let shown = text(self.call, shown)?;
                let native = self.own(native.as_deref());
                if native.is_none() && shown.trim().is_empty() {
                    return Ok(());
                }
                if !shown.is_empty() {
                    turn.content.push(Segment::Text(Cow::Borrowed(shown)));
                }
                if let Some(Value::Object(fields)) = native.map(|native| native::restore(&native.item, shown))
                {
                    turn.fields.extend(fields);
                }
            }
            Block::Reasoning { text: shown, native } => {
                let Some(native) = self.own(native.as_deref()) else { return Ok(()) };
                if self.recipient.reasoning == ReasoningField::Strip {
                    return Ok(());
                }
                let shown = text(self.call, shown)?;
                turn.reasoned = true;
                turn.reasoning(native::restore(&native.item, shown), shown);
            }
            Block::ToolCall(asked) => {
                if self.recipient.tools {
                    let wanted = ids::fitted(&asked.id, own, self.recipient.dialect);
                    let id = self.ids.call(&asked.id, wanted);
                    let native = self.own(asked.native.as_deref());
                    turn.calls.push(SentCall { asked, id, native });
                } else {
                    let arguments = text(self.call, &asked.asked)?;
                    let said = format!("[called tool {} with {arguments}]", asked.name);
                    turn.content.push(Segment::Text(Cow::Owned(said)));
                }
            }
            Block::Opaque { native } => {
                if let Some(native) = self.own(Some(native)) {
                    let item = native::restore(&native.item, "");
                    if item.get("type").is_some() {
                        turn.content.push(Segment::Item(item));
                    }
                }
            }
            Block::Image { .. } | Block::File { .. } | Block::ToolResult(_) => {}
        }
        Ok(())
    }

    /// Returns the item if this endpoint created it.
    fn own(&self, native: Option<&'a Native>) -> Option<&'a Native> {
        native.filter(|native| *native.origin == *self.recipient.origin)
    }

    fn tool_call(&mut self, call: &SentCall<'a>) -> Result<(), ModelError> {
        let written = text(self.call, &call.asked.asked)?;
        let arguments = native::arguments(written);
        let Some(native) = call.native else {
            self.body.raw("{\"type\":\"function\",\"id\":");
            self.body.string(&call.id);
            self.body.raw(",\"function\":{\"name\":");
            self.body.string(call.asked.name.as_str());
            self.body.raw(",\"arguments\":");
            self.body.string(&arguments);
            self.body.raw("}}");
            return Ok(());
        };
        let mut item = match native::restore(&native.item, written) {
            Value::Object(item) => item,
            _ => Map::new(),
        };
        let is_custom = item.get("type").and_then(Value::as_str) == Some("custom");
        item.insert("id".to_owned(), call.id.as_ref().into());
        item.entry("type").or_insert_with(|| "function".into());
        let (slot, key, value) = if is_custom {
            let input = serde_json::from_str::<Value>(&arguments).ok();
            let input = input.and_then(|arguments| Some(arguments.get("input")?.as_str()?.to_owned()));
            ("custom", "input", input.unwrap_or_default())
        } else {
            ("function", "arguments", arguments.into_owned())
        };
        let slot = item.entry(slot).or_insert_with(|| json!({}));
        if !slot.is_object() {
            *slot = json!({});
        }
        if let Value::Object(fields) = slot {
            fields.insert("name".to_owned(), call.asked.name.as_str().into());
            fields.insert(key.to_owned(), value.into());
        }
        self.body.value(&Value::Object(item));
        Ok(())
    }
}

/// The parts of an assistant message.
#[derive(Default)]
struct Turn<'a> {
    content: Vec<Segment<'a>>,
    /// Reasoning by field.
    reasoning: Vec<(String, String)>,
    reasoned: bool,
    /// Additional fields of the message.
    fields: Map<String, Value>,
    calls: Vec<SentCall<'a>>,
}

/// A piece of an assistant message's content.
enum Segment<'a> {
    Text(Cow<'a, str>),
    /// A provider-specific content part.
    Item(Value),
}

struct SentCall<'a> {
    asked: &'a ToolCall,
    id: Cow<'a, str>,
    native: Option<&'a Native>,
}

impl Turn<'_> {
    /// Adds a reasoning block: as a content part if the item is a content
    /// part, otherwise as fields of the message.
    fn reasoning(&mut self, item: Value, shown: &str) {
        if item.get("type").is_some() {
            self.content.push(Segment::Item(item));
            return;
        }
        let Value::Object(item) = item else { return };
        let mut field = None;
        for (key, value) in item {
            match (value, self.fields.get_mut(&key)) {
                (Value::String(_), _) => {
                    field.get_or_insert(key);
                }
                (Value::Array(more), Some(Value::Array(known))) => known.extend(more),
                (value, _) => {
                    self.fields.insert(key, value);
                }
            }
        }
        let Some(field) = field else { return };
        match self.reasoning.iter_mut().find(|(known, _)| *known == field) {
            Some((_, joined)) => {
                joined.push('\n');
                joined.push_str(shown);
            }
            None => self.reasoning.push((field, shown.to_owned())),
        }
    }
}
