//! The configuration file's shape. Every key may be absent; unknown ones are errors.

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
    /// Where threads are kept.
    pub store: Option<PathBuf>,
    /// Whether a power cut may take the last moments, for speed.
    pub relaxed: Option<bool>,
    /// The agent.
    pub agent: AgentFile,
    /// Providers, by the part of a model's name before the slash.
    pub providers: BTreeMap<String, ProviderFile>,
    /// How commands run, and what is said of tools.
    pub tools: ToolsFile,
    /// Tool servers, by name.
    pub mcp: BTreeMap<String, McpFile>,
    /// What tools are given of integrations, by provider.
    pub integrations: BTreeMap<String, ConnectedFile>,
    /// Groups of tools, by name.
    pub toolsets: BTreeMap<String, ToolsetFile>,
    /// What runs may use together.
    pub budget: Vec<BudgetFile>,
    /// How people are asked.
    pub approvals: ApprovalsFile,
    /// The server.
    pub server: ServerFile,
    /// What people may upload to it.
    pub files: FilesFile,
    /// What tools may call.
    pub outbound: OutboundFile,
    /// Reading and searching the web.
    pub web: WebFile,
    /// Services that agents may call, by name.
    pub api: BTreeMap<String, ApiFile>,
}

/// `[agent]`.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct AgentFile {
    /// Its name.
    pub name: Option<String>,
    /// The model, then the fallbacks tried in order.
    pub models: Option<Vec<String>>,
    /// Instructions in place of the built-in ones.
    pub instructions: Option<String>,
    /// How much it reasons.
    pub reasoning: Option<ReasoningWord>,
    /// Cache marks: `off`, `short`, `hour`.
    pub cache: Option<CacheMarks>,
    /// Sampling temperature.
    pub temperature: Option<f64>,
    /// Output cap of one model call, in tokens.
    pub max_output_tokens: Option<u64>,
    /// The mode of its runs, where nobody has chosen one: `agent`, `ask`, `plan`.
    pub mode: Option<Mode>,
    /// Whether it sees summaries of long results.
    pub offload: OffloadFile,
    /// What a run may use at most.
    pub limits: LimitsFile,
}

/// `[agent.limits]`.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct LimitsFile {
    /// Model calls with their tools.
    pub max_steps: Option<u32>,
    /// Wall time of a run.
    pub run_timeout_ms: Option<u64>,
    /// Time of one tool call.
    pub call_timeout_ms: Option<u64>,
    /// Calls of one step.
    pub max_calls_per_step: Option<u32>,
    /// Calls that run beside each other.
    pub max_parallel_calls: Option<u32>,
    /// Messages sent to the model; 0: all.
    pub window_messages: Option<u32>,
    /// Messages that wait while a run is active.
    pub max_queued: Option<u32>,
    /// Starts of one repeatable call.
    pub max_call_starts: Option<u32>,
    /// Times in a row that the same call may bring the same result; 0: any number.
    pub max_same_calls: Option<u32>,
    /// Calls of one tool, by its name.
    pub max_calls: BTreeMap<ToolName, u32>,
    /// Tokens of prompts and replies; 0: any number.
    pub max_tokens: Option<u64>,
    /// US dollars by list prices; 0: any amount.
    pub max_usd: Option<Dollars>,
}

/// `[providers.<name>]`.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct ProviderFile {
    /// The address in the form that the provider's own SDK takes.
    pub base_url: Option<String>,
    /// The key, by reference.
    pub api_key: Option<Reference>,
    /// The wire.
    pub wire: Option<WireKind>,
    /// Where the key travels.
    pub auth: Option<Auth>,
    /// Further headers.
    pub headers: BTreeMap<String, HeaderValue>,
    /// `api-version` of Azure deployments.
    pub api_version: Option<String>,
    /// Silence after which a call has failed, in seconds.
    pub stall_timeout_s: Option<u64>,
    /// Whether unknown finish reasons are let through.
    pub lenient: Option<bool>,
    /// Fields merged into each request's body.
    pub extra_body: Map<String, Value>,
    /// Facts about models, prices among them.
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
                    return Err(serde::de::Error::custom(format!("`{other}` is no reasoning; {wanted}")));
                }
            },
        }))
    }
}

impl ConfigFile {
    /// This layer over a weaker one, key by key.
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
            // A group as a whole: half of one with half of another would be a third.
            toolsets: weaker.toolsets.into_iter().chain(self.toolsets).collect(),
            // All of them count: a stronger layer can only tighten.
            budget: weaker.budget.into_iter().chain(self.budget).collect(),
            approvals: ApprovalsFile {
                question_timeout: self.approvals.question_timeout.or(weaker.approvals.question_timeout),
                vote_after: self.approvals.vote_after.or(weaker.approvals.vote_after),
            },
            server: self.server.over(weaker.server),
            files: self.files.over(weaker.files),
            outbound: self.outbound.over(weaker.outbound),
            web: self.web.over(weaker.web),
            // A service as a whole: its secret belongs to its address.
            api: weaker.api.into_iter().chain(self.api).collect(),
        }
    }

    /// What the shape alone does not say.
    pub fn check(&self, path: &Path) -> Result<(), Trouble> {
        let at = |key: String, why: &str| Trouble::usage(format!("{}: `{key}` {why}", path.display()));
        for (name, provider) in &self.providers {
            for (header, value) in &provider.headers {
                if value.is_literal() && names_a_secret(header) {
                    let key = format!("providers.{name}.headers.{header}");
                    return Err(at(key, "must not stand in a file as it is")
                        .hint("write `env:NAME` or `file:PATH`, which say where the secret is"));
                }
            }
        }
        for (name, server) in &self.mcp {
            if let Some(key) = server.open_secret() {
                return Err(at(format!("mcp.{name}.{key}"), "must not stand in a file as it is")
                    .hint("write `env:NAME` or `file:PATH`, which say where the secret is"));
            }
        }
        if self.agent.models.as_ref().is_some_and(Vec::is_empty) {
            return Err(at("agent.models".into(), "is empty").hint("name a model as `provider/model`"));
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

    /// These figures over the defaults.
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
        // A secret is bound to the address that it was written beside: a layer that names another address does
        // not get the key of the one below.
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

/// What a layer knows of a model over what a weaker one knows of it.
fn known_over(stronger: KnownModel, weaker: KnownModel) -> KnownModel {
    KnownModel {
        context_tokens: stronger.context_tokens.or(weaker.context_tokens),
        max_output_tokens: stronger.max_output_tokens.or(weaker.max_output_tokens),
        tool_calls: stronger.tool_calls.or(weaker.tool_calls),
        structured_output: stronger.structured_output.or(weaker.structured_output),
        reasoning: stronger.reasoning.or(weaker.reasoning),
        // As a whole: a figure that is left out is another one of the same price.
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
