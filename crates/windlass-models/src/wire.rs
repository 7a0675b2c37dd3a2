//! The wires behind one type.
//!
//! Chat completions are Windlass's own. The others are encoded by the model library, and nothing beyond this module
//! names them.

use std::sync::Arc;

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
use windlass_machine::{CacheMarks, Origin};

#[cfg(not(feature = "bedrock"))]
use super::cloud::Cloud;
use super::config::WireKind;
use super::failure;
use super::settings::UNKNOWN_MODEL_OUTPUT_TOKENS;
use crate::capture::capture;
use crate::chat::ChatWire;
#[cfg(feature = "bedrock")]
use crate::cloud::bedrock::Converse;
use crate::generate::GenerateDecoder;
use crate::messages::MessagesDecoder;
use crate::provider::endpoint::Endpoint;
use crate::responses::ResponsesDecoder;
use crate::stream::decoder::Decoder;

/// A chat endpoint that the library has no dialect for.
const COMPATIBLE: Dialect = Dialect::gateway("openai-compatible", "", "");

/// A messages endpoint that is not Anthropic's.
const MESSAGES_COMPATIBLE: anthropic::Dialect = anthropic::compatible("anthropic-compatible", "", "", None);

/// One model's wire, ready to encode.
pub(super) enum Wire {
    /// Chat completions.
    Chat(Box<ChatWire>),
    /// A wire that the model library speaks.
    Library(LibraryWire),
}

/// A wire of the model library. Cloned for every call.
pub(super) enum LibraryWire {
    /// Anthropic messages.
    Anthropic(Box<Messages>),
    /// OpenAI responses.
    Responses(Box<Responses>),
    /// Gemini.
    Gemini(Box<GenerateContent>),
    /// Bedrock.
    #[cfg(feature = "bedrock")]
    Converse(Box<Converse>),
}

impl Wire {
    /// Builds the wire of a model at an endpoint. Fails where this build lacks the wire.
    pub(super) fn new(kind: WireKind, endpoint: &Endpoint, model: &str) -> Result<Self, ModelError> {
        let base_url = endpoint.base_url.as_deref().unwrap_or_default();
        let key = endpoint.api_key.as_ref().map_or("", |key| key.expose()).to_owned();
        let library = Self::Library;
        Ok(match kind {
            WireKind::Anthropic => {
                let own = endpoint.preset.dialect == Some(anthropic::ANTHROPIC.name);
                let dialect = if own { &anthropic::ANTHROPIC } else { &MESSAGES_COMPATIBLE };
                let config = AnthropicConfig::with_key(dialect, key).with_base_url(base_url);
                // Claude in a cloud is the same model; behind another endpoint a name may mean anything.
                let namesake = if endpoint.preset.cloud.is_some() { &anthropic::ANTHROPIC } else { dialect };
                let cap = namesake.default_max_tokens(model).unwrap_or(UNKNOWN_MODEL_OUTPUT_TOKENS);
                library(LibraryWire::Anthropic(Box::new(messages(config, model, cap))))
            }
            WireKind::OpenaiChat | WireKind::OpenaiResponses => {
                let mut dialect = *endpoint.preset.dialect.and_then(openai::by_name).unwrap_or(&COMPATIBLE);
                if endpoint.config.lenient {
                    // `[DONE]` is the protocol's own end; some gateways never say why a reply ended.
                    dialect = dialect.with_quirks(dialect.quirks.done_without_finish_reason());
                }
                let mut config = OpenAIConfig::with_key(&dialect, key)
                    .with_base_url(base_for(base_url, dialect.quirks.completion_path));
                if let Some(version) = &endpoint.api_version {
                    config = config.with_api_version(version);
                }
                if kind == WireKind::OpenaiChat {
                    Self::Chat(Box::new(ChatWire::new(Chat::new(config, model), endpoint)))
                } else {
                    library(LibraryWire::Responses(Box::new(Responses::new(config, model))))
                }
            }
            WireKind::Gemini => {
                let base = base_url.trim_end_matches('/').trim_end_matches("/v1beta");
                let config = GeminiConfig::new(key).with_base_url(base);
                library(LibraryWire::Gemini(Box::new(GenerateContent::new(config, model))))
            }
            #[cfg(feature = "bedrock")]
            WireKind::Converse => library(LibraryWire::Converse(Box::new(Converse::new(endpoint, model)?))),
            #[cfg(not(feature = "bedrock"))]
            WireKind::Converse => return Err(Cloud::Bedrock.left_out()),
        })
    }
}

impl LibraryWire {
    /// The library's view of whom a history is sent to.
    pub(super) fn target(&self) -> &dyn ReplayTarget {
        match self {
            Self::Anthropic(wire) => &**wire,
            Self::Responses(wire) => &**wire,
            Self::Gemini(wire) => &**wire,
            #[cfg(feature = "bedrock")]
            Self::Converse(wire) => wire.target(),
        }
    }

    /// The decoder of a reply; `None` where the library reads it.
    pub(super) fn decoder(&self, origin: &Arc<Origin>, lenient: bool) -> Option<Box<dyn Decoder>> {
        match self {
            Self::Anthropic(_) => Some(Box::new(MessagesDecoder::new(Arc::clone(origin), lenient))),
            Self::Gemini(_) => Some(Box::new(GenerateDecoder::new(Arc::clone(origin), lenient))),
            Self::Responses(_) => Some(Box::new(ResponsesDecoder::new(Arc::clone(origin), lenient))),
            #[cfg(feature = "bedrock")]
            Self::Converse(_) => None,
        }
    }

    /// The HTTP request of a call.
    pub(super) fn encode(
        &self,
        request: CompletionRequest,
        cache: CacheMarks,
    ) -> Result<Request<Bytes>, ModelError> {
        capture(|transport| self.stream(request, cache, transport))
    }

    /// Opens a streamed reply that the library reads. Nothing is sent before the stream is polled.
    pub(super) fn stream(
        &self,
        request: CompletionRequest,
        cache: CacheMarks,
        transport: impl HttpClientExt + Clone + Send + Sync + 'static,
    ) -> Result<CompletionStream, ModelError> {
        let opened = match self {
            Self::Anthropic(wire) => Model::new(marked(wire, cache), transport).stream(request),
            Self::Responses(wire) => Model::new(Responses::clone(wire), transport).stream(request),
            Self::Gemini(wire) => Model::new(GenerateContent::clone(wire), transport).stream(request),
            #[cfg(feature = "bedrock")]
            Self::Converse(wire) => return wire.stream(request, cache),
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

/// The library builds this wire only inside a client; a client's transport is of no use here.
fn messages(config: AnthropicConfig, model: &str, output_cap: u64) -> Messages {
    config
        .connect(rig_reqwest::ReqwestClient::default())
        .completion(model)
        .wire
        .with_default_max_tokens(output_cap)
}

/// Some dialects write `/v1` into their paths where the provider's own SDK has it in the address.
fn base_for(base_url: &str, path: &str) -> String {
    let base = base_url.trim_end_matches('/');
    if path.starts_with("/v1/") {
        base.strip_suffix("/v1").unwrap_or(base).to_owned()
    } else {
        base.to_owned()
    }
}
