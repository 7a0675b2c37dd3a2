//! The shape of the configuration file. All keys are optional; unknown keys are errors.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use serde::{Deserialize, Deserializer};
use serde_json::{Map, Value};
use windlass::machine::{CacheMarks, Effort, Limits, MicroUsd, Mode, Reasoning, ToolName};
use windlass::models::{Auth, KnownModel, WireKind};

use super::connected::{ConnectedFile, connected_over};
use super::files::FilesFile;
use super::gate::{ApprovalsFile, BudgetFile};
use super::mcp::{McpFile, servers_over};
use super::money::Dollars;
use super::outside::{ApiFile, OutboundFile, WebFile};
use super::reference::{HeaderValue, Reference};
use super::server::ServerFile;
use super::tools::{OffloadFile, ToolsFile};
use super::toolsets::ToolsetFile;
use crate::trouble::Trouble;

/// A `windlass.toml`.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct ConfigFile {
    /// Path of the store.
    pub store: Option<PathBuf>,
    /// Whether the store may lose the most recent writes in a power failure, for speed.
    pub relaxed: Option<bool>,
    pub agent: AgentFile,
    /// Model providers, by the part of a model's name before the slash.
    pub providers: BTreeMap<String, ProviderFile>,
    /// Settings of commands and tools.
    pub tools: ToolsFile,
    /// MCP servers by name.
    pub mcp: BTreeMap<String, McpFile>,
    /// Tool arguments that the server fills in from integrations, by provider.
    pub integrations: BTreeMap<String, ConnectedFile>,
    /// Toolsets by name.
    pub toolsets: BTreeMap<String, ToolsetFile>,
    /// Budgets shared by several runs.
    pub budget: Vec<BudgetFile>,
    /// Settings of approvals and questions.
    pub approvals: ApprovalsFile,
    pub server: ServerFile,
    /// Limits on uploads.
    pub files: FilesFile,
    /// Rules for the hosts that tools may call.
    pub outbound: OutboundFile,
    /// Settings of web fetch and search.
    pub web: WebFile,
    /// HTTP APIs that agents may call, by name.
    pub api: BTreeMap<String, ApiFile>,
}

/// `[agent]`.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct AgentFile {
    pub name: Option<String>,
    /// The model, followed by the fallbacks in order.
    pub models: Option<Vec<String>>,
    /// Instructions that replace the built-in ones.
    pub instructions: Option<String>,
    /// Reasoning effort.
    pub reasoning: Option<ReasoningWord>,
    /// Prompt cache marks: `off`, `short`, `hour`.
    pub cache: Option<CacheMarks>,
    pub temperature: Option<f64>,
    /// Maximum output of one model call, in tokens.
    pub max_output_tokens: Option<u64>,
    /// Default mode of the agent's runs: `agent`, `ask`, `plan`.
    pub mode: Option<Mode>,
    /// Settings for summaries that the model receives instead of long results.
    pub offload: OffloadFile,
    /// Limits of a run.
    pub limits: LimitsFile,
}

/// `[agent.limits]`.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct LimitsFile {
    /// Maximum number of steps.
    pub max_steps: Option<u32>,
    /// Maximum wall time of a run, in milliseconds.
    pub run_timeout_ms: Option<u64>,
    /// Maximum time of one tool call, in milliseconds.
    pub call_timeout_ms: Option<u64>,
    /// Maximum number of calls in one step.
    pub max_calls_per_step: Option<u32>,
    /// Maximum number of calls that run in parallel.
    pub max_parallel_calls: Option<u32>,
    /// Number of most recent messages sent to the model; 0 sends all.
    pub window_messages: Option<u32>,
    /// Maximum number of messages that are queued while a run is active.
    pub max_queued: Option<u32>,
    /// Maximum number of starts of one repeatable call.
    pub max_call_starts: Option<u32>,
    /// Maximum number of consecutive identical calls with identical results; 0 means no limit.
    pub max_same_calls: Option<u32>,
    /// Maximum number of calls by tool name.
    pub max_calls: BTreeMap<ToolName, u32>,
    /// Maximum tokens of prompts and replies; 0 means no limit.
    pub max_tokens: Option<u64>,
    /// Maximum cost in US dollars at list prices; 0 means no limit.
    pub max_usd: Option<Dollars>,
}

