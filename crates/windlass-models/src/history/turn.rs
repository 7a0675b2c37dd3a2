//! A history as turns, in the form that the responses, the messages and the Gemini wire share.
//!
//! Adjacent user and tool messages form one turn, with results first. Ids are adapted to the endpoint, and a
//! sentence replaces unsupported content. Texts and images are borrowed.

use std::borrow::Cow;

use windlass_engine::port::model::{ModelCall, ModelError};
use windlass_machine::{BlobRef, Block, Message, Native, Origin, Role, ToolCall, ToolResult};

use crate::history::ids::CallIds;
use crate::history::{media, text};
use crate::native;

/// The rules of an endpoint: the content that it accepts.
pub(crate) struct Rules<'r> {
    /// The origin that is stored with the endpoint's replies.
    pub origin: &'r Origin,
    /// Adapts the id of another endpoint's call.
    pub fit: fn(&str) -> Cow<'_, str>,
    /// Whether an opaque item is sent. Parameters: the index of its
    /// message, the index of its block, the item.
    pub keeps: &'r dyn Fn(usize, usize, &Native) -> bool,
    /// Whether reasoning is sent back at all.
    pub keeps_reasoning: bool,
    /// Whether reasoning is sent only together with the item that follows it.
    pub pairs_reasoning: bool,
    /// Whether the model reads images.
    pub reads_images: bool,
    /// Whether the endpoint accepts images of a media type.
    pub carries: fn(&str) -> bool,
    /// Whether the model accepts images, and several parts, in tool results.
    pub result_images: bool,
    /// Text added to a result that consists of images only.
    pub picture_sentence: Option<&'static str>,
    /// Whether the request offers tools. Without tools, calls and results are sent as text.
    pub tools: bool,
}

/// A turn of the conversation.
pub(crate) enum Turn<'a> {
    /// A system message after the instructions.
    System(String),
    /// Content of user and tool messages, results first.
    User(Vec<Part<'a>>),
    /// The model's reply.
    Assistant(Vec<Item<'a>>),
}

/// A part of a user's turn, or of a result.
pub(crate) enum Part<'a> {
    Text(Cow<'a, str>),
    Image { media_type: &'a str, bytes: &'a [u8] },
    Document { name: &'a str, bytes: &'a [u8] },
    Result(SentResult<'a>),
}

/// A tool's result.
pub(crate) struct SentResult<'a> {
    /// The id of the result's call, as sent.
    pub call_id: Cow<'a, str>,
    /// The tool.
    pub name: &'a str,
    /// Texts and pictures.
    pub content: Vec<Part<'a>>,
    /// Whether the tool failed.
    pub error: bool,
}

/// A block of a reply.
pub(crate) enum Item<'a> {
    /// Text, with the item if this endpoint created it.
    Text { text: Cow<'a, str>, native: Option<&'a Native> },
    /// Reasoning that this endpoint created.
    Reasoning { text: &'a str, native: &'a Native },
    /// A call with its id as sent.
    Call { call: &'a ToolCall, id: Cow<'a, str>, arguments: &'a str, native: Option<&'a Native> },
    /// An item that this endpoint created.
    Opaque { native: &'a Native },
}

impl Item<'_> {
    /// Whether the item is sent back in the form in which the endpoint created it.
    fn is_native(&self) -> bool {
        match self {
            Self::Text { native, .. } | Self::Call { native, .. } => native.is_some(),
            Self::Reasoning { .. } | Self::Opaque { .. } => true,
        }
    }
}

const IMAGE_NOT_READ: &str = "(image omitted: model does not support images)";
const IMAGE_NOT_CARRIED: &str = "(image omitted: the provider cannot receive it in this form)";
const RESULT_IMAGE_NOT_READ: &str = "(tool image omitted: model does not support images)";
const RESULT_IMAGE_ATTACHED: &str = "(see attached image)";
const RESULT_IMAGES_HEADING: &str = "Attached image(s) from tool result:";
const NO_OUTPUT: &str = "(no tool output)";

/// Returns the non-empty instructions of a call.
pub(crate) fn instructions(call: &ModelCall) -> Result<Vec<&str>, ModelError> {
    let texts = call.request.system.iter().map(|content| text(call, content));
    let texts: Result<Vec<&str>, ModelError> = texts.collect();
    Ok(texts?.into_iter().filter(|text| !text.trim().is_empty()).collect())
}

