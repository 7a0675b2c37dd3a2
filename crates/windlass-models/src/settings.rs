//! Adapts reasoning, temperature and output cap to what a model accepts.
//!
//! Each wire encodes the adapted settings in its own fields.

use serde_json::{Map, Value};
use windlass_engine::port::model::{ModelError, ModelInfo};
use windlass_machine::{Effort, FailureClass, ModelSettings, Reasoning};

use crate::config::WireKind;
use crate::provider::preset::Preset;
use crate::table::{Level, ModelSpec, ReasoningSpec, Sampling};

/// Minimum output cap of a call with a reasoning budget, in tokens. (SK-L4)
pub(crate) const BUDGET_OUTPUT_MIN_TOKENS: u64 = 16_384;

/// The output cap for models that are not in the table, in tokens. Anthropic requires a cap.
pub(crate) const UNKNOWN_MODEL_OUTPUT_TOKENS: u64 = 8_192;

/// The facts that determine the settings of one call.
pub(crate) struct Facts<'a> {
    /// The wire.
    pub kind: WireKind,
    /// The provider's row in the table of providers.
    pub preset: &'a Preset,
    /// The model's row in the table of models.
    pub spec: Option<ModelSpec>,
    /// Facts about the model, configuration included.
    pub info: &'a ModelInfo,
    /// Whether unsupported settings are dropped instead of rejected.
    pub lenient: bool,
    /// Whether the request offers tools.
    pub tools: bool,
}

/// The amount of reasoning.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Thinking {
    /// No reasoning.
    Off,
    /// A level of effort.
    Level(Level),
    /// A budget of at most this many tokens.
    Budget(u32),
}

/// The settings of a call, adapted to the model.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Options {
    /// The reasoning; `None`: the model's default.
    pub thinking: Option<Thinking>,
    /// The temperature; `None`: the model's default.
    pub temperature: Option<f64>,
    /// The output cap in tokens; `None`: the model's own cap.
    pub max_output_tokens: Option<u64>,
}

impl Options {
    /// Whether the model reasons in this call.
    pub(crate) fn thinks(&self) -> bool {
        thinks(self.thinking)
    }
}

