//! Random histories and settings: both encoders write the same requests.
//!
//! The library writes fields without a value, and marks parts that are not
//! thoughts. Windlass's encoder omits both.

use proptest::prelude::*;
use serde_json::{Value, json};

use crate::config::WireKind;
use crate::oracle::history::{self, Items};
use crate::oracle::request::{self, assert_same, bodies};

const MODELS: [&str; 8] = [
    "gemini-3.8-flash",
    "gemini-2.5-flash",
    "gemini-2.5-pro-preview-06-05",
    "gemini-2.5-flash-lite-unheard-of",
    "gemini-2.0-flash-001",
    "gemini-3-pro-unheard-of",
    "gemini-flash-latest",
    "gemma-unheard-of",
];

fn items() -> Items {
    let call = |signature: &str| json!({"functionCall": {"id": "call_1", "name": "f", "args": null}, "thoughtSignature": signature});
    Items {
        kind: WireKind::Gemini,
        reasoning: vec![json!({"text": null, "thought": true})],
        texts: vec![json!({"text": null, "thoughtSignature": "U0lH"})],
        calls: vec![call("U0lH"), call("no base64!")],
        opaque: vec![json!({"inlineData": {"mimeType": "image/png", "data": "UE5H"}})],
        ids: vec!["call_1", "call_2", "call/7"],
    }
}

fn comparable(mut body: Value) -> Value {
    let fields = body.as_object_mut().unwrap();
    fields.retain(|_, value| !value.is_null());
    for tool in fields.get_mut("tools").and_then(Value::as_array_mut).into_iter().flatten() {
        tool.as_object_mut().unwrap().retain(|_, value| !value.is_null());
    }
    let system = fields.get_mut("systemInstruction").map(|system| system["parts"].take());
    if let Some(Value::Array(mut parts)) = system {
        parts.iter_mut().for_each(plain);
        body["systemInstruction"]["parts"] = Value::Array(parts);
    }
    for content in body["contents"].as_array_mut().unwrap() {
        content["parts"].as_array_mut().unwrap().iter_mut().for_each(plain);
        // Blank texts are omitted.
        content["parts"].as_array_mut().unwrap().retain(|part| {
            let is_blank = part["text"].as_str().is_some_and(|text| text.trim().is_empty());
            !is_blank || part.as_object().unwrap().len() > 1
        });
    }
    body["contents"]
        .as_array_mut()
        .unwrap()
        .retain(|content| !content["parts"].as_array().unwrap().is_empty());
    body
}

fn plain(part: &mut Value) {
    if part["thought"] == false {
        part.as_object_mut().unwrap().shift_remove("thought");
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(3_000))]
    #[test]
    fn both_encoders_write_the_same_requests(
        messages in history::history(&items()),
        model in prop::sample::select(MODELS.to_vec()),
        tools in prop::bool::weighted(0.9),
        tail in history::words(),
        settings in request::settings(),
    ) {
        let mut messages = messages;
        if !tools {
            request::plain_arguments(&mut messages);
        }
        let tail = request::tail_of(&messages, tail);
        let mut call = history::call(messages, tools, tail);
        call.request.settings = settings;
        let bodies = bodies(WireKind::Gemini, "gemini", model, &call).map(comparable);
        assert_same("contents", &bodies, model);
    }
}
