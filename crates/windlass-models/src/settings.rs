//! How a model is asked: reasoning, output cap, schema, fitted to what the model takes.
//!
//! What a model is known not to take is left out here, so that the library never has to refuse it.

use rig_core::catalog::{ModelSpec, Sampling};
use rig_core::completion::{
    CompletionRequest, Effort as RigEffort, OnUnsupported, Reasoning as RigReasoning,
};
use serde_json::{Map, Value, json};
use windlass_engine::port::model::{ModelError, ModelInfo};
use windlass_machine::{Effort, FailureClass, ModelSettings, Reasoning};

use super::config::WireKind;
use super::schema;
use crate::provider::preset::{ChatSchema, Preset};

/// The least output cap beside a reasoning budget. (SK-L4)
const BUDGET_OUTPUT_MIN_TOKENS: u64 = 16_384;

/// Anthropic demands an output cap; this one is for models that the catalogue does not know.
pub(super) const UNKNOWN_MODEL_OUTPUT_TOKENS: u64 = 8_192;

/// What decides about the settings of one call.
pub(super) struct Facts<'a> {
    /// The wire.
    pub kind: WireKind,
    /// The provider's row in the table.
    pub preset: &'a Preset,
    /// The catalogue's row of the model.
    pub spec: Option<&'static ModelSpec>,
    /// What is known, configuration included.
    pub info: &'a ModelInfo,
    /// Whether what the model lacks is left out.
    pub lenient: bool,
    /// Whether the request offers tools.
    pub tools: bool,
}

impl Facts<'_> {
    /// The library maps options for the endpoints that it knows, each on its own wire.
    fn library_maps_reasoning(&self) -> bool {
        match self.kind {
            WireKind::Anthropic => self.preset.dialect == Some("anthropic"),
            WireKind::Gemini | WireKind::Converse => true,
            WireKind::OpenaiChat | WireKind::OpenaiResponses => {
                self.preset.dialect.is_some() && self.preset.cloud.is_none()
            }
        }
    }
}

/// Fills the settings into a request and says whether the model reasons in this call.
pub(super) fn apply(
    request: &mut CompletionRequest,
    settings: &ModelSettings,
    facts: &Facts<'_>,
    extra_body: &Map<String, Value>,
) -> Result<bool, ModelError> {
    let mut body = Map::new();
    let reasoning = reasoning(settings.reasoning, facts);
    request.temperature = settings.temperature;
    request.max_tokens = output_cap(settings, reasoning, facts);
    request.accept_unknown_finish_reasons = facts.lenient;
    if facts.lenient {
        request.options = std::mem::take(&mut request.options).on_unsupported(OnUnsupported::Ignore);
        if !takes_temperature(reasoning, facts) {
            request.temperature = None;
        }
    }
    if facts.library_maps_reasoning() {
        if let Some(reasoning) = reasoning {
            request.options = std::mem::take(&mut request.options).reasoning(reasoning);
        }
    } else {
        map_reasoning(request, &mut body, reasoning, facts);
    }
    if facts.kind == WireKind::Gemini && thinks(reasoning) {
        body.insert("generationConfig".to_owned(), json!({"thinkingConfig": {"includeThoughts": true}}));
    }
    if facts.kind == WireKind::OpenaiResponses {
        // The provider's default is to keep a copy of everything.
        body.insert("store".to_owned(), Value::Bool(false));
    }
    if let Some(wanted) = &settings.output_schema {
        output_schema(request, &mut body, wanted, facts)?;
    }
    for (key, value) in extra_body {
        body.insert(key.clone(), value.clone());
    }
    request.additional_params = (!body.is_empty()).then_some(Value::Object(body));
    Ok(thinks(reasoning))
}

