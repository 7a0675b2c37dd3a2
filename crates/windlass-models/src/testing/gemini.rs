//! Scenarios of the Gemini wire.
//!
//! The bytes follow the public protocol; the texts are invented.

use serde_json::{Value, json};

use super::data;

/// Returns the frames of a scenario of this wire.
pub(super) fn frames(name: &str) -> Option<Vec<String>> {
    Some(match name {
        "gem-ok" => ok(),
        "gem-cut" => ok().into_iter().take(2).collect(),
        "gem-safety" => vec![chunk(json!([{"text": "Par"}]), None), chunk(json!([]), Some("SAFETY"))],
        "gem-odd" => odd(),
        "gem-blocked" => vec![data(&json!({"promptFeedback": {"blockReason": "SAFETY"}}))],
        "gem-errmid" => vec![
            chunk(json!([{"text": "Par"}]), None),
            data(
                &json!({"error": {"code": 503, "message": "The model is overloaded.", "status": "UNAVAILABLE"}}),
            ),
        ],
        _ => return None,
    })
}

fn ok() -> Vec<String> {
    vec![
        chunk(json!([{"text": "thinking..", "thought": true}]), None),
        chunk(json!([{"text": "Calling "}]), None),
        chunk(
            json!([
                {"functionCall": {"id": "g1", "name": "get_weather", "args": {"city": "Paris"}},
                    "thoughtSignature": "R1NJRzE="},
                {"functionCall": {"id": "g2", "name": "get_time", "args": {"tz": "CET"}}}
            ]),
            None,
        ),
        chunk(json!([{"text": ""}]), Some("STOP")),
    ]
}

/// Returns an unusual reply: separate signatures, a call without arguments or an id, an image, an unknown
/// part, and a part without content.
fn odd() -> Vec<String> {
    vec![
        chunk(json!([{"thoughtSignature": "FIRST"}]), None),
        chunk(json!([{"text": "One"}]), None),
        chunk(
            json!([{"text": " more", "thoughtSignature": "SECOND"}, {"text": ".", "thoughtSignature": "THIRD"}]),
            None,
        ),
        chunk(json!([{"functionCall": {"name": "get_time"}}, {"thoughtSignature": "FOURTH"}]), None),
        chunk(json!([{"inlineData": {"mimeType": "image/png", "data": "UE5H"}}]), None),
        chunk(json!([{"hologram": {"z": 1}}, {"thought": true}, {"text": ""}]), None),
        chunk(json!([{"text": "End"}]), Some("STOP")),
        chunk(json!([{"text": "."}]), Some("MAX_TOKENS")),
    ]
}

fn chunk(parts: Value, finish: Option<&str>) -> String {
    let mut candidate = json!({"content": {"role": "model", "parts": parts}, "index": 0});
    if let Some(finish) = finish {
        candidate["finishReason"] = finish.into();
    }
    data(&json!({"candidates": [candidate], "modelVersion": "gemini-3.8-pro", "responseId": "rid",
        "usageMetadata": {"promptTokenCount": 1000, "cachedContentTokenCount": 800, "candidatesTokenCount": 5,
            "thoughtsTokenCount": 20, "totalTokenCount": 1025}}))
}
