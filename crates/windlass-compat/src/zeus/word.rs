//! Events of the Zeus dialect and their encoding.
//!
//! The data repeats the event's name as `type`. There are two sets of names: those of the agent loop's table, and, for
//! clients that request them, those of the API reference. (ZE-S8, CF-7)

use serde::Deserialize;
use serde_json::{Map, Value};

/// The set of event names.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Names {
    /// `text`, `tool_call`, `tool_call_result`, `complete`.
    #[default]
    Table,
    /// `message_chunk`, `tool_call` with `tool_args`, `tool_result`, `done`.
    Reference,
}

/// Values that every event of a stream uses.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Scene {
    pub session: String,
    pub names: Names,
}

impl Scene {
    /// Encodes an event as a server-sent event.
    pub fn frame(&self, name: &'static str, data: Value) -> String {
        let name = match (self.names, name) {
            (Names::Reference, "text") => "message_chunk",
            (Names::Reference, "tool_call_result") => "tool_result",
            (Names::Reference, "complete") => "done",
            (Names::Table | Names::Reference, name) => name,
        };
        let mut members = Map::new();
        members.insert("type".into(), name.into());
        if let Value::Object(data) = data {
            for (key, value) in data {
                let renamed = self.names == Names::Reference && key == "parameters";
                members.insert(if renamed { "tool_args".into() } else { key }, value);
            }
        }
        if !matches!(name, "text" | "message_chunk" | "tool_call_chunk") {
            members.insert("session_id".into(), self.session.as_str().into());
        }
        format!("event: {name}\ndata: {}\n\n", Value::Object(members))
    }
}
