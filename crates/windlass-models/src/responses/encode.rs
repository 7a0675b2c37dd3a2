//! Encodes the input of a responses request from the history into the body.
//!
//! Items that the endpoint created are returned to it unchanged. Any other block
//! becomes an item without a provider's id.

use std::borrow::Cow;
use std::collections::HashSet;

use serde_json::Value;
use windlass_engine::port::model::{ModelCall, ModelError};
use windlass_machine::{Native, Origin};

use crate::body::Body;
use crate::history::turn::{self, Item, Part, Rules, SentResult, Turn};
use crate::native;

/// The endpoint that receives the request.
pub(crate) struct Recipient<'a> {
    /// The origin that is stored with the endpoint's replies.
    pub origin: &'a Origin,
    /// Whether the model reads images.
    pub reads_images: bool,
    /// Whether the request offers tools.
    pub tools: bool,
    /// Whether instructions are a separate field of the body instead of items.
    pub instructions_apart: bool,
    /// Whether the instructions are sent. False if the configuration replaces them.
    pub sends_instructions: bool,
    /// Whether the provider stores no copy of earlier replies.
    pub stateless: bool,
}

/// Appends the input and the instructions of a call to a body.
pub(crate) fn input(call: &ModelCall, recipient: &Recipient<'_>, body: &mut Body) -> Result<(), ModelError> {
    let rules = Rules {
        origin: recipient.origin,
        fit: fitted,
        keeps: &|_, _, _| true,
        keeps_reasoning: true,
        pairs_reasoning: true,
        reads_images: recipient.reads_images,
        carries: |_| true,
        result_images: recipient.reads_images,
        picture_sentence: None,
        tools: recipient.tools,
    };
    let turns = turn::turns(call, &rules)?;
    let mut leading: Vec<&str> = turn::instructions(call)?;
    let first = turns.iter().position(|turn| !matches!(turn, Turn::System(_))).unwrap_or(turns.len());
    leading.extend(turns[..first].iter().filter_map(|turn| match turn {
        Turn::System(text) => Some(text.as_str()),
        Turn::User(_) | Turn::Assistant(_) => None,
    }));
    // A request needs at least one item.
    let apart = recipient.instructions_apart && first < turns.len();
    let mut writer = Writer { recipient, body, is_first: true, texts: 0, custom: HashSet::new() };
    writer.body.raw("[");
    if !apart {
        leading.iter().for_each(|text| writer.system(text));
    }
    for turn in &turns[first..] {
        match turn {
            Turn::System(text) => writer.system(text),
            Turn::User(parts) => parts.iter().for_each(|part| writer.user(part)),
            Turn::Assistant(items) => writer.assistant(items),
        }
    }
    writer.body.raw("]");
    if apart && recipient.sends_instructions && !leading.is_empty() {
        let texts: Vec<&str> = leading.iter().map(|text| text.trim()).collect();
        body.field("instructions");
        body.string(&texts.join("\n\n"));
    }
    Ok(())
}

/// Adapts the id of another endpoint's call.
fn fitted(id: &str) -> Cow<'_, str> {
    match turn::legal_id(id) {
        Cow::Borrowed(id) if !id.ends_with('_') => Cow::Borrowed(id),
        legal => match legal.trim_end_matches('_') {
            // A hash replaces an id without any valid character.
            "" => Cow::Owned(blake3::hash(id.as_bytes()).to_hex()[..16].to_owned()),
            trimmed => Cow::Owned(trimmed.to_owned()),
        },
    }
}

struct Writer<'a, 'b> {
    recipient: &'b Recipient<'b>,
    body: &'b mut Body,
    is_first: bool,
    /// Number of texts of other endpoints so far; each gets an id.
    texts: usize,
    /// The ids of calls with free text as their input.
    custom: HashSet<&'a str>,
}

