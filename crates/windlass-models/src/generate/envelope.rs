//! The fields of a Gemini request other than its contents.
//!
//! The instructions depend on the history, so these fields do not include them.

use serde_json::{Map, Value, json};
use windlass_engine::port::model::{ModelCall, ModelError};

use crate::envelope::{Envelope, with_tools};
use crate::generate::{GenerateWire, major};
use crate::schema;
use crate::settings::{self, Facts, Mapping, Thinking};
use crate::table::{self, Level, Levels};

const ALWAYS_ON: Mapping = Mapping::Refused("the model cannot turn thinking off");
const NO_LEVEL: Mapping = Mapping::Refused("the model does not support this level");

/// Encodes the fields.
pub(super) fn encode(
    wire: &GenerateWire,
    call: &ModelCall,
    facts: &Facts<'_>,
    extra_body: &Map<String, Value>,
) -> Result<Envelope, ModelError> {
    let settings = &call.request.settings;
    let options = settings::fit(settings, facts);
    let mut extra_body = extra_body.clone();
    let declared: Vec<Value> = call
        .tools
        .iter()
        .map(|tool| {
            json!({"name": tool.name.as_str(), "description": tool.description,
            "parametersJsonSchema": schema::for_gemini(&tool.input_schema)})
        })
        .collect();
    let declared =
        if declared.is_empty() { Vec::new() } else { vec![json!({ "functionDeclarations": declared })] };
    let tools = with_tools(declared, &mut extra_body)?;
    // Models before Gemini 3 accept either tools or a schema.
    let wanted = settings
        .output_schema
        .as_ref()
        .filter(|_| !facts.tools || major(&wire.model).is_none_or(|major| major >= 3));
    let typed = [
        ("responseMimeType", wanted.map(|_| "application/json".into())),
        ("responseJsonSchema", wanted.cloned()),
        ("temperature", options.temperature.map(Value::from)),
        ("maxOutputTokens", options.max_output_tokens.map(Value::from)),
    ];
    let config: Map<String, Value> =
        typed.into_iter().filter_map(|(key, value)| Some((key.to_owned(), value?))).collect();
    let mut body = Map::new();
    body.insert("contents".to_owned(), Value::Null);
    body.insert("generationConfig".to_owned(), Value::Object(config));
    if facts.tools {
        // Sent explicitly, because gateways have different defaults. (SK-L2)
        body.insert("toolConfig".to_owned(), json!({"functionCallingConfig": {"mode": "AUTO"}}));
    }
    if !tools.is_empty() {
        body.insert("tools".to_owned(), Value::Array(tools));
    }
    if let Some(wanted) = options.thinking {
        thinking(&wire.model, wanted).apply(&mut body, facts)?;
        if options.thinks() {
            settings::merge(&mut body, config_of(json!({"includeThoughts": true})));
        }
    }
    settings::merge(&mut body, extra_body);
    if body["generationConfig"].as_object().is_some_and(Map::is_empty) {
        body.shift_remove("generationConfig");
    }
    Ok(Envelope::new(wire.head.clone(), &body, "contents", options.thinks()))
}

fn config_of(thinking: Value) -> Map<String, Value> {
    Map::from_iter([("generationConfig".to_owned(), json!({ "thinkingConfig": thinking }))])
}

/// The thinking settings that a model accepts.
enum Takes {
    Levels { levels: Levels, can_disable: bool },
    Budget { min: u32, max: u32, can_disable: bool },
    None,
    Unknown,
}

