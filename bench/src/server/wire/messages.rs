//! Anthropic messages.
//!
//! A `user` message with tool results continues the script; one without restarts it.

use std::borrow::Cow;

use bytes::Bytes;
use serde::Deserialize;
use serde_json::value::RawValue;
use serde_json::{Value, json};

use super::super::script::{Ask, Call, Progress, Reply, Tool};
use super::super::stream::Frames;
use super::{Form, Texts, Wire, fragments, named};

const ID: &str = "msg_1";

#[derive(Deserialize)]
struct Request<'a> {
    #[serde(borrow)]
    model: Cow<'a, str>,
    #[serde(default)]
    stream: Option<bool>,
    #[serde(borrow)]
    messages: Vec<Message<'a>>,
    #[serde(borrow, default)]
    tools: Option<Vec<OfferedTool<'a>>>,
}

#[derive(Deserialize)]
struct Message<'a> {
    #[serde(borrow)]
    role: Cow<'a, str>,
    #[serde(borrow)]
    content: &'a RawValue,
}

#[derive(Deserialize)]
struct Block<'a> {
    #[serde(borrow, default, rename = "type")]
    kind: Cow<'a, str>,
    #[serde(borrow, default)]
    tool_use_id: Cow<'a, str>,
}

#[derive(Deserialize)]
struct OfferedTool<'a> {
    #[serde(borrow)]
    name: Cow<'a, str>,
    #[serde(borrow, default)]
    input_schema: Option<&'a RawValue>,
}

pub(super) fn read(body: &[u8]) -> serde_json::Result<Ask<'_>> {
    let request: Request<'_> = serde_json::from_slice(body)?;
    let mut progress = Progress::default();
    for message in request.messages.iter().filter(|message| message.role == "user") {
        // Plain string content is not a list of blocks, so it has no results.
        let blocks: Vec<Block<'_>> = serde_json::from_str(message.content.get()).unwrap_or_default();
        let results: Vec<&Block<'_>> = blocks.iter().filter(|block| block.kind == "tool_result").collect();
        if results.is_empty() {
            progress.add_user_message(message.content.get());
        }
        for result in results {
            progress.add_result(&result.tool_use_id);
        }
    }
    let tools = request.tools.unwrap_or_default().into_iter();
    Ok(Ask {
        model: request.model,
        is_streamed: request.stream == Some(true),
        wants_usage: true,
        progress,
        tools: tools.map(|tool| Tool { name: tool.name, schema: tool.input_schema }).collect(),
    })
}

pub(super) fn frames(form: &Form<'_>, reply: &Reply, texts: &Texts) -> Frames {
    let start = json!({
        "id": ID, "type": "message", "role": "assistant", "model": form.model, "content": [],
        "stop_reason": null, "stop_sequence": null,
        "usage": {"input_tokens": form.input_tokens, "output_tokens": 1},
    });
    let mut head = vec![named(&json!({"type": "message_start", "message": start}))];
    let mut tail = Vec::new();
    let tokens = match reply {
        Reply::Text(text) => {
            head.push(block_start(0, &json!({"type": "text", "text": ""})));
            tail.push(block_stop(0));
            let token = |token: &str| block_delta(0, &json!({"type": "text_delta", "text": token}));
            texts.events(Wire::Messages, form.model, *text, token)
        }
        Reply::Calls(calls) => {
            calls.iter().enumerate().flat_map(|(index, call)| call_events(index, call)).collect()
        }
    };
    tail.push(named(&json!({
        "type": "message_delta", "delta": {"stop_reason": stop_reason(reply), "stop_sequence": null},
        "usage": {"output_tokens": reply.tokens()},
    })));
    tail.push(named(&json!({"type": "message_stop"})));
    Frames { head, tokens, tail }
}

pub(super) fn document(form: &Form<'_>, reply: &Reply) -> Value {
    let content: Vec<Value> = match reply {
        Reply::Text(text) => vec![json!({"type": "text", "text": text.whole()})],
        Reply::Calls(calls) => {
            let input = |call: &Call| serde_json::from_str::<Value>(&call.arguments).unwrap_or_default();
            calls.iter().map(|call| tool_use(call, input(call))).collect()
        }
    };
    json!({
        "id": ID, "type": "message", "role": "assistant", "model": form.model, "content": content,
        "stop_reason": stop_reason(reply), "stop_sequence": null,
        "usage": {"input_tokens": form.input_tokens, "output_tokens": reply.tokens()},
    })
}

fn stop_reason(reply: &Reply) -> &'static str {
    match reply {
        Reply::Text(_) => "end_turn",
        Reply::Calls(_) => "tool_use",
    }
}

fn tool_use(call: &Call, input: Value) -> Value {
    json!({"type": "tool_use", "id": call.id, "name": call.name, "input": input})
}

fn call_events(index: usize, call: &Call) -> Vec<Bytes> {
    let mut events = vec![block_start(index, &tool_use(call, json!({})))];
    for fragment in fragments(call) {
        events.push(block_delta(index, &json!({"type": "input_json_delta", "partial_json": fragment})));
    }
    events.push(block_stop(index));
    events
}

fn block_start(index: usize, block: &Value) -> Bytes {
    named(&json!({"type": "content_block_start", "index": index, "content_block": block}))
}

fn block_delta(index: usize, delta: &Value) -> Bytes {
    named(&json!({"type": "content_block_delta", "index": index, "delta": delta}))
}

fn block_stop(index: usize) -> Bytes {
    named(&json!({"type": "content_block_stop", "index": index}))
}
