//! The chat completions wire: `POST /chat/completions` with a stream of server-sent events.
//!
//! The encoder writes the messages directly from the history; the
//! decoder parses the reply into borrowed fields.

mod call;
mod chunk;
mod decode;
mod dialect;
mod encode;
mod envelope;
mod ids;
mod media;
mod options;
#[cfg(all(test, feature = "testing"))]
mod tests;

use std::sync::Arc;

use bytes::Bytes;
use http::Request;
use http::request::Parts;
use serde_json::{Map, Value, json};
use windlass_engine::port::model::{ModelCall, ModelError};
use windlass_machine::{Block, CacheMarks, Origin};

pub(crate) use crate::chat::decode::ChatDecoder;
pub(crate) use crate::chat::dialect::Dialect;
use crate::chat::encode::{Media, REASONING_FIELD, ReasoningField, Recipient};
use crate::envelope::{Envelopes, head};
use crate::native;
use crate::provider::endpoint::Endpoint;
use crate::provider::preset::ReasoningContent;
use crate::settings::Facts;
use crate::table;

/// One model at a chat endpoint.
pub(crate) struct ChatWire {
    model: String,
    head: Parts,
    api_version: Option<String>,
    dialect: Dialect,
    media: Media,
    reasoning: ReasoningContent,
    envelopes: Envelopes,
}

impl ChatWire {
    /// Creates the wire of a model at an endpoint.
    pub(crate) fn new(endpoint: &Endpoint, model: &str) -> Result<Self, ModelError> {
        let name = endpoint.preset.dialect;
        let mut dialect = Dialect::of(endpoint.preset.name, endpoint.config.lenient);
        dialect.reasoning_field = reasoning_field(endpoint, model);
        let key = endpoint.api_key.as_ref().map_or("", |key| key.expose());
        let bearer = format!("Bearer {key}");
        let auth =
            if name == Some("azure.openai") { ("api-key", key) } else { ("authorization", bearer.as_str()) };
        Ok(Self {
            model: model.to_owned(),
            head: head(&envelope::address(endpoint, model), &[auth])?,
            api_version: endpoint.api_version.clone(),
            dialect,
            media: media::of(name.filter(|_| endpoint.preset.cloud.is_none()), model),
            reasoning: endpoint.preset.reasoning_content,
            envelopes: Envelopes::default(),
        })
    }

    /// Builds the HTTP request of a call. `marked`: the endpoint accepts Anthropic's cache marks.
    pub(crate) fn request(
        &self,
        call: &ModelCall,
        origin: &Origin,
        facts: &Facts<'_>,
        extra_body: &Map<String, Value>,
        marked: bool,
    ) -> Result<Request<Bytes>, ModelError> {
        let envelope = self.envelopes.of(call, || envelope::encode(self, call, facts, extra_body))?;
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
            reasoning: self.reasoning_of(call, origin, envelope.reasoning),
            mark: mark.as_ref(),
        };
        envelope.fill(|body| encode::messages(call, &recipient, body))
    }

    /// Creates the decoder of a reply.
    pub(crate) fn decoder(&self, origin: Arc<Origin>) -> ChatDecoder {
        ChatDecoder::new(self.dialect, origin)
    }

    /// Returns how reasoning is sent in a call. (SK-L5)
    fn reasoning_of(&self, call: &ModelCall, origin: &Origin, thinks: bool) -> ReasoningField {
        let everywhere = match self.reasoning {
            ReasoningContent::Strip => return ReasoningField::Strip,
            ReasoningContent::WhenSeen => has_reasoning(call, origin),
            ReasoningContent::WhenOn => thinks || has_reasoning(call, origin),
        };
        if everywhere { ReasoningField::Everywhere } else { ReasoningField::AsReceived }
    }
}

/// Whether the history has a message of this endpoint with the field `reasoning_content`. Messages whose
/// reasoning has another name (`reasoning_details`) contain that field instead.
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

/// Returns the field that each assistant message must have. The endpoints of DeepSeek and MiMo, and models
/// that the table marks, require `reasoning_content`, also behind a gateway.
fn reasoning_field(endpoint: &Endpoint, model: &str) -> Option<&'static str> {
    let base_url = endpoint.base_url.as_deref().unwrap_or_default().to_ascii_lowercase();
    let is_own =
        matches!(endpoint.preset.name, "deepseek" | "xiaomimimo") || base_url.contains("deepseek.com");
    let demands =
        |vendor: &str, model: &str| table::exact(vendor, model).is_some_and(|spec| spec.reasoning_content);
    let is_listed = endpoint.preset.dialect.is_some_and(|dialect| demands(dialect, model))
        || demands("moonshot", model.rsplit('/').next().unwrap_or(model))
        || demands("openrouter", model);
    (is_own || is_listed).then_some(REASONING_FIELD)
}
