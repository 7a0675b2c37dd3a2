//! Limits on external JSON schemas, and validation of values against them.
//!
//! Size and depth are limited, and references must stay inside the schema. The schema port compiles schemas.

use std::sync::Arc;

use serde_json::Value;

use crate::port::schema::{CompiledSchema, SchemaCompiler};

/// Maximum number of faults in one error: enough for a model to repair a call, and too few to fill a context window.
pub(super) const MAX_FAULTS: usize = 5;
pub(super) const MAX_FAULT_CHARS: usize = 200;
pub(super) const MAX_SHOWN_CHARS: usize = 80;
/// Maximum size of a schema in bytes. Every model call sends the
/// schema; 256 KiB is far more than a useful schema needs.
const MAX_SCHEMA_BYTES: usize = 256 * 1024;
/// Maximum nesting of a schema. It is limited because [`refuse_remote_references`] is recursive.
const MAX_SCHEMA_DEPTH: usize = 64;

/// A compiled external schema, at most 256 KiB long and 64 levels deep.
pub struct ValueCheck(Arc<dyn CompiledSchema>);

impl ValueCheck {
    /// Compiles a schema. The error describes why the schema is unusable.
    pub fn new(compiler: &dyn SchemaCompiler, schema: &Value) -> Result<Self, String> {
        check_bounds(schema)?;
        compile_checked(compiler, schema).map(Self)
    }

    /// Validates a value. The error lists the first five faults.
    pub fn check(&self, value: &Value) -> Result<(), String> {
        let faults = self.0.faults(value, MAX_FAULTS);
        let faults: Vec<String> =
            faults.iter().map(|fault| shorten(&fault.problem, MAX_FAULT_CHARS)).collect();
        if faults.is_empty() { Ok(()) } else { Err(faults.join("; ")) }
    }
}

/// Compiles an input schema, which must describe an object.
pub(super) fn compile(
    compiler: &dyn SchemaCompiler,
    schema: &Value,
) -> Result<Arc<dyn CompiledSchema>, String> {
    check_arguments_schema(schema)?;
    compile_checked(compiler, schema)
}

/// Checks an input schema without compiling it.
pub(super) fn check_arguments_schema(schema: &Value) -> Result<(), String> {
    let Some(object) = schema.as_object() else {
        return Err(format!("`{}` is not an object", shorten(&schema.to_string(), MAX_SHOWN_CHARS)));
    };
    if object.get("type").and_then(Value::as_str) != Some("object") {
        let found = object.get("type").map_or("nothing".to_owned(), Value::to_string);
        return Err(format!("`type` must be \"object\", not {}", shorten(&found, MAX_SHOWN_CHARS)));
    }
    check_bounds(schema)
}

/// Checks the size, depth and references of a schema.
fn check_bounds(schema: &Value) -> Result<(), String> {
    let size_bytes = schema.to_string().len();
    if size_bytes > MAX_SCHEMA_BYTES {
        return Err(format!("it is {size_bytes} bytes long; at most {MAX_SCHEMA_BYTES} are allowed"));
    }
    refuse_remote_references(schema, MAX_SCHEMA_DEPTH)
}

fn compile_checked(compiler: &dyn SchemaCompiler, schema: &Value) -> Result<Arc<dyn CompiledSchema>, String> {
    compiler.compile(schema).map_err(|problem| shorten(&problem, MAX_FAULT_CHARS))
}

/// Rejects references outside the schema, at any depth. The walk does not distinguish schemas from data such as
/// `const`: it also rejects a string under `$ref` in data, because no useful schema needs one.
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
