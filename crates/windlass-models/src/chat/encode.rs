//! Encodes the messages of a chat request from the history into the body.
//!
//! A call's arguments are sent as the model wrote them: different white space would change the prefix that
//! the provider's cache matches. A sentence replaces content that the endpoint does not support.

mod assistant;

use std::borrow::Cow;

use serde_json::Value;
use windlass_engine::port::model::{ModelCall, ModelError};
use windlass_machine::{BlobRef, Block, Message, Origin, Role, ToolResult};

use crate::body::Body;
use crate::chat::dialect::Dialect;
use crate::history::ids::CallIds;
use crate::history::{media, text};

/// The endpoint that receives the request, and its limits.
pub(crate) struct Recipient<'a> {
    /// The endpoint's differences.
    pub dialect: &'a Dialect,
    /// The origin that is stored with the endpoint's replies.
    pub origin: &'a Origin,
    /// The media that the endpoint accepts.
    pub media: Media,
    /// Whether the request offers tools. Without tools, calls and results are sent as text.
    pub tools: bool,
    /// How reasoning is sent.
    pub reasoning: ReasoningField,
    /// Marks the instructions for a cache behind a gateway. (SK-C11)
    pub mark: Option<&'a Value>,
}

/// The media that an endpoint and its model accept.
#[derive(Clone, Copy)]
pub(crate) struct Media {
    /// Whether the model reads images.
    pub reads_images: bool,
    /// Whether the endpoint accepts images in user messages.
    pub images: bool,
    /// Whether the endpoint accepts images in tool results.
    pub result_images: bool,
    /// Whether the endpoint accepts PDF.
    pub documents: bool,
}

/// The field `reasoning_content` of assistant messages. (SK-L5)
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum ReasoningField {
    /// Reasoning is never sent.
    Strip,
    /// Reasoning is sent in the fields in which it was received.
    AsReceived,
    /// Like `AsReceived`, but messages without reasoning have an empty field.
    Everywhere,
}

/// The name of the field that [`ReasoningField`] describes.
pub(crate) const REASONING_FIELD: &str = "reasoning_content";

const IMAGE_NOT_READ: &str = "(image omitted: model does not support images)";
const IMAGE_NOT_CARRIED: &str = "(image omitted: the provider cannot receive it in this form)";
const RESULT_IMAGE_NOT_READ: &str = "(tool image omitted: model does not support images)";
const RESULT_IMAGE_ATTACHED: &str = "(see attached image)";
const RESULT_IMAGES_HEADING: &str = "Attached image(s) from tool result:";
const DOCUMENT_NOT_CARRIED: &str = "(document omitted: the provider cannot receive it in this form)";
const NO_OUTPUT: &str = "(no tool output)";

/// Appends the messages of a call to a body, as a JSON list.
pub(crate) fn messages(
    call: &ModelCall,
    recipient: &Recipient<'_>,
    body: &mut Body,
) -> Result<(), ModelError> {
    let mut writer = Writer {
        call,
        recipient,
        body,
        ids: CallIds::default(),
        is_first: true,
        parts: Vec::new(),
        result_images: Vec::new(),
    };
    writer.body.raw("[");
    writer.instructions()?;
    let mut last_is_assistant = false;
    for message in &call.request.messages {
        match message.role {
            Role::System => last_is_assistant &= !writer.system(message)?,
            Role::User | Role::Tool => last_is_assistant &= !writer.user_side(message)?,
            Role::Assistant => last_is_assistant = writer.assistant(message)? || last_is_assistant,
        }
    }
    // A paused reply is sent back unchanged: text after it would begin another turn.
    if !last_is_assistant {
        let tail = call.request.tail.iter().filter(|text| !text.trim().is_empty());
        writer.parts.extend(tail.map(|text| Part::Text(Cow::Borrowed(text))));
    }
    writer.end_user_side();
    writer.body.raw("]");
    Ok(())
}

