//! The Anthropic messages wire: `POST /v1/messages` with a stream of server-sent events.
//!
//! The encoder writes the messages directly from the history; the
//! decoder parses the reply into borrowed fields.

mod decode;
mod encode;
mod envelope;
mod event;
mod pairs;
#[cfg(all(test, feature = "testing"))]
mod tests;

use std::sync::Arc;

use bytes::Bytes;
use http::Request;
use http::request::Parts;
use serde_json::{Map, Value, json};
use windlass_engine::port::model::{ModelCall, ModelError};
use windlass_machine::{CacheMarks, Origin};

use crate::cloud::Cloud;
use crate::envelope::{Envelopes, head};
pub(crate) use crate::messages::decode::MessagesDecoder;
use crate::messages::encode::Recipient;
use crate::provider::endpoint::Endpoint;
use crate::settings::{Facts, UNKNOWN_MODEL_OUTPUT_TOKENS};
use crate::table;

/// The protocol version.
const VERSION: &str = "2023-06-01";

/// The default output cap at endpoints other than Anthropic's, in tokens.
const OTHER_OUTPUT_TOKENS: u64 = 4_096;

/// One model at a messages endpoint.
pub(crate) struct MessagesWire {
    model: String,
    head: Parts,
    /// Whether the endpoint is Vertex.
    is_vertex: bool,
    /// The output cap of a request that sets none, in tokens.
    default_output_tokens: u64,
    /// Whether the model accepts system messages in the middle of a conversation.
    later_system: bool,
    /// Whether the endpoint binds thinking to tools and instructions.
    binds_context: bool,
    lenient: bool,
    envelopes: Envelopes,
}

impl MessagesWire {
    /// Creates the wire of a model at an endpoint.
    pub(crate) fn new(endpoint: &Endpoint, model: &str) -> Result<Self, ModelError> {
        let is_vertex = endpoint.preset.cloud == Some(Cloud::Vertex);
        let is_own = endpoint.preset.dialect == Some("anthropic");
        let key = endpoint.api_key.as_ref().map_or("", |key| key.expose());
        let headers = [("x-api-key", key), ("anthropic-version", VERSION)];
        let headers = if is_vertex { &headers[..1] } else { &headers[..] };
        let snapshot = table::find_snapshot("anthropic", model);
        Ok(Self {
            model: model.to_owned(),
            head: head(&address(endpoint), headers)?,
            is_vertex,
            default_output_tokens: match snapshot {
                // In a cloud, the name identifies the maker's model. Behind another
                // endpoint, the name may identify any model.
                _ if !is_own && endpoint.preset.cloud.is_none() => OTHER_OUTPUT_TOKENS,
                Some(spec) => spec.max_output_tokens.unwrap_or(UNKNOWN_MODEL_OUTPUT_TOKENS),
                None if is_fourth_generation(model) => 64_000,
                None => UNKNOWN_MODEL_OUTPUT_TOKENS,
            },
            later_system: snapshot.is_some_and(|spec| spec.later_system),
            binds_context: is_own && table::find_claude(model).is_some_and(|spec| spec.binds_context),
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
        let mark = match call.request.settings.cache {
            CacheMarks::Off => None,
            CacheMarks::Short => Some(json!({"type": "ephemeral", "ttl": "5m"})),
            CacheMarks::Hour => Some(json!({"type": "ephemeral", "ttl": "1h"})),
        };
        let encode = || envelope::encode(self, call, facts, extra_body, mark.as_ref());
        let envelope = self.envelopes.of(call, encode)?;
        let recipient = Recipient {
            origin,
            tools: envelope.has_tools,
            later_system: self.later_system,
            drops_thinking: !envelope.reasoning,
            mark: mark.as_ref(),
            own_system: extra_body.contains_key("system"),
            own_container: extra_body.contains_key("container"),
        };
        envelope.fill(|body| encode::messages(call, &recipient, body))
    }

    /// Creates the decoder of a reply.
    pub(crate) fn decoder(&self, origin: Arc<Origin>) -> MessagesDecoder {
        MessagesDecoder::new(origin, self.lenient)
    }
}

/// Returns the URL of the endpoint. The configured URL may already contain the endpoint's path, if a user
/// copied it from the documentation.
fn address(endpoint: &Endpoint) -> String {
    let base = endpoint.base_url.as_deref().unwrap_or_default().trim_end_matches('/');
    let root = ["/v1/messages", "/messages", "/v1"].iter().find_map(|suffix| base.strip_suffix(suffix));
    format!("{}/v1/messages", root.unwrap_or(base))
}

fn is_fourth_generation(model: &str) -> bool {
    ["claude-opus-4", "claude-sonnet-4", "claude-haiku-4-5"].iter().any(|family| model.starts_with(family))
}
