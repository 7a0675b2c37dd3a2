//! Random histories: both encoders write the same messages for every kind of chat endpoint.
//!
//! The tests also compare the fields other than the messages, for all settings.

use proptest::prelude::*;
use rig_core::completion::ReplayTarget;
use rig_core::message::{AssistantContent, Message as LibraryMessage};
use serde_json::{Map, Value, json};
use windlass_engine::port::model::ModelCall;
use windlass_machine::{Block, CacheMarks, Effort, Message, ModelSettings, Reasoning, Role};

use super::{endpoint, library, wire};
use crate::chat::encode::{REASONING_FIELD, ReasoningField};
use crate::config::WireKind;
use crate::info;
use crate::library;
use crate::oracle::history::{self, Items};
use crate::oracle::request;
use crate::settings::{self, Facts};

/// Endpoints of every kind, with models that read images and models that do not.
const MODELS: [(&str, &str); 16] = [
    ("openai-chat", "gpt-5.2"),
    ("openai-compatible", "model-x"),
    ("azure", "deployment"),
    ("openrouter", "anthropic/claude-sonnet-4.5"),
    ("openrouter", "moonshotai/kimi-k2.6"),
    ("mistral", "mistral-large"),
    ("mistral", "codestral"),
    ("deepseek", "deepseek-chat"),
    ("perplexity", "sonar"),
    ("hyperbolic", "model-x"),
    ("groq", "llama-3.3-70b"),
    ("moonshot", "kimi-k2-thinking"),
    ("xiaomimimo", "mimo-v2"),
    ("llamacpp", "model-x"),
    ("cohere", "command-a"),
    ("qwen", "qwen3"),
];

/// Returns items that a chat endpoint might have created. Ids of the responses wire are excluded: the library
/// keeps the bar in them only if it fills in a reasoning field.
fn items() -> Items {
    let details = json!([{"type": "reasoning.text", "text": null, "signature": "S", "index": 0}]);
    let call = json!({"id": "call_1", "type": "function", "function": {"name": "f", "arguments": null}, "extra": {"s": 1}});
    Items {
        kind: WireKind::OpenaiChat,
        reasoning: vec![
            json!({"reasoning_content": null}),
            json!({"reasoning": null, "reasoning_details": details}),
            json!({"type": "thinking", "thinking": [{"type": "text", "text": null}]}),
        ],
        texts: Vec::new(),
        calls: vec![call],
        opaque: vec![json!({"type": "image_url", "image_url": {"url": "data:image/png;base64,UE5H"}})],
        ids: vec!["call_1", "call_2", "abcDEF123", "call/7"],
    }
}

/// Returns the bodies of both encoders.
fn bodies(provider: &str, model: &str, call: &ModelCall) -> [Value; 2] {
    let endpoint = endpoint(provider);
    let wire = wire(&endpoint, model);
    let library = library(&endpoint, model);
    let spec = info::find(endpoint.preset.dialect, model);
    let known = info::describe("p/m", "openai-chat", spec, None);
    let facts = Facts {
        kind: WireKind::OpenaiChat,
        preset: endpoint.preset,
        spec,
        info: &known,
        lenient: true,
        tools: !call.tools.is_empty(),
    };
    let origin = history::origin(WireKind::OpenaiChat);
    let ours = wire.request(call, &origin, &facts, &Map::new(), false).unwrap();

    let target = library.target();
    let mut request = library::request(call, target, &origin, &facts, &Map::new()).unwrap();
    let thinks = settings::fit(&call.request.settings, &facts).thinks();
    place_reasoning(&mut request.chat_history, target, wire.reasoning_of(call, &origin, thinks));
    let theirs = library.encode(request, CacheMarks::Off).unwrap();
    assert_eq!(ours.uri(), theirs.uri());
    [ours, theirs].map(|request| comparable(serde_json::from_slice(request.body()).unwrap()))
}

/// Moves the reasoning in the library's messages to the field in which the chat wire sends it.
fn place_reasoning(messages: &mut Vec<LibraryMessage>, target: &dyn ReplayTarget, field: ReasoningField) {
    let is_reasoning = |block: &AssistantContent| matches!(block, AssistantContent::Reasoning(_));
    for message in messages.iter_mut() {
        let LibraryMessage::Assistant(turn) = message else { continue };
        match field {
            ReasoningField::AsReceived => {}
            ReasoningField::Strip => turn.content.retain(|block| !is_reasoning(block)),
            ReasoningField::Everywhere => {
                if !turn.content.iter().any(is_reasoning) {
                    let empty = AssistantContent::reasoning("").with_native(json!({ REASONING_FIELD: "" }));
                    turn.content.insert(0, empty);
                    let (api, provider, model) = (target.api(), target.provider(), target.model());
                    turn.origin.get_or_insert_with(|| library::history::library_origin(api, provider, model));
                }
            }
        }
    }
    let is_empty = |message: &LibraryMessage| matches!(message, LibraryMessage::Assistant(turn) if turn.content.is_empty());
    messages.retain(|message| !is_empty(message));
}