/// A part of a user message.
enum Part<'a> {
    Text(Cow<'a, str>),
    Image { media_type: &'a str, bytes: &'a [u8] },
    Document { bytes: &'a [u8] },
}

struct Writer<'a, 'b> {
    call: &'a ModelCall,
    recipient: &'b Recipient<'b>,
    body: &'b mut Body,
    ids: CallIds<'a>,
    is_first: bool,
    /// Parts collected for the current user message.
    parts: Vec<Part<'a>>,
    /// Images of results, sent after them in a user message.
    result_images: Vec<Part<'a>>,
}

impl<'a> Writer<'a, '_> {
    /// Writes the instructions as one system message, because many endpoints accept only one such message.
    fn instructions(&mut self) -> Result<(), ModelError> {
        let mut joined = String::new();
        let mut add = |text: &str| {
            if !text.trim().is_empty() {
                joined.push_str(if joined.is_empty() { "" } else { "\n\n" });
                joined.push_str(text);
            }
        };
        for content in &self.call.request.system {
            add(text(self.call, content)?);
        }
        if self.recipient.dialect.leading_system {
            for message in self.call.request.messages.iter().filter(|message| message.role == Role::System) {
                add(&self.joined_text(message)?);
            }
        }
        if !joined.is_empty() {
            self.system_text(&joined);
        }
        Ok(())
    }

    /// Writes a later system message, unless it was appended to the
    /// instructions. Returns whether it has text.
    fn system(&mut self, message: &Message) -> Result<bool, ModelError> {
        let text = self.joined_text(message)?;
        let sends = !text.trim().is_empty();
        if sends && self.recipient.dialect.leading_system {
            self.attach_result_images();
        } else if sends {
            self.end_user_side();
            self.system_text(&text);
        }
        Ok(sends)
    }

    fn system_text(&mut self, text: &str) {
        let is_leading = self.is_first;
        self.begin("system");
        if self.recipient.dialect.text_as_string {
            self.body.raw(",\"content\":");
            self.body.string(text);
        } else {
            self.body.raw(",\"content\":[{\"type\":\"text\",\"text\":");
            self.body.string(text);
            if let Some(mark) = self.recipient.mark.filter(|_| is_leading) {
                self.body.raw(",\"cache_control\":");
                self.body.value(mark);
            }
            self.body.raw("}]");
        }
        self.body.raw("}");
    }

    fn joined_text(&self, message: &Message) -> Result<String, ModelError> {
        let mut joined = String::new();
        for block in &message.blocks {
            if let Block::Text { text: shown, .. } = block {
                joined.push_str(text(self.call, shown)?);
            }
        }
        Ok(joined)
    }

    /// Collects a user or tool message. Returns whether it has content to send.
    fn user_side(&mut self, message: &'a Message) -> Result<bool, ModelError> {
        // Documents in results are sent after all results of the message, because
        // the wire accepts nothing between results.
        let mut attached = Vec::new();
        let mut sends = false;
        for block in &message.blocks {
            match block {
                Block::Text { text: shown, .. } => {
                    let shown = text(self.call, shown)?;
                    if shown.trim().is_empty() {
                        continue;
                    }
                    self.parts.push(Part::Text(Cow::Borrowed(shown)));
                }
                Block::Image { blob } => {
                    let part = self.image(blob)?;
                    self.push_once(part);
                }
                Block::File { name, blob } => {
                    let part = self.file(name, blob)?;
                    self.push_once(part);
                }
                Block::ToolResult(result) => self.result(result, &mut attached)?,
                // A user message never contains these blocks; the machine builds no such message.
                Block::Reasoning { .. } | Block::ToolCall(_) | Block::Opaque { .. } => continue,
            }
            sends = true;
        }
        for part in attached {
            self.push_once(part);
        }
        Ok(sends)
    }

    /// Adds an image or document. Adjacent omissions produce one sentence; only such a sentence is borrowed.
    fn push_once(&mut self, part: Part<'a>) {
        if let (Some(Part::Text(last)), Part::Text(Cow::Borrowed(sentence))) = (self.parts.last(), &part)
            && last == sentence
        {
            return;
        }
        self.parts.push(part);
    }

    fn image(&self, blob: &'a BlobRef) -> Result<Part<'a>, ModelError> {
        let bytes = media::bytes(self.call, blob)?;
        let media = self.recipient.media;
        Ok(if !media::is_picture(blob) {
            Part::Text(Cow::Owned(media::left_out("picture", blob)))
        } else if !media.reads_images {
            Part::Text(Cow::Borrowed(IMAGE_NOT_READ))
        } else if !media.images {
            Part::Text(Cow::Borrowed(IMAGE_NOT_CARRIED))
        } else {
            Part::Image { media_type: &blob.media_type, bytes }
        })
    }

    fn file(&self, name: &str, blob: &BlobRef) -> Result<Part<'a>, ModelError> {
        let bytes = media::bytes(self.call, blob)?;
        Ok(match media::as_text(name, blob, bytes) {
            Some(text) => Part::Text(Cow::Owned(text)),
            None if self.recipient.media.documents => Part::Document { bytes },
            None => Part::Text(Cow::Borrowed(DOCUMENT_NOT_CARRIED)),
        })
    }

    fn result(&mut self, result: &'a ToolResult, attached: &mut Vec<Part<'a>>) -> Result<(), ModelError> {
        let mut shown: Vec<Part<'a>> = Vec::with_capacity(result.content.len());
        for block in &result.content {
            match block {
                Block::Text { text: said, .. } => {
                    shown.push(Part::Text(Cow::Borrowed(text(self.call, said)?)))
                }
                Block::Image { blob } => {
                    let sentence = match self.image(blob)? {
                        image @ Part::Image { .. }
                            if self.recipient.media.result_images && self.recipient.tools =>
                        {
                            shown.push(image);
                            continue;
                        }
                        image @ Part::Image { .. } => {
                            self.result_images.push(image);
                            Cow::Borrowed(RESULT_IMAGE_ATTACHED)
                        }
                        Part::Text(sentence) if media::is_picture(blob) => {
                            drop(sentence);
                            Cow::Borrowed(RESULT_IMAGE_NOT_READ)
                        }
                        Part::Text(sentence) => sentence,
                        Part::Document { .. } => continue,
                    };
                    if !matches!(shown.last(), Some(Part::Text(last)) if *last == sentence) {
                        shown.push(Part::Text(sentence));
                    }
                }
                Block::File { name, blob } => {
                    shown.push(Part::Text(Cow::Owned(format!("(file `{name}` follows)"))));
                    attached.push(self.file(name, blob)?);
                }
                Block::Reasoning { .. }
                | Block::ToolCall(_)
                | Block::ToolResult(_)
                | Block::Opaque { .. } => {}
            }
        }
        if shown.is_empty() {
            shown.push(Part::Text(Cow::Borrowed("(no output)")));
        } else if shown.iter().all(|part| matches!(part, Part::Text(text) if text.trim().is_empty())) {
            let said = if result.error { format!("[tool error] {NO_OUTPUT}") } else { NO_OUTPUT.to_owned() };
            shown = vec![Part::Text(Cow::Owned(said))];
        }
        if !self.recipient.tools {
            let kind = if result.error { "error" } else { "result" };
            let text = joined(&shown);
            self.parts.push(Part::Text(Cow::Owned(format!("[tool {} {kind}] {text}", result.name))));
            return Ok(());
        }
        self.flush_parts();
        self.begin("tool");
        self.body.raw(",\"tool_call_id\":");
        let id = self.ids.result(&result.call_id);
        self.body.string(&id);
        self.body.raw(",\"content\":");
        match shown.as_slice() {
            [Part::Text(text)] => self.body.string(text),
            _ if shown.iter().all(|part| matches!(part, Part::Text(_))) => self.body.string(&joined(&shown)),
            _ => self.content_parts(&shown, false),
        }
        self.body.raw("}");
        Ok(())
    }

    /// Writes the collected user message.
    fn flush_parts(&mut self) {
        let parts = std::mem::take(&mut self.parts);
        if parts.is_empty() {
            return;
        }
        self.begin("user");
        self.body.raw(",\"content\":");
        match parts.as_slice() {
            [Part::Text(text)] => self.body.string(text),
            _ if self.recipient.dialect.text_as_string
                && parts.iter().all(|part| matches!(part, Part::Text(_))) =>
            {
                self.body.string(&joined(&parts));
            }
            _ => self.content_parts(&parts, true),
        }
        self.body.raw("}");
    }

    fn end_user_side(&mut self) {
        self.attach_result_images();
        self.flush_parts();
    }

    fn attach_result_images(&mut self) {
        if !self.result_images.is_empty() {
            self.parts.push(Part::Text(Cow::Borrowed(RESULT_IMAGES_HEADING)));
            self.parts.append(&mut self.result_images);
        }
    }

    fn content_parts(&mut self, parts: &[Part<'_>], of_user: bool) {
        for (at, part) in parts.iter().enumerate() {
            self.body.raw(if at == 0 { "[" } else { "," });
            match part {
                Part::Text(text) => {
                    self.body.raw("{\"type\":\"text\",\"text\":");
                    self.body.string(text);
                    self.body.raw("}");
                }
                Part::Image { media_type, bytes } => {
                    self.body.raw("{\"type\":\"image_url\",\"image_url\":{\"url\":");
                    self.body.data_url(media_type, bytes);
                    self.body.raw(if of_user { ",\"detail\":\"auto\"}}" } else { "}}" });
                }
                Part::Document { bytes } if self.recipient.dialect.document_urls => {
                    self.body.raw("{\"type\":\"document_url\",\"document_url\":");
                    self.body.data_url("application/pdf", bytes);
                    self.body.raw(",\"document_name\":\"document.pdf\"}");
                }
                Part::Document { bytes } => {
                    self.body.raw("{\"type\":\"file\",\"file\":{\"file_data\":");
                    self.body.data_url("application/pdf", bytes);
                    self.body.raw(",\"filename\":\"document.pdf\"}}");
                }
            }
        }
        self.body.raw("]");
    }

    fn begin(&mut self, role: &str) {
        if !std::mem::take(&mut self.is_first) {
            self.body.raw(",");
        }
        self.body.raw("{\"role\":\"");
        self.body.raw(role);
        self.body.raw("\"");
    }
}

/// Joins the texts among these parts, one per line.
fn joined(parts: &[Part<'_>]) -> String {
    let texts: Vec<&str> = parts
        .iter()
        .filter_map(|part| match part {
            Part::Text(text) => Some(&**text),
            Part::Image { .. } | Part::Document { .. } => None,
        })
        .collect();
    texts.join("\n")
}
