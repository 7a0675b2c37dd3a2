//! Converts settings to the library's form.
//!
//! `settings.rs` determines which settings a model accepts.

use rig_core::completion::{
    CompletionRequest, Effort as RigEffort, OnUnsupported, Reasoning as RigReasoning,
};
use serde_json::{Map, Value, json};
use windlass_engine::port::model::ModelError;
use windlass_machine::{FailureClass, ModelSettings};

use crate::config::WireKind;
use crate::provider::preset::ChatSchema;
use crate::schema::{self, name_of};
use crate::settings::{self, BUDGET_OUTPUT_MIN_TOKENS, Facts, Thinking, budget_of};
use crate::table::Level;

/// Whether the library maps the options itself. It does so for endpoints that it knows.
fn library_maps_reasoning(facts: &Facts<'_>) -> bool {
    match facts.kind {
        WireKind::Anthropic => facts.preset.dialect == Some("anthropic"),
        WireKind::Gemini | WireKind::Converse => true,
        WireKind::OpenaiChat | WireKind::OpenaiResponses => {
            facts.preset.dialect.is_some() && facts.preset.cloud.is_none()
        }
    }
}

fn library_reasoning(thinking: Thinking) -> RigReasoning {
    match thinking {
        Thinking::Off => RigReasoning::Off,
        Thinking::Level(level) => RigReasoning::Effort(match level {
            Level::Minimal => RigEffort::Minimal,
            Level::Low => RigEffort::Low,
            Level::Medium => RigEffort::Medium,
            Level::High => RigEffort::High,
            Level::XHigh => RigEffort::XHigh,
            Level::Max => RigEffort::Max,
        }),
        Thinking::Budget(tokens) => RigReasoning::Budget { tokens },
    }
}

fn level(effort: RigEffort) -> Level {
    match effort {
        RigEffort::Minimal => Level::Minimal,
        RigEffort::Low => Level::Low,
        RigEffort::Medium => Level::Medium,
        // The library's enum is non-exhaustive.
        _ => Level::High,
    }
}

/// Applies the settings to a request. Returns whether the model reasons in this call.
pub(crate) fn apply(
    request: &mut CompletionRequest,
    settings: &ModelSettings,
    facts: &Facts<'_>,
    extra_body: &Map<String, Value>,
) -> Result<bool, ModelError> {
    let mut body = Map::new();
    let options = settings::fit(settings, facts);
    let reasoning = options.thinking.map(library_reasoning);
    request.temperature = options.temperature;
    request.max_tokens = options.max_output_tokens;
    request.accept_unknown_finish_reasons = facts.lenient;
    if facts.lenient {
        request.options = std::mem::take(&mut request.options).on_unsupported(OnUnsupported::Ignore);
    }
    if library_maps_reasoning(facts) {
        if let Some(reasoning) = reasoning {
            request.options = std::mem::take(&mut request.options).reasoning(reasoning);
        }
    } else {
        map_reasoning(request, &mut body, reasoning, facts);
    }
    if facts.kind == WireKind::Gemini && options.thinks() {
        body.insert("generationConfig".to_owned(), json!({"thinkingConfig": {"includeThoughts": true}}));
    }
    if facts.kind == WireKind::OpenaiResponses {
        // By default, the provider stores a copy of every request and reply.
        body.insert("store".to_owned(), Value::Bool(false));
    }
    if let Some(wanted) = &settings.output_schema {
        output_schema(request, &mut body, wanted, facts)?;
    }
    for (key, value) in extra_body {
        body.insert(key.clone(), value.clone());
    }
    request.additional_params = (!body.is_empty()).then_some(Value::Object(body));
    Ok(options.thinks())
}

/// Encodes reasoning for an endpoint that the library does not know, with the fields that most endpoints copy.
fn map_reasoning(
    request: &mut CompletionRequest,
    body: &mut Map<String, Value>,
    reasoning: Option<RigReasoning>,
    facts: &Facts<'_>,
) {
    match (facts.kind, reasoning) {
        (WireKind::Anthropic, Some(wanted)) => {
            // In a cloud, the name identifies the maker's model. Behind another
            // endpoint, the name may identify any model.
            let claude = facts.spec.filter(|_| facts.preset.cloud.is_some());
            let levels = claude.filter(|spec| !spec.reasoning.levels.is_empty());
            let budget = match (wanted, levels) {
                (RigReasoning::Budget { tokens }, _) => tokens,
                // Newer Claude models accept a level.
                (RigReasoning::Effort(effort), Some(spec)) => {
                    if spec.adaptive_thinking {
                        body.insert("thinking".to_owned(), json!({"type": "adaptive"}));
                    }
                    body.insert("output_config".to_owned(), json!({"effort": effort.as_str()}));
                    return;
                }
                (RigReasoning::Effort(effort), None) => budget_of(level(effort)),
                (RigReasoning::Off, _) => {
                    if let Some(spec) = claude.filter(|spec| spec.reasoning.can_disable) {
                        let off = if spec.thinks_between_tools { "between_tools" } else { "disabled" };
                        body.insert("thinking".to_owned(), json!({"type": off}));
                    }
                    return;
                }
                // The library's enum is non-exhaustive.
                (_, _) => return,
            };
            body.insert("thinking".to_owned(), json!({"type": "enabled", "budget_tokens": budget}));
            // A known model has a separate cap, far above this one.
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

fn output_schema(
    request: &mut CompletionRequest,
    body: &mut Map<String, Value>,
    wanted: &Value,
    facts: &Facts<'_>,
) -> Result<(), ModelError> {
    // Models before Gemini 3 accept either tools or a schema.
    let gemini_3 = request.model.as_deref().is_none_or(|model| {
        !["gemini-1", "gemini-2"].iter().any(|old| model.trim_start_matches("models/").starts_with(old))
    });
    match facts.kind {
        WireKind::Gemini if facts.tools && !gemini_3 => {}
        WireKind::Anthropic | WireKind::OpenaiResponses | WireKind::Gemini | WireKind::Converse => {
            let parsed = rig_core::schemars::Schema::try_from(wanted.clone()).map_err(|error| {
                ModelError::new(
                    FailureClass::InvalidRequest,
                    format!("the output schema is not valid: {error}"),
                )
            })?;
            request.output_schema = Some(parsed);
        }
        // The library delays a schema until a tool result has
        // arrived. A schema in this field is sent at once.
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
