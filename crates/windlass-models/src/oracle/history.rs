//! Random histories for both encoders of a wire.
//!
//! A wire supplies the items that its endpoint might have created.

use std::collections::HashMap;
use std::sync::Arc;

use bytes::Bytes;
use proptest::prelude::*;
use serde_json::{Value, json};
use windlass_engine::port::model::ModelCall;
use windlass_machine::{
    Annotations, BlobRef, Block, CacheMarks, Content, Digest, Message, Mode, ModelRequest, ModelSettings,
    Native, Origin, Role, ToolCall, ToolResult, ToolSpec,
};

use crate::config::WireKind;

/// The items used in the histories of a wire.
#[derive(Clone)]
pub(crate) struct Items {
    /// The wire.
    pub kind: WireKind,
    /// Items of reasoning.
    pub reasoning: Vec<Value>,
    /// Items of texts.
    pub texts: Vec<Value>,
    /// Items of calls of the tool `f`.
    pub calls: Vec<Value>,
    /// Opaque items.
    pub opaque: Vec<Value>,
    /// Ids of calls.
    pub ids: Vec<&'static str>,
}

/// Returns the origin of a wire's own items.
pub(crate) fn origin(kind: WireKind) -> Arc<Origin> {
    Arc::new(Origin { api: kind.api().to_owned(), model: "p/m".into() })
}

/// Returns the image and the documents that histories refer to.
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

/// Generates texts, some of them blank.
pub(crate) fn words() -> impl Strategy<Value = String> {
    prop_oneof![Just(String::new()), Just(" ".to_owned()), "[a-z\"\\\\é\n]{1,9}"]
}

/// Returns an item that the wire created.
pub(crate) fn own(kind: WireKind, item: Value) -> Option<Arc<Native>> {
    Some(Arc::new(Native { origin: origin(kind), item }))
}

fn natives(kind: WireKind, items: &[Value]) -> Vec<Option<Arc<Native>>> {
    let foreign = Origin { api: "elsewhere".to_owned(), model: "q/n".into() };
    let foreign = Native { origin: Arc::new(foreign), item: json!({"type": "thinking", "thinking": null}) };
    let own = items.iter().map(|item| own(kind, item.clone()));
    own.chain([Some(Arc::new(foreign)), None]).collect()
}

fn user() -> impl Strategy<Value = Message> {
    let block = prop_oneof![3 => words().prop_map(Block::text), 1 => (0..3_usize).prop_map(file)];
    prop::collection::vec(block, 1..4).prop_map(|blocks| Message { role: Role::User, blocks })
}

/// Generates an assistant block that is not a call.
fn said(items: &Items) -> impl Strategy<Value = Block> + use<> {
    let kind = items.kind;
    let reasoning = (words(), prop::sample::select(natives(kind, &items.reasoning)))
        .prop_map(|(text, native)| Block::Reasoning { text: Content::Inline(text), native });
    let texts = (words(), prop::sample::select(natives(kind, &items.texts)))
        .prop_map(|(text, native)| Block::Text { text: Content::Inline(text), native });
    let opaque = prop::sample::select(items.opaque.clone())
        .prop_map(move |item| Block::Opaque { native: own(kind, item).unwrap() });
    prop_oneof![4 => texts, 2 => reasoning, 1 => opaque]
}

/// Generates a call without its result.
fn asked(items: &Items) -> impl Strategy<Value = ToolCall> + use<> {
    let ids = prop::sample::select(items.ids.clone());
    let arguments = prop::sample::select(vec![
        "{}",
        "{\"a\":1}",
        "{ \"a\" : 1.50 }",
        "",
        "null",
        "[1]",
        "\"{\\\"a\\\":2}\"",
    ]);
    let natives = prop::sample::select(natives(items.kind, &items.calls));
    (ids, arguments, natives).prop_map(|(id, asked, native)| ToolCall {
        id: id.to_owned(),
        name: "f".into(),
        asked: Content::from(asked),
        native,
    })
}

/// Generates an assistant message with calls, and their results.
fn turn(items: &Items) -> impl Strategy<Value = Vec<Message>> + use<> {
    let shown = prop_oneof![4 => words().prop_map(Block::text), 1 => (0..3_usize).prop_map(file)];
    let result = (prop::collection::vec(shown, 0..3), any::<bool>());
    let calls = prop::collection::vec((asked(items), result), 0..3);
    (prop::collection::vec(said(items), 0..4), calls).prop_map(|(mut blocks, calls)| {
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
        // A message without content is not sent. The messages around it form one message for Windlass's
        // encoder and two for the library. The library then places images of results differently.
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

/// Generates a history that begins with a user message.
pub(crate) fn history(items: &Items) -> impl Strategy<Value = Vec<Message>> + use<> {
    let system = words().prop_map(|text| vec![Message::text(Role::System, text)]);
    let more = prop_oneof![4 => turn(items), 2 => user().prop_map(|user| vec![user]), 1 => system];
    prop::collection::vec(more, 0..6).prop_map(|more| {
        let first = vec![Message::text(Role::User, "first")];
        [vec![first], more].concat().concat()
    })
}

/// Builds a call with this history, and with a tool `f` if `tools`.
pub(crate) fn call(messages: Vec<Message>, tools: bool, tail: String) -> ModelCall {
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
