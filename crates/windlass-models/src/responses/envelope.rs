//! The fields of a responses request other than its input.
//!
//! The instructions depend on the history, so these fields do not include them.

use serde_json::{Map, Value, json};
use windlass_engine::port::model::{ModelCall, ModelError};

use crate::envelope::{Envelope, with_tools};
use crate::openai;
use crate::provider::preset::Preset;
use crate::responses::ResponsesWire;
use crate::schema;
use crate::settings::{self, Facts, Mapping, Thinking};

/// Encodes the fields.
pub(super) fn encode(
    wire: &ResponsesWire,
    call: &ModelCall,
    facts: &Facts<'_>,
    extra_body: &Map<String, Value>,
) -> Result<Envelope, ModelError> {
    let settings = &call.request.settings;
    let options = settings::fit(settings, facts);
    let mut extra_body = extra_body.clone();
    let tools = with_tools(tools(call), &mut extra_body)?;
    let mut body = Map::new();
    body.insert("model".to_owned(), wire.model.as_str().into());
    body.insert("input".to_owned(), Value::Null);
    let fields = [
        ("max_output_tokens", options.max_output_tokens.map(Value::from)),
        ("temperature", options.temperature.map(Value::from)),
        // Sent explicitly, because gateways have different defaults. (SK-L2)
        ("tool_choice", facts.tools.then(|| "auto".into())),
        ("tools", (!tools.is_empty()).then_some(Value::Array(tools))),
        ("text", settings.output_schema.as_ref().map(format)),
    ];
    body.extend(fields.into_iter().filter_map(|(key, value)| Some((key.to_owned(), value?))));
    if let Some(thinking) = options.thinking {
        reasoning(facts.preset, &wire.model, thinking).apply(&mut body, facts)?;
    }
    // By default, the provider stores a copy of every request and reply.
    body.insert("store".to_owned(), false.into());
    settings::merge(&mut body, extra_body);
    body.insert("stream".to_owned(), true.into());
    // Without a stored copy, reasoning can be sent back only with its encrypted content.
    if body.contains_key("reasoning") || body["store"] == false {
        include(&mut body, "reasoning.encrypted_content");
    }
    let effort =
        body.get("reasoning").and_then(|reasoning| reasoning.get("effort")?.as_str()).map(str::to_owned);
    openai::drop_temperature(&mut body, &wire.model, &options, effort.as_deref(), facts)?;
    Ok(Envelope::new(wire.head.clone(), &body, "input", options.thinks()))
}

fn tools(call: &ModelCall) -> Vec<Value> {
    let tools = call.tools.iter().map(|tool| {
        let mut declared = json!({"type": "function", "name": tool.name.as_str(), "parameters": tool.input_schema,
            "strict": false});
        if !tool.description.is_empty()
            && let Value::Object(fields) = &mut declared
        {
            fields.insert("description".to_owned(), tool.description.as_str().into());
        }
        declared
    });
    tools.collect()
}

fn format(wanted: &Value) -> Value {
    let name = wanted.get("title").and_then(Value::as_str);
    json!({"format": {"type": "json_schema", "name": name.map_or_else(|| "answer".to_owned(), schema::name_of),
        "schema": schema::for_openai(wanted), "strict": true}})
}

/// Encodes reasoning for the endpoint.
fn reasoning(preset: &Preset, model: &str, thinking: Thinking) -> Mapping {
    fn effort(word: &str) -> Value {
        json!({"reasoning": {"effort": word}})
    }
    match preset.dialect {
        Some("openai") => openai::reasoning(model, thinking, openai::responses_can_disable, effort),
        Some("xai") => openai::xai_reasoning(model, thinking, effort),
        Some("openrouter") => openai::openrouter_reasoning(model, thinking),
        Some(_) if preset.cloud.is_none() => {
            Mapping::Refused("the provider does not document this setting for the Responses API")
        }
        // The fields that most endpoints copy.
        Some(_) | None => match thinking {
            Thinking::Level(level) => Mapping::Fields(effort(level.as_str())),
            Thinking::Off | Thinking::Budget(_) => Mapping::Nothing,
        },
    }
}

fn include(body: &mut Map<String, Value>, wanted: &str) {
    let mut included = match body.shift_remove("include") {
        Some(Value::Array(included)) => included,
        _ => Vec::new(),
    };
    if !included.iter().any(|known| known == wanted) {
        included.push(wanted.into());
    }
    body.insert("include".to_owned(), Value::Array(included));
}
