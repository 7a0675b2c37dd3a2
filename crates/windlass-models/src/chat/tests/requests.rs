//! Random histories: both encoders write the same messages for every kind of chat endpoint.
//!
//! The fields beside the messages are the library's own and are compared as well.

use std::collections::HashMap;
use std::sync::Arc;

use bytes::Bytes;
use proptest::prelude::*;
use rig_core::completion::{CompletionRequest, ReplayTarget};
use rig_core::driver::Model;
use rig_core::message::{AssistantContent, Message as LibraryMessage, ToolChoice};
use serde_json::{Map, Value, json};
use windlass_engine::port::model::ModelCall;
use windlass_machine::{
    Annotations, BlobRef, Block, CacheMarks, Content, Digest, Message, Mode, ModelRequest, ModelSettings,
    Native, Role, ToolCall, ToolResult, ToolSpec,
};

use super::{endpoint, library, origin, wire};
use crate::capture::capture;
use crate::chat::encode::{REASONING_FIELD, ReasoningField};
use crate::config::WireKind;
use crate::failure;
use crate::history::{self, History, Target};
use crate::info;
use crate::schema;
use crate::settings::{self, Facts};

/// Endpoints of every kind, with models that read pictures and that do not.
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

/// The picture and the documents that histories name.
fn blobs() -> [(BlobRef, Bytes); 3] {
    [("image/png", "PNG"), ("application/pdf", "PDF"), ("text/csv", "a,b")].map(|(media_type, bytes)| {
        let digest = Digest::of(bytes.as_bytes());
        let size_bytes = bytes.len() as u64;
        (BlobRef { digest, media_type: media_type.to_owned(), size_bytes, tokens: 1 }, Bytes::from(bytes))
    })
}

fn file(at: usize) -> Block {
    let (blob, _) = blobs()[at].clone();
    if at == 0 { Block::Image { blob } } else { Block::File { name: format!("file-{at}"), blob } }
}

fn words() -> impl Strategy<Value = String> {
    prop_oneof![Just(String::new()), Just(" ".to_owned()), "[a-z\"\\\\é\n]{1,9}"]
}

fn own(item: Value) -> Option<Arc<Native>> {
    Some(Arc::new(Native { origin: origin(), item }))
}

fn user() -> impl Strategy<Value = Message> {
    let block = prop_oneof![3 => words().prop_map(Block::text), 1 => (0..3_usize).prop_map(file)];
    prop::collection::vec(block, 1..4).prop_map(|blocks| Message { role: Role::User, blocks })
}

/// An assistant block that is no call.
fn said() -> impl Strategy<Value = Block> {
    let details = json!([{"type": "reasoning.text", "text": null, "signature": "S", "index": 0}]);
    let foreign = Native {
        origin: Arc::new(windlass_machine::Origin { api: "anthropic".to_owned(), model: "q/n".into() }),
        item: json!({"type": "thinking", "thinking": null, "signature": "S"}),
    };
    let items = [
        own(json!({"reasoning_content": null})),
        own(json!({"reasoning": null, "reasoning_details": details})),
        own(json!({"type": "thinking", "thinking": [{"type": "text", "text": null}]})),
        Some(Arc::new(foreign)),
        None,
    ];
    let reasoning = (words(), prop::sample::select(items.to_vec()))
        .prop_map(|(text, native)| Block::Reasoning { text: Content::Inline(text), native });
    let part = json!({"type": "image_url", "image_url": {"url": "data:image/png;base64,UE5H"}});
    let opaque = Just(Block::Opaque { native: own(part).unwrap() });
    prop_oneof![4 => words().prop_map(Block::text), 2 => reasoning, 1 => opaque]
}

/// A call without its result. Ids of the responses wire are not among them: the library keeps their bar where it fills
/// a reasoning field in, and replaces it elsewhere.
fn asked() -> impl Strategy<Value = ToolCall> {
    let ids = prop::sample::select(vec!["call_1", "call_2", "abcDEF123", "call/7"]);
    let arguments = prop::sample::select(vec![
        "{}",
        "{\"a\":1}",
        "{ \"a\" : 1.50 }",
        "",
        "null",
        "[1]",
        "\"{\\\"a\\\":2}\"",
    ]);
    let items = prop::sample::select(vec![
        None,
        own(
            json!({"id": "call_1", "type": "function", "function": {"name": "f", "arguments": null}, "extra": {"s": 1}}),
        ),
    ]);
    (ids, arguments, items).prop_map(|(id, asked, native)| ToolCall {
        id: id.to_owned(),
        name: "f".into(),
        asked: Content::from(asked),
        native,
    })
}

