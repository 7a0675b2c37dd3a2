//! Encodes the reasoning setting for each chat endpoint.
//!
//! An endpoint that is not listed gets OpenAI's field, which most endpoints copy.

use serde_json::{Value, json};

use crate::openai;
use crate::provider::preset::{AZURE_API_VERSION, Preset};
use crate::settings::{Mapping, Thinking};
use crate::table::{self, Level, ReasoningSpec};

const NO_LEVEL: Mapping = Mapping::Refused("the model does not support this level");
const NO_BUDGET: Mapping = Mapping::Refused("the endpoint supports a reasoning level, not a token budget");
const ALWAYS_ON: Mapping = Mapping::Refused("the model cannot turn reasoning off");

/// Returns the reasoning fields for a model. `api_version` is that of an Azure deployment.
pub(super) fn reasoning(
    preset: &Preset,
    api_version: Option<&str>,
    model: &str,
    thinking: Thinking,
) -> Mapping {
    match preset.dialect {
        // A cloud's endpoint uses OpenAI's field.
        _ if preset.cloud.is_some() => copied(thinking),
        Some("openai") => openai::reasoning(model, thinking, openai::chat_can_disable, effort),
        Some("azure.openai") => azure(api_version, model, thinking),
        Some("openrouter") => openai::openrouter_reasoning(model, thinking),
        Some("xai") => openai::xai_reasoning(model, thinking, effort),
        Some("deepseek") => deepseek(thinking),
        Some(dialect @ ("mistral" | "venice")) => listed(dialect, model, thinking),
        Some("groq") => groq(model, thinking),
        Some("together") => together(thinking),
        Some("moonshot") => moonshot(model, thinking),
        Some("zai") => zai(model, thinking),
        Some("llamacpp" | "ollama") => local(thinking),
        Some("cohere") => cohere(model, thinking),
        Some("perplexity") => perplexity(model, thinking),
        Some("minimax") => minimax(model, thinking),
        Some("xiaomimimo") => match thinking {
            Thinking::Off => thinking_type("disabled"),
            Thinking::Level(_) | Thinking::Budget(_) => NO_LEVEL,
        },
        Some("huggingface" | "hyperbolic" | "doubleword") => {
            Mapping::Refused("the provider does not document this setting")
        }
        Some(_) | None => copied(thinking),
    }
}

fn effort(word: &str) -> Value {
    json!({ "reasoning_effort": word })
}

fn thinking_type(kind: &str) -> Mapping {
    Mapping::Fields(json!({"thinking": {"type": kind}}))
}

fn level(level: Level) -> Mapping {
    Mapping::Fields(effort(level.as_str()))
}

/// Encodes reasoning for an endpoint that copies OpenAI's field. That field cannot express "off" or a budget.
fn copied(thinking: Thinking) -> Mapping {
    match thinking {
        Thinking::Level(wanted) => level(wanted),
        Thinking::Off | Thinking::Budget(_) => Mapping::Nothing,
    }
}

fn azure(api_version: Option<&str>, model: &str, thinking: Thinking) -> Mapping {
    // Azure added the field after this version.
    if api_version.is_some_and(|version| version <= AZURE_API_VERSION) {
        return Mapping::Refused("the API version is too old for this setting");
    }
    match thinking {
        Thinking::Level(Level::Max) if openai::reasons(model) != Some(false) => NO_LEVEL,
        thinking => openai::reasoning(model, thinking, openai::chat_can_disable, effort),
    }
}

fn deepseek(thinking: Thinking) -> Mapping {
    match thinking {
        Thinking::Off => thinking_type("disabled"),
        Thinking::Level(level @ (Level::Low | Level::High | Level::Max)) => enabled(level),
        Thinking::Level(_) => NO_LEVEL,
        Thinking::Budget(_) => NO_BUDGET,
    }
}

fn enabled(level: Level) -> Mapping {
    Mapping::Fields(json!({"thinking": {"type": "enabled"}, "reasoning_effort": level.as_str()}))
}

