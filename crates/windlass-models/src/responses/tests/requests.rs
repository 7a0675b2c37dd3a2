//! Random histories and settings: both encoders write the same requests.
//!
//! `comparable` removes the intended differences.

use proptest::prelude::*;
use serde_json::{Value, json};
use windlass_machine::{Block, Content, Message, Role};

use crate::config::WireKind;
use crate::oracle::history::{self, Items};
use crate::oracle::request::{self, assert_same, bodies};

const MODELS: [(&str, &str); 10] = [
    ("openai", "gpt-5.2"),
    ("openai", "gpt-5.6"),
    ("openai", "gpt-4.1"),
    ("openai", "o3-mini"),
    ("openai", "gpt-3.5-turbo"),
    ("openai", "gpt-5-unheard-of"),
    ("azure", "deployment"),
    ("openrouter", "openai/gpt-5.2"),
    ("xai", "grok-4"),
    ("openai-compatible", "model-x"),
];

fn items() -> Items {
    let reasoning = |ciphertext: Value| {
        json!({"id": "rs_1", "type": "reasoning", "encrypted_content": ciphertext,
            "summary": [{"type": "summary_text", "text": null}]})
    };
    let message = json!({"id": "msg_1", "type": "message", "status": "completed", "role": "assistant",
        "content": [{"type": "output_text", "text": null, "annotations": []}]});
    let call =
        json!({"id": "fc_1", "type": "function_call", "call_id": "call_1", "name": "f", "arguments": null});
    let custom =
        json!({"id": "ctc_1", "type": "custom_tool_call", "call_id": "call_1", "name": "f", "input": "x"});
    Items {
        kind: WireKind::OpenaiResponses,
        reasoning: vec![reasoning("gAAA".into()), reasoning("".into())],
        texts: vec![message],
        calls: vec![call, custom],
        opaque: vec![json!({"id": "ws_1", "type": "web_search_call", "status": "completed"})],
        ids: vec!["call_1", "call_2", "call/7_"],
    }
}

/// Removes the intended differences from a body. Windlass sends arguments as the model wrote them, while the
/// library re-encodes them. Texts of another endpoint have ids from Windlass.
fn comparable(mut body: Value) -> Value {
    for item in body["input"].as_array_mut().unwrap() {
        let is_made =
            item["id"].as_str().is_some_and(|id| id.starts_with("msg_rig") || id.starts_with("msg_windlass"));
        if is_made {
            item["id"] = "msg".into();
        }
        if item["type"] == "function_call"
            && let Some(arguments) = item["arguments"].as_str()
            && let Ok(arguments) = serde_json::from_str(arguments)
        {
            item["arguments"] = arguments;
        }
    }
    body
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(3_000))]
    #[test]
    fn both_encoders_write_the_same_requests(
        messages in history::history(&items()),
        (provider, model) in prop::sample::select(MODELS.to_vec()),
        tools in prop::bool::weighted(0.9),
        tail in history::words(),
        settings in request::settings(),
    ) {
        let mut messages = messages;
        if !tools {
            request::plain_arguments(&mut messages);
        }
        request::unblank(&mut messages);
        let tail = request::tail_of(&messages, tail);
        let mut call = history::call(messages, tools, tail);
        call.request.settings = settings;
        let bodies = bodies(WireKind::OpenaiResponses, provider, model, &call).map(comparable);
        assert_same("input", &bodies, &format!("{provider}/{model}"));
    }
}

/// The result of a call with free text as its input has the matching type, also if the call's id was adapted.
#[test]
fn a_custom_call_gets_a_custom_result() {
    let item = items().calls[1].clone();
    let call = windlass_machine::ToolCall {
        id: "call_1".to_owned(),
        name: "f".into(),
        asked: Content::from("{\"input\":\"x\"}"),
        native: history::own(WireKind::OpenaiResponses, item),
    };
    let result = windlass_machine::ToolResult {
        call_id: "call_1".to_owned(),
        name: "f".into(),
        content: vec![Block::text("ok")],
        error: false,
    };
    let messages = vec![
        Message::text(Role::User, "1"),
        Message { role: Role::Assistant, blocks: vec![Block::ToolCall(call)] },
        Message { role: Role::Tool, blocks: vec![Block::ToolResult(result)] },
    ];
    let [ours, _] =
        bodies(WireKind::OpenaiResponses, "openai", "gpt-5.2", &history::call(messages, true, String::new()));
    assert_eq!(
        ours["input"][2],
        json!({"type": "custom_tool_call_output", "call_id": "call_1", "output": "ok"})
    );
}
