//! The Gemini wire: `POST …:streamGenerateContent` with a stream of server-sent events.
//!
//! The encoder writes the contents directly from the history; the decoder reads the reply from its events.

mod chunk;
mod decode;
mod encode;
mod envelope;
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
pub(crate) use crate::generate::decode::GenerateDecoder;
use crate::generate::encode::Recipient;
use crate::provider::endpoint::Endpoint;
use crate::settings::Facts;

/// One model at a Gemini endpoint.
pub(crate) struct GenerateWire {
    model: String,
    head: Parts,
    lenient: bool,
    envelopes: Envelopes,
}

impl GenerateWire {
    /// Creates the wire of a model at an endpoint. The key is sent in a header, because URLs are logged.
    pub(crate) fn new(endpoint: &Endpoint, model: &str) -> Result<Self, ModelError> {
        let base = endpoint.base_url.as_deref().unwrap_or_default();
        let base = base.trim_end_matches('/').trim_end_matches("/v1beta");
        let address = format!("{base}/v1beta/models/{model}:streamGenerateContent?alt=sse");
        let key = endpoint.api_key.as_ref().map_or("", |key| key.expose());
        Ok(Self {
            model: model.to_owned(),
            head: head(&address, &[("x-goog-api-key", key)])?,
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
        let name = self.model.to_ascii_lowercase();
        let generation = major(&name);
        let is_current = generation.is_some_and(|major| major >= 3);
        let has = |spellings: [&str; 2]| spellings.iter().any(|spelling| extra_body.contains_key(*spelling));
        let recipient = Recipient {
            origin,
            tools: envelope.has_tools || has(["cachedContent", "cached_content"]),
            call_ids: is_current || name.starts_with("claude-") || name.starts_with("gpt-oss-"),
            signed_calls: is_current,
            result_images: generation.is_none_or(|major| major >= 3),
            sends_instructions: !has(["systemInstruction", "system_instruction"]),
        };
        envelope.fill(|body| encode::contents(call, &recipient, body))
    }

    /// Creates the decoder of a reply.
    pub(crate) fn decoder(&self, origin: Arc<Origin>) -> GenerateDecoder {
        GenerateDecoder::new(origin, self.lenient)
    }
}

/// Returns the generation of a Gemini model, by its name. An alias such as `gemini-flash-latest` has the
/// newest generation. Returns `None` for other models.
fn major(model: &str) -> Option<u32> {
    let name = model.to_ascii_lowercase();
    let rest = name.strip_prefix("models/").unwrap_or(&name).strip_prefix("gemini-")?;
    let rest = rest.strip_prefix("live-").unwrap_or(rest);
    let digits = rest.find(|c: char| !c.is_ascii_digit()).unwrap_or(rest.len());
    Some(rest[..digits].parse().unwrap_or(u32::MAX))
}
