//! The library's wires, the oracle of Windlass's.
//!
//! Each wire is configured for an endpoint like the corresponding wire of Windlass.

use bytes::Bytes;
use http::Request;
use rig_core::completion::{CompletionRequest, ReplayTarget};
use rig_core::driver::Model;
use rig_core::http_client::HttpClientExt;
use rig_core::providers::anthropic::completion::CacheTtl;
use rig_core::providers::anthropic::{self, AnthropicConfig, Messages};
use rig_core::providers::gemini::GeminiConfig;
use rig_core::providers::gemini::completion::GenerateContent;
use rig_core::providers::openai::OpenAIConfig;
use rig_core::providers::openai::responses_api::wire::Responses;
use rig_core::providers::openai::wire::{self as openai, Chat, Dialect};
use rig_core::streaming::CompletionStream;
use windlass_engine::port::model::ModelError;
use windlass_machine::CacheMarks;

use crate::config::WireKind;
use crate::library::capture::capture;
use crate::library::failure;
use crate::provider::endpoint::Endpoint;
use crate::settings::UNKNOWN_MODEL_OUTPUT_TOKENS;

/// The dialect for chat endpoints that the library does not know.
const COMPATIBLE: Dialect = Dialect::gateway("openai-compatible", "", "");

/// The dialect for messages endpoints other than Anthropic's.
const MESSAGES_COMPATIBLE: anthropic::Dialect = anthropic::compatible("anthropic-compatible", "", "", None);

/// A wire of the library.
pub(crate) enum LibraryWire {
    Messages(Box<Messages>),
    Responses(Box<Responses>),
    Chat(Box<Chat>),
    Gemini(Box<GenerateContent>),
}

impl LibraryWire {
    /// Creates the wire of a model at an endpoint.
    pub(crate) fn new(kind: WireKind, endpoint: &Endpoint, model: &str) -> Self {
        let base_url = endpoint.base_url.as_deref().unwrap_or_default();
        let key = endpoint.api_key.as_ref().map_or("", |key| key.expose()).to_owned();
        match kind {
            WireKind::Anthropic => {
                let own = endpoint.preset.dialect == Some(anthropic::ANTHROPIC.name);
                let dialect = if own { &anthropic::ANTHROPIC } else { &MESSAGES_COMPATIBLE };
                let config = AnthropicConfig::with_key(dialect, key).with_base_url(base_url);
                // In a cloud, the name identifies the maker's model. Behind another
                // endpoint, the name may identify any model.
                let namesake = if endpoint.preset.cloud.is_some() { &anthropic::ANTHROPIC } else { dialect };
                let cap = namesake.default_max_tokens(model).unwrap_or(UNKNOWN_MODEL_OUTPUT_TOKENS);
                Self::Messages(Box::new(messages(config, model, cap)))
            }
            WireKind::OpenaiChat | WireKind::OpenaiResponses => {
                let mut dialect = *endpoint.preset.dialect.and_then(openai::by_name).unwrap_or(&COMPATIBLE);
                if endpoint.config.lenient {
                    // `[DONE]` is the protocol's end; some gateways never send a finish reason.
                    dialect = dialect.with_quirks(dialect.quirks.done_without_finish_reason());
                }
                let mut config = OpenAIConfig::with_key(&dialect, key)
                    .with_base_url(base_for(base_url, dialect.quirks.completion_path));
                if let Some(version) = &endpoint.api_version {
                    config = config.with_api_version(version);
                }
                if kind == WireKind::OpenaiChat {
                    Self::Chat(Box::new(Chat::new(config, model)))
                } else {
                    Self::Responses(Box::new(Responses::new(config, model)))
                }
            }
            WireKind::Gemini => {
                let base = base_url.trim_end_matches('/').trim_end_matches("/v1beta");
                let config = GeminiConfig::new(key).with_base_url(base);
                Self::Gemini(Box::new(GenerateContent::new(config, model)))
            }
            WireKind::Converse => panic!("the library has no wire to compare Bedrock Converse with"),
        }
    }

    /// Returns the library's target for a history.
    pub(crate) fn target(&self) -> &dyn ReplayTarget {
        match self {
            Self::Messages(wire) => &**wire,
            Self::Responses(wire) => &**wire,
            Self::Chat(wire) => &**wire,
            Self::Gemini(wire) => &**wire,
        }
    }

    /// Returns the HTTP request that the library would send.
    pub(crate) fn encode(
        &self,
        request: CompletionRequest,
        cache: CacheMarks,
    ) -> Result<Request<Bytes>, ModelError> {
        capture(|transport| self.stream(request, cache, transport))
    }

    /// Opens a streamed reply. The request is sent when the stream is first polled.
    pub(crate) fn stream(
        &self,
        request: CompletionRequest,
        cache: CacheMarks,
        transport: impl HttpClientExt + Clone + Send + Sync + 'static,
    ) -> Result<CompletionStream, ModelError> {
        let opened = match self {
            Self::Messages(wire) => Model::new(marked(wire, cache), transport).stream(request),
            Self::Responses(wire) => Model::new(Responses::clone(wire), transport).stream(request),
            Self::Chat(wire) => Model::new(Chat::clone(wire), transport).stream(request),
            Self::Gemini(wire) => Model::new(GenerateContent::clone(wire), transport).stream(request),
        };
        opened.map_err(|error| failure::typed(&error))
    }
}

fn marked(wire: &Messages, cache: CacheMarks) -> Messages {
    let mut wire = Messages::clone(wire);
    wire.static_prefix_cache_ttl = match cache {
        CacheMarks::Off => None,
        CacheMarks::Short => Some(CacheTtl::FiveMinutes),
        CacheMarks::Hour => Some(CacheTtl::OneHour),
    };
    wire
}

/// Builds a wire of the messages API. The library builds it only inside a
/// client; the client's transport is not used.
fn messages(config: AnthropicConfig, model: &str, output_cap: u64) -> Messages {
    config
        .connect(rig_reqwest::ReqwestClient::default())
        .completion(model)
        .wire
        .with_default_max_tokens(output_cap)
}

/// Removes `/v1` from the URL where the library's dialect has it in its paths.
fn base_for(base_url: &str, path: &str) -> String {
    let base = base_url.trim_end_matches('/');
    if path.starts_with("/v1/") {
        base.strip_suffix("/v1").unwrap_or(base).to_owned()
    } else {
        base.to_owned()
    }
}
