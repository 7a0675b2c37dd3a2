//! The chat completions wire: `POST /chat/completions` with a stream of server-sent events.
//!
//! The messages are written straight from the history, and the reply is read into borrowed fields. The fields beside
//! the messages (tools, sampling, reasoning) come from the model library, once per combination of settings and tools.

mod call;
mod chunk;
mod decode;
mod dialect;
mod encode;
mod envelope;
mod ids;
#[cfg(test)]
mod tests;

use std::sync::Arc;

use bytes::Bytes;
use http::Request;
use rig_core::catalog::{Catalog, ModelSpec};
use rig_core::completion::{Media as RigMedia, Place, ReplayTarget};
use rig_core::message::{Document, DocumentMediaType, DocumentSourceKind, Image, ImageMediaType};
use rig_core::providers::openai::wire::Chat;
use serde_json::{Value, json};
use windlass_engine::port::model::{ModelCall, ModelError};
use windlass_machine::{Block, CacheMarks, Origin};

pub(crate) use crate::chat::decode::ChatDecoder;
pub(crate) use crate::chat::dialect::Dialect;
use crate::chat::encode::{Media, REASONING_FIELD, ReasoningField, Recipient};
use crate::chat::envelope::Envelopes;
use crate::native;
use crate::provider::endpoint::Endpoint;
use crate::provider::preset::ReasoningContent;
use crate::settings::Facts;

/// One model at a chat endpoint.
pub(crate) struct ChatWire {
    library: Chat,
    dialect: Dialect,
    media: Media,
    reasoning: ReasoningContent,
    envelopes: Envelopes,
}

impl ChatWire {
    /// The wire of a model at an endpoint.
    pub(crate) fn new(library: Chat, endpoint: &Endpoint) -> Self {
        let mut dialect = Dialect::of(endpoint.preset.name, endpoint.config.lenient);
        dialect.reasoning_field = reasoning_field(&library, endpoint);
        Self {
            media: media(&library),
            library,
            dialect,
            reasoning: endpoint.preset.reasoning_content,
            envelopes: Envelopes::default(),
        }
    }

    /// The HTTP request of a call. `marked` says that the endpoint takes marks for Anthropic's cache.
    pub(crate) fn request(
        &self,
        call: &ModelCall,
        origin: &Origin,
        facts: &Facts<'_>,
        extra_body: &serde_json::Map<String, Value>,
        marked: bool,
    ) -> Result<Request<Bytes>, ModelError> {
        let envelope = self.envelopes.of(&self.library, call, facts, extra_body)?;
        let mark = match call.request.settings.cache {
            CacheMarks::Short if marked => Some(json!({"type": "ephemeral"})),
            CacheMarks::Hour if marked => Some(json!({"type": "ephemeral", "ttl": "1h"})),
            CacheMarks::Short | CacheMarks::Hour | CacheMarks::Off => None,
        };
        let recipient = Recipient {
            dialect: &self.dialect,
            origin,
            media: self.media,
            tools: self.dialect.tools && envelope.has_tools,
            reasoning: self.reasoning_of(call, origin, envelope.thinks),
            mark: mark.as_ref(),
        };
        envelope.fill(|body| encode::messages(call, &recipient, body))
    }

    /// The decoder of a reply.
    pub(crate) fn decoder(&self, origin: Arc<Origin>) -> ChatDecoder {
        ChatDecoder::new(self.dialect, origin)
    }

    /// How reasoning is sent in a call. (SK-L5)
    fn reasoning_of(&self, call: &ModelCall, origin: &Origin, thinks: bool) -> ReasoningField {
        let everywhere = match self.reasoning {
            ReasoningContent::Strip => return ReasoningField::Strip,
            ReasoningContent::WhenSeen => has_reasoning(call, origin),
            ReasoningContent::WhenOn => thinks || has_reasoning(call, origin),
        };
        if everywhere { ReasoningField::Everywhere } else { ReasoningField::AsReceived }
    }
}

/// Whether a message of the history came from this endpoint with the field. Reasoning of another name
/// (`reasoning_details`) is carried by the messages that have it.
fn has_reasoning(call: &ModelCall, origin: &Origin) -> bool {
    call.request.messages.iter().flat_map(|message| &message.blocks).any(|block| match block {
        Block::Reasoning { native: Some(native), .. } => {
            *native.origin == *origin && native::has_field(&native.item, REASONING_FIELD)
        }
        Block::Reasoning { native: None, .. }
        | Block::Text { .. }
        | Block::Image { .. }
        | Block::File { .. }
        | Block::ToolCall(_)
        | Block::ToolResult(_)
        | Block::Opaque { .. } => false,
    })
}

/// The media that the model library sends to this model.
fn media(library: &Chat) -> Media {
    let model = library.model.as_str();
    let data = || DocumentSourceKind::Base64(String::new());
    let image = Image { data: data(), media_type: Some(ImageMediaType::PNG), detail: None, native: None };
    let pdf = Document { data: data(), media_type: Some(DocumentMediaType::PDF), additional_params: None };
    let accepts = library.accepts(model);
    Media {
        reads_images: accepts.user_images,
        images: library.encodes(model, RigMedia::Image(&image, Place::User)),
        result_images: accepts.tool_result_images
            && library.encodes(model, RigMedia::Image(&image, Place::ToolResult)),
        documents: library.encodes(model, RigMedia::Document(&pdf)),
    }
}

/// The field that each assistant message must have: DeepSeek's and MiMo's own, or the one that the catalogue names for
/// the model, also behind a gateway.
fn reasoning_field(library: &Chat, endpoint: &Endpoint) -> Option<&'static str> {
    let base_url = endpoint.base_url.as_deref().unwrap_or_default().to_ascii_lowercase();
    if matches!(endpoint.preset.name, "deepseek" | "xiaomimimo") || base_url.contains("deepseek.com") {
        return Some(REASONING_FIELD);
    }
    let model = library.model.as_str();
    let field = |vendor: &str, model: &str| {
        let spec: &'static ModelSpec = Catalog::builtin().resolve(&format!("{vendor}/{model}"))?;
        spec.compat.reasoning_field.as_deref()
    };
    field(library.provider.dialect.name, model)
        .or_else(|| field("moonshot", model.rsplit('/').next().unwrap_or(model)))
        .or_else(|| field("openrouter", model))
}