/// Encodes the thinking setting for a model.
fn thinking(model: &str, wanted: Thinking) -> Mapping {
    let fields = |thinking: Value| Mapping::Fields(Value::Object(config_of(thinking)));
    match (wanted, takes(model)) {
        (Thinking::Off, Takes::Budget { can_disable: true, .. }) => fields(json!({"thinkingBudget": 0})),
        (Thinking::Off, Takes::Levels { can_disable: true, .. }) => {
            fields(json!({"thinkingLevel": "minimal"}))
        }
        (Thinking::Off, Takes::None) => Mapping::Nothing,
        (Thinking::Off, _) => ALWAYS_ON,
        (Thinking::Level(Level::XHigh | Level::Max), _) => NO_LEVEL,
        (Thinking::Level(level), Takes::Levels { levels, .. }) if !levels.contains(level) => NO_LEVEL,
        (Thinking::Level(level), Takes::Levels { .. } | Takes::Unknown) => {
            fields(json!({"thinkingLevel": level.as_str()}))
        }
        (Thinking::Level(_), Takes::Budget { .. }) => {
            Mapping::Refused("the model supports a token budget, not a reasoning level")
        }
        (_, Takes::None) => Mapping::Refused("the model does not support thinking"),
        (Thinking::Budget(tokens), Takes::Budget { min, max, .. }) if !(min..=max).contains(&tokens) => {
            Mapping::Refused("the budget is outside the model's range")
        }
        (Thinking::Budget(tokens), Takes::Budget { .. } | Takes::Unknown) => {
            fields(json!({"thinkingBudget": tokens}))
        }
        (Thinking::Budget(_), Takes::Levels { .. }) => {
            Mapping::Refused("the model supports a reasoning level, not a token budget")
        }
    }
}

/// Returns the settings in the table's row for a model or its base version; otherwise those of its family.
fn takes(model: &str) -> Takes {
    let name = model.to_ascii_lowercase();
    let name = name.strip_prefix("models/").unwrap_or(&name);
    let find = |name: &str| table::find("gcp.gemini", name);
    let Some(spec) = find(name).or_else(|| find(versioned(name)?)) else { return by_family(name) };
    let reasoning = spec.reasoning;
    match reasoning.budget {
        _ if !reasoning.supported => Takes::None,
        Some((min, max)) if reasoning.levels.is_empty() => {
            Takes::Budget { min, max, can_disable: reasoning.can_disable }
        }
        _ => Takes::Levels { levels: reasoning.levels, can_disable: reasoning.can_disable },
    }
}

/// Returns the settings of a model that is not in the table, such as `gemini-2.5-flash-latest`.
fn by_family(name: &str) -> Takes {
    const LOW_TO_HIGH: &[Level] = &[Level::Low, Level::Medium, Level::High];
    const MINIMAL_TO_HIGH: &[Level] = &[Level::Minimal, Level::Low, Level::Medium, Level::High];
    let levels: [(&str, &[Level]); 10] = [
        ("gemini-3.8-flash", LOW_TO_HIGH),
        ("gemini-3.7-flash", LOW_TO_HIGH),
        ("gemini-3.6-flash", MINIMAL_TO_HIGH),
        ("gemini-3.5-flash-lite", MINIMAL_TO_HIGH),
        ("gemini-3.5-flash", MINIMAL_TO_HIGH),
        ("gemini-3.1-pro", LOW_TO_HIGH),
        ("gemini-3.1-flash-lite", MINIMAL_TO_HIGH),
        ("gemini-3-flash-preview", MINIMAL_TO_HIGH),
        ("gemini-3-pro-preview", &[Level::Low, Level::High]),
        ("gemini-3-pro", &[Level::Low, Level::High]),
    ];
    if let Some((_, levels)) = levels.iter().find(|(family, _)| name.starts_with(family)) {
        return Takes::Levels { levels: Levels::of(levels), can_disable: false };
    }
    let budgets = [
        ("gemini-2.5-flash-lite", 512, 24_576, true),
        ("gemini-2.5-flash", 0, 24_576, true),
        ("gemini-2.5-pro", 128, 32_768, false),
    ];
    if let Some((_, min, max, can_disable)) =
        budgets.into_iter().find(|(family, ..)| name.starts_with(family))
    {
        return Takes::Budget { min, max, can_disable };
    }
    match major(name) {
        Some(major) if major < 2 || name.starts_with("gemini-2.0") => Takes::None,
        _ => Takes::Unknown,
    }
}

/// Returns the name without its revision, as in `gemini-2.0-flash-001` or `gemini-2.5-flash-preview-09-2025`.
fn versioned(name: &str) -> Option<&str> {
    if let Some((base, revision)) = name.rsplit_once('-')
        && revision.len() == 3
        && revision.bytes().all(|byte| byte.is_ascii_digit())
    {
        return Some(base);
    }
    let tags = ["-preview", "-exp"].iter().filter_map(|tag| name.find(tag));
    tags.map(|at| &name[..at]).find(|base| !base.is_empty())
}
