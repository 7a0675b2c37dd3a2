//! The fields of a messages request other than its messages.
//!
//! Fields that depend on the history (instructions, container) are not included.

use http::header::{HeaderName, HeaderValue};
use serde_json::{Map, Value, json};
use windlass_engine::port::model::{ModelCall, ModelError};

use crate::envelope::{Envelope, with_tools};
use crate::messages::MessagesWire;
use crate::schema;
use crate::settings::{self, Facts, Mapping, Thinking, budget_of};
use crate::table::{self, Level, ModelSpec};

/// Asks Anthropic to drop thinking that is bound to other tools or
/// instructions, instead of rejecting the request.
const BINDING_BETA: &str = "thinking-binding-controls-2026-08-01";

/// The protocol version in a Vertex body, where it replaces the header. On Vertex, the URL names the model.
const VERTEX_VERSION: &str = "vertex-2023-10-16";

const ALWAYS_ON: Mapping = Mapping::Refused("the model cannot turn thinking off");

/// Encodes the fields. `mark` is the cache mark of the call.
pub(super) fn encode(
    wire: &MessagesWire,
    call: &ModelCall,
    facts: &Facts<'_>,
    extra_body: &Map<String, Value>,
    mark: Option<&Value>,
) -> Result<Envelope, ModelError> {
    let settings = &call.request.settings;
    let options = settings::fit(settings, facts);
    let mut extra_body = extra_body.clone();
    let mut tools = with_tools(tools(call), &mut extra_body)?;
    mark_last(&mut tools, mark);
    let mut max_tokens = options.max_output_tokens.or(Some(wire.default_output_tokens));
    let mut thinking = Map::new();
    if let Some(wanted) = options.thinking {
        let mapping = if facts.preset.dialect == Some("anthropic") {
            claude(table::find_claude(&wire.model), wanted, max_tokens)
        } else {
            let (mapping, cap) = elsewhere(facts, wanted);
            max_tokens = options.max_output_tokens.or(cap).or(max_tokens);
            mapping
        };
        mapping.apply(&mut thinking, facts)?;
    }
    let mut body = Map::new();
    if wire.is_vertex {
        body.insert("anthropic_version".to_owned(), VERTEX_VERSION.into());
    } else {
        body.insert("model".to_owned(), wire.model.as_str().into());
    }
    body.insert("messages".to_owned(), Value::Null);
    let fields = [
        ("max_tokens", Some(max_tokens.unwrap_or(settings::UNKNOWN_MODEL_OUTPUT_TOKENS).into())),
        ("temperature", options.temperature.map(Value::from)),
        // Sent explicitly, because gateways have different defaults. (SK-L2)
        ("tool_choice", (!tools.is_empty()).then(|| json!({"type": "auto"}))),
        ("tools", (!tools.is_empty()).then_some(Value::Array(tools))),
        (
            "output_config",
            settings.output_schema.as_ref().map(
                |schema| json!({"format": {"type": "json_schema", "schema": schema::for_anthropic(schema)}}),
            ),
        ),
    ];
    body.extend(fields.into_iter().filter_map(|(key, value)| Some((key.to_owned(), value?))));
    settings::merge(&mut body, thinking);
    settings::merge(&mut body, extra_body);
    let mut head = wire.head.clone();
    let is_adaptive = is_adaptive(&body);
    if wire.binds_context && is_adaptive {
        drop_unbound_thinking(&mut body);
        let betas = head.headers.get("anthropic-beta").and_then(|betas| betas.to_str().ok());
        let betas = betas.map_or_else(|| BINDING_BETA.to_owned(), |betas| format!("{betas},{BINDING_BETA}"));
        if let Ok(betas) = HeaderValue::from_str(&betas) {
            head.headers.insert(HeaderName::from_static("anthropic-beta"), betas);
        }
    }
    body.insert("stream".to_owned(), true.into());
    Ok(Envelope::new(head, &body, "messages", is_adaptive || !wire.binds_context))
}

fn tools(call: &ModelCall) -> Vec<Value> {
    let tools = call.tools.iter().map(|tool| {
        json!({"name": tool.name.as_str(), "description": tool.description, "input_schema": tool.input_schema,
            "eager_input_streaming": true})
    });
    tools.collect()
}

