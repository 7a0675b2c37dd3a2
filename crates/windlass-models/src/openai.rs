//! The options that the models of OpenAI and xAI accept, for both wires that serve them.
//!
//! If a model is not in the table, its name decides.

use serde_json::{Map, Value, json};
use windlass_engine::port::model::ModelError;

use crate::settings::{self, Facts, Mapping, Options, Thinking};
use crate::table::{self, Level, ModelSpec, Sampling};

const NO_LEVEL: Mapping = Mapping::Refused("the model does not support this level");
const NO_BUDGET: Mapping = Mapping::Refused("the endpoint supports a reasoning level, not a token budget");
const NO_REASONING: Mapping = Mapping::Refused("the model does not support reasoning");
const ALWAYS_ON: Mapping = Mapping::Refused("the model cannot turn reasoning off");

/// Returns the row of a model, also for a name with a vendor prefix or a snapshot suffix.
fn spec(model: &str) -> Option<ModelSpec> {
    table::find("openai", model.rsplit('/').next().unwrap_or(model))
}

/// Whether a model reasons. Returns `None` if neither table nor name reveals it, as for a deployment.
pub(crate) fn reasons(model: &str) -> Option<bool> {
    match spec(model) {
        Some(spec) => Some(spec.reasoning.supported),
        None if is_named_reasoning(model) => Some(true),
        None => generation(model).map(|_| false),
    }
}

/// Encodes reasoning for a model of OpenAI. `effort` encodes a level.
pub(crate) fn reasoning(
    model: &str,
    thinking: Thinking,
    can_disable: fn(&str) -> bool,
    effort: fn(&str) -> Value,
) -> Mapping {
    let spec = spec(model);
    match thinking {
        Thinking::Budget(_) => NO_BUDGET,
        Thinking::Off if reasons(model) == Some(false) => Mapping::Nothing,
        Thinking::Level(_) if reasons(model) == Some(false) => NO_REASONING,
        Thinking::Off => match spec {
            Some(spec) if !spec.reasoning.can_disable => ALWAYS_ON,
            None if !can_disable(model) => ALWAYS_ON,
            Some(_) | None => Mapping::Fields(effort("none")),
        },
        Thinking::Level(level) if spec.is_some_and(|spec| !spec.reasoning.levels.contains(level)) => NO_LEVEL,
        Thinking::Level(level) => Mapping::Fields(effort(level.as_str())),
    }
}

/// Whether an unknown model can turn reasoning off in chat completions.
pub(crate) fn chat_can_disable(model: &str) -> bool {
    let name = model.rsplit('/').next().unwrap_or(model);
    let is_5_0 = name == "gpt-5" || name.starts_with("gpt-5-");
    reasons(model) != Some(true) || !(is_o_series(name) || is_pro(name) || is_5_0)
}

/// Whether an unknown model can turn reasoning off in responses.
pub(crate) fn responses_can_disable(model: &str) -> bool {
    let name = model.rsplit('/').next().unwrap_or(model);
    let is_o = reasons(model) == Some(true) && generation(model).is_none();
    let always_on = ["gpt-6-astra", "gpt-6.1-sol"].iter().any(|family| name.starts_with(family));
    !(is_o || is_pro(name) || generation(model) == Some((5, 0)) || always_on)
}

/// Encodes reasoning for a model of xAI.
pub(crate) fn xai_reasoning(model: &str, thinking: Thinking, effort: fn(&str) -> Value) -> Mapping {
    let spec = table::find("xai", model);
    let reasons = spec.map_or(!model.contains("non-reasoning"), |spec| spec.reasoning.supported);
    match thinking {
        Thinking::Off if spec.is_some_and(|spec| spec.reasoning.can_disable) => {
            Mapping::Fields(effort("none"))
        }
        Thinking::Off if reasons => ALWAYS_ON,
        Thinking::Off => Mapping::Nothing,
        Thinking::Level(Level::Minimal | Level::Max) => NO_LEVEL,
        Thinking::Level(level) if spec.is_some_and(|spec| !spec.reasoning.levels.contains(level)) => NO_LEVEL,
        Thinking::Level(level) => Mapping::Fields(effort(level.as_str())),
        Thinking::Budget(_) => NO_BUDGET,
    }
}

