//! Converts messages to the library's form. Restores provider-specific items if the request goes to the origin that
//! created them, drops reasoning from other origins, and merges adjacent user and tool messages.
//!
//! The library silently repairs histories. A converted history needs no repair; debug builds check that.

use rig_core::message::{
    Api, AssistantContent, AssistantMessage, CallId, Message as RigMessage, Opaque, Origin as RigOrigin,
    Text, ToolCall as RigCall, ToolFunction, ToolName as RigToolName, ToolResult as RigResult,
    ToolResultContent, UserContent,
};
use windlass_engine::port::model::{ModelCall, ModelError};
use windlass_machine::{Block, FailureClass, Message, Native, Origin, Role, ToolCall, ToolResult};

use crate::config::WireKind;
use crate::history::text;
use crate::library::media;
use crate::native::{self, Own};

/// The recipient of the history.
pub(crate) struct Target<'a> {
    /// The wire.
    pub kind: WireKind,
    /// The origin that is stored with the endpoint's replies.
    pub origin: &'a Origin,
    /// The origin in the library's form.
    pub library: RigOrigin,
    /// Whether call ids must have exactly nine letters and digits. (Mistral)
    pub nine_letter_ids: bool,
}

/// A history ready to be sent.
pub(crate) struct History {
    /// System texts first.
    pub messages: Vec<RigMessage>,
}

/// Builds the history of a call.
pub(crate) fn build(call: &ModelCall, target: &Target<'_>) -> Result<History, ModelError> {
    let mut history = History { messages: system(call, target.kind)? };
    for message in &call.request.messages {
        match message.role {
            Role::System => {
                let text = joined_text(call, message)?;
                if !text.trim().is_empty() {
                    history.messages.push(RigMessage::system(text));
                }
            }
            Role::User | Role::Tool => {
                let content = user_side(call, target, message)?;
                history.push_user(content);
            }
            Role::Assistant => history.push_assistant(call, target, message)?,
        }
    }
    // A paused reply is sent back unchanged, so that the model continues it; text after it would start another turn.
    let paused = matches!(history.messages.last(), Some(RigMessage::Assistant(_)));
    if !paused {
        let tail = call.request.tail.iter().filter(|text| !text.trim().is_empty());
        history.push_user(tail.map(UserContent::text).collect());
    }
    Ok(history)
}

impl History {
    fn push_user(&mut self, content: Vec<UserContent>) {
        if content.is_empty() {
            return;
        }
        match self.messages.last_mut() {
            Some(RigMessage::User { content: last }) => last.extend(content),
            Some(RigMessage::System { .. } | RigMessage::Assistant(_)) | None => {
                self.messages.push(RigMessage::User { content });
            }
        }
    }

    fn push_assistant(
        &mut self,
        call: &ModelCall,
        target: &Target<'_>,
        message: &Message,
    ) -> Result<(), ModelError> {
        let own = same_origin(message, target.origin);
        // A message of another or unknown origin is treated as the target's own if its ids
        // are plain, because nothing in it reveals its origin. Gemini is excluded: it
        // requires additional fields around such calls.
        let adopted = target.kind != WireKind::Gemini
            && !target.nine_letter_ids
            && message.calls().all(|call| native::is_plain_id(&call.id));
        let exact = own || adopted;
        let mut content = Vec::with_capacity(message.blocks.len());
        for block in &message.blocks {
            content.extend(assistant_block(call, target, block, exact)?);
        }
        if content.is_empty() {
            return Ok(());
        }
        let origin = exact.then(|| target.library.clone());
        self.messages.push(RigMessage::Assistant(AssistantMessage::new(content).with_origin(origin)));
        Ok(())
    }
}

/// Returns the library's form of an origin.
pub(crate) fn library_origin(api: Api, provider: &str, model: &str) -> RigOrigin {
    RigOrigin::new(api, provider, model)
}

fn system(call: &ModelCall, kind: WireKind) -> Result<Vec<RigMessage>, ModelError> {
    let mut texts = Vec::new();
    for content in &call.request.system {
        let text = text(call, content)?;
        if !text.trim().is_empty() {
            texts.push(text.to_owned());
        }
    }
    Ok(match kind {
        // Many chat endpoints accept only one system message.
        WireKind::OpenaiChat if !texts.is_empty() => vec![RigMessage::system(texts.join("\n\n"))],
        WireKind::OpenaiChat
        | WireKind::Anthropic
        | WireKind::OpenaiResponses
        | WireKind::Gemini
        | WireKind::Converse => texts.into_iter().map(RigMessage::system).collect(),
    })
}

fn user_side(
    call: &ModelCall,
    target: &Target<'_>,
    message: &Message,
) -> Result<Vec<UserContent>, ModelError> {
    let mut content = Vec::with_capacity(message.blocks.len());
    // Documents in results are sent after all results of the message, because no wire accepts them in between.
    let mut attached = Vec::new();
    for block in &message.blocks {
        match block {
            Block::Text { text: shown, .. } => {
                let shown = text(call, shown)?;
                if !shown.trim().is_empty() {
                    content.push(UserContent::text(shown));
                }
            }
            Block::Image { blob } => content.push(media::image(call, blob)?),
            Block::File { name, blob } => content.push(media::file(call, name, blob)?),
            Block::ToolResult(result) => {
                content.push(UserContent::ToolResult(tool_result(call, target, result, &mut attached)?));
            }
            // A user message never contains these blocks; the machine builds no such message.
            Block::Reasoning { .. } | Block::ToolCall(_) | Block::Opaque { .. } => {}
        }
    }
    content.extend(attached);
    Ok(content)
}

