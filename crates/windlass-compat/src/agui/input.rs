//! The request body of AG-UI: a run input. All fields are parsed; client tools, state and context are not passed to the
//! agent.

use serde::Deserialize;
use serde_json::{Value, json};
use windlass::machine::{Block, InputId, Message, Mode, Role};
use windlass_server::http::problem::Problem;
use windlass_server::http::start::send::Said;

use super::word::Word;

/// Maximum length of an accepted id in bytes. Clients use UUIDs.
const ID_MAX_BYTES: usize = 256;
/// Maximum number of messages in a request.
const MESSAGES_MAX: usize = 10_000;

/// A run input. Unknown members are ignored, as AG-UI requires.
#[derive(Clone, Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct RunInput {
    pub thread_id: String,
    pub run_id: String,
    messages: Vec<Line>,
    #[serde(default)]
    tools: Vec<Tool>,
    #[serde(default)]
    context: Vec<Value>,
    #[serde(default)]
    state: Value,
    #[serde(default)]
    forwarded_props: Value,
    /// Answers to the interrupts of an earlier run.
    #[serde(default)]
    pub resume: Vec<Resume>,
}

#[derive(Clone, Debug, Deserialize)]
struct Line {
    id: String,
    role: String,
    #[serde(default)]
    content: Value,
}

#[derive(Clone, Debug, Deserialize)]
struct Tool {
    name: String,
}

/// An answer to one interrupt.
#[derive(Clone, Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Resume {
    pub interrupt_id: String,
    pub status: Status,
    /// The answer; its shape is the interrupt's `responseSchema`.
    #[serde(default)]
    pub payload: Value,
    /// Further members. The server reads only `approval`.
    #[serde(default)]
    pub metadata: Value,
}

/// Whether the client answers an interrupt.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Status {
    /// The payload is an answer.
    Resolved,
    /// The client declines to answer.
    Cancelled,
}

/// A new message of the user.
#[derive(Clone, Debug, PartialEq)]
pub struct New {
    /// The client's id of the message.
    pub id: InputId,
    pub message: Message,
}

impl RunInput {
    /// Rejects empty ids, ids that are too long, and too many messages.
    pub fn check(&self) -> Result<(), Problem> {
        let users =
            self.messages.iter().filter(|line| line.role == "user").map(|line| ("messages[].id", &line.id));
        for (name, id) in [("threadId", &self.thread_id), ("runId", &self.run_id)].into_iter().chain(users) {
            if !(1..=ID_MAX_BYTES).contains(&id.len()) {
                let shown: String = id.chars().take(40).collect();
                let detail = format!("`{name}` is `{shown}`; an id must have 1 to {ID_MAX_BYTES} bytes");
                return Err(Problem::invalid(detail));
            }
        }
        if self.messages.len() > MESSAGES_MAX {
            let detail =
                format!("the input has {} messages; at most {MESSAGES_MAX} are allowed", self.messages.len());
            return Err(
                Problem::invalid(detail).hint("send only the newest ones; the server has the history")
            );
        }
        self.mode().map(drop)
    }

    /// Returns the mode that the client requests, from the member `mode` of `forwardedProps`. Ignores other members.
    pub fn mode(&self) -> Result<Option<Mode>, Problem> {
        match &self.forwarded_props["mode"] {
            Value::Null => Ok(None),
            Value::String(word) => word.parse().map(Some).map_err(Problem::invalid),
            other => {
                Err(Problem::invalid(format!("`forwardedProps.mode` is `{other}`, which is not a string")))
            } // tidy: JSON
        }
    }

    /// Returns the id of the user's newest message.
    pub fn newest_id(&self) -> Option<InputId> {
        self.newest_line().map(|line| InputId::from(line.id.as_str()))
    }

    fn newest_line(&self) -> Option<&Line> {
        self.messages.iter().rev().find(|line| line.role == "user")
    }

    /// Returns the user's newest message.
    pub fn newest(&self) -> Result<Option<New>, Problem> {
        let Some(line) = self.newest_line() else { return Ok(None) };
        let message = line.read()?;
        Ok(Some(New { id: InputId::from(line.id.as_str()), message }))
    }

    /// Whether the input contains a message with this id.
    pub fn has(&self, id: &str) -> bool {
        self.messages.iter().any(|line| line.id == id)
    }

    /// Returns a `CUSTOM` event that names the parts of the input that are not passed to the agent.
    /// Returns `None` if all parts are passed.
    pub fn unused(&self) -> Option<Word> {
        let tools: Vec<&str> = self.tools.iter().map(|tool| tool.name.as_str()).collect();
        let has_state = match &self.state {
            Value::Null => false,
            Value::Object(members) => !members.is_empty(),
            Value::Bool(_) | Value::Number(_) | Value::String(_) | Value::Array(_) => true,
        };
        if tools.is_empty() && self.context.is_empty() && !has_state {
            return None;
        }
        let value = json!({"tools": tools, "context": self.context.len(), "state": has_state});
        Some(Word::Custom { name: "windlass.not_given_to_the_agent", value })
    }
}

impl Line {
    fn read(&self) -> Result<Message, Problem> {
        let parts = match &self.content {
            Value::String(text) => return Said::Text(text.clone()).read(),
            Value::Array(parts) => parts,
            other => {
                let detail =
                    format!("the content of message `{}` is `{other}`, which is not a string", self.id);
                return Err(Problem::invalid(detail));
            }
        };
        let mut message = Message { role: Role::User, blocks: Vec::with_capacity(parts.len()) };
        for part in parts {
            match part["text"].as_str().filter(|_| part["type"] == "text") {
                Some(text) => message.blocks.push(Block::text(text)),
                None => {
                    let detail = format!(
                        "message `{}` has a part of type {}, which is not supported",
                        self.id, part["type"]
                    );
                    return Err(Problem::invalid(detail).hint("upload files with `/api/v1/files`"));
                }
            }
        }
        let whole: String = message.texts().filter_map(|text| text.inline()).collect();
        Said::Text(whole).read()?;
        Ok(message)
    }
}
