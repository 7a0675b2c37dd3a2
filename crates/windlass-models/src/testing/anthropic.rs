//! Scenarios of the Anthropic messages wire.
//!
//! The bytes follow the public protocol; the texts are invented.

use serde_json::{Value, json};

use super::named;

/// Returns the frames of a scenario of this wire.
pub(super) fn frames(name: &str) -> Option<Vec<String>> {
    Some(match name {
        "anth-ok" => ok(),
        "anth-inter" => [
            vec![start()],
            thinking(0, &["T1"], &["SIG-ONE"]),
            text(1, &["text-1"]),
            thinking(2, &["T2"], &["SIG-TWO"]),
            whole(3, json!({"type": "redacted_thinking", "data": "REDACTED-DATA"})),
            text(4, &["text-2"]),
            tool(5, "toolu_C", "get_weather", &[r#"{"city":"Rome"}"#]),
            end("tool_use", Value::Null),
        ]
        .concat(),
        "anth-emptythink" => [
            vec![start()],
            thinking(0, &[], &["SIG-EMPTY"]),
            tool(1, "toolu_E", "get_weather", &[r#"{"city":"Rome"}"#]),
            end("tool_use", Value::Null),
        ]
        .concat(),
        "anth-server" => server_tools(),
        "anth-unknown" => [
            vec![start()],
            text(0, &["Look."]),
            whole(1, json!({"type": "hologram", "beam": {"z": 1, "a": 2.5}})),
            end("end_turn", Value::Null),
        ]
        .concat(),
        "anth-refusal" => {
            let details = json!({"type": "refusal", "category": "cyber", "explanation": "no can do"});
            [vec![start()], text(0, &["Par"]), end("refusal", details)].concat()
        }
        "anth-pause" => [vec![start()], text(0, &["Par"]), end("pause_turn", Value::Null)].concat(),
        "anth-stopseq" => [vec![start()], text(0, &["Par"]), end("stop_sequence", Value::Null)].concat(),
        "anth-newstop" => [vec![start()], text(0, &["Par"]), end("solar_flare", Value::Null)].concat(),
        "anth-maxtok" => [
            vec![start()],
            text(0, &["x"]),
            vec![
                opened(1, json!({"type": "tool_use", "id": "toolu_Z", "name": "get_weather", "input": {}})),
                grown(1, json!({"type": "input_json_delta", "partial_json": r#"{"city":"Pa"#})),
            ],
            end("max_tokens", Value::Null),
        ]
        .concat(),
        "anth-errevent" => vec![
            start(),
            opened(0, json!({"type": "text", "text": ""})),
            grown(0, json!({"type": "text_delta", "text": "partial"})),
            named(&json!({"type": "error", "error": {"type": "overloaded_error", "message": "Overloaded"},
                "request_id": "req_x"})),
        ],
        "anth-cut" => ok().into_iter().take(10).collect(),
        "anth-cut-afterdelta" => shortened(2),
        "anth-cut-nostop" => shortened(1),
        _ => return None,
    })
}

/// Returns the first frames of a reply, up to the middle of its first block.
pub(super) fn beginning() -> Vec<String> {
    ok().into_iter().take(6).collect()
}

fn shortened(by: usize) -> Vec<String> {
    let mut frames = ok();
    frames.truncate(frames.len() - by);
    frames
}

fn ok() -> Vec<String> {
    [
        vec![start(), named(&json!({"type": "ping"}))],
        thinking(0, &["Let me ", "think."], &["EuYBCkQYAiJAsig", "natureONE=="]),
        text(1, &["I will ", "call two tools."]),
        tool(2, "toolu_A", "get_weather", &[r#"{"ci"#, r#"ty":"Pa"#, r#"ris"}"#]),
        tool(3, "toolu_B", "get_time", &[r#"{"tz":"#, r#""CET"}"#]),
        end("tool_use", Value::Null),
    ]
    .concat()
}

fn server_tools() -> Vec<String> {
    let found =
        json!([{"type": "web_search_result", "url": "https://x", "title": "X", "encrypted_content": "ENC"}]);
    let citation = json!({"type": "web_search_result_location", "url": "https://x", "title": "X",
        "encrypted_index": "EI", "cited_text": "nice"});
    [
        vec![start()],
        text(0, &["Searching."]),
        vec![
            opened(
                1,
                json!({"type": "server_tool_use", "id": "srvtoolu_1", "name": "web_search", "input": {}}),
            ),
            grown(1, json!({"type": "input_json_delta", "partial_json": r#"{"query":"#})),
            grown(1, json!({"type": "input_json_delta", "partial_json": r#""rust"}"#})),
            closed(1),
        ],
        whole(2, json!({"type": "web_search_tool_result", "tool_use_id": "srvtoolu_1", "content": found})),
        vec![
            opened(3, json!({"type": "text", "text": "", "citations": []})),
            grown(3, json!({"type": "text_delta", "text": "Rust is nice"})),
            grown(3, json!({"type": "citations_delta", "citation": citation})),
            closed(3),
        ],
        end("end_turn", Value::Null),
    ]
    .concat()
}

fn start() -> String {
    named(
        &json!({"type": "message_start", "message": {"id": "msg_01ABC", "type": "message", "role": "assistant",
        "model": "claude-opus-4-6-20260205", "content": [], "stop_reason": null, "stop_sequence": null,
        "usage": {"input_tokens": 12, "cache_creation_input_tokens": 300, "cache_read_input_tokens": 2048,
            "cache_creation": {"ephemeral_5m_input_tokens": 100, "ephemeral_1h_input_tokens": 200},
            "output_tokens": 1, "service_tier": "standard"}}}),
    )
}

fn end(reason: &str, details: Value) -> Vec<String> {
    let mut delta = json!({"stop_reason": reason, "stop_sequence": null});
    if !details.is_null() {
        delta["stop_details"] = details;
    }
    let usage = json!({"input_tokens": 12, "cache_creation_input_tokens": 300, "cache_read_input_tokens": 2048,
        "output_tokens": 89});
    vec![
        named(&json!({"type": "message_delta", "delta": delta, "usage": usage})),
        named(&json!({"type": "message_stop"})),
    ]
}

fn opened(index: usize, block: Value) -> String {
    named(&json!({"type": "content_block_start", "index": index, "content_block": block}))
}

fn grown(index: usize, delta: Value) -> String {
    named(&json!({"type": "content_block_delta", "index": index, "delta": delta}))
}

fn closed(index: usize) -> String {
    named(&json!({"type": "content_block_stop", "index": index}))
}

fn whole(index: usize, block: Value) -> Vec<String> {
    vec![opened(index, block), closed(index)]
}

fn thinking(index: usize, texts: &[&str], signatures: &[&str]) -> Vec<String> {
    let mut frames = vec![opened(index, json!({"type": "thinking", "thinking": "", "signature": ""}))];
    frames.extend(texts.iter().map(|text| grown(index, json!({"type": "thinking_delta", "thinking": text}))));
    frames.extend(
        signatures.iter().map(|part| grown(index, json!({"type": "signature_delta", "signature": part}))),
    );
    frames.push(closed(index));
    frames
}

fn text(index: usize, texts: &[&str]) -> Vec<String> {
    let mut frames = vec![opened(index, json!({"type": "text", "text": ""}))];
    frames.extend(texts.iter().map(|text| grown(index, json!({"type": "text_delta", "text": text}))));
    frames.push(closed(index));
    frames
}

fn tool(index: usize, id: &str, name: &str, parts: &[&str]) -> Vec<String> {
    let mut frames = vec![opened(index, json!({"type": "tool_use", "id": id, "name": name, "input": {}}))];
    let parts = std::iter::once(&"").chain(parts);
    frames.extend(parts.map(|part| grown(index, json!({"type": "input_json_delta", "partial_json": part}))));
    frames.push(closed(index));
    frames
}