/// Removes the intended differences from a body. Windlass sends arguments as the model wrote them, while the
/// library re-encodes them. A required reasoning field precedes the calls. Adjacent images produce one
/// sentence, even across an empty message.
fn comparable(mut body: Value) -> Value {
    let messages = body.get_mut("messages").and_then(Value::as_array_mut);
    for message in messages.into_iter().flatten() {
        let calls = message.get_mut("tool_calls").and_then(Value::as_array_mut);
        for call in calls.into_iter().flatten() {
            let arguments = call.pointer_mut("/function/arguments").unwrap();
            *arguments = serde_json::from_str(arguments.as_str().unwrap()).unwrap();
        }
        let message = message.as_object_mut().unwrap();
        message.sort_keys();
        if let Some(Value::Array(parts)) = message.get_mut("content") {
            let is_omission =
                |part: &Value| part["text"].as_str().is_some_and(|text| text.contains("omitted:"));
            parts.dedup_by(|part, before| is_omission(part) && part == before);
            if let [only] = parts.as_slice()
                && is_omission(only)
            {
                let text = only["text"].clone();
                message.insert("content".to_owned(), text);
            }
        }
    }
    body
}

fn check(provider: &str, model: &str, call: &ModelCall) {
    request::assert_same("messages", &bodies(provider, model, call), &format!("{provider}/{model}"));
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(3_000))]
    #[test]
    fn both_encoders_write_the_same_messages(
        messages in history::history(&items()),
        (provider, model) in prop::sample::select(MODELS.to_vec()),
        tools in prop::bool::weighted(0.9),
        tail in history::words(),
        settings in request::settings(),
    ) {
        let mut messages = messages;
        // If results are text, their images follow them. The library drops the images if the endpoint accepts them in
        // results.
        let tools = tools || provider == "llamacpp";
        if !tools || matches!(provider, "perplexity" | "hyperbolic") {
            // Calls that are sent as text contain the arguments as the model
            // wrote them; the library sorts their keys.
            request::plain_arguments(&mut messages);
        }
        let tail = request::tail_of(&messages, tail);
        let mut call = history::call(messages, tools, tail);
        // Windlass sends a schema at once, while the library delays it until after tool
        // use. Cache marks are for other endpoints.
        call.request.settings = ModelSettings { output_schema: None, cache: CacheMarks::Off, ..settings };
        check(provider, model, &call);
    }
}

#[test]
fn a_message_without_content_is_not_sent() {
    let reasoning = Block::Reasoning {
        text: "Hm".into(),
        native: history::own(WireKind::OpenaiChat, json!({"reasoning_content": null})),
    };
    let blank = Message { role: Role::Assistant, blocks: vec![reasoning, Block::text(" ")] };
    let messages = vec![Message::text(Role::User, "1"), blank, Message::text(Role::User, "2")];
    check("openai-compatible", "model-x", &history::call(messages, true, "noon".to_owned()));
}

#[test]
fn a_strict_endpoint_names_what_it_does_not_take() {
    let refused = |provider: &str, model: &str, settings: ModelSettings| {
        let endpoint = endpoint(provider);
        let spec = info::find(endpoint.preset.dialect, model);
        let known = info::describe("p/m", "openai-chat", spec, None);
        let facts = Facts {
            kind: WireKind::OpenaiChat,
            preset: endpoint.preset,
            spec,
            info: &known,
            lenient: false,
            tools: false,
        };
        let mut call = history::call(vec![Message::text(Role::User, "1")], false, String::new());
        call.request.settings = settings;
        let origin = history::origin(WireKind::OpenaiChat);
        wire(&endpoint, model).request(&call, &origin, &facts, &Map::new(), false).unwrap_err().message
    };
    let high = || ModelSettings { reasoning: Reasoning::Effort(Effort::High), ..ModelSettings::default() };
    assert_eq!(
        refused("perplexity", "sonar", high()),
        "model `p/m` does not support the setting `reasoning`: the model does not support this level"
    );
    assert_eq!(
        refused("openai-chat", "gpt-5.2", ModelSettings { temperature: Some(0.5), ..high() }),
        "model `p/m` does not support the setting `temperature`: it cannot be combined with reasoning"
    );
}
