//! JSON encoding of events and live updates.

use serde::Serialize;
use serde_json::{Value, json};
use windlass::machine::Seq;
use windlass::port::model::Delta;
use windlass::{Engine, EngineError, Outcome, Update};

use crate::http::outcome::RunOutcome;

/// Encodes an update as one JSON object.
pub async fn update(engine: &Engine, update: &Update) -> Result<Value, EngineError> {
    Ok(match update {
        Update::Event(event) => engine.event_json(event).await?,
        Update::Delta { seq, number, delta } => {
            // Invariant: our own types contain only strings and numbers, so they always serialize.
            serde_json::to_value(Fragment::of(*seq, *number, delta)).unwrap_or_default()
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

/// The serialized form of a delta.
#[derive(Serialize)]
pub struct Fragment<'a> {
    seq: u64,
    delta: u64,
    #[serde(flatten)]
    fragment: &'a Delta,
}

impl<'a> Fragment<'a> {
    /// Creates the delta with this number of the reply whose step began at `seq`.
    pub fn of(seq: Seq, number: u64, fragment: &'a Delta) -> Self {
        Self { seq: seq.0, delta: number, fragment }
    }

    /// Returns the size of the delta's text or arguments, in bytes.
    pub fn text_bytes(&self) -> usize {
        match self.fragment {
            Delta::Text { text, .. } | Delta::Reasoning { text, .. } => text.len(),
            Delta::Call { arguments, .. } => arguments.len(),
        }
    }

    /// Returns the value of `type`.
    pub fn name(&self) -> &'static str {
        match self.fragment {
            Delta::Text { .. } => "message.delta",
            Delta::Reasoning { .. } => "reasoning.delta",
            Delta::Call { .. } => "call.delta",
        }
    }
}

/// Encodes a block of a reply in progress.
fn part(delta: &Delta) -> Value {
    match delta {
        Delta::Text { part, text } => json!({"part": part, "type": "text", "text": text}),
        Delta::Reasoning { part, text } => json!({"part": part, "type": "reasoning", "text": text}),
        Delta::Call { part, name, arguments } => {
            json!({"part": part, "type": "call", "name": name, "arguments": arguments})
        }
    }
}

/// Encodes the last event of a run's stream: the outcome of the run.
pub fn outcome(outcome: &Outcome) -> Value {
    json!({"type": "outcome", "outcome": RunOutcome::from(outcome.clone())})
}
