//! One parameter of an operation: where it stands, how it is written, and what its text means.
//!
//! Values of paths and queries are texts; they are read as what their schema wants before they are checked. Ways of
//! writing that are not read here are not checked either.

use std::collections::BTreeSet;

use serde_json::{Value, json};

use super::schema::Schemas;
use crate::api::headers::is_reserved;

/// Schemas that are looked at for what a parameter wants; honest ones have a handful.
const MAX_LOOKS: usize = 100;

/// A parameter that is checked.
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

/// How a parameter is written.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Form {
    /// As a text, or several, that are read.
    Read,
    /// In a way that is not read.
    Unread,
    /// Each key of an object by itself: `filter[status]=new`.
    Keys,
    /// Each key of an object as a parameter of its own, so that any name may be one.
    Spread,
}

/// What of two things a text is taken for.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Reading {
    /// For a number or a truth where that is wanted.
    AsWanted,
    /// For a text wherever one is wanted, too.
    TextsFirst,
}

impl Parameter {
    /// `None` for what is not checked: cookies, and headers that the service's own settings decide.
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

    /// Whether a name of a query is this parameter's.
    pub(super) fn is_named(&self, name: &str) -> bool {
        match self.form {
            Form::Read | Form::Unread => name == self.name,
            Form::Keys => name
                .strip_prefix(self.name.as_str())
                .is_some_and(|key| key.is_empty() || key.starts_with('[')),
            Form::Spread => true,
        }
    }

    /// Reads texts as what the schema wants. What cannot be read stays a text, and the check says so.
    pub(super) fn value(&self, texts: &[&str], schemas: &Schemas, reading: Reading) -> Value {
        let wanted = Wanted::of(&self.schema, schemas);
        let text = texts.last().copied().unwrap_or_default();
        let alone = wanted.kinds.iter().any(|kind| !["array", "null"].contains(&kind.as_str()));
        // One value with commas is how lists are written where they are not repeated.
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

/// The types that a schema takes, wherever in it they are said.
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
            // What leads nowhere says nothing; the check says why.
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

/// The values that a schema names instead of a type.
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
