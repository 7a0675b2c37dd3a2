//! The model library as the oracle of a wire's encoder: both encode the same call.
//!
//! A wire supplies its intended differences.

use proptest::prelude::*;
use serde_json::{Map, Value, json};
use windlass_engine::port::model::ModelCall;
use windlass_machine::{Block, CacheMarks, Content, Effort, Message, ModelSettings, Reasoning};

use crate::config::WireKind;
use crate::info;
use crate::library;
use crate::library::wire::LibraryWire;
use crate::oracle::history;
use crate::provider::endpoint::Endpoint;
use crate::settings::Facts;
use crate::wire::Wire;

/// Generates settings of all kinds.
pub(crate) fn settings() -> impl Strategy<Value = ModelSettings> {
    let reasoning = prop::sample::select(vec![
        Reasoning::Auto,
        Reasoning::Off,
        Reasoning::Effort(Effort::Minimal),
        Reasoning::Effort(Effort::Low),
        Reasoning::Effort(Effort::Medium),
        Reasoning::Effort(Effort::High),
        Reasoning::BudgetTokens(1_000),
        Reasoning::BudgetTokens(3_000),
        Reasoning::BudgetTokens(50_000),
    ]);
    let schema = json!({
        "title": "answer",
        "type": "object",
        "properties": {
            "a": {"type": "integer", "minimum": 1},
            "b": {"oneOf": [{"$ref": "#/$defs/c", "description": "d"}, {"type": "object"}]},
            "l": {"type": "array", "items": {"properties": {"x": {"type": "string"}}}},
        },
        "$defs": {"c": {"type": "object", "properties": {"n": {"type": "number", "multipleOf": 2}}}},
    });
    let caps = prop::sample::select(vec![None, Some(100), Some(30_000)]);
    let marks = prop::sample::select(vec![CacheMarks::Off, CacheMarks::Short, CacheMarks::Hour]);
    (reasoning, prop::option::of(Just(0.5)), caps, marks, prop::option::of(Just(schema))).prop_map(
        |(reasoning, temperature, max_output_tokens, cache, output_schema)| ModelSettings {
            reasoning,
            temperature,
            max_output_tokens,
            cache,
            output_schema,
        },
    )
}

/// Returns the tail, unless the last message is blank: after a blank message, the library
/// takes an earlier reply for the last message.
pub(crate) fn tail_of(messages: &[Message], tail: String) -> String {
    let sends = |block: &Block| match block {
        Block::Text { text: Content::Inline(text), .. } => !text.trim().is_empty(),
        block => matches!(block, Block::Image { .. } | Block::File { .. } | Block::ToolResult(_)),
    };
    let last = messages.last().map(|message| message.blocks.as_slice()).unwrap_or_default();
    if last.iter().any(sends) { tail } else { String::new() }
}

/// Replaces all arguments by the same object. A call that is sent as text contains the arguments as the model
/// wrote them, while the library sorts their keys.
pub(crate) fn plain_arguments(messages: &mut [Message]) {
    for block in messages.iter_mut().flat_map(|message| &mut message.blocks) {
        if let Block::ToolCall(call) = block {
            call.asked = Content::from("{\"a\":1}");
        }
    }
}

/// Replaces blank texts by empty ones. Neither is sent, but blank texts separate paired items in the library.
pub(crate) fn unblank(messages: &mut [Message]) {
    for block in messages.iter_mut().flat_map(|message| &mut message.blocks) {
        if let Block::Text { text, native } = block
            && text.inline().is_some_and(|text| text.trim().is_empty())
            && native.as_ref().is_none_or(|native| native.origin.api == "elsewhere")
        {
            *text = Content::from("");
        }
    }
}

/// Returns the bodies of both encoders for a call.
pub(crate) fn bodies(kind: WireKind, provider: &str, model: &str, call: &ModelCall) -> [Value; 2] {
    let endpoint = Endpoint::sample(provider, kind);
    let spec = info::find(endpoint.preset.dialect, model);
    let known = info::describe("p/m", kind.api(), spec, None);
    let facts = Facts {
        kind,
        preset: endpoint.preset,
        spec,
        info: &known,
        lenient: true,
        tools: !call.tools.is_empty(),
    };
    let origin = history::origin(kind);
    let wire = Wire::new(kind, &endpoint, model).unwrap().unwrap();
    let ours = wire.request(call, &origin, &facts, &Map::new(), false).unwrap();
    let library = LibraryWire::new(kind, &endpoint, model);
    let request = library::request(call, library.target(), &origin, &facts, &Map::new()).unwrap();
    let theirs = library.encode(request, call.request.settings.cache).unwrap();
    if kind != WireKind::Gemini {
        assert_eq!(ours.uri(), theirs.uri());
        assert_eq!(ours.headers(), theirs.headers());
    }
    [ours, theirs].map(|request| serde_json::from_slice(request.body()).unwrap())
}

/// Asserts that two bodies are equal. Otherwise, prints them item by item.
pub(crate) fn assert_same(list: &str, bodies: &[Value; 2], what: &str) {
    let show = |body: &Value| {
        let mut lines: Vec<String> = body[list].as_array().unwrap().iter().map(sorted).collect();
        let mut rest = body.clone();
        rest.as_object_mut().unwrap().shift_remove(list);
        lines.push(sorted(&rest));
        lines.join("\n")
    };
    assert_eq!(show(&bodies[0]), show(&bodies[1]), "{what}");
}

fn sorted(value: &Value) -> String {
    let mut value = value.clone();
    value.sort_all_objects();
    value.to_string()
}

/// Asserts that both encode each model of the table alike, at its provider and for each setting.
#[test]
fn each_model_is_asked_alike() {
    const SETTINGS: [Reasoning; 6] = [
        Reasoning::Auto,
        Reasoning::Off,
        Reasoning::Effort(Effort::Minimal),
        Reasoning::Effort(Effort::Medium),
        Reasoning::BudgetTokens(900),
        Reasoning::BudgetTokens(9_000),
    ];
    let mut differing = Vec::new();
    for preset in crate::provider::preset::all().iter().filter(|preset| preset.cloud.is_none()) {
        let vendor = preset.dialect.unwrap_or("openrouter");
        let listed = rig_core::catalog::Catalog::builtin().iter();
        let listed = listed.filter(|spec| spec.provider.vendor() == vendor).map(|spec| spec.id.as_str());
        for model in listed.chain(["gpt-5-unheard-of", "o9-mini", "unheard-of"]) {
            for reasoning in SETTINGS {
                let mut call = history::call(
                    vec![Message::text(windlass_machine::Role::User, "1")],
                    true,
                    String::new(),
                );
                call.request.settings.reasoning = reasoning;
                call.request.settings.temperature = Some(0.5);
                let fields = bodies(preset.wire, preset.name, model, &call).map(beside_messages);
                if fields[0] != fields[1] {
                    differing
                        .push(format!("{}/{model} {reasoning:?}\n{}\n{}", preset.name, fields[0], fields[1]));
                }
            }
        }
    }
    assert_eq!(differing.len(), 0, "{}", differing[..differing.len().min(20)].join("\n"));
}

/// Returns the fields that have a value, without messages and instructions.
fn beside_messages(mut body: Value) -> Value {
    let fields = body.as_object_mut().unwrap();
    let is_list = |key: &str| {
        matches!(key, "messages" | "input" | "contents" | "tools" | "system" | "systemInstruction")
    };
    fields.retain(|key, value| !is_list(key) && !value.is_null());
    body
}