/// Returns the turns of a call, including system messages at the beginning.
pub(crate) fn turns<'a>(call: &'a ModelCall, rules: &Rules<'_>) -> Result<Vec<Turn<'a>>, ModelError> {
    let mut outline = Outline {
        call,
        rules,
        ids: CallIds::default(),
        turns: Vec::new(),
        held: Vec::new(),
        attached: Vec::new(),
    };
    for (at, message) in call.request.messages.iter().enumerate() {
        match message.role {
            Role::System => outline.system(message)?,
            Role::User | Role::Tool => outline.user_side(message)?,
            Role::Assistant => outline.assistant(at, message)?,
        }
    }
    // A paused reply is sent back unchanged: text after it would begin another turn.
    let is_paused = outline.held.is_empty() && matches!(outline.turns.last(), Some(Turn::Assistant(_)));
    if !is_paused {
        let tail = call.request.tail.iter().filter(|text| !text.trim().is_empty());
        let tail = tail.map(|text| Part::Text(Cow::Borrowed(text.as_str()))).collect();
        outline.push_user(tail);
    }
    outline.end_user_side();
    outline.turns.extend(outline.held.drain(..).map(Turn::System));
    Ok(outline.turns)
}

struct Outline<'a, 'r> {
    call: &'a ModelCall,
    rules: &'r Rules<'r>,
    ids: CallIds<'a>,
    turns: Vec<Turn<'a>>,
    /// System messages received while calls wait for their results.
    held: Vec<String>,
    /// Images of results, sent after them.
    attached: Vec<Part<'a>>,
}

