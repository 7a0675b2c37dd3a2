//! Reconciliation: finding the lost outcome of a call with a reading tool, its arguments, and conditions on its
//! answer.
//!
//! This module calls no tools.

use std::collections::BTreeMap;

use serde::Deserialize;
use serde_json::{Map, Value};
use windlass_machine::{Condition, EffectId, ToolName};

use super::registry::key_of;

/// Configuration for finding the lost outcome of a tool's calls.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Reconcile {
    /// Name of the reading tool.
    pub tool: ToolName,
    /// Arguments of the reading call, by name.
    #[serde(default)]
    pub arguments: BTreeMap<String, Source>,
    /// Conditions on the answer that prove that the call took effect. The answer is parsed as JSON. If it is no valid
    /// JSON, the conditions apply to it as a JSON string.
    pub found: Vec<Condition>,
    /// Maximum duration of the reads in milliseconds; after it the call is in doubt.
    pub wait_ms: u64,
}

/// Source of an argument of the reading call.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Source {
    /// A JSON pointer into the lost call's arguments.
    Argument(String),
    /// The idempotency key of the lost call.
    Key,
    /// A constant.
    Value(Value),
}

impl Reconcile {
    /// Returns the reading call's arguments. The error names the missing part of the lost call.
    pub(crate) fn arguments_for(&self, lost: &Value, effect: &EffectId) -> Result<Value, String> {
        let mut arguments = Map::new();
        for (name, source) in &self.arguments {
            let value = match source {
                Source::Argument(pointer) => lost.pointer(pointer).cloned().ok_or_else(|| {
                    format!(
                        "the call has no argument at `{pointer}`, which `{}` needs as `{name}`",
                        self.tool
                    )
                })?,
                Source::Key => Value::String(key_of(effect)),
                Source::Value(value) => value.clone(),
            };
            arguments.insert(name.clone(), value);
        }
        Ok(Value::Object(arguments))
    }

    /// Whether an answer proves that the call took effect.
    pub(crate) fn is_found(&self, answer: &str) -> bool {
        let value = serde_json::from_str(answer).unwrap_or_else(|_| Value::String(answer.to_owned()));
        self.found.iter().all(|condition| condition.holds(Some(&value)) == Ok(true))
    }
}
