//! Events and live fragments as lines of JSON, for programs.

use serde_json::{Map, Value, json};
use windlass::machine::{Content, Digest};
use windlass::port::journal::Recorded;
use windlass::port::model::Delta;
use windlass::{Engine, EngineError, Outcome, Update};

/// A recorded event as one JSON object: `seq`, then the event as the journal keeps it. Texts that are stored apart
/// are put back; pictures and documents stay named by digest.
pub async fn recorded(engine: &Engine, recorded: &Recorded) -> Result<Value, EngineError> {
    let mut line = Map::new();
    line.insert("seq".into(), json!(recorded.seq.0));
    let event = serde_json::from_str(&recorded.event.encode()).unwrap_or(Value::Null);
    if let Value::Object(event) = event {
        line.extend(event);
    }
    let mut value = Value::Object(line);
    let mut texts = Vec::new();
    find_texts(&value, &mut String::new(), &mut texts);
    for (place, content) in texts {
        let text = engine.text(&content).await?;
        if let Some(slot) = value.pointer_mut(&place) {
            *slot = Value::String(text);
        }
    }
    Ok(value)
}

/// Places, as JSON pointers, where a text stands by digest.
fn find_texts(value: &Value, place: &mut String, found: &mut Vec<(String, Content)>) {
    let mut visit = |key: &str, member: &Value| {
        let length = place.len();
        place.push('/');
        place.push_str(&key.replace('~', "~0").replace('/', "~1"));
        find_texts(member, place, found);
        place.truncate(length);
    };
    match value {
        Value::Object(members) => {
            let digest = members.get("digest").and_then(Value::as_str).and_then(Digest::from_hex);
            if digest.is_some() && members.contains_key("media_type") {
                if let Ok(content @ Content::Blob(_)) = serde_json::from_value(value.clone()) {
                    found.push((place.clone(), content));
                }
                return;
            }
            for (key, member) in members {
                // Bytes of pictures and documents, and the catalogue of tools, are no texts of the conversation.
                if key != "blob" && key != "tools" {
                    visit(key, member);
                }
            }
        }
        Value::Array(items) => {
            for (index, item) in items.iter().enumerate() {
                visit(&index.to_string(), item);
            }
        }
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => {}
    }
}

/// An update as one JSON object.
pub async fn update(engine: &Engine, update: &Update) -> Result<Value, EngineError> {
    Ok(match update {
        Update::Event(event) => recorded(engine, event).await?,
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
    json!({"type": "outcome", "outcome": outcome})
}
