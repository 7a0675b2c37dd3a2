//! What is said to a client: an event's name and its data, and how it stands on the wire.
//!
//! The data repeats the name as `type`, which is all that the Command Center looks at.

use serde_json::{Map, Value, json};
use windlass::machine::Timestamp;

/// An outward event.
#[derive(Clone, Debug, PartialEq)]
pub struct Word {
    /// Its name.
    pub name: &'static str,
    /// What it says.
    pub data: Map<String, Value>,
}

/// What every event of a stream repeats.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Scene {
    /// The conversation, which is the engine's thread.
    pub conversation: String,
    /// The run as the client knows it: each stream has another one.
    pub run: String,
}

impl Scene {
    /// The first event of a stream. (SK-E1)
    pub fn ready(&self) -> Word {
        Word::bare("ready", json!({"run_id": self.run}))
    }

    /// An event with what all of them have. (section 1.6)
    pub fn word(&self, name: &'static str, at: Timestamp, data: Value) -> Word {
        let mut word = self.fragment(name, data);
        word.data.entry("timestamp").or_insert(at.0.into());
        word
    }

    /// A fragment of a text, which has no time.
    pub fn fragment(&self, name: &'static str, data: Value) -> Word {
        let mut word = Word::bare(name, json!({"type": name}));
        let Value::Object(data) = data else { return word };
        word.data.extend(data);
        word.data.insert("conversation_id".into(), self.conversation.as_str().into());
        word.data.insert("run_id".into(), self.run.as_str().into());
        word
    }

    /// Something outside the run went wrong, and the stream ends. (SK-E25)
    pub fn error(&self, at: Timestamp, why: &str) -> Word {
        self.word("error", at, json!({"error": why, "status": "error"}))
    }
}

/// Nothing has been said for a while. (SK-E2)
pub fn heartbeat(at: Timestamp) -> Word {
    Word::bare("heartbeat", json!({"timestamp": at.0}))
}

impl Word {
    fn bare(name: &'static str, data: Value) -> Self {
        // Only objects are ever given.
        let data = if let Value::Object(data) = data { data } else { Map::new() };
        Self { name, data }
    }

    /// The event as it stands in the stream.
    pub fn frame(&self) -> String {
        let data = Value::from(self.data.clone());
        format!("event: {}\ndata: {data}\n\n", self.name)
    }
}