fn tool_result(
    call: &ModelCall,
    target: &Target<'_>,
    result: &ToolResult,
    attached: &mut Vec<UserContent>,
) -> Result<RigResult, ModelError> {
    let mut content = Vec::with_capacity(result.content.len());
    for block in &result.content {
        match block {
            Block::Text { text: shown, .. } => {
                content.push(ToolResultContent::Text(Text::new(text(call, shown)?)));
            }
            Block::Image { blob } => content.push(media::result_image(call, blob)?),
            Block::File { name, blob } => {
                content.push(ToolResultContent::Text(Text::new(format!("(file `{name}` follows)"))));
                attached.push(media::file(call, name, blob)?);
            }
            Block::Reasoning { .. } | Block::ToolCall(_) | Block::ToolResult(_) | Block::Opaque { .. } => {}
        }
    }
    if content.is_empty() {
        content.push(ToolResultContent::Text(Text::new("(no output)")));
    } else if target.kind == WireKind::Gemini && !content.iter().any(is_text) {
        // A result that consists of images only would have no `response` on this wire, which Vertex rejects.
        content.push(ToolResultContent::Text(Text::new("(see the image)")));
    }
    Ok(RigResult {
        call: call_id(target, &result.call_id),
        name: tool_name(result.name.as_str())?,
        content,
        is_error: result.error,
    })
}

fn is_text(content: &ToolResultContent) -> bool {
    matches!(content, ToolResultContent::Text(_))
}

fn assistant_block(
    call: &ModelCall,
    target: &Target<'_>,
    block: &Block,
    exact: bool,
) -> Result<Option<AssistantContent>, ModelError> {
    let mine = |native: &Option<std::sync::Arc<Native>>| -> Option<std::sync::Arc<Native>> {
        native.clone().filter(|native| *native.origin == *target.origin)
    };
    Ok(match block {
        Block::Text { text: shown, native } => {
            let shown = text(call, shown)?;
            let native = mine(native);
            if shown.is_empty() && native.is_none() {
                return Ok(None);
            }
            let item = item(target.kind, native.as_deref(), Own::Text(shown), exact);
            Some(with_item(AssistantContent::text(shown), item))
        }
        Block::Reasoning { text: shown, native } => match mine(native) {
            Some(native) => {
                let shown = text(call, shown)?;
                let item = native::restore(&native.item, shown);
                Some(AssistantContent::reasoning(shown).with_native(item))
            }
            None => None,
        },
        Block::ToolCall(asked) => {
            Some(tool_call(call, target, asked, mine(&asked.native).as_deref(), exact)?)
        }
        Block::Opaque { native } => (*native.origin == *target.origin).then(|| {
            AssistantContent::Opaque(Opaque { item: native::restore(&native.item, ""), replay: true })
        }),
        Block::Image { .. } | Block::File { .. } | Block::ToolResult(_) => None,
    })
}

fn tool_call(
    call: &ModelCall,
    target: &Target<'_>,
    asked: &ToolCall,
    native: Option<&Native>,
    exact: bool,
) -> Result<AssistantContent, ModelError> {
    let arguments = text(call, &asked.asked)?;
    let function = ToolFunction::parse(tool_name(asked.name.as_str())?, arguments);
    let own = Own::Call { id: &asked.id, name: asked.name.as_str(), asked: arguments };
    let item = item(target.kind, native, own, exact);
    Ok(with_item(AssistantContent::ToolCall(RigCall::new(call_id(target, &asked.id), function)), item))
}

fn item(kind: WireKind, native: Option<&Native>, own: Own<'_>, exact: bool) -> Option<serde_json::Value> {
    match native {
        Some(native) => {
            let text = match own {
                Own::Text(text) | Own::Reasoning(text) | Own::Call { asked: text, .. } => text,
            };
            Some(native::restore(&native.item, text))
        }
        // The chat wire's encoding of a block equals its usual item, and the library encodes it faster.
        None if exact && kind != WireKind::OpenaiChat => native::rebuild(kind, own),
        None => None,
    }
}

fn same_origin(message: &Message, origin: &Origin) -> bool {
    message.blocks.iter().any(|block| {
        let native = match block {
            Block::Text { native, .. } | Block::Reasoning { native, .. } => native.as_ref(),
            Block::ToolCall(call) => call.native.as_ref(),
            Block::Opaque { native } => Some(native),
            Block::Image { .. } | Block::File { .. } | Block::ToolResult(_) => None,
        };
        native.is_some_and(|native| *native.origin == *origin)
    })
}

fn call_id(target: &Target<'_>, id: &str) -> CallId {
    let fits = id.len() == 9 && id.bytes().all(|byte| byte.is_ascii_alphanumeric());
    if target.nine_letter_ids && !fits {
        return CallId::from_wire(&blake3::hash(id.as_bytes()).to_hex()[..9]);
    }
    CallId::from_wire(id)
}

fn tool_name(name: &str) -> Result<RigToolName, ModelError> {
    RigToolName::new(name)
        .map_err(|_| ModelError::new(FailureClass::InvalidRequest, "a tool call in the history has no name"))
}

fn with_item(block: AssistantContent, item: Option<serde_json::Value>) -> AssistantContent {
    match item {
        Some(item) => block.with_native(item),
        None => block,
    }
}

fn joined_text(call: &ModelCall, message: &Message) -> Result<String, ModelError> {
    let mut all = String::new();
    for block in &message.blocks {
        if let Block::Text { text: shown, .. } = block {
            all.push_str(text(call, shown)?);
        }
    }
    Ok(all)
}
