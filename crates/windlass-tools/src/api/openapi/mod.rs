//! The OpenAPI 3 description of a service: its operations, and the validation of calls.
//!
//! The description is parsed once, within limits. No reference is fetched: a reference outside the document
//! is rejected. The service's settings replace the security schemes and the servers in the description.

mod operation;
mod parameter;
mod schema;

use super::method::METHODS;
use http::Method;
use serde_json::{Map, Value, json};

use operation::Operation;
use schema::Schemas;

/// Maximum size of a description, in bytes. The largest public APIs have
/// about 10 MB, which a model could not use.
const MAX_BYTES: usize = 4 * 1024 * 1024;
/// Maximum number of operations. Each call searches the list.
const MAX_OPERATIONS: usize = 2000;
/// Maximum nesting depth. Typical descriptions have about 30 levels.
const MAX_DEPTH: usize = 96;
/// Maximum size of the list of operations for the model, in bytes. Every model call contains the list.
const MAX_SUMMARY_BYTES: usize = 4096;

/// Maximum number of bytes of a call that are compared with the operations, to suggest one.
const MAX_COMPARED_BYTES: usize = 200;

/// A parsed description.
pub(super) struct Document {
    operations: Vec<Operation>,
    schemas: Schemas,
}

/// A call to validate.
pub(super) struct Asked<'a> {
    pub method: &'a Method,
    pub path: &'a str,
    pub query: Option<&'a str>,
    /// Names of the sent headers, in lower case.
    pub headers: &'a [&'a str],
    pub media_type: Option<&'a str>,
    pub body: Option<&'a Value>,
    /// Whether the body is sent unchanged.
    pub raw: bool,
}

#[cfg(feature = "yaml")]
fn yaml(text: &str) -> Result<Value, String> {
    serde_saphyr::from_str(text).map_err(|error| unreadable(&error))
}

#[cfg(not(feature = "yaml"))]
fn yaml(_text: &str) -> Result<Value, String> {
    Err("the OpenAPI description is not JSON, and this build does not support YAML; build it with the cargo \
         feature `yaml`"
        .to_owned())
}

/// Whether a text is a valid description, for fuzzing.
#[cfg(feature = "testing")]
pub(crate) fn is_description(text: &str) -> bool {
    Document::read(text).is_ok_and(|document| document.summary(|_, _| true).is_char_boundary(0))
}

impl Document {
    /// Parses a description in JSON or YAML.
    pub(super) fn read(text: &str) -> Result<Self, String> {
        if text.len() > MAX_BYTES {
            return Err(format!(
                "the OpenAPI description has {} bytes; the limit is {MAX_BYTES}",
                text.len()
            ));
        }
        let value: Value = match text.trim_start().starts_with('{') {
            true => serde_json::from_str(text).map_err(|error| unreadable(&error))?,
            false => yaml(text)?,
        };
        let version = value.get("openapi").and_then(Value::as_str).unwrap_or_default();
        let is_old = match version.split('.').collect::<Vec<_>>()[..] {
            ["3", "0", ..] => true,
            ["3", "1" | "2", ..] => false,
            _ => {
                let said = value.get("openapi").or(value.get("swagger")).unwrap_or(&Value::Null);
                return Err(format!("the OpenAPI description has version {said}; supported: 3.0 to 3.2"));
            }
        };
        refuse_remote(&value, MAX_DEPTH)?;
        let schemas = Schemas::new(value, is_old);
        let operations = operations(&schemas)?;
        Ok(Self { operations, schemas })
    }

    /// Validates a call. The model reads the error.
    pub(super) fn check(&self, asked: &Asked<'_>) -> Result<(), String> {
        let fitting = self.operations.iter().filter(|operation| operation.method == *asked.method);
        let found = fitting.filter_map(|operation| Some((operation, operation.parameters_of(asked.path)?)));
        // `/users/me` takes precedence over `/users/{id}`.
        let best = found.min_by_key(|(operation, parameters)| (parameters.len(), operation.template.len()));
        match best {
            Some((operation, parameters)) => operation.check(asked, parameters, &self.schemas),
            None => Err(self.unknown(asked)),
        }
    }

