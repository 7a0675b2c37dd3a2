//! How a provider is reached: address, key, wire, time limits. Plain data; this module reads no files or variables.
//!
//! The host program reads its configuration files and passes a `ProviderConfig`.

use std::collections::BTreeMap;
use std::time::Duration;

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};
use windlass_engine::port::model::Price;

pub use windlass_outbound::secret::Secret;

/// Duration without data after which a stream is considered dead. (SK-L2)
pub const STALL_TIMEOUT: Duration = Duration::from_secs(120);

/// The wire protocol of an endpoint.
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
    /// Bedrock's Converse, `POST /model/…/converse-stream`, signed and framed as AWS requires. Needs the cargo feature
    /// `bedrock`.
    Converse,
}

impl WireKind {
    /// Returns the name of the API that a block's origin records.
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

/// How the key is sent.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Auth {
    /// As the wire's original provider requires.
    #[default]
    Provider,
    /// `Authorization: Bearer …` only. (LM-G7)
    Bearer,
    /// In a header of this name only.
    Header(String),
}

/// Overrides of the built-in facts about a model; `None` keeps the built-in value.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct KnownModel {
    /// Maximum size of prompt and output together, in tokens.
    pub context_tokens: Option<u64>,
    /// Maximum size of the output, in tokens.
    pub max_output_tokens: Option<u64>,
    /// Whether the model supports tool calls.
    pub tool_calls: Option<bool>,
    /// Whether the model supports output by a JSON schema.
    pub structured_output: Option<bool>,
    /// Whether the model reasons.
    pub reasoning: Option<bool>,
    /// List price in US dollars per million tokens.
    pub price: Option<Price>,
}

/// Settings of one provider. The default uses the built-in table and the key from the environment.
#[derive(Clone)]
pub struct ProviderConfig {
    /// The wire. Default: the built-in one, or chat completions for a provider that is not built in.
    pub wire: Option<WireKind>,
    /// The URL in the form of the provider's SDK: OpenAI's ends in `/v1`, Anthropic's does not.
    pub base_url: Option<String>,
    /// The resolved key. Default: the key from the environment.
    pub api_key: Option<Secret>,
    /// How the key is sent.
    pub auth: Auth,
    /// Additional headers. They replace headers of the same name that the wire sets.
    pub headers: Vec<(String, Secret)>,
    /// `api-version` of Azure deployments.
    pub api_version: Option<String>,
    /// Duration without data after which a call fails.
    pub stall_timeout: Duration,
    /// Whether unknown finish reasons are returned unchanged, and unsupported
    /// options dropped. Otherwise, the call fails.
    pub lenient: bool,
    /// Fields that are merged into the body of each request, for settings that Windlass does not have. On
    /// Bedrock, they are merged into the fields for the model.
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
