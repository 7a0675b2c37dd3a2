//! Definitions that a run is pinned to: the agent, its tool specs, its limits and settings.
//!
//! This module holds data only.

use std::collections::BTreeMap;

use serde::ser::SerializeMap;
use serde::{Deserialize, Serialize, Serializer};
use serde_json::Value;

use crate::id::{ModelName, ToolName};
use crate::message::{BlobRef, Content, MicroUsd};
use crate::mode::Mode;

/// An agent definition that runs are pinned to. Large parts are blobs.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Agent {
    /// Display name.
    pub name: String,
    /// The model, then the fallbacks in order of use after permanent failures. Never empty.
    pub models: Vec<ModelName>,
    /// System instructions; stable parts first, so that prompt caches hit.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub instructions: Vec<Content>,
    /// The tool catalogue, a JSON array of [`ToolSpec`], as a blob; `None` without tools.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tools: Option<BlobRef>,
    /// Settings of model calls.
    #[serde(default, skip_serializing_if = "ModelSettings::is_default")]
    pub settings: ModelSettings,
    /// Limits of each run.
    #[serde(default)]
    pub limits: Limits,
    /// Mode of runs, unless a mode was chosen for the run or earlier in the thread.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub mode: Option<Mode>,
}

/// Settings of model calls. Adapters drop settings that a model does not support.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ModelSettings {
    /// Maximum output in tokens; `None`: the model's default.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub max_output_tokens: Option<u64>,
    /// Sampling temperature; `None`: the model's default.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub temperature: Option<f64>,
    /// Whether and how much the model reasons.
    #[serde(default, skip_serializing_if = "Reasoning::is_auto")]
    pub reasoning: Reasoning,
    /// A JSON schema that the final answer must satisfy.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub output_schema: Option<Value>,
    /// Prompt cache marks, for providers that support them.
    #[serde(default, skip_serializing_if = "CacheMarks::is_short")]
    pub cache: CacheMarks,
}

impl ModelSettings {
    fn is_default(&self) -> bool {
        *self == Self::default()
    }
}

/// Amount of reasoning before the model answers. A budget takes precedence over an effort. (SK-L3)
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Reasoning {
    /// High effort for a model known to reason, otherwise none.
    #[default]
    Auto,
    /// No reasoning, even for a model that supports it.
    Off,
    /// A relative effort, mapped to the provider's levels.
    Effort(Effort),
    /// A budget in tokens; the output maximum becomes max(2 × budget, 16,384) unless set. (SK-L4)
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
    /// The lowest effort that the model allows.
    Minimal,
    /// Low effort.
    Low,
    /// The provider's medium level.
    Medium,
    /// High effort.
    High,
}

/// Lifetime of the cache marks on the system prompt and the tools. (SK-C11)
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum CacheMarks {
    /// No marks.
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

/// Limits of a run. Every limit has a default and fails closed.
///
/// Only values that differ from the defaults are recorded, so the defaults are part of the events' version. A build
/// that changes a default must write the old value into older events when it converts them.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Limits {
    /// Maximum number of steps: model calls with their tool calls. Default 25 (SK-G22).
    pub max_steps: u32,
    /// Maximum wall time of the run in milliseconds, without waits for people. Default 2 h (ZE-X6).
    pub run_timeout_ms: u64,
    /// Maximum time of one tool call in milliseconds; each progress report restarts it. Default 30 min (ZE-X7).
    pub call_timeout_ms: u64,
    /// Maximum number of calls in one step; further calls get an error result. Default 128.
    pub max_calls_per_step: u32,
    /// Maximum number of calls that run in parallel. Default 16.
    pub max_parallel_calls: u32,
    /// Maximum number of messages sent to the model, including the system message and the first user message. Default
    /// 40 (SK-C13); 0: no window.
    pub window_messages: u32,
    /// Maximum number of messages queued while a run is active. Default 100.
    pub max_queued: u32,
    /// Maximum number of starts of a repeatable call (pure, idempotent, keyed) that crashes interrupt, and of a keyed
    /// call that hangs. Default 3; after the last start the call is in doubt.
    pub max_call_starts: u32,
    /// Number of consecutive steps with the same calls and results
    /// after which the run asks a person. Default 4; 0: no limit.
    pub max_same_calls: u32,
    /// Maximum number of calls of a tool in a run, by the tool's name. Default: no limit.
    pub max_calls: BTreeMap<ToolName, u32>,
    /// Maximum number of tokens in a run, prompts and replies together. Default 0: no limit.
    pub max_tokens: u64,
    /// Maximum cost of a run in millionths of a US dollar. Default 0: no limit.
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

/// A tool as the model and the gate see it. (MCP `Tool`)
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct ToolSpec {
    /// Name: 1–64 of `[A-Za-z0-9_-]`.
    pub name: ToolName,
    /// Purpose and usage, for the model.
    pub description: String,
    /// JSON schema of the arguments, which are an object.
    pub input_schema: Value,
    /// Hints about the effects of a call.
    #[serde(default)]
    pub annotations: Annotations,
    /// Modes that withhold all calls of the tool. Requests in these modes show a placeholder.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub withheld: Vec<Mode>,
}

/// Hints about the effects of a call, as in MCP; a missing hint is treated as the safer value.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct Annotations {
    /// The call changes nothing.
    pub read_only_hint: bool,
    /// The call may destroy data.
    pub destructive_hint: bool,
    /// A repetition with the same arguments has no further effect.
    pub idempotent_hint: bool,
    /// The call interacts with external systems.
    pub open_world_hint: bool,
}

/// Determines whether a call may be repeated after its outcome was lost.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum EffectClass {
    /// No effects: repeat freely, and run in parallel.
    Pure,
    /// A repetition has no further effect: repeat.
    Idempotent,
    /// The remote service knows the effect id: repeat with the same id.
    Keyed,
    /// Never repeat automatically, but a read may reveal whether the call took effect.
    Reconcile {
        /// Maximum duration of these reads in milliseconds; after it the call is in doubt.
        wait_ms: u64,
    },
    /// Never repeat automatically: an unknown outcome is in doubt, and a person decides.
    Once,
}

impl EffectClass {
    /// Returns the class that trusted annotations imply.
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
