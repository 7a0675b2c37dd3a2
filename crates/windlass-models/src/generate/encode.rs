//! Encodes the contents of a Gemini request from the history into the body.
//!
//! The model's own parts are sent back unchanged, with their thought signatures. Instructions are a separate field of
//! the body.

use std::borrow::Cow;

use serde_json::{Map, Value};
use windlass_engine::port::model::{ModelCall, ModelError};
use windlass_machine::Origin;

use crate::body::Body;
use crate::history::turn::{self, Item, Part, Rules, SentResult, Turn};
use crate::native;

/// The endpoint that receives the request.
pub(crate) struct Recipient<'a> {
    /// The origin that is stored with the endpoint's replies.
    pub origin: &'a Origin,
    /// Whether the request offers tools.
    pub tools: bool,
    /// Whether the model accepts call ids.
    pub call_ids: bool,
    /// Whether the model requires a signature for each call. (Gemini 3)
    pub signed_calls: bool,
    /// Whether the model reads images in results.
    pub result_images: bool,
    /// Whether the instructions are sent. False if the configuration replaces them.
    pub sends_instructions: bool,
}

/// Replaces the signature of a call that the model did not sign, per Google's documentation.
const NO_SIGNATURE: &str = "skip_thought_signature_validator";

/// Appends the contents and the instructions of a call to a body.
pub(crate) fn contents(
    call: &ModelCall,
    recipient: &Recipient<'_>,
    body: &mut Body,
) -> Result<(), ModelError> {
    let rules = Rules {
        origin: recipient.origin,
        fit: if recipient.call_ids { turn::legal_id } else { |id| Cow::Borrowed(id) },
        keeps: &|_, _, _| true,
        keeps_reasoning: true,
        pairs_reasoning: false,
        reads_images: true,
        carries: |media_type| media_type != "image/gif",
        result_images: recipient.result_images,
        // A result that consists of images only would have no `response`, which Vertex rejects.
        picture_sentence: Some("(see the image)"),
        tools: recipient.tools,
    };
    let mut system: Vec<String> = turn::instructions(call)?.into_iter().map(str::to_owned).collect();
    let turns = turn::turns(call, &rules)?;
    let is_system = |turn: &Turn<'_>| matches!(turn, Turn::System(_));
    let is_folded = turns.iter().skip_while(|turn| is_system(turn)).any(is_system);
    let mut others = Vec::with_capacity(turns.len());
    for turn in turns {
        match turn {
            Turn::System(text) => system.push(text),
            turn => others.push(turn),
        }
    }
    if is_folded {
        system = vec![system.join("\n\n")];
    }
    let mut writer = Writer { recipient, body, is_first: true };
    writer.body.raw("[");
    for turn in turn::merged(others) {
        match turn {
            Turn::User(parts) => writer.user(&parts),
            Turn::Assistant(items) => {
                writer.begin();
                writer.list(&items, Writer::item);
                writer.body.raw("],\"role\":\"model\"}");
            }
            Turn::System(_) => {}
        }
    }
    writer.body.raw("]");
    if recipient.sends_instructions && !system.is_empty() {
        writer.body.raw(",\"systemInstruction\":{\"parts\":[");
        writer.list(&system, |writer, text| writer.text(text));
        writer.body.raw("],\"role\":\"model\"}");
    }
    Ok(())
}

struct Writer<'b> {
    recipient: &'b Recipient<'b>,
    body: &'b mut Body,
    is_first: bool,
}