impl<'a> Writer<'a, '_> {
    fn system(&mut self, text: &str) {
        self.begin("message");
        self.body.raw(",\"role\":\"system\",\"content\":[");
        self.text(text);
        self.body.raw("]}");
    }

    fn user(&mut self, part: &Part<'_>) {
        if let Part::Result(result) = part {
            return self.result(result);
        }
        self.begin("message");
        self.body.raw(",\"role\":\"user\",\"content\":[");
        self.part(part);
        self.body.raw("]}");
    }

    fn result(&mut self, result: &SentResult<'_>) {
        let is_custom = self.custom.contains(&*result.call_id);
        self.begin(if is_custom { "custom_tool_call_output" } else { "function_call_output" });
        self.body.field("call_id");
        self.body.string(&result.call_id);
        self.body.field("output");
        match result.content.as_slice() {
            [Part::Text(text)] => self.body.string(text),
            parts => {
                for (at, part) in parts.iter().enumerate() {
                    self.body.raw(if at == 0 { "[" } else { "," });
                    self.part(part);
                }
                self.body.raw("]");
            }
        }
        self.body.raw(if is_custom { "}" } else { ",\"status\":\"completed\"}" });
    }

    fn part(&mut self, part: &Part<'_>) {
        match part {
            Part::Text(text) => self.text(text),
            Part::Image { media_type, bytes } => {
                self.body.raw("{\"type\":\"input_image\",\"detail\":\"auto\",\"image_url\":");
                self.body.data_url(media_type, bytes);
                self.body.raw("}");
            }
            Part::Document { bytes, .. } => {
                self.body.raw("{\"type\":\"input_file\",\"file_data\":");
                self.body.data_url("application/pdf", bytes);
                self.body.raw(",\"filename\":\"document.pdf\"}");
            }
            // A tool result never contains another result.
            Part::Result(_) => {}
        }
    }

    fn text(&mut self, text: &str) {
        self.body.raw("{\"type\":\"input_text\",\"text\":");
        self.body.string(text);
        self.body.raw("}");
    }

    fn assistant(&mut self, items: &'a [Item<'a>]) {
        // Without a stored copy, reasoning that has no encrypted content is
        // not sent, so the item after it has no pair.
        let mut is_unpaired = false;
        for item in items {
            if let Item::Reasoning { text, native } = item {
                let item = native::restore(&native.item, text);
                if self.recipient.stateless && !has_ciphertext(&item) {
                    is_unpaired = true;
                } else {
                    self.item(&item);
                }
                continue;
            }
            let kept = |native: Option<&'a Native>| native.filter(|_| !is_unpaired);
            match item {
                Item::Text { text, native } => match kept(*native) {
                    Some(native) => self.item(&native::restore(&native.item, text)),
                    None => self.other_text(text),
                },
                Item::Call { call, id, arguments, native } => {
                    self.call(call.name.as_str(), id, arguments, kept(*native));
                }
                Item::Opaque { native } => self.item(&native::restore(&native.item, "")),
                Item::Reasoning { .. } => {}
            }
            is_unpaired = false;
        }
    }

    fn other_text(&mut self, text: &str) {
        self.texts += 1;
        self.begin("message");
        self.body.raw(",\"role\":\"assistant\",\"content\":[{\"type\":\"output_text\",\"text\":");
        self.body.string(text);
        self.body.raw(",\"annotations\":[]}],\"status\":\"completed\",\"id\":");
        let id = format!("msg_windlass_{}", self.texts);
        self.body.string(&id);
        self.body.raw("}");
    }

    fn call(&mut self, name: &str, id: &'a str, written: &str, native: Option<&Native>) {
        if let Some(native) = native {
            let mut item = native::restore(&native.item, written);
            if let Value::Object(fields) = &mut item {
                fields.insert("call_id".to_owned(), id.into());
            }
            if item.get("type").and_then(Value::as_str) == Some("custom_tool_call") {
                self.custom.insert(id);
            }
            return self.item(&item);
        }
        self.begin("function_call");
        self.body.field("call_id");
        self.body.string(id);
        self.body.field("name");
        self.body.string(name);
        self.body.field("arguments");
        self.body.string(&native::arguments(written));
        self.body.raw("}");
    }

    fn item(&mut self, item: &Value) {
        self.comma();
        self.body.value(item);
    }

    fn begin(&mut self, kind: &str) {
        self.comma();
        self.body.raw("{\"type\":\"");
        self.body.raw(kind);
        self.body.raw("\"");
    }

    fn comma(&mut self) {
        if !std::mem::take(&mut self.is_first) {
            self.body.raw(",");
        }
    }
}

fn has_ciphertext(item: &Value) -> bool {
    item.get("encrypted_content").and_then(Value::as_str).is_some_and(|text| !text.is_empty())
}
