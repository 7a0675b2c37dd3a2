//! Extracts the schemas of a description together with all schemas that they
//! refer to, converted to JSON Schema 2020-12.
//!
//! This module validates nothing.

use std::collections::BTreeMap;

use serde_json::{Map, Value, json};

/// Maximum length of a chain of references. Typical chains have one or two.
const MAX_HOPS: usize = 16;
/// Maximum number of schemas that one schema may refer to. Above this limit, the operation is not validated.
const MAX_PARTS: usize = 500;

/// The schemas of a description.
pub(super) struct Schemas {
    root: Value,
    /// Whether the description has version 3.0, whose schemas predate JSON Schema 2020-12.
    is_old: bool,
}

impl Schemas {
    pub(super) fn new(root: Value, is_old: bool) -> Self {
        Self { root, is_old }
    }

    pub(super) fn root(&self) -> &Value {
        &self.root
    }

    /// Resolves a reference. Returns any other value unchanged.
    pub(super) fn follow<'a>(&'a self, value: &'a Value) -> Result<&'a Value, String> {
        let mut value = value;
        for _ in 0..MAX_HOPS {
            let Some(target) = value.get("$ref").and_then(Value::as_str) else { return Ok(value) };
            value = self.find(target)?;
        }
        Err("the OpenAPI description has circular references".to_owned())
    }

    fn find(&self, target: &str) -> Result<&Value, String> {
        let pointer = target.trim_start_matches('#').replace("%7B", "{").replace("%7D", "}");
        let missing = || format!("the OpenAPI description refers to `{target}`, which does not exist");
        self.root.pointer(&pointer).ok_or_else(missing)
    }

    /// Extracts a schema. Collects the schemas that it refers to, for `$defs`.
    pub(super) fn take(&self, schema: &Value, parts: &mut Parts) -> Result<Value, String> {
        let taken = self.convert(schema, parts);
        while let Some(target) = parts.missing.pop() {
            if parts.known.len() > MAX_PARTS {
                return Err(format!("the operation's schema refers to more than {MAX_PARTS} other schemas"));
            }
            let found = self.convert(self.find(&target)?, parts);
            parts.found.insert(parts.known[&target].clone(), found);
        }
        Ok(taken)
    }

    fn convert(&self, schema: &Value, parts: &mut Parts) -> Value {
        match schema {
            Value::Object(members) => {
                let mut converted = Map::new();
                for (name, member) in members {
                    let member = match (name.as_str(), member.as_str()) {
                        ("$ref", Some(target)) => Value::String(format!("#/$defs/{}", parts.name(target))),
                        // These keywords contain data, not schemas.
                        ("enum" | "const" | "default" | "example" | "examples", _) => member.clone(),
                        _ => self.convert(member, parts),
                    };
                    converted.insert(name.clone(), member);
                }
                if self.is_old {
                    renew(&mut converted);
                }
                Value::Object(converted)
            }
            Value::Array(items) => items.iter().map(|item| self.convert(item, parts)).collect(),
            Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => schema.clone(),
        }
    }
}

/// The schemas that an extracted schema refers to.
#[derive(Default)]
pub(super) struct Parts {
    known: BTreeMap<String, String>,
    missing: Vec<String>,
    found: Map<String, Value>,
}

impl Parts {
    fn name(&mut self, target: &str) -> String {
        if let Some(name) = self.known.get(target) {
            return name.clone();
        }
        let name = format!("s{}", self.known.len());
        self.known.insert(target.to_owned(), name.clone());
        self.missing.push(target.to_owned());
        name
    }

    /// Returns the definitions for the root of the schema.
    pub(super) fn definitions(self) -> Map<String, Value> {
        self.found
    }
}

/// Converts a 3.0 schema to 2020-12.
fn renew(schema: &mut Map<String, Value>) {
    if schema.get("nullable") == Some(&Value::Bool(true)) {
        schema.shift_remove("nullable");
        if let Some(Value::String(one)) = schema.get("type").cloned() {
            schema.insert("type".into(), json!([one, "null"]));
            if let Some(Value::Array(values)) = schema.get_mut("enum")
                && !values.contains(&Value::Null)
            {
                values.push(Value::Null);
            }
        }
    }
    for (exclusive, bound) in [("exclusiveMinimum", "minimum"), ("exclusiveMaximum", "maximum")] {
        match schema.get(exclusive) {
            Some(Value::Bool(true)) => {
                schema.shift_remove(exclusive);
                if let Some(figure) = schema.shift_remove(bound) {
                    schema.insert(exclusive.into(), figure);
                }
            }
            Some(Value::Bool(false)) => drop(schema.shift_remove(exclusive)),
            Some(_) | None => {}
        }
    }
    // A property may be named `$ref`; its value is then an object.
    if schema.get("$ref").is_some_and(Value::is_string) {
        schema.retain(|name, _| name == "$ref");
    }
}
