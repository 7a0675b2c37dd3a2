//! JSON schemas that others have written: of tool arguments, and of values in general.
//!
//! Size, depth and patterns are bounded, and no reference leaves the document: nothing is fetched.

use jsonschema::{PatternOptions, Validator};
use serde_json::Value;

/// Faults told to a model at once: enough to repair a call, too few to fill a window.
pub(super) const MAX_FAULTS: usize = 5;
pub(super) const MAX_FAULT_CHARS: usize = 200;
pub(super) const MAX_SHOWN_CHARS: usize = 80;
/// A schema is sent with every model call; 256 KiB is far above any that helps a model.
const MAX_SCHEMA_BYTES: usize = 256 * 1024;
/// How deep a schema may be nested; the walk below is recursive.
const MAX_SCHEMA_DEPTH: usize = 64;

/// Checks values against a schema from outside; the error names what does not fit.
pub(crate) fn check_values(schema: &Value, values: &Value) -> Result<(), String> {
    ValueCheck::new(schema)?.check(values)
}

/// A compiled schema from outside, for many values.
pub(crate) struct ValueCheck(Validator);

impl ValueCheck {
    /// The error says why the schema cannot be used.
    pub(crate) fn new(schema: &Value) -> Result<Self, String> {
        compile_any(schema).map(Self)
    }

    /// The error names what does not fit.
    pub(crate) fn check(&self, values: &Value) -> Result<(), String> {
        let faults: Vec<String> = self
            .0
            .iter_errors(values)
            .take(MAX_FAULTS)
            .map(|fault| shorten(&fault.to_string(), MAX_FAULT_CHARS))
            .collect();
        if faults.is_empty() { Ok(()) } else { Err(faults.join("; ")) }
    }
}

/// Compiles a schema of arguments, which are an object.
pub(super) fn compile(schema: &Value) -> Result<Validator, String> {
    let Some(object) = schema.as_object() else {
        return Err(format!("`{}` is not an object", shorten(&schema.to_string(), MAX_SHOWN_CHARS)));
    };
    if object.get("type").and_then(Value::as_str) != Some("object") {
        let found = object.get("type").map_or("nothing".to_owned(), Value::to_string);
        return Err(format!("`type` must be \"object\", not {}", shorten(&found, MAX_SHOWN_CHARS)));
    }
    compile_any(schema)
}

fn compile_any(schema: &Value) -> Result<Validator, String> {
    let size_bytes = schema.to_string().len();
    if size_bytes > MAX_SCHEMA_BYTES {
        return Err(format!("it is {size_bytes} bytes long; at most {MAX_SCHEMA_BYTES} are allowed"));
    }
    refuse_remote_references(schema, MAX_SCHEMA_DEPTH)?;
    // A schema may come from a server: its patterns may be slow on purpose, so that both the
    // compiled size and the backtracking are bounded.
    let patterns = PatternOptions::fancy_regex().backtrack_limit(100_000).size_limit(1024 * 1024);
    jsonschema::options()
        .offline()
        .with_pattern_options(patterns)
        .build(schema)
        .map_err(|problem| shorten(&problem.to_string(), MAX_FAULT_CHARS))
}

/// Refuses references that leave the document, wherever they stand. The walk does not tell schemas
/// from data such as `const`; a string under `$ref` in data is refused too, and nothing needs one.
fn refuse_remote_references(value: &Value, depth_left: usize) -> Result<(), String> {
    if depth_left == 0 {
        return Err(format!("it is nested more than {MAX_SCHEMA_DEPTH} levels deep"));
    }
    match value {
        Value::Object(members) => {
            for (key, member) in members {
                let target = member.as_str().filter(|_| key == "$ref" || key == "$dynamicRef");
                if let Some(target) = target.filter(|target| !target.starts_with('#')) {
                    let target = shorten(target, MAX_SHOWN_CHARS);
                    return Err(format!("`{key}` to `{target}` leaves the schema; only `#…` is allowed"));
                }
                refuse_remote_references(member, depth_left - 1)?;
            }
            Ok(())
        }
        Value::Array(items) => {
            items.iter().try_for_each(|item| refuse_remote_references(item, depth_left - 1))
        }
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => Ok(()),
    }
}

pub(super) fn shorten(text: &str, max_chars: usize) -> String {
    match text.char_indices().nth(max_chars) {
        Some((end, _)) => format!("{}…", &text[..end]),
        None => text.to_owned(),
    }
}