/// Says reasoning to an endpoint that the library does not know, in the words that most of them copy.
fn map_reasoning(
    request: &mut CompletionRequest,
    body: &mut Map<String, Value>,
    reasoning: Option<RigReasoning>,
    facts: &Facts<'_>,
) {
    match (facts.kind, reasoning) {
        (WireKind::Anthropic, Some(wanted)) => {
            // In a cloud it is the maker's own model; behind another endpoint a name may mean anything.
            let claude = facts.spec.filter(|_| facts.preset.cloud.is_some());
            let levels = claude.filter(|spec| !spec.reasoning.levels.is_empty());
            let budget = match (wanted, levels) {
                (RigReasoning::Budget { tokens }, _) => tokens,
                // Newer Claudes take a level.
                (RigReasoning::Effort(effort), Some(spec)) => {
                    if spec.compat.adaptive_thinking {
                        body.insert("thinking".to_owned(), json!({"type": "adaptive"}));
                    }
                    body.insert("output_config".to_owned(), json!({"effort": effort.as_str()}));
                    return;
                }
                (RigReasoning::Effort(effort), None) => budget_of(effort),
                (RigReasoning::Off, _) => {
                    if let Some(spec) = claude.filter(|spec| spec.reasoning.can_disable) {
                        let off = spec.compat.thinking_off.as_deref().unwrap_or("disabled");
                        body.insert("thinking".to_owned(), json!({"type": off}));
                    }
                    return;
                }
                // The library's enum is open.
                (_, _) => return,
            };
            body.insert("thinking".to_owned(), json!({"type": "enabled", "budget_tokens": budget}));
            // A model that is known has a cap of its own, well above.
            if claude.is_none() {
                request
                    .max_tokens
                    .get_or_insert_with(|| (2 * u64::from(budget)).max(BUDGET_OUTPUT_MIN_TOKENS));
            }
        }
        (WireKind::OpenaiChat, Some(RigReasoning::Effort(effort))) => {
            body.insert("reasoning_effort".to_owned(), effort.as_str().into());
        }
        (WireKind::OpenaiResponses, Some(RigReasoning::Effort(effort))) => {
            body.insert("reasoning".to_owned(), json!({"effort": effort.as_str()}));
        }
        (
            WireKind::OpenaiChat | WireKind::OpenaiResponses | WireKind::Gemini | WireKind::Converse,
            Some(_) | None,
        )
        | (WireKind::Anthropic, None) => {}
    }
}

fn thinks(reasoning: Option<RigReasoning>) -> bool {
    reasoning.is_some_and(|reasoning| reasoning != RigReasoning::Off)
}

/// A budget wins over an effort, an effort over the default: high for a model known to reason. (SK-L3)
fn reasoning(wanted: Reasoning, facts: &Facts<'_>) -> Option<RigReasoning> {
    let wanted = match wanted {
        Reasoning::Auto if facts.info.reasoning == Some(true) => RigReasoning::Effort(RigEffort::High),
        Reasoning::Auto => return None,
        Reasoning::Off => RigReasoning::Off,
        Reasoning::Effort(effort) => RigReasoning::Effort(match effort {
            Effort::Minimal => RigEffort::Minimal,
            Effort::Low => RigEffort::Low,
            Effort::Medium => RigEffort::Medium,
            Effort::High => RigEffort::High,
        }),
        Reasoning::BudgetTokens(tokens) => {
            RigReasoning::Budget { tokens: u32::try_from(tokens).unwrap_or(u32::MAX) }
        }
    };
    match facts.spec {
        Some(spec) if facts.lenient => fitted(wanted, spec),
        Some(_) | None => Some(wanted),
    }
}

/// What a model takes in place of what was wanted; `None`: its own default.
fn fitted(wanted: RigReasoning, spec: &ModelSpec) -> Option<RigReasoning> {
    let takes = &spec.reasoning;
    if takes.refusal(&wanted).is_none() {
        return Some(wanted).filter(|wanted| takes.supported || *wanted != RigReasoning::Off);
    }
    if !takes.supported {
        return None;
    }
    match wanted {
        RigReasoning::Effort(effort) => match (&takes.budget, takes.levels.is_empty()) {
            (_, false) => nearest(effort_rank(effort), &takes.levels),
            (Some(range), true) => {
                Some(RigReasoning::Budget { tokens: budget_of(effort).clamp(*range.start(), *range.end()) })
            }
            (None, true) => None,
        },
        RigReasoning::Budget { tokens } => match &takes.budget {
            Some(range) => Some(RigReasoning::Budget { tokens: tokens.clamp(*range.start(), *range.end()) }),
            None => nearest(rank_of_budget(tokens), &takes.levels),
        },
        // What cannot be turned off stays on, as do kinds of reasoning that the library may add.
        _ => None,
    }
}

