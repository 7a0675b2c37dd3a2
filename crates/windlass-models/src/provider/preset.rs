//! The built-in providers, as data. (SK-L14)
//!
//! The table contains URLs, variables and quirks only; no code depends on a provider's name.

use crate::cloud::Cloud;
use crate::config::WireKind;

/// The built-in settings of a provider.
pub(crate) struct Preset {
    /// The part of a model's name before the slash.
    pub name: &'static str,
    /// The wire.
    pub wire: WireKind,
    /// The URL; `None` if each account has a separate one.
    pub base_url: Option<&'static str>,
    /// The environment variables of the key, tried in order.
    pub keys: &'static [&'static str],
    /// Whether the provider works without a key.
    pub key_optional: bool,
    /// The provider's dialect of the wire, and its section of the table of models.
    pub dialect: Option<&'static str>,
    /// When assistant messages contain `reasoning_content`.
    pub reasoning_content: ReasoningContent,
    /// How the chat wire constrains an answer to a schema.
    pub schema: ChatSchema,
    /// Prefix of the models that accept Anthropic's cache marks on the chat wire. (SK-C11)
    pub marked: Option<&'static str>,
    /// Whether `/v1` is part of each path instead of the URL.
    pub versioned_paths: bool,
    /// The cloud that authenticates the requests in place of a key.
    pub cloud: Option<Cloud>,
}

/// When `reasoning_content` is sent in assistant messages on the chat wire. (SK-L5)
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum ReasoningContent {
    /// Never sent.
    Strip,
    /// On every assistant message, if one of them has it.
    WhenSeen,
    /// On every assistant message, if one of them has it or reasoning is on.
    WhenOn,
}

/// The kinds of `response_format` that a chat endpoint accepts.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum ChatSchema {
    /// A JSON schema.
    Schema,
    /// JSON mode only: the answer may be any JSON object.
    Object,
}

/// The API version of Azure deployments if none is configured: the latest generally available version.
pub(crate) const AZURE_API_VERSION: &str = "2024-10-21";

const CHAT: Preset = Preset {
    name: "",
    wire: WireKind::OpenaiChat,
    base_url: None,
    keys: &[],
    key_optional: false,
    dialect: None,
    reasoning_content: ReasoningContent::WhenSeen,
    schema: ChatSchema::Schema,
    marked: None,
    versioned_paths: false,
    cloud: None,
};

const fn chat(name: &'static str, base_url: &'static str, keys: &'static [&'static str]) -> Preset {
    Preset { name, base_url: Some(base_url), keys, ..CHAT }
}

const fn known(name: &'static str, base_url: &'static str, keys: &'static [&'static str]) -> Preset {
    Preset { dialect: Some(name), ..chat(name, base_url, keys) }
}

const fn versioned(name: &'static str, base_url: &'static str, keys: &'static [&'static str]) -> Preset {
    Preset { versioned_paths: true, ..known(name, base_url, keys) }
}

/// A provider that is not built in: chat completions at a configured URL.
pub(crate) const UNNAMED: Preset = CHAT;

/// Finds a provider by name.
pub(crate) fn by_name(name: &str) -> Option<&'static Preset> {
    PRESETS.iter().find(|preset| preset.name == name)
}

/// Returns every provider in the table.
pub(crate) fn all() -> &'static [Preset] {
    PRESETS
}