impl<'a> Outline<'a, '_> {
    fn system(&mut self, message: &Message) -> Result<(), ModelError> {
        let mut joined = String::new();
        for block in &message.blocks {
            if let Block::Text { text: shown, .. } = block {
                joined.push_str(text(self.call, shown)?);
            }
        }
        if joined.trim().is_empty() {
            return Ok(());
        }
        let waits = |items: &[Item<'_>]| items.iter().any(|item| matches!(item, Item::Call { .. }));
        if matches!(self.turns.last(), Some(Turn::Assistant(items)) if waits(items)) {
            self.held.push(joined);
        } else {
            self.end_user_side();
            self.turns.push(Turn::System(joined));
        }
        Ok(())
    }

    fn user_side(&mut self, message: &'a Message) -> Result<(), ModelError> {
        let mut parts = Vec::with_capacity(message.blocks.len());
        // Documents in results are sent after all results of the message, because no wire accepts them in between.
        let mut documents = Vec::new();
        for block in &message.blocks {
            match block {
                Block::Text { text: shown, .. } => {
                    let shown = text(self.call, shown)?;
                    if !shown.trim().is_empty() {
                        parts.push(Part::Text(Cow::Borrowed(shown)));
                    }
                }
                Block::Image { blob } => {
                    let part = self.image(blob)?;
                    push_once(&mut parts, part);
                }
                Block::File { name, blob } => parts.push(self.file(name, blob)?),
                Block::ToolResult(result) => parts.push(self.result(result, &mut documents)?),
                // A user message never contains these blocks; the machine builds no such message.
                Block::Reasoning { .. } | Block::ToolCall(_) | Block::Opaque { .. } => {}
            }
        }
        parts.extend(documents);
        self.push_user(parts);
        Ok(())
    }

    fn push_user(&mut self, mut parts: Vec<Part<'a>>) {
        if parts.is_empty() {
            return;
        }
        if !self.held.is_empty() {
            let is_result = |part: &Part<'_>| matches!(part, Part::Result(_));
            parts.sort_by_key(|part| !is_result(part));
            let others =
                parts.split_off(parts.iter().position(|part| !is_result(part)).unwrap_or(parts.len()));
            if !parts.is_empty() {
                self.turns.push(Turn::User(parts));
            }
            self.end_user_side();
            self.turns.extend(self.held.drain(..).map(Turn::System));
            return self.push_user(others);
        }
        match self.turns.last_mut() {
            Some(Turn::User(last)) => {
                let is_omission = |part: &Part<'_>| matches!(part, Part::Text(text) if [IMAGE_NOT_READ, IMAGE_NOT_CARRIED].contains(&&**text));
                // Adjacent omissions produce one sentence, also across messages.
                let repeats = last.last().is_some_and(is_omission) && is_omission(&parts[0]);
                last.extend(parts.into_iter().skip(usize::from(repeats)));
            }
            Some(Turn::System(_) | Turn::Assistant(_)) | None => self.turns.push(Turn::User(parts)),
        }
    }

    /// Ends the user turn: results first, images of results last.
    fn end_user_side(&mut self) {
        let mut attached = std::mem::take(&mut self.attached);
        if !attached.is_empty() {
            attached.insert(0, Part::Text(Cow::Borrowed(RESULT_IMAGES_HEADING)));
            self.push_user(attached);
        }
        if let Some(Turn::User(parts)) = self.turns.last_mut() {
            parts.sort_by_key(|part| !matches!(part, Part::Result(_)));
        }
    }

    fn image(&self, blob: &'a BlobRef) -> Result<Part<'a>, ModelError> {
        let bytes = media::bytes(self.call, blob)?;
        Ok(if !media::is_picture(blob) {
            Part::Text(Cow::Owned(media::left_out("picture", blob)))
        } else if !self.rules.reads_images {
            Part::Text(Cow::Borrowed(IMAGE_NOT_READ))
        } else if !(self.rules.carries)(&blob.media_type) {
            Part::Text(Cow::Borrowed(IMAGE_NOT_CARRIED))
        } else {
            Part::Image { media_type: &blob.media_type, bytes }
        })
    }

    fn file(&self, name: &'a str, blob: &BlobRef) -> Result<Part<'a>, ModelError> {
        let bytes = media::bytes(self.call, blob)?;
        Ok(match media::as_text(name, blob, bytes) {
            Some(text) => Part::Text(Cow::Owned(text)),
            None => Part::Document { name, bytes },
        })
    }

    fn result(
        &mut self,
        result: &'a ToolResult,
        documents: &mut Vec<Part<'a>>,
    ) -> Result<Part<'a>, ModelError> {
        let mut content = Vec::with_capacity(result.content.len());
        let mut has_text = false;
        for block in &result.content {
            match block {
                Block::Text { text: said, .. } => {
                    has_text = true;
                    content.push(Part::Text(Cow::Borrowed(text(self.call, said)?)));
                }
                Block::Image { blob } => {
                    has_text |= !media::is_picture(blob);
                    let part = self.result_image(blob)?;
                    push_once(&mut content, part);
                }
                Block::File { name, blob } => {
                    has_text = true;
                    content.push(Part::Text(Cow::Owned(format!("(file `{name}` follows)"))));
                    documents.push(self.file(name, blob)?);
                }
                Block::Reasoning { .. }
                | Block::ToolCall(_)
                | Block::ToolResult(_)
                | Block::Opaque { .. } => {}
            }
        }
        if content.is_empty() {
            content.push(Part::Text(Cow::Borrowed("(no output)")));
        } else if let Some(sentence) = self.rules.picture_sentence.filter(|_| !has_text) {
            content.push(Part::Text(Cow::Borrowed(sentence)));
        }
        if content.iter().all(|part| matches!(part, Part::Text(text) if text.trim().is_empty())) {
            let said = if result.error { format!("[tool error] {NO_OUTPUT}") } else { NO_OUTPUT.to_owned() };
            content = vec![Part::Text(Cow::Owned(said))];
        }
        if !self.rules.tools {
            let kind = if result.error { "error" } else { "result" };
            let said = joined(&content, RESULT_IMAGE_NOT_READ);
            return Ok(Part::Text(Cow::Owned(format!("[tool {} {kind}] {said}", result.name))));
        }
        let texts = content.iter().filter(|part| matches!(part, Part::Text(_))).count();
        if !self.rules.result_images && texts > 1 {
            // Some models read only the first part.
            content = vec![Part::Text(Cow::Owned(joined(&content, "")))];
        }
        Ok(Part::Result(SentResult {
            call_id: self.ids.result(&result.call_id),
            name: result.name.as_str(),
            content,
            error: result.error,
        }))
    }

    fn result_image(&mut self, blob: &'a BlobRef) -> Result<Part<'a>, ModelError> {
        Ok(match self.image(blob)? {
            image @ Part::Image { .. } if self.rules.result_images => image,
            image @ Part::Image { .. } => {
                self.attached.push(image);
                Part::Text(Cow::Borrowed(RESULT_IMAGE_ATTACHED))
            }
            Part::Text(_) if media::is_picture(blob) => Part::Text(Cow::Borrowed(RESULT_IMAGE_NOT_READ)),
            part @ (Part::Text(_) | Part::Document { .. } | Part::Result(_)) => part,
        })
    }

    fn assistant(&mut self, at: usize, message: &'a Message) -> Result<(), ModelError> {
        // Ids of another origin are kept if they are valid on every wire.
        let own = message.blocks.iter().any(|block| self.own(native_of(block)).is_some())
            || message.calls().all(|call| native::is_plain_id(&call.id));
        self.ids.begin_message();
        let mut items = Vec::with_capacity(message.blocks.len());
        for (block_at, block) in message.blocks.iter().enumerate() {
            items.extend(self.item(at, block_at, block, own)?);
        }
        if self.rules.pairs_reasoning {
            drop_unpaired(&mut items);
        }
        if items.is_empty() {
            return Ok(());
        }
        self.end_user_side();
        self.turns.extend(self.held.drain(..).map(Turn::System));
        self.turns.push(Turn::Assistant(items));
        Ok(())
    }

    fn item(
        &mut self,
        at: usize,
        block_at: usize,
        block: &'a Block,
        own: bool,
    ) -> Result<Option<Item<'a>>, ModelError> {
        Ok(match block {
            Block::Text { text: shown, native } => {
                let shown = text(self.call, shown)?;
                let native = self.own(native.as_deref());
                let sends = native.is_some() || !shown.trim().is_empty();
                sends.then_some(Item::Text { text: Cow::Borrowed(shown), native })
            }
            Block::Reasoning { text: shown, native } => {
                let shown = text(self.call, shown)?;
                let native = self.own(native.as_deref()).filter(|_| self.rules.keeps_reasoning);
                native.map(|native| Item::Reasoning { text: shown, native })
            }
            Block::ToolCall(call) => {
                let arguments = text(self.call, &call.asked)?;
                let native = self.own(call.native.as_deref());
                let wanted = if own { Cow::Borrowed(call.id.as_str()) } else { (self.rules.fit)(&call.id) };
                if self.rules.tools {
                    let id = self.ids.call(&call.id, wanted);
                    Some(Item::Call { call, id, arguments, native })
                } else {
                    let said = format!("[called tool {} with {arguments}]", call.name);
                    Some(Item::Text { text: Cow::Owned(said), native: None })
                }
            }
            Block::Opaque { native } => {
                let native = self.own(Some(native));
                native
                    .filter(|native| (self.rules.keeps)(at, block_at, native))
                    .map(|native| Item::Opaque { native })
            }
            Block::Image { .. } | Block::File { .. } | Block::ToolResult(_) => None,
        })
    }

    /// Returns the item if this endpoint created it.
    fn own(&self, native: Option<&'a Native>) -> Option<&'a Native> {
        native.filter(|native| *native.origin == *self.rules.origin)
    }
}

/// Drops reasoning that no item of the endpoint follows.
fn drop_unpaired(items: &mut Vec<Item<'_>>) {
    for at in (0..items.len()).rev() {
        let is_paired = items.get(at + 1).is_some_and(Item::is_native);
        if matches!(items[at], Item::Reasoning { .. }) && !is_paired {
            items.remove(at);
        }
    }
}

/// Merges adjacent user turns.
pub(crate) fn merged(turns: Vec<Turn<'_>>) -> Vec<Turn<'_>> {
    let mut merged: Vec<Turn<'_>> = Vec::with_capacity(turns.len());
    for turn in turns {
        match (merged.last_mut(), turn) {
            (Some(Turn::User(last)), Turn::User(parts)) => last.extend(parts),
            (_, turn) => merged.push(turn),
        }
    }
    merged
}

/// Returns the item that is stored with a block.
pub(crate) fn native_of(block: &Block) -> Option<&Native> {
    match block {
        Block::Text { native, .. } | Block::Reasoning { native, .. } => native.as_deref(),
        Block::ToolCall(call) => call.native.as_deref(),
        Block::Opaque { native } => Some(native),
        Block::Image { .. } | Block::File { .. } | Block::ToolResult(_) => None,
    }
}

/// Adds a part. Adjacent omissions produce one sentence.
fn push_once<'a>(parts: &mut Vec<Part<'a>>, part: Part<'a>) {
    if let (Some(Part::Text(last)), Part::Text(Cow::Borrowed(sentence))) = (parts.last(), &part)
        && last == sentence
    {
        return;
    }
    parts.push(part);
}

/// Joins the texts among these parts, one per line, with `other` for each other part.
fn joined(parts: &[Part<'_>], other: &str) -> String {
    let texts = parts.iter().map(|part| match part {
        Part::Text(text) => text,
        Part::Image { .. } | Part::Document { .. } | Part::Result(_) => other,
    });
    texts.collect::<Vec<&str>>().join("\n")
}

/// Converts an id to one of at most 64 characters that most wires accept.
pub(crate) fn legal_id(id: &str) -> Cow<'_, str> {
    const MAX_CHARS: usize = 64;
    let is_legal = |c: char| c.is_ascii_alphanumeric() || c == '_' || c == '-';
    if id.len() <= MAX_CHARS && id.chars().all(is_legal) {
        return Cow::Borrowed(id);
    }
    Cow::Owned(id.chars().map(|c| if is_legal(c) { c } else { '_' }).take(MAX_CHARS).collect())
}