fn nearest(rank: usize, levels: &[RigEffort]) -> Option<RigReasoning> {
    levels
        .iter()
        .min_by_key(|level| effort_rank(**level).abs_diff(rank))
        .map(|level| RigReasoning::Effort(*level))
}

fn effort_rank(effort: RigEffort) -> usize {
    ["minimal", "low", "medium", "high", "xhigh", "max"]
        .iter()
        .position(|word| *word == effort.as_str())
        .unwrap_or(3)
}

/// Tokens that stand for an effort, as other gateways count them.
fn budget_of(effort: RigEffort) -> u32 {
    match effort_rank(effort) {
        0 | 1 => 1_024,
        2 => 2_048,
        _ => 4_096,
    }
}

fn rank_of_budget(tokens: u32) -> usize {
    match tokens {
        0..=1_024 => 1,
        1_025..=4_095 => 2,
        _ => 3,
    }
}

fn output_cap(settings: &ModelSettings, reasoning: Option<RigReasoning>, facts: &Facts<'_>) -> Option<u64> {
    if settings.max_output_tokens.is_some() {
        return settings.max_output_tokens;
    }
    // A budget that only stands for an effort leaves the model its own cap.
    let (Reasoning::BudgetTokens(_), Some(RigReasoning::Budget { tokens })) = (settings.reasoning, reasoning)
    else {
        return None;
    };
    let cap = (2 * u64::from(tokens)).max(BUDGET_OUTPUT_MIN_TOKENS);
    Some(facts.info.max_output_tokens.map_or(cap, |most| cap.min(most)))
}

/// Anthropic's thinking and several newer models refuse a temperature. (SK-L2)
fn takes_temperature(reasoning: Option<RigReasoning>, facts: &Facts<'_>) -> bool {
    let sampled = facts.spec.and_then(|spec| spec.sampling);
    match sampled {
        Some(Sampling::Never) => false,
        Some(Sampling::ReasoningOff) => !thinks(reasoning),
        Some(_) | None => {
            !matches!(facts.kind, WireKind::Anthropic | WireKind::Converse) || !thinks(reasoning)
        }
    }
}

fn output_schema(
    request: &mut CompletionRequest,
    body: &mut Map<String, Value>,
    wanted: &Value,
    facts: &Facts<'_>,
) -> Result<(), ModelError> {
    // Models before Gemini 3 take either tools or a schema.
    let gemini_3 = request.model.as_deref().is_none_or(|model| {
        !["gemini-1", "gemini-2"].iter().any(|old| model.trim_start_matches("models/").starts_with(old))
    });
    match facts.kind {
        WireKind::Gemini if facts.tools && !gemini_3 => {}
        WireKind::Anthropic | WireKind::OpenaiResponses | WireKind::Gemini | WireKind::Converse => {
            let parsed = rig_core::schemars::Schema::try_from(wanted.clone()).map_err(|error| {
                ModelError::new(
                    FailureClass::InvalidRequest,
                    format!("the output schema is not one: {error}"),
                )
            })?;
            request.output_schema = Some(parsed);
        }
        // The library holds a schema back beside tools until a result has come; said here it is sent at once.
        WireKind::OpenaiChat => {
            let format = match facts.preset.schema {
                ChatSchema::Schema => json!({"type": "json_schema", "json_schema": {
                    "name": wanted.get("title").and_then(Value::as_str).map_or_else(|| "answer".to_owned(), name_of),
                    "strict": schema::is_strict(wanted),
                    "schema": wanted,
                }}),
                ChatSchema::Object => json!({"type": "json_object"}),
            };
            body.insert("response_format".to_owned(), format);
        }
    }
    Ok(())
}

/// A schema's title as the name that the provider wants: letters, digits, `_` and `-`.
fn name_of(title: &str) -> String {
    let legal = |c: char| if c.is_ascii_alphanumeric() || c == '-' { c } else { '_' };
    title.chars().map(legal).take(64).collect()
}