/// Encodes reasoning for a model behind OpenRouter, on both wires.
pub(crate) fn openrouter_reasoning(model: &str, thinking: Thinking) -> Mapping {
    let takes_level_only = model.starts_with("openai/") || model.starts_with("x-ai/");
    match thinking {
        Thinking::Off => match table::find("openrouter", model).map(|spec| spec.reasoning) {
            // A row without any option carries no information.
            Some(takes)
                if takes.supported
                    && !takes.can_disable
                    && (!takes.levels.is_empty() || takes.budget.is_some()) =>
            {
                ALWAYS_ON
            }
            Some(_) | None => Mapping::Fields(json!({"reasoning": {"effort": "none"}})),
        },
        Thinking::Level(level) => Mapping::Fields(json!({"reasoning": {"effort": level.as_str()}})),
        Thinking::Budget(_) if takes_level_only => NO_BUDGET,
        Thinking::Budget(tokens) => Mapping::Fields(json!({"reasoning": {"max_tokens": tokens}})),
    }
}

/// Removes the temperature from the body if an OpenAI model rejects one while it reasons, behind any endpoint. `effort`
/// is the body's reasoning setting.
pub(crate) fn drop_temperature(
    body: &mut Map<String, Value>,
    model: &str,
    options: &Options,
    effort: Option<&str>,
    facts: &Facts<'_>,
) -> Result<(), ModelError> {
    let Some(spec) = table::find("openai", model) else { return Ok(()) };
    let reasons = effort.map_or(spec.reasoning.on_by_default, |effort| effort != "none");
    if options.temperature.is_none() || !reasons || spec.sampling != Some(Sampling::ReasoningOff) {
        return Ok(());
    }
    if !facts.lenient {
        return Err(settings::refused(facts, "temperature", "it cannot be combined with reasoning"));
    }
    body.shift_remove("temperature");
    Ok(())
}

/// Whether a model of OpenAI reads images.
pub(crate) fn reads_images(model: &str) -> bool {
    const TEXT_ONLY: [&str; 9] = [
        "gpt-3.5",
        "gpt-4-32k",
        "gpt-4-0125-preview",
        "gpt-4-1106-preview",
        "gpt-4-turbo-preview",
        "o1-mini",
        "o1-preview",
        "o3-mini",
        "gpt-5.3-codex-spark",
    ];
    table::find("openai", model).map_or_else(
        || {
            let name = model.to_ascii_lowercase();
            !(matches!(name.as_str(), "gpt-4" | "gpt-4-0613" | "gpt-4-0314")
                || TEXT_ONLY.iter().any(|family| name.starts_with(family)))
        },
        |spec| spec.images,
    )
}

/// Whether a model of xAI reads images.
pub(crate) fn xai_reads_images(model: &str) -> bool {
    table::find("xai", model).map_or_else(
        || {
            let name = model.to_ascii_lowercase();
            let is_blind = name.starts_with("grok-2") && !name.contains("vision");
            !(is_blind || name.starts_with("grok-3") || name.starts_with("grok-code"))
        },
        |spec| spec.images,
    )
}

/// Returns the generation in a model's name: 5.5 for `gpt-5.5-pro`.
fn generation(model: &str) -> Option<(u32, u32)> {
    let rest = model.rsplit('/').next().unwrap_or(model).strip_prefix("gpt-")?;
    let digits = |text: &str| text.find(|c: char| !c.is_ascii_digit()).unwrap_or(text.len());
    let (major, rest) = rest.split_at(digits(rest));
    let minor = rest.strip_prefix('.').map(|rest| rest[..digits(rest)].parse().unwrap_or(0));
    Some((major.parse().ok()?, minor.unwrap_or(0)))
}

/// Whether a name belongs to GPT-5 or later, or to the o-series.
fn is_named_reasoning(model: &str) -> bool {
    let name = model.rsplit('/').next().unwrap_or(model);
    let major = name.strip_prefix("gpt-").and_then(|rest| rest.split(['.', '-']).next());
    let is_gpt = major.filter(|major| major.len() == 1).and_then(|major| major.parse::<u32>().ok());
    is_gpt.is_some_and(|major| major >= 5) || is_o_series(name)
}

fn is_o_series(name: &str) -> bool {
    let mut chars = name.chars();
    chars.next() == Some('o')
        && chars.next().is_some_and(|digit| digit.is_ascii_digit())
        && chars.next().is_none_or(|next| next == '-' || next.is_ascii_digit())
}

fn is_pro(name: &str) -> bool {
    name.ends_with("-pro") || name.contains("-pro-")
}
