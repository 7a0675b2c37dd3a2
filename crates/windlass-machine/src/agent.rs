//! Definitions that a run is pinned to: the agent, its tools' shapes, its limits and settings.
//!
//! Nothing here runs; the running thing is a run in a thread.

use std::collections::BTreeMap;

use serde::ser::SerializeMap;
use serde::{Deserialize, Serialize, Serializer};
use serde_json::Value;

use crate::id::{ModelName, ToolName};
use crate::message::{BlobRef, Content, MicroUsd};
use crate::mode::Mode;

/// An agent as a run is pinned to it. Large parts are named by digest.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Agent {
    /// The name people know it by.
    pub name: String,
    /// The model, then the fallbacks tried in order when it fails for good. Never empty.
    pub models: Vec<ModelName>,
    /// Instructions, stable parts first.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub instructions: Vec<Content>,
    /// The tool catalogue, a JSON array of [`ToolSpec`], by digest; `None` without tools.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tools: Option<BlobRef>,
    /// How the model is asked.
    #[serde(default, skip_serializing_if = "ModelSettings::is_default")]
    pub settings: ModelSettings,
    /// What the run may use at most.
    #[serde(default)]
    pub limits: Limits,
    /// The mode of a run for which nobody has chosen one, now or before in the thread.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub mode: Option<Mode>,
}

/// How a model is asked; what a model does not support is dropped by its adapter.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ModelSettings {
    /// Output cap in tokens; `None` takes the model's own.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub max_output_tokens: Option<u64>,
    /// Sampling temperature.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub temperature: Option<f64>,
    /// Reasoning.
    #[serde(default, skip_serializing_if = "Reasoning::is_auto")]
    pub reasoning: Reasoning,
    /// A JSON schema that the final answer must satisfy.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub output_schema: Option<Value>,
    /// Prompt cache marks for providers that take them.
    #[serde(default, skip_serializing_if = "CacheMarks::is_short")]
    pub cache: CacheMarks,
}

impl ModelSettings {
    fn is_default(&self) -> bool {
        *self == Self::default()
    }
}

/// How much the model reasons before it answers. A budget wins over an effort. (SK-L3)
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Reasoning {
    /// High effort for a model known to reason, else none.
    #[default]
    Auto,
    /// None, even for a model that could.
    Off,
    /// An effort in the provider's words.
    Effort(Effort),
    /// A budget in tokens; the output cap becomes max(2 × budget, 16,384) unless set. (SK-L4)
    BudgetTokens(u64),
}

impl Reasoning {
    fn is_auto(&self) -> bool {
        *self == Self::Auto
    }
}

/// Reasoning effort.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Effort {
    /// As little as the model allows.
    Minimal,
    /// Little.
    Low,
    /// The provider's middle.
    Medium,
    /// Much.
    High,
}

/// Where cache marks are set: on the system prompt and on the tools. (SK-C11)
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum CacheMarks {
    /// None.
    Off,
    /// Marks that live five minutes.
    #[default]
    Short,
    /// Marks that live an hour.
    Hour,
}

impl CacheMarks {
    fn is_short(&self) -> bool {
        *self == Self::Short
    }
}

/// What a run may use at most. Every figure has a default and fails closed.
///
/// Only figures that differ from the defaults are recorded. The defaults are therefore part of the events' version: a
/// build that changes one writes the old figure into older events when it lifts them.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Limits {
    /// Model calls with their tools. Default 25 (SK-G22).
    pub max_steps: u32,
    /// Wall time of the run in milliseconds, waits for people not counted. Default 2 h (ZE-X6).
    pub run_timeout_ms: u64,
    /// Time of one tool call in milliseconds; it begins anew whenever the tool reports progress. Default 30 min (ZE-X7).
    pub call_timeout_ms: u64,
    /// Calls of one step; those beyond it get an error result. Default 128.
    pub max_calls_per_step: u32,
    /// Calls that run beside each other. Default 16.
    pub max_parallel_calls: u32,
    /// Messages sent to the model, system and first user message included. Default 40 (SK-C13); 0: no window.
    pub window_messages: u32,
    /// Messages that wait while a run is active. Default 100.
    pub max_queued: u32,
    /// Starts of one repeatable call (pure, idempotent, keyed) that crashes interrupt, and of a keyed one that hangs.
    /// Default 3; then it is in doubt.
    pub max_call_starts: u32,
    /// Steps in a row that may ask for the same calls and get the same results before a person has to look. Default 4;
    /// 0: no such limit.
    pub max_same_calls: u32,
    /// Calls of one tool in a run, by the tool's name. Default: no limit.
    pub max_calls: BTreeMap<ToolName, u32>,
    /// Tokens of a run, prompts and replies together. Default 0: no limit.
    pub max_tokens: u64,
    /// Money of a run in millionths of a US dollar. Default 0: no limit.
    pub max_cost: MicroUsd,
}