static PRESETS: &[Preset] = &[
    Preset {
        wire: WireKind::Anthropic,
        ..known("anthropic", "https://api.anthropic.com", &["ANTHROPIC_API_KEY"])
    },
    Preset {
        name: "anthropic-compatible",
        wire: WireKind::Anthropic,
        keys: &["ANTHROPIC_COMPATIBLE_API_KEY"],
        ..CHAT
    },
    Preset {
        wire: WireKind::OpenaiResponses,
        reasoning_content: ReasoningContent::Strip,
        ..known("openai", "https://api.openai.com/v1", &["OPENAI_API_KEY"])
    },
    Preset {
        dialect: Some("openai"),
        reasoning_content: ReasoningContent::Strip,
        ..chat("openai-chat", "https://api.openai.com/v1", &["OPENAI_CHAT_API_KEY", "OPENAI_API_KEY"])
    },
    Preset { name: "openai-compatible", keys: &["OPENAI_COMPATIBLE_API_KEY"], key_optional: true, ..CHAT },
    Preset {
        wire: WireKind::Gemini,
        dialect: Some("gcp.gemini"),
        ..chat("gemini", "https://generativelanguage.googleapis.com", &["GEMINI_API_KEY", "GOOGLE_API_KEY"])
    },
    Preset {
        name: "azure",
        keys: &["AZURE_API_KEY", "AZURE_OPENAI_API_KEY"],
        dialect: Some("azure.openai"),
        reasoning_content: ReasoningContent::Strip,
        ..CHAT
    },
    Preset {
        marked: Some("anthropic/"),
        ..known("openrouter", "https://openrouter.ai/api/v1", &["OPENROUTER_API_KEY"])
    },
    Preset { key_optional: true, ..known("ollama", "http://localhost:11434/v1", &["OLLAMA_API_KEY"]) },
    known("cohere", "https://api.cohere.ai/compatibility/v1", &["COHERE_API_KEY", "CO_API_KEY"]),
    versioned("mistral", "https://api.mistral.ai", &["MISTRAL_API_KEY"]),
    known("groq", "https://api.groq.com/openai/v1", &["GROQ_API_KEY"]),
    known("perplexity", "https://api.perplexity.ai", &["PERPLEXITY_API_KEY", "PERPLEXITYAI_API_KEY"]),
    versioned("together", "https://api.together.xyz", &["TOGETHER_API_KEY", "TOGETHERAI_API_KEY"]),
    versioned("huggingface", "https://router.huggingface.co", &["HUGGINGFACE_API_KEY", "HF_TOKEN"]),
    versioned("xai", "https://api.x.ai/v1", &["XAI_API_KEY"]),
    Preset {
        reasoning_content: ReasoningContent::WhenOn,
        schema: ChatSchema::Object,
        ..known("moonshot", "https://api.moonshot.ai/v1", &["MOONSHOT_API_KEY"])
    },
    Preset {
        reasoning_content: ReasoningContent::WhenOn,
        schema: ChatSchema::Object,
        ..known("deepseek", "https://api.deepseek.com", &["DEEPSEEK_API_KEY"])
    },
    known("zai", "https://api.z.ai/api/paas/v4", &["ZAI_API_KEY"]),
    known("minimax", "https://api.minimax.io/v1", &["MINIMAX_API_KEY"]),
    Preset {
        reasoning_content: ReasoningContent::WhenOn,
        ..known("xiaomimimo", "https://api.xiaomimimo.com/v1", &["XIAOMIMIMO_API_KEY", "XIAOMI_MIMO_API_KEY"])
    },
    known("venice", "https://api.venice.ai/api/v1", &["VENICE_API_KEY"]),
    known("doubleword", "https://api.doubleword.ai/v1", &["DOUBLEWORD_API_KEY"]),
    versioned("hyperbolic", "https://api.hyperbolic.xyz", &["HYPERBOLIC_API_KEY"]),
    Preset { key_optional: true, ..known("llamacpp", "http://localhost:8080/v1", &["LLAMACPP_API_KEY"]) },
    Preset { key_optional: true, ..chat("vllm", "http://localhost:8000/v1", &["VLLM_API_KEY"]) },
    Preset { key_optional: true, ..chat("lmstudio", "http://localhost:1234/v1", &["LMSTUDIO_API_KEY"]) },
    Preset {
        reasoning_content: ReasoningContent::Strip,
        schema: ChatSchema::Object,
        ..chat(
            "qwen",
            "https://dashscope-intl.aliyuncs.com/compatible-mode/v1",
            &["QWEN_API_KEY", "DASHSCOPE_API_KEY"],
        )
    },
    chat(
        "fireworks",
        "https://api.fireworks.ai/inference/v1",
        &["FIREWORKS_API_KEY", "FIREWORKS_AI_API_KEY"],
    ),
    chat("deepinfra", "https://api.deepinfra.com/v1/openai", &["DEEPINFRA_API_KEY"]),
    Preset { name: "databricks", keys: &["DATABRICKS_API_KEY", "DATABRICKS_TOKEN"], ..CHAT },
    // The key is the cloud's API key. Without a key, the cloud's SDK finds credentials as in other programs.
    Preset {
        name: "bedrock",
        wire: WireKind::Converse,
        keys: &["AWS_BEARER_TOKEN_BEDROCK"],
        key_optional: true,
        dialect: Some("aws_bedrock"),
        cloud: Some(Cloud::Bedrock),
        ..CHAT
    },
    // The key is an access token of the account. Claude models use a separate wire.
    Preset {
        name: "vertex",
        wire: WireKind::Gemini,
        keys: &["VERTEX_ACCESS_TOKEN"],
        key_optional: true,
        dialect: Some("vertexai"),
        cloud: Some(Cloud::Vertex),
        ..CHAT
    },
    chat("nvidia", "https://integrate.api.nvidia.com/v1", &["NVIDIA_API_KEY", "NVIDIA_NIM_API_KEY"]),
    chat("cerebras", "https://api.cerebras.ai/v1", &["CEREBRAS_API_KEY"]),
    chat("sambanova", "https://api.sambanova.ai/v1", &["SAMBANOVA_API_KEY"]),
    chat("ai21", "https://api.ai21.com/studio/v1", &["AI21_API_KEY"]),
    chat("novita", "https://api.novita.ai/v3/openai", &["NOVITA_API_KEY"]),
    chat("nebius", "https://api.studio.nebius.com/v1", &["NEBIUS_API_KEY"]),
    chat("github", "https://models.github.ai/inference", &["GITHUB_API_KEY", "GITHUB_TOKEN"]),
    chat("vercel", "https://ai-gateway.vercel.sh/v1", &["VERCEL_API_KEY", "AI_GATEWAY_API_KEY"]),
    chat("baseten", "https://inference.baseten.co/v1", &["BASETEN_API_KEY"]),
    chat("lambda", "https://api.lambda.ai/v1", &["LAMBDA_API_KEY"]),
    chat("friendli", "https://api.friendli.ai/serverless/v1", &["FRIENDLI_API_KEY", "FRIENDLI_TOKEN"]),
    chat("volcengine", "https://ark.cn-beijing.volces.com/api/v3", &["VOLCENGINE_API_KEY", "ARK_API_KEY"]),
    chat("siliconflow", "https://api.siliconflow.com/v1", &["SILICONFLOW_API_KEY"]),
];
