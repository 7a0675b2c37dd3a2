//! Scenarios of the OpenAI responses wire.
//!
//! The bytes follow the public protocol; the texts are invented.

use serde_json::{Value, json};

use super::named;

/// Returns the frames of a scenario of this wire.
pub(super) fn frames(name: &str) -> Option<Vec<String>> {
    Some(match name {
        "resp-ok" => {
            let mut frames = items();
            frames.push(ended("response.completed", "completed", output(), usage(), json!({})));
            frames
        }
        "resp-cut" => items().into_iter().take(9).collect(),
        "resp-failed" => {
            let mut frames: Vec<String> = items().into_iter().take(6).collect();
            let error = json!({"error": {"code": "rate_limit_exceeded", "message": "slow down"}});
            frames.push(ended("response.failed", "failed", json!([]), Value::Null, error));
            frames
        }
        "resp-incomplete" => {
            let mut frames: Vec<String> = items().into_iter().take(7).collect();
            let first_two: Vec<Value> = output().as_array().into_iter().flatten().take(2).cloned().collect();
            let why = json!({"incomplete_details": {"reason": "max_output_tokens"}});
            frames.push(ended("response.incomplete", "incomplete", json!(first_two), usage(), why));
            frames
        }
        "resp-filter" => {
            let mut frames: Vec<String> = items().into_iter().take(7).collect();
            let first_two: Vec<Value> = output().as_array().into_iter().flatten().take(2).cloned().collect();
            let why = json!({"incomplete_details": {"reason": "content_filter"}});
            frames.push(ended("response.incomplete", "incomplete", json!(first_two), usage(), why));
            frames
        }
        "resp-refusal" => refusal(),
        "resp-custom" => custom(),
        "resp-bare" => bare(),
        "resp-hosted" => hosted(),
        "resp-errevent" => {
            let mut frames: Vec<String> = items().into_iter().take(6).collect();
            frames.push(named(&json!({"type": "error", "sequence_number": 9, "code": "server_error",
                "message": "boom", "param": null})));
            frames
        }
        _ => return None,
    })
}

