//! The OpenAI responses wire: `POST /responses` with a stream of server-sent events.
//!
//! The encoder writes the input directly from the history; the decoder parses the reply into borrowed fields.

mod decode;
mod draft;
mod encode;
mod envelope;
mod event;
#[cfg(all(test, feature = "testing"))]
mod tests;

use std::sync::Arc;

use bytes::Bytes;
use http::Request;
use http::request::Parts;
use serde_json::{Map, Value};
use windlass_engine::port::model::{ModelCall, ModelError};
use windlass_machine::Origin;

use crate::envelope::{Envelopes, head};
use crate::openai;
use crate::provider::endpoint::Endpoint;
pub(crate) use crate::responses::decode::ResponsesDecoder;
use crate::responses::encode::Recipient;
use crate::settings::Facts;

/// One model at a responses endpoint.
pub(crate) struct ResponsesWire {
    model: String,
    head: Parts,
    reads_images: bool,
    /// Whether instructions are a separate field of the body.
    instructions_apart: bool,
    lenient: bool,
    envelopes: Envelopes,
}

impl ResponsesWire {
    /// Creates the wire of a model at an endpoint.
    pub(crate) fn new(endpoint: &Endpoint, model: &str) -> Result<Self, ModelError> {
        let dialect = endpoint.preset.dialect;
        let key = endpoint.api_key.as_ref().map_or("", |key| key.expose());
        let bearer = format!("Bearer {key}");
        let auth = if dialect == Some("azure.openai") {
            ("api-key", key)
        } else {
            ("authorization", bearer.as_str())
        };
        let name = model.rsplit('/').next().unwrap_or(model);
        Ok(Self {
            model: model.to_owned(),
            head: head(&address(endpoint), &[auth])?,
            reads_images: match dialect {
                Some("xai") => openai::xai_reads_images(name),
                Some(_) | None => openai::reads_images(name),
            },
            instructions_apart: !matches!(dialect, Some("openrouter" | "xai")),
            lenient: endpoint.config.lenient,
            envelopes: Envelopes::default(),
        })
    }

    /// Builds the HTTP request of a call.
    pub(crate) fn request(
        &self,
        call: &ModelCall,
        origin: &Origin,
        facts: &Facts<'_>,
        extra_body: &Map<String, Value>,
    ) -> Result<Request<Bytes>, ModelError> {
        let envelope = self.envelopes.of(call, || envelope::encode(self, call, facts, extra_body))?;
        let recipient = Recipient {
            origin,
            reads_images: self.reads_images,
            tools: envelope.has_tools,
            instructions_apart: self.instructions_apart,
            sends_instructions: !extra_body.contains_key("instructions"),
            stateless: extra_body.get("store").is_none_or(|store| *store == Value::Bool(false)),
        };
        envelope.fill(|body| encode::input(call, &recipient, body))
    }

    /// Creates the decoder of a reply.
    pub(crate) fn decoder(&self, origin: Arc<Origin>) -> ResponsesDecoder {
        ResponsesDecoder::new(origin, self.lenient)
    }
}

/// Returns the URL of the endpoint. Some presets omit `/v1`, although every path of the provider contains it.
fn address(endpoint: &Endpoint) -> String {
    let base = endpoint.base_url.as_deref().unwrap_or_default().trim_end_matches('/');
    if endpoint.preset.versioned_paths && !base.ends_with("/v1") {
        format!("{base}/v1/responses")
    } else {
        format!("{base}/responses")
    }
}
