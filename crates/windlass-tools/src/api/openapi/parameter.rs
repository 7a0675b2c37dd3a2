//! One parameter of an operation: its location, its serialization, and the conversion of its text.
//!
//! Values in paths and queries are texts. They are converted to the type that the schema requires and then validated.
//! Parameters with an unsupported serialization are not validated.

use std::collections::BTreeSet;

use serde_json::{Value, json};

use super::schema::Schemas;
use crate::api::headers::is_reserved;

/// Maximum number of schemas visited to determine a parameter's type. Typical parameters need fewer than ten.
const MAX_LOOKS: usize = 100;

/// A parameter that is validated.
pub(super) struct Parameter {
    pub name: String,
    pub place: Place,
    pub form: Form,
    pub required: bool,
    pub schema: Value,
}

#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Place {
    Path,
    Query,
    Header,
}

impl Place {
    pub(super) fn name(self) -> &'static str {
        match self {
            Self::Path => "path",
            Self::Query => "query",
            Self::Header => "header",
        }
    }
}

/// The serialization of a parameter.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Form {
    /// One text or several texts, which are parsed.
    Read,
    /// An unsupported serialization, which is not parsed.
    Unread,
    /// One parameter for each key of an object: `filter[status]=new`.
    Keys,
    /// Each key of an object is a separate parameter, so any name may belong to the object.
    Spread,
}

/// The interpretation of an ambiguous text.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Reading {
    /// As a number or boolean if the schema allows one.
    AsWanted,
    /// As a text if the schema allows one.
    TextsFirst,
}

impl Parameter {
    /// Parses a parameter. Returns `None` for parameters that are not validated: cookies, and headers that
    /// the service's settings determine.
    pub(super) fn read(value: &Value, schemas: &Schemas) -> Option<Self> {
        let name = value.get("name")?.as_str()?;
        let place = match value.get("in")?.as_str()? {
            "path" => Place::Path,
            "query" => Place::Query,
            "header" if is_reserved(name) => return None,
            "header" if ["accept", "content-type"].contains(&name.to_ascii_lowercase().as_str()) => {
                return None;
            }
            "header" => Place::Header,
            _ => return None,
        };
        let name = if place == Place::Header { name.to_ascii_lowercase() } else { name.to_owned() };
        let required = value.get("required").and_then(Value::as_bool).unwrap_or_default();
        let schema = value.get("schema").cloned().unwrap_or(json!({}));
        let form = form(value, place, &Wanted::of(&schema, schemas));
        Some(Self { name, place, form, required, schema })
    }

    /// Whether a name in a query belongs to this parameter.
    pub(super) fn is_named(&self, name: &str) -> bool {
        match self.form {
            Form::Read | Form::Unread => name == self.name,
            Form::Keys => name
                .strip_prefix(self.name.as_str())
                .is_some_and(|key| key.is_empty() || key.starts_with('[')),
            Form::Spread => true,
        }
    }

    /// Converts texts to the type that the schema requires. A text that cannot be converted is returned
    /// unchanged, and validation reports it.
    pub(super) fn value(&self, texts: &[&str], schemas: &Schemas, reading: Reading) -> Value {
        let wanted = Wanted::of(&self.schema, schemas);
        let text = texts.last().copied().unwrap_or_default();
        let alone = wanted.kinds.iter().any(|kind| !["array", "null"].contains(&kind.as_str()));
        // A single value with commas is a list, unless lists are written as repeated parameters.
        let is_list = !alone || texts.len() > 1 || (text.contains(',') && !wanted.has("string"));
        if wanted.has("array") && is_list {
            let item = wanted.items.map(|items| Wanted::of(items, schemas)).unwrap_or_default();
            let parts = texts.iter().flat_map(|text| text.split(','));
            return parts.map(|text| item.read(text, reading)).collect();
        }
        wanted.read(text, reading)
    }
}

fn form(value: &Value, place: Place, wanted: &Wanted<'_>) -> Form {
    if value.get("content").is_some() {
        return Form::Unread;
    }
    let style = value.get("style").and_then(Value::as_str);
    match (place, style) {
        (Place::Header, _) => Form::Read,
        (Place::Query, Some("deepObject")) => Form::Keys,
        (Place::Query, None | Some("form")) if wanted.has("object") => {
            match value.get("explode").and_then(Value::as_bool).unwrap_or(true) {
                true => Form::Spread,
                false => Form::Unread,
            }
        }
        (Place::Path, None | Some("simple")) if wanted.has("object") => Form::Unread,
        (Place::Query, None | Some("form")) | (Place::Path, None | Some("simple")) => Form::Read,
        (Place::Query | Place::Path, Some(_)) => Form::Unread,
    }
}

/// The types that a schema accepts, including those of nested schemas.
#[derive(Default)]
struct Wanted<'a> {
    kinds: BTreeSet<String>,
    items: Option<&'a Value>,
}

impl<'a> Wanted<'a> {
    fn of(schema: &'a Value, schemas: &'a Schemas) -> Self {
        let (mut wanted, mut open) = (Self::default(), vec![schema]);
        for _ in 0..MAX_LOOKS {
            let Some(schema) = open.pop() else { break };
            // A broken reference adds no type, because validation reports it.
            let Ok(schema) = schemas.follow(schema) else { continue };
            match schema.get("type") {
                Some(Value::String(kind)) => drop(wanted.kinds.insert(kind.clone())),
                Some(Value::Array(kinds)) => {
                    wanted.kinds.extend(kinds.iter().filter_map(Value::as_str).map(str::to_owned));
                }
                Some(_) => {}
                None => wanted.kinds.extend(values(schema).map(|value| kind(value).to_owned())),
            }
            wanted.items = wanted.items.or(schema.get("items"));
            let branches = ["anyOf", "oneOf", "allOf"].into_iter().filter_map(|name| schema.get(name));
            open.extend(branches.filter_map(Value::as_array).flatten());
        }
        wanted
    }

    fn has(&self, kind: &str) -> bool {
        self.kinds.contains(kind)
    }

    fn read(&self, text: &str, reading: Reading) -> Value {
        let as_json = match reading {
            Reading::TextsFirst if self.has("string") => None,
            Reading::AsWanted | Reading::TextsFirst => serde_json::from_str::<Value>(text).ok(),
        };
        match as_json {
            Some(number @ Value::Number(_)) if self.has("integer") || self.has("number") => number,
            Some(truth @ Value::Bool(_)) if self.has("boolean") => truth,
            Some(_) | None => Value::String(text.to_owned()),
        }
    }
}

/// Returns the values of a schema's `enum` and `const`.
fn values(schema: &Value) -> impl Iterator<Item = &Value> {
    let listed = schema.get("enum").and_then(Value::as_array);
    listed.into_iter().flatten().chain(schema.get("const"))
}

fn kind(value: &Value) -> &'static str {
    match value {
        Value::Null => "null",
        Value::Bool(_) => "boolean",
        Value::Number(_) => "number",
        Value::String(_) => "string",
        Value::Array(_) => "array",
        Value::Object(_) => "object",
    }
}
