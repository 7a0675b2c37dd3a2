//! The form of a history on each wire.

use std::sync::Arc;

use serde_json::Value;
use windlass::models::WireKind;
use windlass::port::model::ModelCall;
use windlass_machine::{Block, Content, Message, Role, ToolCall, ToolResult};

use super::name_of;
use super::request::sent;

/// The role of each message in a body.
fn speakers(messages: &Value) -> Vec<&str> {
    messages.as_array().unwrap().iter().map(|message| message["role"].as_str().unwrap()).collect()
}

// rows: LM-L2
#[tokio::test]
async fn roles_alternate_where_the_wire_wants_it_and_each_call_has_its_result() {
    let edit = |call: &mut ModelCall| {
        let asked = ToolCall {
            id: "call_1".to_owned(),
            name: "get_weather".into(),
            asked: Content::Inline(r#"{"city":"Rome"}"#.to_owned()),
            native: None,
        };
        let result = ToolResult {
            call_id: asked.id.clone(),
            name: asked.name.clone(),
            content: vec![Block::text("sunny")],
            error: false,
        };
        let messages = [
            Message::text(Role::User, "First."),
            Message::text(Role::User, "And this."),
            Message { role: Role::Assistant, blocks: vec![Block::ToolCall(asked)] },
            Message { role: Role::Tool, blocks: vec![Block::ToolResult(result)] },
            Message::text(Role::User, "Hurry."),
        ];
        call.request.messages = messages.map(Arc::new).into();
    };
    let anthropic = sent("anth-ok", name_of(WireKind::Anthropic), |_| {}, edit).await.body;
    assert_eq!(speakers(&anthropic["messages"]), ["user", "assistant", "user"]);
    let answers = |parts: &Value| {
        let parts = parts.as_array().unwrap().iter();
        parts.filter(|part| part["tool_use_id"] == "call_1" || part.get("functionResponse").is_some()).count()
    };
    assert_eq!(answers(&anthropic["messages"][2]["content"]), 1);
    let gemini = sent("gem-ok", name_of(WireKind::Gemini), |_| {}, edit).await.body;
    // This wire accepts a message after a result as a separate one.
    assert_eq!(speakers(&gemini["contents"]), ["user", "model", "user", "user"]);
    assert_eq!(answers(&gemini["contents"][2]["parts"]), 1);
    let ids = |body: &Value| {
        let of = |turn: usize, kind: &str| body["contents"][turn]["parts"][0][kind]["id"].clone();
        [of(1, "functionCall"), of(2, "functionResponse")]
    };
    assert_eq!(ids(&gemini), ["call_1", "call_1"]);
    // Models before Gemini 3 neither create nor accept ids.
    let older = sent("gem-ok", "gemini/gemini-2.5-flash", |_| {}, edit).await.body;
    assert_eq!(ids(&older), [Value::Null, Value::Null]);
    let chat = sent("oai-ok", name_of(WireKind::OpenaiChat), |_| {}, edit).await.body;
    assert_eq!(
        chat["messages"].as_array().unwrap().iter().filter(|message| message["role"] == "tool").count(),
        1
    );
}
