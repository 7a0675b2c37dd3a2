//! Scenarios of the chat completions wire.
//!
//! The bytes follow the public protocol; the texts are invented.

use serde_json::{Map, Value, json};

use super::data;

const DONE: &str = "data: [DONE]\n\n";

/// An implausible token count: the sum of twenty of them overflows 64 bits.
const HUGE: u64 = 1_000_000_000_000_000_000;

/// Returns the frames of a scenario of this wire. `oai-flood-2000` is a text of 2,000
/// chunks, `oai-calls500` a reply with 500 calls.
pub(super) fn frames(name: &str) -> Option<Vec<String>> {
    if let Some(count) = name.strip_prefix("oai-flood-") {
        return Some(flood(count.parse().ok()?));
    }
    if let Some(kind) = name.strip_prefix("oai-noreason") {
        return no_reason(kind).map(finished);
    }
    if let Some(count) = name.strip_prefix("oai-calls") {
        return Some(many_calls(count.parse().ok()?));
    }
    let long_id = format!("call_{}__thought__{}", "a".repeat(80), "b".repeat(80));
    Some(match name {
        "oai-ok" => ok(),
        "oai-nodone" => {
            let mut frames = ok();
            frames.pop();
            frames
        }
        "oai-cut" => ok().into_iter().take(6).collect(),
        "oai-noindex" => {
            let calls = [
                call(None, "call_A", "get_weather", r#"{"city":"Paris"}"#),
                call(None, "call_B", "get_time", r#"{"tz":"CET"}"#),
            ];
            let delta = json!({"tool_calls": calls});
            finished(vec![
                chunk(json!({"role": "assistant", "content": "x"}), None),
                chunk(delta, Some("tool_calls")),
            ])
        }
        // Two calls under one index, distinguished only by their ids.
        "oai-index0" => finished(vec![
            calls(&[call(Some(0), "call_A", "get_weather", r#"{"city":"Paris"}"#)]),
            calls(&[call(Some(0), "call_B", "get_time", r#"{"tz":"CET"}"#)]),
            chunk(json!({}), Some("tool_calls")),
        ]),
        "oai-noid" => finished(vec![
            calls(&[call(Some(0), "", "get_weather", r#"{"city":"Paris"}"#)]),
            calls(&[call(Some(1), "", "get_time", r#"{"tz":"CET"}"#)]),
            chunk(json!({}), Some("tool_calls")),
        ]),
        "oai-sameid" => finished(vec![
            calls(&[call(Some(0), "call_A", "get_weather", r#"{"city":"Paris"}"#)]),
            calls(&[call(Some(1), "call_A", "get_time", r#"{"tz":"CET"}"#)]),
            chunk(json!({}), Some("tool_calls")),
        ]),
        "oai-longid" => finished(vec![
            calls(&[call(Some(0), &long_id, "get_weather", r#"{"city": "Paris"}"#)]),
            chunk(json!({}), Some("tool_calls")),
        ]),
        "oai-spaces" => finished(vec![
            calls(&[call(Some(0), "call_A", "get_weather", r#"{ "city" : "Paris", "t": 1.50 }"#)]),
            chunk(json!({}), Some("tool_calls")),
        ]),
        "oai-badargs" => finished(vec![
            calls(&[call(Some(0), "call_A", "get_weather", r#"{city: 'Paris',}"#)]),
            chunk(json!({}), Some("tool_calls")),
        ]),
        "oai-title" => {
            let said = json!({"content": "{\"title\": \"Rollback of the web shop.\"}"});
            finished(vec![chunk(said, None), chunk(json!({}), Some("stop"))])
        }
        "oai-rdetails" => reasoning_details(),
        "oai-parts" => content_parts(),
        "oai-odd" => odd(),
        "oai-custom" => custom_call(),
        _ => return endings(name),
    })
}

/// Returns the frames of a scenario about how a reply ends.
fn endings(name: &str) -> Option<Vec<String>> {
    Some(match name {
        "oai-maxtok" => finished(vec![
            chunk(json!({"role": "assistant", "content": "x"}), None),
            calls(&[call(Some(0), "call_A", "get_weather", r#"{"city":"Pa"#)]),
            chunk(json!({}), Some("length")),
        ]),
        "oai-newstop" => {
            finished(vec![chunk(json!({"content": "hi"}), None), chunk(json!({}), Some("solar_flare"))])
        }
        "oai-filter" => {
            finished(vec![chunk(json!({"content": "hi"}), None), chunk(json!({}), Some("content_filter"))])
        }
        "oai-refusal" => finished(vec![
            chunk(json!({"role": "assistant", "content": null, "refusal": "I can"}), None),
            chunk(json!({"refusal": "not."}), None),
            chunk(json!({}), Some("stop")),
        ]),
        "oai-garbage" => vec![
            chunk(json!({"role": "assistant", "content": "so "}), None),
            "data: {\"id\": nonsense\n\n".to_owned(),
            DONE.to_owned(),
        ],
        "oai-hugeusage" => {
            let mut frames = vec![
                calls(&[call(Some(0), "call_A", "get_weather", r#"{"city":"Paris"}"#)]),
                chunk(json!({}), Some("tool_calls")),
            ];
            frames.push(usage(HUGE, HUGE));
            frames.push(DONE.to_owned());
            frames
        }
        "oai-errmid" => vec![
            chunk(json!({"role": "assistant", "content": "par"}), None),
            data(&json!({"error": {"message": "upstream overloaded", "type": "server_error", "code": 503}})),
        ],
        _ => return None,
    })
}

/// Returns the replies of a gateway that never sends a finish reason. The
/// last reply ends in the middle of a call.
fn no_reason(kind: &str) -> Option<Vec<String>> {
    let weather = |arguments| vec![calls(&[call(Some(0), "call_A", "get_weather", arguments)])];
    match kind {
        "" => Some(vec![
            chunk(json!({"role": "assistant", "content": "Done"}), None),
            chunk(json!({"content": "."}), None),
        ]),
        "-call" => Some(weather(r#"{"city":"Paris"}"#)),
        "-cut" => Some(weather(r#"{"city":"Pa"#)),
        _ => None,
    }
}

fn ok() -> Vec<String> {
    finished(vec![
        chunk(json!({"role": "assistant", "content": null, "reasoning_content": "Hmm "}), None),
        chunk(json!({"reasoning_content": "ok."}), None),
        chunk(json!({"content": "Calling "}), None),
        chunk(json!({"content": "tools."}), None),
        calls(&[call(Some(0), "call_A", "get_weather", "")]),
        calls(&[more(0, r#"{"ci"#)]),
        calls(&[call(Some(1), "call_B", "get_time", "")]),
        calls(&[more(0, r#"ty":"Paris"}"#), more(1, r#"{"tz":"CET"}"#)]),
        chunk(json!({}), Some("tool_calls")),
    ])
}

fn reasoning_details() -> Vec<String> {
    let detail = |key: &str, value: &str| {
        let mut detail = Map::new();
        detail.insert("type".to_owned(), "reasoning.text".into());
        detail.insert(key.to_owned(), value.into());
        detail.insert("format".to_owned(), "anthropic-claude-v1".into());
        detail.insert("index".to_owned(), 0.into());
        json!([detail])
    };
    finished(vec![
        chunk(
            json!({"role": "assistant", "content": "", "reasoning": "R", "reasoning_details": detail("text", "R")}),
            None,
        ),
        chunk(json!({"reasoning_details": detail("signature", "SIGOR")}), None),
        chunk(json!({"content": "hi"}), None),
        calls(&[call(Some(0), "call_A", "get_weather", r#"{"city":"Paris"}"#)]),
        chunk(json!({}), Some("tool_calls")),
    ])
}

/// Returns content in parts: reasoning as Mistral streams it, text, and parts of other kinds.
fn content_parts() -> Vec<String> {
    let thinking = |text: &str| json!([{"type": "thinking", "thinking": [{"type": "text", "text": text}]}]);
    finished(vec![
        chunk(json!({"role": "assistant", "content": thinking("Let me ")}), None),
        chunk(json!({"content": thinking("see.")}), None),
        chunk(json!({"content": [{"type": "text", "text": "Here "}, {"text": "it is."}]}), None),
        chunk(json!({"content": {"type": "reference", "reference_ids": [1]}}), None),
        chunk(
            json!({"images": [{"type": "image_url", "image_url": {"url": "data:image/png;base64,UE5H"}}]}),
            None,
        ),
        chunk(json!({"content": [{"type": "text", "text": "No more."}]}), None),
        chunk(json!({}), Some("stop")),
    ])
}

/// Returns an unusual reply: late reasoning, text between calls, a call with a provider-specific field,
/// arguments that begin with a literal `null`, and another alternative.
fn odd() -> Vec<String> {
    let extra = json!({"google": {"thought_signature": "SIG"}});
    let signed = json!({"index": 0, "id": "call_A", "type": "function", "extra_content": extra,
        "function": {"name": "get_weather", "arguments": "null"}});
    let other = json!({"index": 1, "delta": {"content": "another"}, "finish_reason": "length"});
    finished(vec![
        chunk(json!({"content": "One."}), None),
        calls(&[signed]),
        calls(&[more(0, r#"{"city":"Paris"}"#)]),
        data(&json!({"choices": [other]})),
        chunk(json!({"content": "Two.", "reasoning": "Late."}), None),
        chunk(json!({}), Some("tool_calls")),
    ])
}

/// Returns the frames of a call of a tool that takes free text.
fn custom_call() -> Vec<String> {
    let custom = |id: Option<&str>, input: &str| {
        let mut call = json!({"index": 0, "custom": {"input": input}});
        if let Some(id) = id {
            call["id"] = id.into();
            call["type"] = "custom".into();
            call["custom"]["name"] = "get_time".into();
        }
        call
    };
    finished(vec![
        calls(&[custom(Some("call_A"), "C")]),
        calls(&[custom(None, "ET")]),
        chunk(json!({}), Some("tool_calls")),
    ])
}

fn flood(count: usize) -> Vec<String> {
    let mut frames = vec![chunk(json!({"content": "word "}), None); count];
    frames.push(chunk(json!({}), Some("stop")));
    finished(frames)
}

fn many_calls(count: usize) -> Vec<String> {
    let call = |index| call(Some(index), &format!("call_{index}"), "Glob", r#"{"pattern":"*.csv"}"#);
    let all: Vec<Value> = (0..count).map(call).collect();
    finished(vec![calls(&all), chunk(json!({}), Some("tool_calls"))])
}

fn finished(mut frames: Vec<String>) -> Vec<String> {
    frames.push(usage(1000, 50));
    frames.push(DONE.to_owned());
    frames
}

fn usage(prompt: u64, completion: u64) -> String {
    data(&json!({"id": "chatcmpl-1", "object": "chat.completion.chunk", "created": 1,
        "model": "gpt-x-2026", "choices": [], "usage": {
            "prompt_tokens": prompt, "completion_tokens": completion, "total_tokens": prompt + completion,
            "prompt_tokens_details": {"cached_tokens": 896, "audio_tokens": 0},
            "completion_tokens_details": {"reasoning_tokens": 30}}}))
}

fn chunk(delta: Value, finish: Option<&str>) -> String {
    data(&json!({"id": "chatcmpl-1", "object": "chat.completion.chunk", "created": 1, "model": "gpt-x-2026",
        "choices": [{"index": 0, "delta": delta, "finish_reason": finish}]}))
}

fn calls(calls: &[Value]) -> String {
    chunk(json!({"tool_calls": calls}), None)
}

fn call(index: Option<usize>, id: &str, name: &str, arguments: &str) -> Value {
    let mut call = Map::new();
    if let Some(index) = index {
        call.insert("index".to_owned(), index.into());
    }
    if !id.is_empty() {
        call.insert("id".to_owned(), id.into());
        call.insert("type".to_owned(), "function".into());
    }
    call.insert("function".to_owned(), json!({"name": name, "arguments": arguments}));
    Value::Object(call)
}

fn more(index: usize, arguments: &str) -> Value {
    json!({"index": index, "function": {"arguments": arguments}})
}
