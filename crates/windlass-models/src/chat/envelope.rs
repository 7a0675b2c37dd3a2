//! The fields of a chat request other than its messages, and its URL.
//!
//! These fields do not depend on the history.

use serde_json::{Map, Value, json};
use windlass_engine::port::model::{ModelCall, ModelError};

use crate::chat::{ChatWire, options};
use crate::envelope::{Envelope, with_tools};
use crate::openai;
use crate::provider::endpoint::Endpoint;
use crate::provider::preset::ChatSchema;
use crate::schema;
use crate::settings::{self, Facts};

/// Encodes the fields.
pub(super) fn encode(
    wire: &ChatWire,
    call: &ModelCall,
    facts: &Facts<'_>,
    extra_body: &Map<String, Value>,
) -> Result<Envelope, ModelError> {
    let settings = &call.request.settings;
    let options = settings::fit(settings, facts);
    let mut extra_body = extra_body.clone();
    let offered = if wire.dialect.tools { tools(call) } else { Vec::new() };
    let tools = with_tools(offered, &mut extra_body)?;
    let mut body = Map::new();
    body.insert("model".to_owned(), wire.model.as_str().into());
    body.insert("messages".to_owned(), Value::Null);
    let fields = [
        ("tools", (!tools.is_empty()).then_some(Value::Array(tools))),
        // Sent explicitly, because gateways have different defaults. (SK-L2)
        ("tool_choice", (wire.dialect.tools && facts.tools).then(|| "auto".into())),
        ("temperature", options.temperature.map(Value::from)),
        (output_cap(wire, facts), options.max_output_tokens.map(Value::from)),
        (
            "response_format",
            settings.output_schema.as_ref().map(|wanted| format(wanted, facts.preset.schema)),
        ),
    ];
    body.extend(fields.into_iter().filter_map(|(key, value)| Some((key.to_owned(), value?))));
    if let Some(thinking) = options.thinking {
        let version = wire.api_version.as_deref();
        options::reasoning(facts.preset, version, &wire.model, thinking).apply(&mut body, facts)?;
    }
    settings::merge(&mut body, extra_body);
    if wire.dialect.stream_usage {
        let mut wanted = Map::from_iter([("include_usage".to_owned(), true.into())]);
        if let Some(Value::Object(own)) = body.shift_remove("stream_options") {
            settings::merge(&mut wanted, own);
        }
        body.insert("stream_options".to_owned(), Value::Object(wanted));
    }
    body.insert("stream".to_owned(), true.into());
    let effort = body.get("reasoning_effort").and_then(Value::as_str).map(str::to_owned);
    openai::drop_temperature(&mut body, &wire.model, &options, effort.as_deref(), facts)?;
    Ok(Envelope::new(wire.head.clone(), &body, "messages", options.thinks()))
}

fn tools(call: &ModelCall) -> Vec<Value> {
    let tools = call.tools.iter().map(|tool| {
        json!({"type": "function", "function": {"name": tool.name.as_str(), "description": tool.description,
            "parameters": tool.input_schema}})
    });
    tools.collect()
}

/// Returns the name of the field of the output cap. OpenAI's reasoning models
/// reject the field that all other models accept.
fn output_cap(wire: &ChatWire, facts: &Facts<'_>) -> &'static str {
    let is_openai = facts.preset.dialect == Some("openai") && !wire.model.contains('/');
    if is_openai && openai::reasons(&wire.model) == Some(true) {
        "max_completion_tokens"
    } else {
        "max_tokens"
    }
}

fn format(wanted: &Value, takes: ChatSchema) -> Value {
    let name = wanted.get("title").and_then(Value::as_str);
    match takes {
        ChatSchema::Schema => json!({"type": "json_schema", "json_schema": {
            "name": name.map_or_else(|| "answer".to_owned(), schema::name_of),
            "strict": schema::is_strict(wanted),
            "schema": wanted,
        }}),
        ChatSchema::Object => json!({"type": "json_object"}),
    }
}

/// Returns the URL of a model at an endpoint. Some presets omit `/v1`, although every path of the provider
/// contains it. An Azure URL includes the deployment.
pub(super) fn address(endpoint: &Endpoint, model: &str) -> String {
    let base = endpoint.base_url.as_deref().unwrap_or_default().trim_end_matches('/');
    if endpoint.preset.dialect == Some("azure.openai") {
        let version = endpoint.api_version.as_deref().unwrap_or_default();
        let deployment = model.trim_start_matches('/');
        return format!("{base}/openai/deployments/{deployment}/chat/completions?api-version={version}");
    }
    if endpoint.preset.versioned_paths && !base.ends_with("/v1") {
        format!("{base}/v1/chat/completions")
    } else {
        format!("{base}/chat/completions")
    }
}