impl Serialize for Limits {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        fn put<M: SerializeMap, T: PartialEq + Serialize>(
            map: &mut M,
            name: &'static str,
            figure: &T,
            usual: &T,
        ) -> Result<(), M::Error> {
            if figure == usual { Ok(()) } else { map.serialize_entry(name, figure) }
        }
        let usual = Self::default();
        let mut map = serializer.serialize_map(None)?;
        put(&mut map, "max_steps", &self.max_steps, &usual.max_steps)?;
        put(&mut map, "run_timeout_ms", &self.run_timeout_ms, &usual.run_timeout_ms)?;
        put(&mut map, "call_timeout_ms", &self.call_timeout_ms, &usual.call_timeout_ms)?;
        put(&mut map, "max_calls_per_step", &self.max_calls_per_step, &usual.max_calls_per_step)?;
        put(&mut map, "max_parallel_calls", &self.max_parallel_calls, &usual.max_parallel_calls)?;
        put(&mut map, "window_messages", &self.window_messages, &usual.window_messages)?;
        put(&mut map, "max_queued", &self.max_queued, &usual.max_queued)?;
        put(&mut map, "max_call_starts", &self.max_call_starts, &usual.max_call_starts)?;
        put(&mut map, "max_same_calls", &self.max_same_calls, &usual.max_same_calls)?;
        put(&mut map, "max_calls", &self.max_calls, &usual.max_calls)?;
        put(&mut map, "max_tokens", &self.max_tokens, &usual.max_tokens)?;
        put(&mut map, "max_cost", &self.max_cost, &usual.max_cost)?;
        map.end()
    }
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            max_steps: 25,
            run_timeout_ms: 7_200_000,
            call_timeout_ms: 1_800_000,
            max_calls_per_step: 128,
            max_parallel_calls: 16,
            window_messages: 40,
            max_queued: 100,
            max_call_starts: 3,
            max_same_calls: 4,
            max_calls: BTreeMap::new(),
            max_tokens: 0,
            max_cost: MicroUsd(0),
        }
    }
}

/// A tool's shape as the model and the gate see it. (MCP `Tool`)
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct ToolSpec {
    /// The name: 1–64 of `[A-Za-z0-9_-]`.
    pub name: ToolName,
    /// What it does, for the model.
    pub description: String,
    /// JSON schema of the arguments, an object.
    pub input_schema: Value,
    /// Hints about what a call does.
    #[serde(default)]
    pub annotations: Annotations,
    /// The modes that have none of its calls; a request shows a placeholder there.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub withheld: Vec<Mode>,
}

/// Hints about what a call does, as in MCP; a missing hint counts as the careful answer.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct Annotations {
    /// Changes nothing.
    pub read_only_hint: bool,
    /// May destroy something.
    pub destructive_hint: bool,
    /// Repeating it with the same arguments changes nothing more.
    pub idempotent_hint: bool,
    /// Talks to the outside world.
    pub open_world_hint: bool,
}

/// What may be done again when a call's outcome was lost.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum EffectClass {
    /// Changes nothing: repeat freely, beside others.
    Pure,
    /// Repeating changes nothing more: repeat.
    Idempotent,
    /// The far side knows the effect id: repeat with the same one.
    Keyed,
    /// Never repeat by itself, but a read may find whether it was done.
    Reconcile {
        /// How long it is looked for; then it is in doubt.
        wait_ms: u64,
    },
    /// Never repeat by itself: an unknown outcome is in doubt, and a person decides.
    Once,
}

impl EffectClass {
    /// The class that trusted annotations stand for.
    pub fn from_annotations(hints: Annotations) -> Self {
        if hints.read_only_hint && !hints.open_world_hint {
            Self::Pure
        } else if hints.read_only_hint || hints.idempotent_hint {
            Self::Idempotent
        } else {
            Self::Once
        }
    }
}
