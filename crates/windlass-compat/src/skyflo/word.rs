//! Events of the Skyflo dialect and their encoding.
//!
//! The data repeats the event's name as `type`, the only member from which the Command Center reads the name.

use serde_json::{Map, Value, json};
use windlass::machine::Timestamp;

#[derive(Clone, Debug, PartialEq)]
pub struct Word {
    pub name: &'static str,
    pub data: Map<String, Value>,
}

/// Members that every event of a stream repeats.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Scene {
    /// The engine's thread id.
    pub conversation: String,
    /// The run id that this stream sends: the engine's run id on the stream that started the run, otherwise
    /// `{run}-{seq}`, unique for each stream.
    pub run: String,
}

impl Scene {
    /// Creates the first event of a stream. (SK-E1)
    pub fn ready(&self) -> Word {
        Word::bare("ready", json!({"run_id": self.run}))
    }

    /// Creates an event with the common members. (section 1.6)
    pub fn word(&self, name: &'static str, at: Timestamp, data: Value) -> Word {
        let mut word = self.fragment(name, data);
        word.data.entry("timestamp").or_insert(at.0.into());
        word
    }

    /// Creates an event with a fragment of a text, without a timestamp.
    pub fn fragment(&self, name: &'static str, data: Value) -> Word {
        let mut word = Word::bare(name, json!({"type": name}));
        let Value::Object(data) = data else { return word };
        word.data.extend(data);
        word.data.insert("conversation_id".into(), self.conversation.as_str().into());
        word.data.insert("run_id".into(), self.run.as_str().into());
        word
    }

    /// Creates the event for an error outside the run, which ends the stream. (SK-E25)
    pub fn error(&self, at: Timestamp, why: &str) -> Word {
        self.word("error", at, json!({"error": why, "status": "error"}))
    }
}

/// Creates the keep-alive event of an idle stream. (SK-E2)
pub fn heartbeat(at: Timestamp) -> Word {
    Word::bare("heartbeat", json!({"timestamp": at.0}))
}

impl Word {
    fn bare(name: &'static str, data: Value) -> Self {
        // Callers pass objects only.
        let data = if let Value::Object(data) = data { data } else { Map::new() };
        Self { name, data }
    }

    /// Encodes the event as a server-sent event.
    pub fn frame(&self) -> String {
        let data = Value::from(self.data.clone());
        format!("event: {}\ndata: {data}\n\n", self.name)
    }
}