fn items() -> Vec<String> {
    let item = |at: usize| output()[at].clone();
    let added = |at: usize, item: Value| {
        named(&json!({"type": "response.output_item.added", "output_index": at, "item": item}))
    };
    let done = |at: usize| {
        named(&json!({"type": "response.output_item.done", "output_index": at, "item": item(at)}))
    };
    let arguments = |at: usize, id: &str, delta: &str| {
        named(&json!({"type": "response.function_call_arguments.delta", "item_id": id, "output_index": at,
            "delta": delta}))
    };
    let call = |id: &str, call_id: &str, name: &str| {
        json!({"id": id, "type": "function_call", "status": "in_progress", "call_id": call_id, "name": name,
            "arguments": ""})
    };
    vec![
        named(&json!({"type": "response.created", "response": response()})),
        added(0, json!({"id": "rs_1", "type": "reasoning", "summary": []})),
        named(&json!({"type": "response.reasoning_summary_text.delta", "item_id": "rs_1", "output_index": 0,
            "summary_index": 0, "delta": "Sum"})),
        done(0),
        added(
            1,
            json!({"id": "msg_1", "type": "message", "status": "in_progress", "role": "assistant",
            "content": []}),
        ),
        named(&json!({"type": "response.output_text.delta", "item_id": "msg_1", "output_index": 1,
            "content_index": 0, "delta": "Calling."})),
        done(1),
        added(2, call("fc_1", "call_A", "get_weather")),
        arguments(2, "fc_1", r#"{"city":"Paris"}"#),
        done(2),
        added(3, json!({"id": "rs_2", "type": "reasoning", "summary": []})),
        done(3),
        added(4, call("fc_2", "call_B", "get_time")),
        arguments(4, "fc_2", r#"{"tz":"CET"}"#),
        done(4),
    ]
}

fn refusal() -> Vec<String> {
    let item = json!({"id": "msg_1", "type": "message", "status": "completed", "role": "assistant",
        "content": [{"type": "refusal", "refusal": "I cannot."}]});
    vec![
        named(&json!({"type": "response.output_item.added", "output_index": 0, "item": {"id": "msg_1",
            "type": "message", "status": "in_progress", "role": "assistant", "content": []}})),
        named(
            &json!({"type": "response.refusal.delta", "item_id": "msg_1", "output_index": 0, "content_index": 0,
            "delta": "I cannot."}),
        ),
        named(&json!({"type": "response.output_item.done", "output_index": 0, "item": item})),
        ended("response.completed", "completed", json!([item]), usage(), json!({})),
    ]
}

/// Returns the frames of a call of a tool with free text as its input.
fn custom() -> Vec<String> {
    let call = |status: &str, input: &str| {
        json!({"id": "ctc_1", "type": "custom_tool_call", "status": status, "call_id": "call_A", "name": "shell",
            "input": input})
    };
    let delta = |text: &str| {
        named(&json!({"type": "response.custom_tool_call_input.delta", "item_id": "ctc_1", "output_index": 0,
            "delta": text}))
    };
    let whole = call("completed", "say \"hi\"\n");
    vec![
        named(
            &json!({"type": "response.output_item.added", "output_index": 0, "item": call("in_progress", "")}),
        ),
        delta("say \"h"),
        delta("i\"\n"),
        named(&json!({"type": "response.output_item.done", "output_index": 0, "item": whole})),
        ended("response.completed", "completed", json!([whole]), usage(), json!({})),
    ]
}

/// Returns the reply of a gateway that omits positions and beginnings, and
/// sends the encrypted content only at the end.
fn bare() -> Vec<String> {
    let reasoning = |ciphertext: Value| {
        json!({"id": "rs_1", "type": "reasoning", "encrypted_content": ciphertext,
            "summary": [{"type": "summary_text", "text": "One"}, {"type": "summary_text", "text": "Two"}]})
    };
    let message = json!({"type": "message", "role": "assistant", "content": []});
    let call = json!({"type": "function_call", "call_id": "call_A", "name": "get_weather", "arguments": ""});
    let summary = |part: u64, text: &str| {
        named(&json!({"type": "response.reasoning_summary_text.delta", "summary_index": part, "delta": text}))
    };
    vec![
        summary(0, "One"),
        summary(1, "Two"),
        named(&json!({"type": "response.output_item.done", "item": reasoning(Value::Null)})),
        named(&json!({"type": "response.output_text.delta", "delta": "Hel"})),
        named(&json!({"type": "response.output_text.delta", "delta": "lo"})),
        named(&json!({"type": "response.output_item.done", "item": message})),
        named(&json!({"type": "response.output_item.added", "item": call})),
        named(&json!({"type": "response.function_call_arguments.delta", "delta": "{\"a\":"})),
        named(&json!({"type": "response.function_call_arguments.delta", "delta": "1}"})),
        named(&json!({"type": "response.output_item.done", "item": call})),
        ended("response.completed", "completed", json!([reasoning("gAAA".into())]), usage(), json!({})),
    ]
}

/// Returns a reply with a hosted tool's item, and with items that only the final statement contains.
fn hosted() -> Vec<String> {
    let search = json!({"id": "ws_1", "type": "web_search_call", "status": "completed",
        "action": {"type": "search", "query": "rust"}});
    let click = json!({"id": "cu_1", "type": "computer_call", "call_id": "call_C", "status": "completed"});
    let message = json!({"id": "msg_1", "type": "message", "status": "completed", "role": "assistant",
        "content": [{"type": "output_text", "text": "Found.", "annotations": []}]});
    let call = json!({"id": "fc_1", "type": "function_call", "status": "completed", "call_id": "call_A",
        "name": "get_weather", "arguments": "{}"});
    vec![
        named(&json!({"type": "response.output_item.added", "output_index": 0, "item": search})),
        named(&json!({"type": "response.web_search_call.completed", "output_index": 0, "item_id": "ws_1"})),
        named(&json!({"type": "response.output_item.done", "output_index": 0, "item": search})),
        ended("response.completed", "completed", json!([search, click, message, call]), usage(), json!({})),
    ]
}

/// Returns the items of the reply in the provider's final statement.
fn output() -> Value {
    json!([
        {"id": "rs_1", "type": "reasoning", "encrypted_content": "gAAAENC1",
            "summary": [{"type": "summary_text", "text": "Sum"}]},
        {"id": "msg_1", "type": "message", "status": "completed", "role": "assistant", "phase": "commentary",
            "content": [{"type": "output_text", "text": "Calling.", "annotations": []}]},
        {"id": "fc_1", "type": "function_call", "status": "completed", "call_id": "call_A", "name": "get_weather",
            "arguments": r#"{"city":"Paris"}"#},
        {"id": "rs_2", "type": "reasoning", "encrypted_content": "gAAAENC2", "summary": []},
        {"id": "fc_2", "type": "function_call", "status": "completed", "call_id": "call_B", "name": "get_time",
            "arguments": r#"{"tz":"CET"}"#}
    ])
}

fn response() -> Value {
    json!({"id": "resp_1", "object": "response", "created_at": 1, "model": "gpt-5.6", "status": "in_progress",
        "output": [], "error": null, "incomplete_details": null})
}

fn usage() -> Value {
    json!({"input_tokens": 1000, "input_tokens_details": {"cached_tokens": 896}, "output_tokens": 50,
        "output_tokens_details": {"reasoning_tokens": 30}, "total_tokens": 1050})
}

fn ended(event: &str, status: &str, output: Value, usage: Value, more: Value) -> String {
    let mut response = response();
    response["status"] = status.into();
    response["output"] = output;
    response["usage"] = usage;
    for (key, value) in more.as_object().into_iter().flatten() {
        response[key] = value.clone();
    }
    named(&json!({"type": event, "sequence_number": 15, "response": response}))
}