/// What an assistant says and calls, and the results.
fn turn() -> impl Strategy<Value = Vec<Message>> {
    let shown = prop_oneof![4 => words().prop_map(Block::text), 1 => (0..3_usize).prop_map(file)];
    let result = (prop::collection::vec(shown, 0..3), any::<bool>());
    let calls = prop::collection::vec((asked(), result), 0..3);
    (prop::collection::vec(said(), 0..4), calls).prop_map(|(mut blocks, calls)| {
        let mut results = Vec::new();
        let mut ids = Vec::new();
        for (call, (content, error)) in calls {
            // Ids are unique within a reply.
            if ids.contains(&call.id) {
                continue;
            }
            ids.push(call.id.clone());
            let (call_id, name) = (call.id.clone(), call.name.clone());
            results.push(Block::ToolResult(ToolResult { call_id, name, content, error }));
            blocks.push(Block::ToolCall(call));
        }
        // A message without content is not sent. The messages around it are one for our encoder and two for the library,
        // which puts pictures of results elsewhere then.
        if ids.is_empty() {
            blocks.push(Block::text("said"));
        }
        let mut messages = vec![Message { role: Role::Assistant, blocks }];
        if !results.is_empty() {
            messages.push(Message { role: Role::Tool, blocks: results });
        }
        messages
    })
}

fn history() -> impl Strategy<Value = Vec<Message>> {
    let system = words().prop_map(|text| vec![Message::text(Role::System, text)]);
    let more = prop_oneof![4 => turn(), 2 => user().prop_map(|user| vec![user]), 1 => system];
    prop::collection::vec(more, 0..6).prop_map(|more| {
        let first = vec![Message::text(Role::User, "first")];
        [vec![first], more].concat().concat()
    })
}

fn call(messages: Vec<Message>, tools: bool, tail: String) -> ModelCall {
    let tool = ToolSpec {
        name: "f".into(),
        description: "d".to_owned(),
        input_schema: json!({"type": "object"}),
        annotations: Annotations::default(),
        withheld: Vec::new(),
    };
    ModelCall {
        request: ModelRequest {
            model: "p/m".into(),
            system: vec![Content::from("one"), Content::from(" "), Content::from("two")],
            tools: None,
            loaded: None,
            messages: messages.into_iter().map(Arc::new).collect(),
            tail: vec![tail],
            mode: Mode::Agent,
            settings: ModelSettings { cache: CacheMarks::Off, ..ModelSettings::default() },
        },
        tools: if tools { vec![tool] } else { Vec::new() }.into(),
        blobs: blobs().into_iter().map(|(blob, bytes)| (blob.digest, bytes)).collect::<HashMap<_, _>>(),
    }
}

/// Both encoders' bodies.
fn bodies(provider: &str, model: &str, call: &ModelCall) -> [Value; 2] {
    let endpoint = endpoint(provider);
    let wire = wire(&endpoint, model);
    let library = library(&wire);
    let known = info::describe("p/m", "openai-chat", None, None);
    let facts = Facts {
        kind: WireKind::OpenaiChat,
        preset: endpoint.preset,
        spec: info::find(endpoint.preset.dialect, model),
        info: &known,
        lenient: true,
        tools: !call.tools.is_empty(),
    };
    let origin = origin();
    let ours = wire.request(call, &origin, &facts, &Map::new(), false).unwrap();

    let target = Target {
        kind: WireKind::OpenaiChat,
        origin: &origin,
        library: history::library_origin(library.api(), library.provider(), library.model()),
        nine_letter_ids: provider == "mistral",
    };
    let mut history = history::build(call, &target).unwrap();
    let mut request = CompletionRequest::from(Vec::<LibraryMessage>::new());
    request.model = Some(model.to_owned());
    request.tools = schema::tools(call, WireKind::OpenaiChat).unwrap();
    request.tool_choice = facts.tools.then_some(ToolChoice::Auto);
    let thinks = settings::apply(&mut request, &call.request.settings, &facts, &Map::new()).unwrap();
    place_reasoning(&mut history, &target, wire.reasoning_of(call, &origin, thinks));
    request.chat_history = history.messages;
    let theirs = capture(|transport| {
        Model::new(library, transport).stream(request).map_err(|error| failure::typed(&error))
    })
    .unwrap();
    [ours, theirs].map(|request| comparable(serde_json::from_slice(request.body()).unwrap()))
}

