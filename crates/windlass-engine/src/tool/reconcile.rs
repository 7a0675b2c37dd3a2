//! How the lost outcome of a call is looked up: a tool that reads, what it is asked, and what tells that the call was
//! done.
//!
//! It calls nothing itself.

use std::collections::BTreeMap;

use serde::Deserialize;
use serde_json::{Map, Value};
use windlass_machine::{Condition, EffectId, ToolName};

use super::registry::key_of;

/// How the lost outcome of a tool's calls is looked up.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Reconcile {
    /// The tool that reads.
    pub tool: ToolName,
    /// Its arguments, by name.
    #[serde(default)]
    pub arguments: BTreeMap<String, Source>,
    /// What must hold of its answer, read as JSON, where the call was done; an answer that is no JSON is a JSON text.
    pub found: Vec<Condition>,
    /// How long it is looked for, in milliseconds; then the call is in doubt.
    pub wait_ms: u64,
}

/// Where an argument of the reading call comes from.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Source {
    /// A JSON pointer into the lost call's arguments.
    Argument(String),
    /// The key that the lost call carried for the far side.
    Key,
    /// This value.
    Value(Value),
}

impl Reconcile {
    /// The reading call's arguments; the error names what the lost call lacks.
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

    /// Whether an answer tells that the call was done.
    pub(crate) fn is_found(&self, answer: &str) -> bool {
        let value = serde_json::from_str(answer).unwrap_or_else(|_| Value::String(answer.to_owned()));
        self.found.iter().all(|condition| condition.holds(Some(&value)) == Ok(true))
    }
}
