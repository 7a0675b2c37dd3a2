//! Events and live fragments as lines of JSON, for programs.

use serde_json::{Map, Value, json};
use windlass::{Engine, EngineError, Outcome, Update};

/// An update as one JSON object.
pub async fn update(engine: &Engine, update: &Update) -> Result<Value, EngineError> {
    Ok(match update {
        Update::Event(event) => engine.event_json(event).await?,
        Update::Delta { seq, number, delta } => {
            let mut line = Map::new();
            line.insert("seq".into(), json!(seq.0));
            line.insert("delta".into(), json!(number));
            if let Ok(Value::Object(delta)) = serde_json::to_value(delta) {
                line.extend(delta);
            }
            Value::Object(line)
        }
        Update::Gap { seq } => json!({"seq": seq.0, "type": "delta.gap"}),
        Update::Progress { call, text } => {
            json!({"type": "tool.progress", "step": call.step, "index": call.index, "text": text})
        }
        Update::Status(status) => json!({"type": "thread.status", "status": status}),
        Update::Stopped { why } => json!({"type": "driver.stopped", "why": why}),
    })
}

/// The last line: how the run stands.
pub fn outcome(outcome: &Outcome) -> Value {
    json!({"type": "outcome", "outcome": outcome})
}