/// Marks the end of the tools for the cache. (SK-C11)
fn mark_last(tools: &mut [Value], mark: Option<&Value>) {
    let is_loaded = |tool: &&mut Map<String, Value>| tool.get("defer_loading") != Some(&Value::Bool(true));
    let last = tools.iter_mut().filter_map(Value::as_object_mut).rfind(is_loaded);
    if let (Some(tool), Some(mark)) = (last, mark)
        && !tool.contains_key("cache_control")
    {
        tool.insert("cache_control".to_owned(), mark.clone());
    }
}

/// Encodes thinking for Anthropic. A model that is not in the table is treated like the newest.
fn claude(spec: Option<ModelSpec>, wanted: Thinking, max_tokens: Option<u64>) -> Mapping {
    match wanted {
        Thinking::Off => match spec {
            Some(spec) if !spec.reasoning.can_disable => ALWAYS_ON,
            spec => Mapping::Fields(json!({"thinking": {"type": off(spec)}})),
        },
        Thinking::Level(Level::Minimal) => Mapping::Refused("Claude does not support the level `minimal`"),
        Thinking::Level(level) => match spec {
            Some(spec) if !spec.reasoning.levels.contains(level) => {
                Mapping::Refused("the model does not support this level")
            }
            Some(spec) if !spec.adaptive_thinking => {
                Mapping::Fields(json!({"output_config": {"effort": level.as_str()}}))
            }
            Some(_) | None => Mapping::Fields(json!({"thinking": {"type": "adaptive"},
                "output_config": {"effort": level.as_str()}})),
        },
        Thinking::Budget(_) if spec.is_some_and(|spec| spec.reasoning.budget.is_none()) => {
            Mapping::Refused("the model supports a reasoning level, not a token budget")
        }
        Thinking::Budget(..1_024) => Mapping::Refused("the budget must be at least 1024 tokens"),
        Thinking::Budget(tokens) if max_tokens.is_some_and(|cap| u64::from(tokens) >= cap) => {
            Mapping::Refused("the budget must be below the output cap")
        }
        Thinking::Budget(tokens) => {
            Mapping::Fields(json!({"thinking": {"type": "enabled", "budget_tokens": tokens}}))
        }
    }
}

/// Encodes thinking for other endpoints. Also returns the output cap that a budget requires.
fn elsewhere(facts: &Facts<'_>, wanted: Thinking) -> (Mapping, Option<u64>) {
    // In a cloud, the name identifies the maker's model. Behind another
    // endpoint, the name may identify any model.
    let claude = facts.spec.filter(|_| facts.preset.cloud.is_some());
    let budget = match (wanted, claude.filter(|spec| !spec.reasoning.levels.is_empty())) {
        (Thinking::Budget(tokens), _) => tokens,
        // Newer Claude models accept a level.
        (Thinking::Level(level), Some(spec)) => {
            let mut fields = json!({"output_config": {"effort": level.as_str()}});
            if spec.adaptive_thinking {
                fields =
                    json!({"thinking": {"type": "adaptive"}, "output_config": {"effort": level.as_str()}});
            }
            return (Mapping::Fields(fields), None);
        }
        (Thinking::Level(level), None) => budget_of(level),
        (Thinking::Off, _) => {
            let can_disable = claude.filter(|spec| spec.reasoning.can_disable);
            let fields = can_disable.map(|spec| json!({"thinking": {"type": off(Some(spec))}}));
            return (fields.map_or(Mapping::Nothing, Mapping::Fields), None);
        }
    };
    // A known model has a separate cap, far above this one.
    let cap = (2 * u64::from(budget)).max(settings::BUDGET_OUTPUT_MIN_TOKENS);
    let fields = json!({"thinking": {"type": "enabled", "budget_tokens": budget}});
    (Mapping::Fields(fields), Some(cap).filter(|_| claude.is_none()))
}

fn off(spec: Option<ModelSpec>) -> &'static str {
    if spec.is_some_and(|spec| spec.thinks_between_tools) { "between_tools" } else { "disabled" }
}

/// Whether the model thinks adaptively, which is the default.
fn is_adaptive(body: &Map<String, Value>) -> bool {
    body.get("thinking")
        .is_none_or(|thinking| thinking.get("type").and_then(Value::as_str) == Some("adaptive"))
}

fn drop_unbound_thinking(body: &mut Map<String, Value>) {
    let binding = json!({"prefix_mismatch_behavior": "drop_block"});
    let thinking = body.entry("thinking").or_insert_with(|| json!({"type": "adaptive"}));
    if let Value::Object(thinking) = thinking {
        thinking.entry("block_binding").or_insert(binding);
    }
}
