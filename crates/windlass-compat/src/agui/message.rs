//! Messages in AG-UI's shape, and their ids. Fragments and snapshots use the same ids.
//!
//! Ids are derived from journal positions, so no table of ids is needed.

use serde::Serialize;
use serde_json::{Map, Value, json};
use windlass::machine::{Block, Content, LONG_TEXT, Message as Said, Outcome, RunId, Seq};

#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(tag = "role", rename_all = "lowercase")]
pub enum Message {
    User {
        /// The client's id of the message.
        id: String,
        content: String,
    },
    #[serde(rename_all = "camelCase")]
    Assistant {
        id: String,
        #[serde(skip_serializing_if = "Option::is_none")]
        content: Option<String>,
        #[serde(skip_serializing_if = "Vec::is_empty")]
        tool_calls: Vec<ToolCall>,
    },
    #[serde(rename_all = "camelCase")]
    Tool {
        id: String,
        tool_call_id: String,
        content: String,
        /// The outcome, if the tool did not return normally.
        #[serde(skip_serializing_if = "Option::is_none")]
        metadata: Option<Map<String, Value>>,
    },
    /// Reasoning of the model.
    Reasoning { id: String, content: String },
}

impl Message {
    /// Returns the message id, if clients send the message back in their next request. Returns `None` for reasoning,
    /// which some clients do not send back.
    pub fn id_that_is_kept(&self) -> Option<&str> {
        match self {
            Self::User { id, .. } | Self::Assistant { id, .. } | Self::Tool { id, .. } => Some(id),
            Self::Reasoning { .. } => None,
        }
    }
}

/// A tool call inside an assistant message.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct ToolCall {
    pub id: String,
    #[serde(rename = "type")]
    kind: &'static str,
    function: Function,
}

#[derive(Clone, Debug, PartialEq, Serialize)]
struct Function {
    name: String,
    arguments: String,
}

impl ToolCall {
    pub fn new(id: String, name: String, arguments: String) -> Self {
        Self { id, kind: "function", function: Function { name, arguments } }
    }
}

/// Returns the id of a reply: the run, and the event at which the model call began.
pub fn reply_id(run: &RunId, step: Seq) -> String {
    format!("{run}-{step}")
}

/// Returns the id of the reasoning that precedes a reply.
pub fn thought_id(reply: &str) -> String {
    format!("{reply}-thought")
}

/// Returns the id of a call in a reply.
pub fn call_id(reply: &str, index: usize) -> String {
    format!("{reply}-{index}")
}

/// Returns the id of a call's result.
pub fn result_id(call: &str) -> String {
    format!("{call}-result")
}

/// Returns the id of the text that a run adds after its last reply.
pub fn last_words_id(run: &RunId) -> String {
    format!("{run}-end")
}

/// Converts a reply to messages: the reasoning, then the text with the tool calls.
pub fn of_reply(id: &str, thought: String, said: String, calls: Vec<ToolCall>) -> Vec<Message> {
    let mut messages = Vec::new();
    if !thought.is_empty() {
        messages.push(Message::Reasoning { id: thought_id(id), content: thought });
    }
    if !said.is_empty() || !calls.is_empty() {
        let content = (!said.is_empty()).then_some(said);
        messages.push(Message::Assistant { id: id.to_owned(), content, tool_calls: calls });
    }
    messages
}

/// Splits a reply into its reasoning, its text, and each call's tool and arguments.
pub fn parts(message: &Said) -> (String, String, Vec<(String, String)>) {
    let (mut thought, mut said, mut calls) = (String::new(), String::new(), Vec::new());
    for block in &message.blocks {
        match block {
            Block::Reasoning { text: more, .. } => thought.push_str(text(more)),
            Block::Text { text: more, .. } => said.push_str(text(more)),
            Block::ToolCall(call) => calls.push((call.name.to_string(), text(&call.asked).to_owned())),
            Block::Image { .. } | Block::File { .. } | Block::ToolResult(_) | Block::Opaque { .. } => {}
        }
    }
    (thought, said, calls)
}

/// Returns the text of a content. The caller fills in offloaded texts beforehand; a missing text is replaced by a mark.
pub fn text(content: &Content) -> &str {
    content.inline().unwrap_or(LONG_TEXT)
}

/// Formats blocks as one text. Describes media by name, type and size.
pub fn plain(blocks: &[Block]) -> String {
    let told = blocks.iter().filter_map(|block| match block {
        Block::Text { text: said, .. } => Some(text(said).to_owned()),
        Block::Image { blob } => Some(format!("[image: {}, {} bytes]", blob.media_type, blob.size_bytes)),
        Block::File { name, blob } => {
            Some(format!("[file `{name}`: {}, {} bytes]", blob.media_type, blob.size_bytes))
        }
        Block::Reasoning { .. } | Block::ToolCall(_) | Block::ToolResult(_) | Block::Opaque { .. } => None,
    });
    told.collect::<Vec<_>>().join("\n")
}

/// Returns the metadata of a result: its outcome. Returns `None` if the tool returned normally and without an error.
pub fn remark(outcome: Outcome, error: bool) -> Option<Map<String, Value>> {
    if outcome == Outcome::Returned && !error {
        return None;
    }
    match json!({"outcome": outcome, "error": error}) {
        Value::Object(remark) => Some(remark),
        _ => None, // tidy: it is an object
    }
}
