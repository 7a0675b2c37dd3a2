//! Random histories and settings: both encoders write the same requests.
//!
//! The library sends a blank text together with the item that it creates for the text,
//! which Anthropic rejects. Windlass omits both.

use proptest::prelude::*;
use serde_json::{Value, json};
use windlass_machine::{Block, Message, Reasoning, Role};

use crate::config::WireKind;
use crate::oracle::history::{self, Items};
use crate::oracle::request::{self, assert_same, bodies};

const MODELS: [(&str, &str); 7] = [
    ("anthropic", "claude-opus-4-6"),
    ("anthropic", "claude-haiku-4-5"),
    ("anthropic", "claude-opus-5-5"),
    ("anthropic", "claude-sonnet-5-5"),
    ("anthropic", "claude-sonnet-4-5-20250929"),
    ("anthropic", "claude-unheard-of"),
    ("anthropic-compatible", "claude-y"),
];

fn items() -> Items {
    let hosted = |kind: &str, key: &str| json!({"type": kind, key: "srv_1", "name": "web_search"});
    Items {
        kind: WireKind::Anthropic,
        reasoning: vec![
            json!({"type": "thinking", "thinking": null, "signature": "S"}),
            json!({"type": "redacted_thinking", "data": "R"}),
        ],
        texts: vec![json!({"type": "text", "text": null, "citations": [{"cited_text": "c"}]})],
        calls: vec![
            json!({"type": "tool_use", "id": "call_1", "name": "f", "input": null, "caller": {"type": "direct"}}),
        ],
        opaque: vec![
            hosted("server_tool_use", "id"),
            hosted("web_search_tool_result", "tool_use_id"),
            json!({"type": "hologram", "beam": 1}),
            json!({"type": "container", "container": {"id": "cont_1"}}),
        ],
        ids: vec!["call_1", "call_2", "call/7"],
    }
}

/// Returns a body without blank texts and without turns that consist of blank texts.
fn comparable(mut body: Value) -> Value {
    let messages = body["messages"].as_array_mut().unwrap();
    for message in messages.iter_mut() {
        let is_blank = |part: &Value| part["text"].as_str().is_some_and(|text| text.trim().is_empty());
        message["content"]
            .as_array_mut()
            .unwrap()
            .retain(|part| part.get("citations").is_some() || !is_blank(part));
    }
    messages.retain(|message| !message["content"].as_array().unwrap().is_empty());
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
        let bodies = bodies(WireKind::Anthropic, provider, model, &call).map(comparable);
        // If thinking is bound and the provider cannot drop it, the library sends the thinking as text, and
        // all other items as another model's.
        let is_adaptive = bodies[1]["thinking"].is_null() || bodies[1]["thinking"]["type"] == "adaptive";
        prop_assume!(is_adaptive || !model.ends_with("-5-5"));
        assert_same("messages", &bodies, &format!("{provider}/{model}"));
    }
}

#[test]
fn bound_thinking_goes_back_only_where_the_provider_drops_it() {
    let thinking = Block::Reasoning {
        text: "T".into(),
        native: history::own(WireKind::Anthropic, items().reasoning[0].clone()),
    };
    let said = Message { role: Role::Assistant, blocks: vec![thinking, Block::text("said")] };
    let messages = vec![Message::text(Role::User, "1"), said, Message::text(Role::User, "2")];
    let sent = |reasoning: Reasoning| {
        let mut call = history::call(messages.clone(), true, String::new());
        call.request.settings.reasoning = reasoning;
        let [ours, _] = bodies(WireKind::Anthropic, "anthropic", "claude-sonnet-5-5", &call);
        (
            ours["thinking"]["block_binding"].is_object(),
            ours["messages"][1]["content"].as_array().unwrap().len(),
        )
    };
    assert_eq!(sent(Reasoning::Auto), (true, 2));
    assert_eq!(sent(Reasoning::Off), (false, 1));
}