/// Gives reasoning to the library as the chat wire sends it.
fn place_reasoning(history: &mut History, target: &Target<'_>, field: ReasoningField) {
    let is_reasoning = |block: &AssistantContent| matches!(block, AssistantContent::Reasoning(_));
    for message in &mut history.messages {
        let LibraryMessage::Assistant(turn) = message else { continue };
        match field {
            ReasoningField::AsReceived => {}
            ReasoningField::Strip => turn.content.retain(|block| !is_reasoning(block)),
            ReasoningField::Everywhere => {
                if !turn.content.iter().any(is_reasoning) {
                    let empty = AssistantContent::reasoning("").with_native(json!({ REASONING_FIELD: "" }));
                    turn.content.insert(0, empty);
                    turn.origin.get_or_insert_with(|| target.library.clone());
                }
            }
        }
    }
    let is_empty = |message: &LibraryMessage| matches!(message, LibraryMessage::Assistant(turn) if turn.content.is_empty());
    history.messages.retain(|message| !is_empty(message));
}

/// A body without what the encoders spell differently on purpose: arguments go out as the model wrote them, while the
/// library encodes them again; the reasoning field that a model demands stands before the calls; and one sentence
/// stands for adjacent pictures also where a message without content lies between them.
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
    let [ours, theirs] = bodies(provider, model, call);
    let show = |body: &Value| {
        let mut lines: Vec<String> =
            body["messages"].as_array().unwrap().iter().map(Value::to_string).collect();
        let mut rest = body.clone();
        rest.as_object_mut().unwrap().shift_remove("messages");
        lines.push(rest.to_string());
        lines.join("\n")
    };
    assert_eq!(show(&ours), show(&theirs), "{provider}/{model}");
}

fn plain_arguments(messages: &mut [Message]) {
    for block in messages.iter_mut().flat_map(|message| &mut message.blocks) {
        if let Block::ToolCall(call) = block {
            call.asked = Content::from("{\"a\":1}");
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(3_000))]
    #[test]
    fn both_encoders_write_the_same_messages(
        messages in history(),
        (provider, model) in prop::sample::select(MODELS.to_vec()),
        tools in prop::bool::weighted(0.9),
        tail in words(),
    ) {
        let mut messages = messages;
        // Where results are text, a picture in one follows it; the library loses it if the endpoint takes it in results.
        let tools = tools || provider == "llamacpp";
        if !tools || matches!(provider, "perplexity" | "hyperbolic") {
            // Calls that are sent as text have the arguments as written; the library sorts their keys.
            plain_arguments(&mut messages);
        }
        // Blank messages are not sent; behind them the library takes an earlier reply for the last message.
        let sends = |block: &Block| match block {
            Block::Text { text: Content::Inline(text), .. } => !text.trim().is_empty(),
            block => matches!(block, Block::Image { .. } | Block::File { .. } | Block::ToolResult(_)),
        };
        let tail = if messages.last().unwrap().blocks.iter().any(sends) { tail } else { String::new() };
        check(provider, model, &call(messages, tools, tail));
    }
}

#[test]
fn a_message_without_content_is_not_sent() {
    let reasoning = Block::Reasoning { text: "Hm".into(), native: own(json!({"reasoning_content": null})) };
    let blank = Message { role: Role::Assistant, blocks: vec![reasoning, Block::text(" ")] };
    let messages = vec![Message::text(Role::User, "1"), blank, Message::text(Role::User, "2")];
    check("openai-compatible", "model-x", &call(messages, true, "noon".to_owned()));
}