/// How a wire encodes a setting.
pub(crate) enum Mapping {
    /// Fields to merge into the body.
    Fields(Value),
    /// No field: the setting is the endpoint's default.
    Nothing,
    /// The endpoint does not support the setting, for this reason.
    Refused(&'static str),
}

impl Mapping {
    /// Merges the fields into a body. Unsupported settings are dropped if the call is lenient.
    pub(crate) fn apply(self, body: &mut Map<String, Value>, facts: &Facts<'_>) -> Result<(), ModelError> {
        match self {
            Self::Fields(Value::Object(fields)) => merge(body, fields),
            Self::Fields(_) | Self::Nothing => {}
            Self::Refused(why) if facts.lenient => {
                tracing::debug!(model = facts.info.name, why, "omitted the reasoning setting");
            }
            Self::Refused(why) => return Err(refused(facts, "reasoning", why)),
        }
        Ok(())
    }
}

/// Returns the error for a setting that an endpoint does not support.
pub(crate) fn refused(facts: &Facts<'_>, option: &str, why: &str) -> ModelError {
    let text = format!("model `{}` does not support the setting `{option}`: {why}", facts.info.name);
    ModelError::new(FailureClass::InvalidRequest, text)
}

/// Merges fields into a body: objects by key; other values are replaced.
pub(crate) fn merge(body: &mut Map<String, Value>, fields: Map<String, Value>) {
    for (key, value) in fields {
        match (body.get_mut(&key), value) {
            (Some(Value::Object(known)), Value::Object(more)) => merge(known, more),
            (_, value) => {
                body.insert(key, value);
            }
        }
    }
}

/// Adapts settings to a model.
pub(crate) fn fit(settings: &ModelSettings, facts: &Facts<'_>) -> Options {
    let thinking = wanted(settings.reasoning, facts);
    let temperature = settings.temperature.filter(|_| !facts.lenient || takes_temperature(thinking, facts));
    Options { thinking, temperature, max_output_tokens: output_cap(settings, thinking, facts) }
}

/// Whether a model reasons with a setting. An unknown default is treated as no reasoning.
pub(crate) fn thinks(thinking: Option<Thinking>) -> bool {
    thinking.is_some_and(|thinking| thinking != Thinking::Off)
}

/// Returns the requested reasoning. A budget takes precedence over an effort, an effort over the default. The
/// default is high for a model known to reason. (SK-L3)
fn wanted(setting: Reasoning, facts: &Facts<'_>) -> Option<Thinking> {
    let wanted = match setting {
        Reasoning::Auto if facts.info.reasoning == Some(true) => Thinking::Level(Level::High),
        Reasoning::Auto => return None,
        Reasoning::Off => Thinking::Off,
        Reasoning::Effort(effort) => Thinking::Level(match effort {
            Effort::Minimal => Level::Minimal,
            Effort::Low => Level::Low,
            Effort::Medium => Level::Medium,
            Effort::High => Level::High,
        }),
        Reasoning::BudgetTokens(tokens) => Thinking::Budget(u32::try_from(tokens).unwrap_or(u32::MAX)),
    };
    match facts.spec {
        Some(spec) if facts.lenient => fitted(wanted, &spec.reasoning),
        Some(_) | None => Some(wanted),
    }
}

/// Returns the closest setting that a model supports; `None`: its default.
fn fitted(wanted: Thinking, takes: &ReasoningSpec) -> Option<Thinking> {
    if !takes.supported {
        return None;
    }
    match (wanted, takes.budget) {
        (Thinking::Off, _) => Some(wanted).filter(|_| takes.can_disable),
        (Thinking::Level(level), _) if takes.levels.contains(level) => Some(wanted),
        (Thinking::Level(level), Some((min, max))) if takes.levels.is_empty() => {
            Some(Thinking::Budget(budget_of(level).clamp(min, max)))
        }
        (Thinking::Level(level), _) => nearest(level, takes),
        (Thinking::Budget(tokens), Some((min, max))) => Some(Thinking::Budget(tokens.clamp(min, max))),
        (Thinking::Budget(tokens), None) => nearest(level_of(tokens), takes),
    }
}

fn nearest(level: Level, takes: &ReasoningSpec) -> Option<Thinking> {
    let distance = |other: &Level| (*other as u8).abs_diff(level as u8);
    takes.levels.iter().min_by_key(distance).map(Thinking::Level)
}

/// Returns the token budget equivalent to a level, as in other gateways.
pub(crate) fn budget_of(level: Level) -> u32 {
    match level {
        Level::Minimal | Level::Low => 1_024,
        Level::Medium => 2_048,
        Level::High | Level::XHigh | Level::Max => 4_096,
    }
}

fn level_of(tokens: u32) -> Level {
    match tokens {
        0..=1_024 => Level::Low,
        1_025..=4_095 => Level::Medium,
        _ => Level::High,
    }
}

fn output_cap(settings: &ModelSettings, thinking: Option<Thinking>, facts: &Facts<'_>) -> Option<u64> {
    if settings.max_output_tokens.is_some() {
        return settings.max_output_tokens;
    }
    // A budget derived from an effort does not change the model's own cap.
    let (Reasoning::BudgetTokens(_), Some(Thinking::Budget(tokens))) = (settings.reasoning, thinking) else {
        return None;
    };
    let cap = (2 * u64::from(tokens)).max(BUDGET_OUTPUT_MIN_TOKENS);
    Some(facts.info.max_output_tokens.map_or(cap, |most| cap.min(most)))
}

/// Whether the model accepts a temperature. Anthropic's thinking and several newer models reject one. (SK-L2)
fn takes_temperature(thinking: Option<Thinking>, facts: &Facts<'_>) -> bool {
    match facts.spec.and_then(|spec| spec.sampling) {
        Some(Sampling::Never) => false,
        Some(Sampling::ReasoningOff) => !thinks(thinking),
        Some(Sampling::Any) | None => {
            !matches!(facts.kind, WireKind::Anthropic | WireKind::Converse) || !thinks(thinking)
        }
    }
}
