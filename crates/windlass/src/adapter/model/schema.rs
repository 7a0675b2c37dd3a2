//! JSON schemas as providers take them.
//!
//! What a provider would refuse is rewritten; the tool still checks the whole.

use serde_json::{Map, Value};

/// Cleans a tool's schema for Gemini, which knows a subset: of alternatives the first that is not null stays,
/// unknown keywords go, and a missing type becomes `string`. (SK-C18)
pub(super) fn for_gemini(schema: &Value) -> Value {
    let Value::Object(schema) = schema else { return schema.clone() };
    let mut clean = Map::new();
    for (key, value) in schema {
        match key.as_str() {
            "additionalProperties" | "nullable" | "$schema" | "anyOf" | "oneOf" | "allOf" => {}
            "properties" => {
                let properties = value.as_object().into_iter().flatten();
                let properties = properties.map(|(name, schema)| (name.clone(), for_gemini(schema)));
                clean.insert(key.clone(), Value::Object(properties.collect()));
            }
            "items" => {
                clean.insert(key.clone(), for_gemini(value));
            }
            "type" => {
                clean.insert(key.clone(), single_type(value));
            }
            _ => {
                clean.insert(key.clone(), value.clone());
            }
        }
    }
    let alternatives = ["anyOf", "oneOf", "allOf"].iter().find_map(|key| schema.get(*key)?.as_array());
    let chosen = alternatives.into_iter().flatten().find(|option| option.get("type") != Some(&"null".into()));
    if let Some(Value::Object(chosen)) = chosen.map(for_gemini) {
        for (key, value) in chosen {
            clean.entry(key).or_insert(value);
        }
    }
    if !clean.contains_key("type") && !clean.contains_key("$ref") {
        let kind = if clean.contains_key("properties") { "object" } else { "string" };
        clean.insert("type".to_owned(), kind.into());
    }
    Value::Object(clean)
}

/// Whether OpenAI's strict mode takes the schema: every object is closed and demands all its properties.
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

fn single_type(kind: &Value) -> Value {
    let first = kind.as_array().and_then(|kinds| kinds.iter().find(|kind| *kind != "null"));
    first.unwrap_or(kind).clone()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    // rows: SK-C18
    #[test]
    fn gemini_gets_a_plain_schema() {
        let schema = json!({
            "type": "object",
            "additionalProperties": false,
            "properties": {
                "a": {"anyOf": [{"type": "null"}, {"type": "integer", "nullable": true}], "description": "d"},
                "b": {"description": "no type"},
                "c": {"type": ["string", "null"]},
                "d": {"type": "array", "items": {"oneOf": [{"type": "object", "properties": {"e": {}}}]}}
            },
            "required": ["a"]
        });
        let expected = json!({
            "type": "object",
            "properties": {
                "a": {"description": "d", "type": "integer"},
                "b": {"description": "no type", "type": "string"},
                "c": {"type": "string"},
                "d": {"type": "array", "items": {"type": "object", "properties": {"e": {"type": "string"}}}}
            },
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