    fn unknown(&self, asked: &Asked<'_>) -> String {
        let line = format!("{} {}", asked.method, asked.path);
        let same = self.operations.iter().filter(|operation| operation.parameters_of(asked.path).is_some());
        let same: Vec<_> = same.map(|operation| operation.method.as_str()).collect();
        if !same.is_empty() {
            return format!("unknown operation `{line}`; methods of this path: {}", same.join(", "));
        }
        // A longer text resembles no operation and would be slow to compare.
        let shown = &line[..line.floor_char_boundary(MAX_COMPARED_BYTES)];
        let lines: Vec<String> = self.operations.iter().map(Operation::line).collect();
        let lines: Vec<&str> = lines.iter().map(String::as_str).collect();
        let near = similar::get_close_matches::<str>(shown, &lines, 3, 0.5);
        let near: Vec<String> = near.into_iter().map(|line| format!("`{line}`")).collect();
        match near.is_empty() {
            true => format!("unknown operation `{line}`; none has a similar name"),
            false => format!("unknown operation `{line}`; the closest: {}", near.join(", ")),
        }
    }

    /// Lists the operations that a call can reach, one per line, up to the size limit.
    pub(super) fn summary(&self, reachable: impl Fn(&Method, &str) -> bool) -> String {
        let mut text = String::new();
        let mut more = 0;
        for operation in self.operations.iter().filter(|it| reachable(&it.method, &it.template)) {
            let line = operation.summary();
            if text.len() + line.len() > MAX_SUMMARY_BYTES {
                more += 1;
                continue;
            }
            text.push_str(&line);
            text.push('\n');
        }
        if more > 0 {
            text.push_str(&format!(
                "(and {more} more; the error for an unknown operation lists the closest ones)\n"
            ));
        }
        text
    }
}

fn unreadable(error: &dyn std::error::Error) -> String {
    let shown: String = error.to_string().chars().take(300).collect();
    format!("cannot parse the OpenAPI description: {shown}")
}

fn operations(schemas: &Schemas) -> Result<Vec<Operation>, String> {
    let none = Map::new();
    let paths = schemas.root().get("paths").and_then(Value::as_object).unwrap_or(&none);
    let mut operations = Vec::new();
    for (template, item) in paths {
        let item = schemas.follow(item)?;
        for method in METHODS {
            let Some(operation) = item.get(method.as_str().to_ascii_lowercase()) else { continue };
            if operations.len() == MAX_OPERATIONS {
                return Err(format!("the OpenAPI description has more than {MAX_OPERATIONS} operations"));
            }
            operations.push(Operation::read(method, template, item, operation, schemas)?);
        }
    }
    if operations.is_empty() {
        return Err("the OpenAPI description has no operations".to_owned());
    }
    Ok(operations)
}

/// Rejects references outside the document, and nesting that is too deep.
fn refuse_remote(value: &Value, depth_left: usize) -> Result<(), String> {
    if depth_left == 0 {
        return Err(format!("the OpenAPI description is nested more than {MAX_DEPTH} levels deep"));
    }
    match value {
        Value::Object(members) => members.iter().try_for_each(|(name, member)| {
            let target = member.as_str().filter(|_| name == "$ref" || name == "$dynamicRef");
            match target.filter(|target| !target.starts_with('#')) {
                Some(target) => {
                    let shown: String = target.chars().take(200).collect();
                    Err(format!(
                        "the OpenAPI description refers to `{shown}`; only references within the document \
                         (`#/…`) are supported"
                    ))
                }
                None => refuse_remote(member, depth_left - 1),
            }
        }),
        Value::Array(items) => items.iter().try_for_each(|item| refuse_remote(item, depth_left - 1)),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => Ok(()),
    }
}

/// Combines the schemas of parameters or body into one object schema.
fn roof(properties: Map<String, Value>, required: &[&str]) -> Value {
    json!({ "type": "object", "properties": properties, "required": required })
}
