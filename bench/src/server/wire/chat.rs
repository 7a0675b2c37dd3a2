//! OpenAI chat completions.
//!
//! Writes only the fields that clients read; ids and times are constant.

use std::borrow::Cow;

use bytes::Bytes;
use serde::Deserialize;
use serde_json::value::RawValue;
use serde_json::{Value, json};

use super::super::script::{Ask, Call, Progress, Reply, Tool};
use super::super::stream::Frames;
use super::{Form, Texts, Wire, data, fragments};

const ID: &str = "chatcmpl-1";
const CREATED: u64 = 1_700_000_000;

#[derive(Deserialize)]
struct Request<'a> {
    #[serde(borrow)]
    model: Cow<'a, str>,
    #[serde(default)]
    stream: Option<bool>,
    #[serde(default)]
    stream_options: Option<StreamOptions>,
    #[serde(borrow)]
    messages: Vec<Message<'a>>,
    #[serde(borrow, default)]
    tools: Option<Vec<OfferedTool<'a>>>,
}

#[derive(Deserialize)]
struct StreamOptions {
    #[serde(default)]
    include_usage: Option<bool>,
}

#[derive(Deserialize)]
struct Message<'a> {
    #[serde(borrow)]
    role: Cow<'a, str>,
    #[serde(borrow, default)]
    content: Option<&'a RawValue>,
    #[serde(borrow, default)]
    tool_call_id: Option<Cow<'a, str>>,
}

#[derive(Deserialize)]
struct OfferedTool<'a> {
    #[serde(borrow)]
    function: Function<'a>,
}

#[derive(Deserialize)]
struct Function<'a> {
    #[serde(borrow)]
    name: Cow<'a, str>,
    #[serde(borrow, default)]
    parameters: Option<&'a RawValue>,
}

pub(super) fn read(body: &[u8]) -> serde_json::Result<Ask<'_>> {
    let request: Request<'_> = serde_json::from_slice(body)?;
    let mut progress = Progress::default();
    for message in &request.messages {
        match &*message.role {
            "user" => progress.add_user_message(message.content.map_or("", RawValue::get)),
            "tool" => progress.add_result(message.tool_call_id.as_deref().unwrap_or_default()),
            _ => {}
        }
    }
    let tools = request.tools.unwrap_or_default().into_iter().map(|tool| tool.function);
    Ok(Ask {
        model: request.model,
        is_streamed: request.stream == Some(true),
        wants_usage: request.stream_options.and_then(|options| options.include_usage) == Some(true),
        progress,
        tools: tools.map(|function| Tool { name: function.name, schema: function.parameters }).collect(),
    })
}

pub(super) fn frames(form: &Form<'_>, reply: &Reply, texts: &Texts) -> Frames {
    let event = |delta, finish| data(&chunk(form, delta, finish));
    let head = vec![event(json!({"role": "assistant", "content": ""}), None)];
    let (tokens, finish) = match reply {
        Reply::Text(text) => {
            let token = |token: &str| event(json!({"content": token}), None);
            (texts.events(Wire::Chat, form.model, *text, token), "stop")
        }
        Reply::Calls(calls) => {
            let deltas = calls.iter().enumerate().flat_map(|(index, call)| call_deltas(index, call));
            (deltas.map(|delta| event(delta, None)).collect(), "tool_calls")
        }
    };
    let mut tail = vec![event(json!({}), Some(finish))];
    if form.wants_usage {
        let mut last = chunk(form, Value::Null, None);
        last["choices"] = json!([]);
        last["usage"] = usage(form, reply);
        tail.push(data(&last));
    }
    tail.push(Bytes::from_static(b"data: [DONE]\n\n"));
    Frames { head, tokens, tail }
}

pub(super) fn document(form: &Form<'_>, reply: &Reply) -> Value {
    let (message, finish) = match reply {
        Reply::Text(text) => (json!({"role": "assistant", "content": text.whole()}), "stop"),
        Reply::Calls(calls) => {
            let calls: Vec<Value> = calls.iter().map(|call| call_document(call, &call.arguments)).collect();
            (json!({"role": "assistant", "content": null, "tool_calls": calls}), "tool_calls")
        }
    };
    json!({
        "id": ID, "object": "chat.completion", "created": CREATED, "model": form.model,
        "choices": [{"index": 0, "message": message, "logprobs": null, "finish_reason": finish}],
        "usage": usage(form, reply),
    })
}

fn chunk(form: &Form<'_>, delta: Value, finish: Option<&str>) -> Value {
    json!({
        "id": ID, "object": "chat.completion.chunk", "created": CREATED, "model": form.model,
        "choices": [{"index": 0, "delta": delta, "logprobs": null, "finish_reason": finish}],
    })
}

fn call_document(call: &Call, arguments: &str) -> Value {
    json!({"id": call.id, "type": "function", "function": {"name": call.name, "arguments": arguments}})
}

fn call_deltas(index: usize, call: &Call) -> Vec<Value> {
    let mut first = call_document(call, "");
    first["index"] = json!(index);
    let mut deltas = vec![json!({"tool_calls": [first]})];
    for fragment in fragments(call) {
        deltas.push(json!({"tool_calls": [{"index": index, "function": {"arguments": fragment}}]}));
    }
    deltas
}

fn usage(form: &Form<'_>, reply: &Reply) -> Value {
    let (input, output) = (form.input_tokens, reply.tokens());
    json!({"prompt_tokens": input, "completion_tokens": output, "total_tokens": input + output})
}
