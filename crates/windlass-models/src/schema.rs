//! Converts tools and their JSON schemas to the forms that providers accept.
//!
//! Rewrites schema parts that a provider would reject. The tool still
//! validates arguments against the whole schema.

use serde_json::{Map, Value, json};

/// Converts a tool's schema for Gemini. The schema is sent as `parametersJsonSchema`, which supports JSON
/// Schema with alternatives. Only `$schema`, which Gemini rejects, and `nullable`, an OpenAPI keyword that no
/// tool of Windlass uses, are removed. A root without a type becomes an object. (SK-C18)
pub(super) fn for_gemini(schema: &Value) -> Value {
    let mut clean = without_dialect(schema);
    if let Value::Object(root) = &mut clean {
        root.entry("type").or_insert_with(|| "object".into());
    }
    clean
}

fn without_dialect(schema: &Value) -> Value {
    match schema {
        Value::Object(members) => {
            let kept = members.iter().filter(|(key, _)| !matches!(key.as_str(), "$schema" | "nullable"));
            Value::Object(kept.map(|(key, value)| (key.clone(), keyword(key, value))).collect())
        }
        Value::Array(schemas) => Value::Array(schemas.iter().map(without_dialect).collect()),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => schema.clone(),
    }
}

/// Converts a keyword's value. Property names and data values are kept.
fn keyword(key: &str, value: &Value) -> Value {
    match (key, value) {
        ("properties" | "patternProperties" | "$defs" | "definitions", Value::Object(named)) => {
            let cleaned = named.iter().map(|(name, schema)| (name.clone(), without_dialect(schema)));
            Value::Object(cleaned.collect::<Map<_, _>>())
        }
        ("enum" | "const" | "default" | "example" | "examples", value) => value.clone(),
        (_, value) => without_dialect(value),
    }
}

/// Converts an output schema for OpenAI's strict mode: each object is closed and requires all its properties.
pub(super) fn for_openai(schema: &Value) -> Value {
    let mut clean = schema.clone();
    close(&mut clean, Closing::Openai);
    clean
}

/// Converts an output schema for Anthropic. Anthropic also requires closed
/// objects, and does not support bounds of numbers.
pub(super) fn for_anthropic(schema: &Value) -> Value {
    let mut clean = schema.clone();
    close(&mut clean, Closing::Anthropic);
    clean
}

/// The provider whose rules a closed schema follows.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Closing {
    Openai,
    Anthropic,
}

fn close(schema: &mut Value, closing: Closing) {
    const BOUNDS: [&str; 5] = ["minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum", "multipleOf"];
    let Value::Object(fields) = schema else { return };
    if closing == Closing::Openai && fields.contains_key("$ref") {
        // A reference must have no siblings.
        return fields.retain(|key, _| key == "$ref");
    }
    let kind = fields.get("type").and_then(Value::as_str).unwrap_or_default();
    let is_number = matches!(kind, "integer" | "number");
    if kind == "object" || fields.contains_key("properties") {
        if closing == Closing::Openai {
            fields.entry("properties").or_insert_with(|| json!({}));
        }
        fields.entry("additionalProperties").or_insert(Value::Bool(false));
    }
    if let Some(Value::Object(properties)) = fields.get("properties") {
        let names: Vec<Value> = properties.keys().map(|name| name.as_str().into()).collect();
        fields.insert("required".to_owned(), Value::Array(names));
    }
    if closing == Closing::Anthropic && is_number {
        fields.retain(|key, _| !BOUNDS.contains(&key.as_str()));
    }
    for key in ["$defs", "properties"] {
        if let Some(Value::Object(schemas)) = fields.get_mut(key) {
            schemas.values_mut().for_each(|schema| close(schema, closing));
        }
    }
    if let Some(items) = fields.get_mut("items") {
        close(items, closing);
    }
    // Neither OpenAI nor Anthropic supports `oneOf`.
    if let Some(mut options) = fields.shift_remove("oneOf") {
        match (fields.get_mut("anyOf"), &mut options) {
            (Some(Value::Array(known)), Value::Array(more)) => known.append(more),
            _ => drop(fields.insert("anyOf".to_owned(), options)),
        }
    }
    for key in ["anyOf", "allOf"] {
        if let Some(Value::Array(options)) = fields.get_mut(key) {
            options.iter_mut().for_each(|schema| close(schema, closing));
        }
    }
}

/// Converts a schema's title to a name that OpenAI accepts: letters, digits, `_` and `-`.
pub(super) fn name_of(title: &str) -> String {
    let legal = |c: char| if c.is_ascii_alphanumeric() || c == '-' { c } else { '_' };
    title.chars().map(legal).take(64).collect()
}

/// Whether OpenAI's strict mode accepts the schema: every object is closed and requires all its properties.
pub(super) fn is_strict(schema: &Value) -> bool {
    let Value::Object(fields) = schema else { return true };
    let object =
        fields.get("type").and_then(Value::as_str) == Some("object") || fields.contains_key("properties");
    if object {
        let required = fields.get("required").and_then(Value::as_array);
        let properties = fields.get("properties").and_then(Value::as_object);
        let all = properties.into_iter().flatten().all(|(name, _)| {
            required.is_some_and(|required| required.iter().any(|key| key.as_str() == Some(name)))
        });
        if fields.get("additionalProperties") != Some(&Value::Bool(false)) || !all {
            return false;
        }
    }
    fields.values().all(|value| match value {
        Value::Object(inner) if inner.contains_key("type") || inner.contains_key("properties") => {
            is_strict(value)
        }
        Value::Object(inner) => inner.values().all(is_strict),
        Value::Array(options) => options.iter().all(is_strict),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => true,
    })
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    // rows: SK-C18
    #[test]
    fn gemini_loses_nothing_that_it_reads() {
        let kept = json!({
            "anyOf": [{"type": "null"}, {"type": "integer"}, {"$ref": "#/$defs/e"}],
            "description": "d"
        });
        let named = json!({"type": ["string", "null"], "enum": [{"nullable": true}]});
        let schema = json!({
            "$schema": "https://json-schema.org/draft/2020-12/schema",
            "additionalProperties": false,
            "properties": {
                "a": kept,
                "nullable": {"type": "integer", "nullable": true},
                "c": named,
                "d": {"type": "array", "items": {"oneOf": [{"$schema": "x", "properties": {"e": {}}}]}}
            },
            "$defs": {"e": {"type": "boolean", "nullable": false}},
            "required": ["a"]
        });
        let expected = json!({
            "type": "object",
            "additionalProperties": false,
            "properties": {
                "a": kept,
                "nullable": {"type": "integer"},
                "c": named,
                "d": {"type": "array", "items": {"oneOf": [{"properties": {"e": {}}}]}}
            },
            "$defs": {"e": {"type": "boolean"}},
            "required": ["a"]
        });
        assert_eq!(for_gemini(&schema), expected);
    }

    #[test]
    fn strict_schemas_are_closed_and_complete() {
        let strict = json!({"type": "object", "properties": {"a": {"type": "string"}}, "required": ["a"], "additionalProperties": false});
        let open = json!({"type": "object", "properties": {"a": {"type": "string"}}, "required": ["a"]});
        let nested = json!({"type": "object", "properties": {"a": open}, "required": ["a"], "additionalProperties": false});
        assert!(is_strict(&strict));
        assert!(!is_strict(&open));
        assert!(!is_strict(&nested));
    }
}