impl Writer<'_> {
    /// Writes a user turn. Results are sent separately, because the model handles text beside them poorly.
    fn user(&mut self, parts: &[Part<'_>]) {
        let is_result = |part: &Part<'_>| matches!(part, Part::Result(_));
        for run in parts.chunk_by(|one, other| is_result(one) == is_result(other)) {
            self.begin();
            self.list(run, Self::part);
            self.body.raw("],\"role\":\"user\"}");
        }
    }

    fn begin(&mut self) {
        self.body.raw(if std::mem::take(&mut self.is_first) { "{\"parts\":[" } else { ",{\"parts\":[" });
    }

    fn list<T>(&mut self, parts: &[T], write: impl Fn(&mut Self, &T)) {
        for (at, part) in parts.iter().enumerate() {
            if at > 0 {
                self.body.raw(",");
            }
            write(self, part);
        }
    }

    fn text(&mut self, text: &str) {
        self.body.raw("{\"text\":");
        self.body.string(text);
        self.body.raw("}");
    }

    fn part(&mut self, part: &Part<'_>) {
        match part {
            Part::Text(text) => self.text(text),
            Part::Image { media_type, bytes } => self.data(media_type, bytes),
            Part::Document { bytes, .. } => self.data("application/pdf", bytes),
            Part::Result(result) => self.result(result),
        }
    }

    fn data(&mut self, media_type: &str, bytes: &[u8]) {
        self.body.raw("{\"inlineData\":{\"mimeType\":");
        self.body.string(media_type);
        self.body.field("data");
        self.body.base64(bytes);
        self.body.raw("}}");
    }

    fn result(&mut self, result: &SentResult<'_>) {
        self.body.raw("{\"functionResponse\":{\"name\":");
        self.body.string(result.name);
        if self.recipient.call_ids {
            self.body.field("id");
            self.body.string(&result.call_id);
        }
        let texts: Vec<&str> = result
            .content
            .iter()
            .filter_map(|part| match part {
                Part::Text(text) => Some(&**text),
                Part::Image { .. } | Part::Document { .. } | Part::Result(_) => None,
            })
            .collect();
        self.body.raw(if result.error { ",\"response\":{\"error\":" } else { ",\"response\":{\"result\":" });
        match texts.as_slice() {
            [text] => self.body.string(text),
            texts => self.body.value(texts),
        }
        self.body.raw("}");
        let mut separator = ",\"parts\":[";
        for part in &result.content {
            if let Part::Image { .. } = part {
                self.body.raw(std::mem::replace(&mut separator, ","));
                self.part(part);
            }
        }
        self.body.raw(if separator == "," { "]}}" } else { "}}" });
    }

    fn item(&mut self, item: &Item<'_>) {
        match item {
            Item::Text { text, native: None } => self.text(text),
            Item::Text { text, native: Some(native) } => {
                self.own_part(native::restore(&native.item, text), None)
            }
            Item::Reasoning { text, native } => self.own_part(native::restore(&native.item, text), None),
            Item::Opaque { native } => self.own_part(native::restore(&native.item, ""), None),
            Item::Call { id, arguments, native: Some(native), .. } => {
                self.own_part(native::restore(&native.item, arguments), Some(id));
            }
            Item::Call { call, id, arguments, native: None } => {
                self.body.raw("{\"functionCall\":{\"name\":");
                self.body.string(call.name.as_str());
                self.body.field("args");
                self.body.value(&native::argument_object(arguments));
                if self.recipient.call_ids {
                    self.body.field("id");
                    self.body.string(id);
                }
                self.body.raw("}");
                if self.recipient.signed_calls {
                    self.body.field("thoughtSignature");
                    self.body.string(NO_SIGNATURE);
                }
                self.body.raw("}");
            }
        }
    }

    /// Writes a part that the model created, with the id of its call.
    fn own_part(&mut self, mut part: Value, id: Option<&str>) {
        if let Value::Object(fields) = &mut part {
            self.fit(fields, id);
        }
        self.body.value(&part);
    }

    fn fit(&self, fields: &mut Map<String, Value>, id: Option<&str>) {
        if let Some(Value::Object(call)) = fields.get_mut("functionCall") {
            match id.filter(|_| self.recipient.call_ids) {
                Some(id) => drop(call.insert("id".to_owned(), id.into())),
                None => drop(call.shift_remove("id")),
            }
        }
        // A single signature that is not base64 fails the whole request.
        let signature = fields.get("thoughtSignature").and_then(Value::as_str);
        if signature.is_some_and(|signature| !is_base64(signature)) {
            fields.shift_remove("thoughtSignature");
        }
    }
}

/// Whether a text is padded base64.
fn is_base64(text: &str) -> bool {
    let body = text.trim_end_matches('=');
    let is_digit = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'+' | b'/');
    !body.is_empty()
        && text.len().is_multiple_of(4)
        && text.len() - body.len() <= 2
        && body.bytes().all(is_digit)
}