/// `[providers.<name>]`.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct ProviderFile {
    /// Address in the form that the provider's own SDK uses.
    pub base_url: Option<String>,
    /// Reference to the API key.
    pub api_key: Option<Reference>,
    /// Wire protocol.
    pub wire: Option<WireKind>,
    /// The way in which requests contain the API key.
    pub auth: Option<Auth>,
    /// Additional headers.
    pub headers: BTreeMap<String, HeaderValue>,
    /// `api-version` of Azure deployments.
    pub api_version: Option<String>,
    /// Number of seconds without data after which a model call fails.
    pub stall_timeout_s: Option<u64>,
    /// Whether unknown finish reasons are accepted.
    pub lenient: Option<bool>,
    /// Fields merged into the body of each request.
    pub extra_body: Map<String, Value>,
    /// Properties of models, including prices.
    pub models: BTreeMap<String, KnownModel>,
}

/// `reasoning = "auto" | "off" | "minimal" | "low" | "medium" | "high" | <tokens>`.
#[derive(Clone, Copy, Debug)]
pub struct ReasoningWord(pub Reasoning);

impl<'de> Deserialize<'de> for ReasoningWord {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        #[derive(Deserialize)]
        #[serde(untagged)]
        enum Said {
            Tokens(u64),
            Word(String),
        }
        let wanted = "write auto, off, minimal, low, medium, high, or a number of tokens";
        let said = Said::deserialize(deserializer).map_err(|_| serde::de::Error::custom(wanted))?;
        Ok(Self(match said {
            Said::Tokens(tokens) => Reasoning::BudgetTokens(tokens),
            Said::Word(word) => match word.as_str() {
                "auto" => Reasoning::Auto,
                "off" => Reasoning::Off,
                "minimal" => Reasoning::Effort(Effort::Minimal),
                "low" => Reasoning::Effort(Effort::Low),
                "medium" => Reasoning::Effort(Effort::Medium),
                "high" => Reasoning::Effort(Effort::High),
                other => {
                    return Err(serde::de::Error::custom(format!(
                        "`{other}` is not a reasoning setting; {wanted}"
                    )));
                }
            },
        }))
    }
}

impl ConfigFile {
    /// Merges two layers, key by key; `self` takes precedence.
    pub fn over(self, weaker: Self) -> Self {
        let mut providers = weaker.providers;
        for (name, provider) in self.providers {
            let below = providers.remove(&name).unwrap_or_default();
            providers.insert(name, provider.over(below));
        }
        let moved = self
            .mcp
            .iter()
            .filter(|(name, server)| weaker.mcp.get(*name).is_some_and(|below| server.is_elsewhere(below)));
        let moved = moved.map(|(name, _)| name.clone()).collect();
        Self {
            integrations: connected_over(self.integrations, weaker.integrations, &moved),
            store: self.store.or(weaker.store),
            relaxed: self.relaxed.or(weaker.relaxed),
            agent: self.agent.over(weaker.agent),
            providers,
            tools: self.tools.over(weaker.tools),
            mcp: servers_over(self.mcp, weaker.mcp),
            // The stronger layer replaces a toolset as a whole, because a mixture of two definitions would be
            // meaningless.
            toolsets: weaker.toolsets.into_iter().chain(self.toolsets).collect(),
            // Budgets of all layers apply, so a stronger layer can only tighten them.
            budget: weaker.budget.into_iter().chain(self.budget).collect(),
            approvals: ApprovalsFile {
                question_timeout: self.approvals.question_timeout.or(weaker.approvals.question_timeout),
                vote_after: self.approvals.vote_after.or(weaker.approvals.vote_after),
            },
            server: self.server.over(weaker.server),
            files: self.files.over(weaker.files),
            outbound: self.outbound.over(weaker.outbound),
            web: self.web.over(weaker.web),
            // The stronger layer replaces an API as a whole, because the API's secret belongs to its address.
            api: weaker.api.into_iter().chain(self.api).collect(),
        }
    }

