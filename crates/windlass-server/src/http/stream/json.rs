//! Events and live fragments as lines of JSON, for programs.

use serde_json::{Map, Value, json};
use windlass::port::model::Delta;
use windlass::{Engine, EngineError, Outcome, Update};

use crate::http::outcome::RunOutcome;

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
        Update::Snapshot { seq, number, parts } => {
            let parts: Vec<Value> = parts.iter().map(part).collect();
            json!({"seq": seq.0, "delta": number, "type": "message.snapshot", "parts": parts})
        }
        Update::Progress { call, text } => {
            json!({"type": "tool.progress", "step": call.step, "index": call.index, "text": text})
        }
        Update::Status(status) => json!({"type": "thread.status", "status": status}),
        Update::Stopped { why } => json!({"type": "driver.stopped", "why": why}),
    })
}

/// A block of a reply so far.
fn part(delta: &Delta) -> Value {
    match delta {
        Delta::Text { part, text } => json!({"part": part, "type": "text", "text": text}),
        Delta::Reasoning { part, text } => json!({"part": part, "type": "reasoning", "text": text}),
        Delta::Call { part, name, arguments } => {
            json!({"part": part, "type": "call", "name": name, "arguments": arguments})
        }
    }
}

/// The last line: how the run stands.
pub fn outcome(outcome: &Outcome) -> Value {
    json!({"type": "outcome", "outcome": RunOutcome::from(outcome.clone())})
}