/// Encodes reasoning for an endpoint whose rows in the table list the supported options.
fn listed(dialect: &str, model: &str, thinking: Thinking) -> Mapping {
    let row = table::find(dialect, model).map(|spec| spec.reasoning);
    // A row without any option carries no information.
    let has_options =
        |takes: &ReasoningSpec| !takes.levels.is_empty() || takes.budget.is_some() || takes.can_disable;
    let takes = row.filter(|takes| !takes.supported || has_options(takes));
    match (thinking, takes) {
        (Thinking::Budget(_), _) => NO_BUDGET,
        (Thinking::Off, Some(takes)) if takes.supported && !takes.can_disable => ALWAYS_ON,
        (Thinking::Off, _) => Mapping::Fields(effort("none")),
        (Thinking::Level(wanted), Some(takes)) if !takes.supported || !takes.levels.contains(wanted) => {
            NO_LEVEL
        }
        (Thinking::Level(wanted), _) => level(wanted),
    }
}

fn groq(model: &str, thinking: Thinking) -> Mapping {
    let is_unlisted = table::find("groq", model).is_none();
    if thinking == Thinking::Off && model.contains("gpt-oss") && is_unlisted {
        return ALWAYS_ON;
    }
    listed("groq", model, thinking)
}

fn together(thinking: Thinking) -> Mapping {
    match thinking {
        Thinking::Off => Mapping::Fields(json!({"reasoning": {"enabled": false}})),
        Thinking::Level(level @ (Level::Low | Level::Medium | Level::High)) => {
            Mapping::Fields(json!({"reasoning": {"enabled": true}, "reasoning_effort": level.as_str()}))
        }
        Thinking::Level(_) => NO_LEVEL,
        Thinking::Budget(_) => NO_BUDGET,
    }
}

fn moonshot(model: &str, thinking: Thinking) -> Mapping {
    let name = model.rsplit('/').next().unwrap_or(model);
    match thinking {
        Thinking::Off if name.starts_with("kimi-k2.6") => thinking_type("disabled"),
        Thinking::Off => ALWAYS_ON,
        Thinking::Level(wanted @ (Level::Low | Level::High | Level::Max)) if name.starts_with("kimi-k3") => {
            level(wanted)
        }
        Thinking::Level(_) => NO_LEVEL,
        Thinking::Budget(_) => NO_BUDGET,
    }
}

fn zai(model: &str, thinking: Thinking) -> Mapping {
    match thinking {
        Thinking::Off => thinking_type("disabled"),
        // GLM 4 can only switch thinking on and off.
        Thinking::Level(level @ (Level::Low | Level::High | Level::Max)) if !model.starts_with("glm-4") => {
            enabled(level)
        }
        Thinking::Level(_) => NO_LEVEL,
        Thinking::Budget(_) => NO_BUDGET,
    }
}

fn local(thinking: Thinking) -> Mapping {
    match thinking {
        Thinking::Off => Mapping::Fields(effort("none")),
        Thinking::Level(wanted) => level(wanted),
        Thinking::Budget(_) => NO_BUDGET,
    }
}

fn cohere(model: &str, thinking: Thinking) -> Mapping {
    let is_plain = table::find("cohere", model).is_some_and(|spec| !spec.reasoning.supported);
    match thinking {
        Thinking::Off => Mapping::Fields(effort("none")),
        Thinking::Level(Level::High) if !is_plain => level(Level::High),
        Thinking::Level(_) => NO_LEVEL,
        Thinking::Budget(_) => NO_BUDGET,
    }
}

fn perplexity(model: &str, thinking: Thinking) -> Mapping {
    match thinking {
        Thinking::Level(wanted @ (Level::Low | Level::Medium | Level::High))
            if model.starts_with("sonar-deep-research") =>
        {
            level(wanted)
        }
        Thinking::Off | Thinking::Level(_) | Thinking::Budget(_) => NO_LEVEL,
    }
}

fn minimax(model: &str, thinking: Thinking) -> Mapping {
    let name = model.to_ascii_lowercase();
    let is_flash = name.starts_with("minimax-m3.1");
    match thinking {
        Thinking::Off if !is_flash && name.starts_with("minimax-m3") => thinking_type("disabled"),
        Thinking::Off => ALWAYS_ON,
        Thinking::Level(level) if is_flash && level != Level::Minimal => {
            Mapping::Fields(json!({"thinking": {"type": "adaptive"}, "reasoning_effort": level.as_str()}))
        }
        Thinking::Level(_) => NO_LEVEL,
        Thinking::Budget(_) => NO_BUDGET,
    }
}