    /// Checks rules that the types do not express.
    pub fn check(&self, path: &Path) -> Result<(), Trouble> {
        let at = |key: String, why: &str| Trouble::usage(format!("{}: `{key}` {why}", path.display()));
        for (name, provider) in &self.providers {
            for (header, value) in &provider.headers {
                if value.is_literal() && names_a_secret(header) {
                    let key = format!("providers.{name}.headers.{header}");
                    return Err(at(key, "must not contain a literal secret")
                        .hint("write `env:NAME` or `file:PATH` to refer to the secret"));
                }
            }
        }
        for (name, server) in &self.mcp {
            if let Some(key) = server.open_secret() {
                return Err(at(format!("mcp.{name}.{key}"), "must not contain a literal secret")
                    .hint("write `env:NAME` or `file:PATH` to refer to the secret"));
            }
        }
        if self.agent.models.as_ref().is_some_and(Vec::is_empty) {
            return Err(at("agent.models".into(), "is empty").hint("add a model as `provider/model`"));
        }
        Ok(())
    }
}

pub(super) fn names_a_secret(header: &str) -> bool {
    let header = header.to_ascii_lowercase();
    ["authorization", "key", "token", "secret", "cookie", "password"].iter().any(|word| header.contains(word))
}

impl AgentFile {
    fn over(self, weaker: Self) -> Self {
        Self {
            name: self.name.or(weaker.name),
            models: self.models.or(weaker.models),
            instructions: self.instructions.or(weaker.instructions),
            reasoning: self.reasoning.or(weaker.reasoning),
            cache: self.cache.or(weaker.cache),
            temperature: self.temperature.or(weaker.temperature),
            max_output_tokens: self.max_output_tokens.or(weaker.max_output_tokens),
            mode: self.mode.or(weaker.mode),
            offload: self.offload.over(weaker.offload),
            limits: self.limits.or(weaker.limits),
        }
    }
}

impl LimitsFile {
    fn or(self, weaker: Self) -> Self {
        Self {
            max_steps: self.max_steps.or(weaker.max_steps),
            run_timeout_ms: self.run_timeout_ms.or(weaker.run_timeout_ms),
            call_timeout_ms: self.call_timeout_ms.or(weaker.call_timeout_ms),
            max_calls_per_step: self.max_calls_per_step.or(weaker.max_calls_per_step),
            max_parallel_calls: self.max_parallel_calls.or(weaker.max_parallel_calls),
            window_messages: self.window_messages.or(weaker.window_messages),
            max_queued: self.max_queued.or(weaker.max_queued),
            max_call_starts: self.max_call_starts.or(weaker.max_call_starts),
            max_same_calls: self.max_same_calls.or(weaker.max_same_calls),
            max_calls: weaker.max_calls.into_iter().chain(self.max_calls).collect(),
            max_tokens: self.max_tokens.or(weaker.max_tokens),
            max_usd: self.max_usd.or(weaker.max_usd),
        }
    }

    /// Applies these values over the defaults.
    pub fn over(&self, defaults: Limits) -> Limits {
        Limits {
            max_steps: self.max_steps.unwrap_or(defaults.max_steps),
            run_timeout_ms: self.run_timeout_ms.unwrap_or(defaults.run_timeout_ms),
            call_timeout_ms: self.call_timeout_ms.unwrap_or(defaults.call_timeout_ms),
            max_calls_per_step: self.max_calls_per_step.unwrap_or(defaults.max_calls_per_step),
            max_parallel_calls: self.max_parallel_calls.unwrap_or(defaults.max_parallel_calls),
            window_messages: self.window_messages.unwrap_or(defaults.window_messages),
            max_queued: self.max_queued.unwrap_or(defaults.max_queued),
            max_call_starts: self.max_call_starts.unwrap_or(defaults.max_call_starts),
            max_same_calls: self.max_same_calls.unwrap_or(defaults.max_same_calls),
            max_calls: self.max_calls.clone(),
            max_tokens: self.max_tokens.unwrap_or(defaults.max_tokens),
            max_cost: self.max_usd.map_or(defaults.max_cost, |dollars| MicroUsd(dollars.0)),
        }
    }
}

