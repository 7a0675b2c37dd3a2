//! OpenAI responses.
//!
//! `input` contains the whole conversation. `previous_response_id` is not supported, because the server keeps no state.

use std::borrow::Cow;

use bytes::Bytes;
use serde::Deserialize;
use serde_json::value::RawValue;
use serde_json::{Value, json};

use super::super::script::{Ask, Call, Progress, Reply, Tool};
use super::super::stream::Frames;
use super::{Form, Texts, Wire, fragments, named};

const ID: &str = "resp_1";
const TEXT_ITEM_ID: &str = "msg_1";
const CREATED: u64 = 1_700_000_000;

#[derive(Deserialize)]
struct Request<'a> {
    #[serde(borrow)]
    model: Cow<'a, str>,
    #[serde(default)]
    stream: Option<bool>,
    #[serde(borrow)]
    input: &'a RawValue,
    #[serde(borrow, default)]
    tools: Option<Vec<OfferedTool<'a>>>,
}

#[derive(Deserialize)]
struct Item<'a> {
    #[serde(borrow, default, rename = "type")]
    kind: Cow<'a, str>,
    #[serde(borrow, default)]
    role: Cow<'a, str>,
    #[serde(borrow, default)]
    content: Option<&'a RawValue>,
    #[serde(borrow, default)]
    call_id: Cow<'a, str>,
}

#[derive(Deserialize)]
struct OfferedTool<'a> {
    #[serde(borrow, default)]
    name: Cow<'a, str>,
    #[serde(borrow, default)]
    parameters: Option<&'a RawValue>,
}

pub(super) fn read(body: &[u8]) -> serde_json::Result<Ask<'_>> {
    let request: Request<'_> = serde_json::from_slice(body)?;
    let mut progress = Progress::default();
    if request.input.get().starts_with('[') {
        for item in serde_json::from_str::<Vec<Item<'_>>>(request.input.get())? {
            match (&*item.kind, &*item.role) {
                ("function_call_output", _) => progress.add_result(&item.call_id),
                (_, "user") => progress.add_user_message(item.content.map_or("", RawValue::get)),
                _ => {}
            }
        }
    } else {
        progress.add_user_message(request.input.get());
    }
    let tools = request.tools.unwrap_or_default().into_iter();
    Ok(Ask {
        model: request.model,
        is_streamed: request.stream == Some(true),
        wants_usage: true,
        progress,
        tools: tools.map(|tool| Tool { name: tool.name, schema: tool.parameters }).collect(),
    })
}

pub(super) fn frames(form: &Form<'_>, reply: &Reply, texts: &Texts) -> Frames {
    let open = response(form, reply, "in_progress", Vec::new());
    let mut head = vec![
        named(&json!({"type": "response.created", "response": open})),
        named(&json!({"type": "response.in_progress", "response": open})),
    ];
    let mut tail = Vec::new();
    let tokens = match reply {
        Reply::Text(text) => {
            let whole = text.whole();
            let part = |text: &str| json!({"type": "output_text", "text": text, "annotations": []});
            head.push(item_event("added", 0, &text_item(None, "in_progress")));
            head.push(named(&json!({"type": "response.content_part.added", "item_id": TEXT_ITEM_ID,
                "output_index": 0, "content_index": 0, "part": part("")})));
            tail.push(named(&json!({"type": "response.output_text.done", "item_id": TEXT_ITEM_ID,
                "output_index": 0, "content_index": 0, "text": whole})));
            tail.push(named(&json!({"type": "response.content_part.done", "item_id": TEXT_ITEM_ID,
                "output_index": 0, "content_index": 0, "part": part(&whole)})));
            tail.push(item_event("done", 0, &text_item(Some(&whole), "completed")));
            texts.events(Wire::Responses, form.model, *text, text_delta)
        }
        Reply::Calls(calls) => {
            calls.iter().enumerate().flat_map(|(index, call)| call_events(index, call)).collect()
        }
    };
    let done = document(form, reply);
    tail.push(named(&json!({"type": "response.completed", "response": done})));
    Frames { head, tokens, tail }
}

pub(super) fn document(form: &Form<'_>, reply: &Reply) -> Value {
    let output = match reply {
        Reply::Text(text) => vec![text_item(Some(&text.whole()), "completed")],
        Reply::Calls(calls) => {
            calls.iter().map(|call| call_item(call, &call.arguments, "completed")).collect()
        }
    };
    response(form, reply, "completed", output)
}

fn response(form: &Form<'_>, reply: &Reply, status: &str, output: Vec<Value>) -> Value {
    let usage = (status == "completed").then(|| {
        let (input, out) = (form.input_tokens, reply.tokens());
        json!({"input_tokens": input, "input_tokens_details": {"cached_tokens": 0}, "output_tokens": out,
            "output_tokens_details": {"reasoning_tokens": 0}, "total_tokens": input + out})
    });
    json!({
        "id": ID, "object": "response", "created_at": CREATED, "status": status, "error": null,
        "incomplete_details": null, "instructions": null, "max_output_tokens": null, "model": form.model,
        "output": output, "parallel_tool_calls": true, "previous_response_id": null, "tools": [],
        "usage": usage, "metadata": {},
    })
}

fn text_item(text: Option<&str>, status: &str) -> Value {
    let parts: Vec<Value> = text
        .map(|text| json!({"type": "output_text", "text": text, "annotations": []}))
        .into_iter()
        .collect();
    json!({"id": TEXT_ITEM_ID, "type": "message", "status": status, "role": "assistant", "content": parts})
}

fn text_delta(token: &str) -> Bytes {
    named(&json!({"type": "response.output_text.delta", "item_id": TEXT_ITEM_ID, "output_index": 0,
        "content_index": 0, "delta": token}))
}

fn call_item(call: &Call, arguments: &str, status: &str) -> Value {
    json!({"id": item_id(call), "type": "function_call", "status": status, "call_id": call.id,
        "name": call.name, "arguments": arguments})
}

fn call_events(index: usize, call: &Call) -> Vec<Bytes> {
    let mut events = vec![item_event("added", index, &call_item(call, "", "in_progress"))];
    for fragment in fragments(call) {
        events.push(named(&json!({"type": "response.function_call_arguments.delta",
            "item_id": item_id(call), "output_index": index, "delta": fragment})));
    }
    events.push(named(&json!({"type": "response.function_call_arguments.done",
        "item_id": item_id(call), "output_index": index, "arguments": call.arguments})));
    events.push(item_event("done", index, &call_item(call, &call.arguments, "completed")));
    events
}

fn item_id(call: &Call) -> String {
    call.id.replacen("call_", "fc_", 1)
}

fn item_event(what: &str, index: usize, item: &Value) -> Bytes {
    named(&json!({"type": format!("response.output_item.{what}"), "output_index": index, "item": item}))
}
