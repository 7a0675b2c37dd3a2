//! Messages as clients keep them, and their ids, which are the same in fragments and in snapshots.
//!
//! Ids are made of places in the journal, so that no table of them is needed.

use serde::Serialize;
use serde_json::{Map, Value, json};
use windlass::machine::{Block, Content, LONG_TEXT, Message as Said, Outcome, RunId, Seq};

/// A message.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(tag = "role", rename_all = "lowercase")]
pub enum Message {
    /// A person's.
    User {
        /// The client's id of it.
        id: String,
        /// What is said.
        content: String,
    },
    /// The agent's.
    #[serde(rename_all = "camelCase")]
    Assistant {
        /// Its id.
        id: String,
        /// What is said.
        #[serde(skip_serializing_if = "Option::is_none")]
        content: Option<String>,
        /// What it asks of tools.
        #[serde(skip_serializing_if = "Vec::is_empty")]
        tool_calls: Vec<ToolCall>,
    },
    /// A tool's.
    #[serde(rename_all = "camelCase")]
    Tool {
        /// Its id.
        id: String,
        /// The call.
        tool_call_id: String,
        /// The result.
        content: String,
        /// How it came to it, where the tool did not simply answer.
        #[serde(skip_serializing_if = "Option::is_none")]
        metadata: Option<Map<String, Value>>,
    },
    /// What the model has thought.
    Reasoning {
        /// Its id.
        id: String,
        /// The thought.
        content: String,
    },
}

impl Message {
    /// Its id, where clients send it back with their next request: what was thought, some keep to themselves.
    pub fn id_that_is_kept(&self) -> Option<&str> {
        match self {
            Self::User { id, .. } | Self::Assistant { id, .. } | Self::Tool { id, .. } => Some(id),
            Self::Reasoning { .. } => None,
        }
    }
}

/// A call in a message.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct ToolCall {
    /// Its id.
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
    /// A call of a tool.
    pub fn new(id: String, name: String, arguments: String) -> Self {
        Self { id, kind: "function", function: Function { name, arguments } }
    }
}

/// The id of a reply: the run, and where its model call began.
pub fn reply_id(run: &RunId, step: Seq) -> String {
    format!("{run}-{step}")
}

/// The id of what the model has thought before a reply.
pub fn thought_id(reply: &str) -> String {
    format!("{reply}-thought")
}

/// The id of a call of a reply.
pub fn call_id(reply: &str, index: usize) -> String {
    format!("{reply}-{index}")
}

/// The id of a call's result.
pub fn result_id(call: &str) -> String {
    format!("{call}-result")
}

/// The id of what a run says beyond its replies.
pub fn last_words_id(run: &RunId) -> String {
    format!("{run}-end")
}

/// A reply as messages: what was thought, then what is said and asked of tools.
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

/// The parts of a reply: what was thought, what is said, and each call's tool and arguments.
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

/// A text. Those that are stored apart are filled in before they come here; one that could not be is marked.
pub fn text(content: &Content) -> &str {
    content.inline().unwrap_or(LONG_TEXT)
}

/// What blocks say, as one text; media is told by name, type and size.
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

/// What is said of a result beside its text; nothing where the tool has answered and it is no error.
pub fn remark(outcome: Outcome, error: bool) -> Option<Map<String, Value>> {
    if outcome == Outcome::Returned && !error {
        return None;
    }
    match json!({"outcome": outcome, "error": error}) {
        Value::Object(remark) => Some(remark),
        _ => None, // tidy: it is an object
    }
}