impl ProviderFile {
    fn over(self, weaker: Self) -> Self {
        let mut models = weaker.models;
        for (name, model) in self.models {
            let below = models.remove(&name).unwrap_or_default();
            models.insert(name, known_over(model, below));
        }
        let mut extra_body = weaker.extra_body;
        extra_body.extend(self.extra_body);
        // A secret is bound to the address that is configured with it. A layer that changes the address does not
        // inherit the secret of the weaker layer.
        let same_place = self.base_url.is_none() || self.base_url == weaker.base_url;
        let (key_below, mut headers) = match same_place {
            true => (weaker.api_key, weaker.headers),
            false => (None, BTreeMap::new()),
        };
        headers.extend(self.headers);
        Self {
            base_url: self.base_url.or(weaker.base_url),
            api_key: self.api_key.or(key_below),
            wire: self.wire.or(weaker.wire),
            auth: self.auth.or(weaker.auth),
            headers,
            api_version: self.api_version.or(weaker.api_version),
            stall_timeout_s: self.stall_timeout_s.or(weaker.stall_timeout_s),
            lenient: self.lenient.or(weaker.lenient),
            extra_body,
            models,
        }
    }
}

/// Merges a model's properties of two layers; `stronger` takes precedence.
fn known_over(stronger: KnownModel, weaker: KnownModel) -> KnownModel {
    KnownModel {
        context_tokens: stronger.context_tokens.or(weaker.context_tokens),
        max_output_tokens: stronger.max_output_tokens.or(weaker.max_output_tokens),
        tool_calls: stronger.tool_calls.or(weaker.tool_calls),
        structured_output: stronger.structured_output.or(weaker.structured_output),
        reasoning: stronger.reasoning.or(weaker.reasoning),
        // The stronger layer replaces a price as a whole, because the figures of a price belong together.
        price: stronger.price.or(weaker.price),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn models(text: &str) -> BTreeMap<String, KnownModel> {
        toml::from_str(text).unwrap()
    }

    #[test]
    fn what_is_known_of_a_model_is_put_together_key_by_key() {
        let provider = |text: &str| ProviderFile { models: models(text), ..ProviderFile::default() };
        let user = provider(
            "[a]\ncontext_tokens = 9\ntool_calls = false\nprice = { input = 3.0, output = 15.0, cached = 0.3 }\n\
             [b]\nreasoning = true\nprice = { input = 3.0, output = 15.0, cached = 0.3 }\n[c]\nmax_output_tokens = 7\n",
        );
        let folder = provider(
            "[a]\ntool_calls = true\nstructured_output = true\n[b]\nprice = { input = 1.0, output = 2.0 }\n[d]\n",
        );
        let both = models(
            "[a]\ncontext_tokens = 9\ntool_calls = true\nstructured_output = true\n\
             price = { input = 3.0, output = 15.0, cached = 0.3 }\n\
             [b]\nreasoning = true\nprice = { input = 1.0, output = 2.0 }\n[c]\nmax_output_tokens = 7\n[d]\n",
        );
        assert_eq!(folder.over(user).models, both);
    }

    #[test]
    fn a_key_of_a_price_that_is_not_known_is_named() {
        let misspelled = "[a]\nprice = { input = 1.0, output = 2.0, cachd = 0.1 }\n";
        let refused = toml::from_str::<BTreeMap<String, KnownModel>>(misspelled).unwrap_err();
        assert!(refused.message().contains("`cachd`"), "{refused}");
    }
}
