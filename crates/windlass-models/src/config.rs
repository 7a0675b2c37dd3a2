//! How a provider is reached: address, key, wire, patience. Plain data; nothing here reads files or variables.
//!
//! The product reads its own files and hands this over.

use std::collections::BTreeMap;
use std::time::Duration;

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};
use windlass_engine::port::model::Price;

pub use windlass_outbound::secret::Secret;

/// How long a stream may be silent before it counts as dead. (SK-L2)
pub const STALL_TIMEOUT: Duration = Duration::from_secs(120);

/// The protocol that an endpoint speaks.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum WireKind {
    /// Anthropic messages, `POST /v1/messages`.
    Anthropic,
    /// OpenAI responses, `POST /responses`.
    OpenaiResponses,
    /// OpenAI chat completions, `POST /chat/completions`.
    OpenaiChat,
    /// Gemini, `POST /v1beta/models/…:streamGenerateContent`.
    Gemini,
    /// Bedrock's Converse, `POST /model/…/converse-stream`, signed and framed as AWS does. Needs the cargo
    /// feature `bedrock`.
    Converse,
}

impl WireKind {
    /// The name that a block's origin records.
    pub fn api(self) -> &'static str {
        match self {
            Self::Anthropic => "anthropic",
            Self::OpenaiResponses => "openai-responses",
            Self::OpenaiChat => "openai-chat",
            Self::Gemini => "gemini",
            Self::Converse => "bedrock-converse",
        }
    }
}

/// Where the key travels.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Auth {
    /// Where the wire's own provider wants it.
    #[default]
    Provider,
    /// `Authorization: Bearer …` and nowhere else. (LM-G7)
    Bearer,
    /// In a header of this name and nowhere else.
    Header(String),
}

/// What a configuration knows better than the built-in catalogue of models; `None` keeps what is there.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct KnownModel {
    /// Prompt and output together, in tokens.
    pub context_tokens: Option<u64>,
    /// The largest output, in tokens.
    pub max_output_tokens: Option<u64>,
    /// Whether it calls tools.
    pub tool_calls: Option<bool>,
    /// Whether it can be held to a JSON schema.
    pub structured_output: Option<bool>,
    /// Whether it reasons.
    pub reasoning: Option<bool>,
    /// List price in US dollars per million tokens.
    pub price: Option<Price>,
}

/// One provider. The default takes everything from the built-in table and the key from the environment.
#[derive(Clone)]
pub struct ProviderConfig {
    /// The wire; `None`: the preset's, or chat completions for a provider that has no preset.
    pub wire: Option<WireKind>,
    /// The address in the form that the provider's own SDK takes: OpenAI's ends in `/v1`, Anthropic's does not.
    pub base_url: Option<String>,
    /// The key, already resolved from wherever it is kept.
    pub api_key: Option<Secret>,
    /// Where the key travels.
    pub auth: Auth,
    /// Further headers; one that the wire sets itself is replaced.
    pub headers: Vec<(String, Secret)>,
    /// `api-version` of Azure deployments.
    pub api_version: Option<String>,
    /// Silence after which a call has failed.
    pub stall_timeout: Duration,
    /// Whether unknown finish reasons are let through as they are, and options that a model lacks are dropped.
    pub lenient: bool,
    /// Fields merged into each request's body, for what Windlass has no setting for; on Bedrock into the part that
    /// goes to the model as it is.
    pub extra_body: Map<String, Value>,
    /// Facts about models, by the model's name without the provider.
    pub models: BTreeMap<String, KnownModel>,
}

impl Default for ProviderConfig {
    fn default() -> Self {
        Self {
            wire: None,
            base_url: None,
            api_key: None,
            auth: Auth::Provider,
            headers: Vec::new(),
            api_version: None,
            stall_timeout: STALL_TIMEOUT,
            lenient: true,
            extra_body: Map::new(),
            models: BTreeMap::new(),
        }
    }
}
