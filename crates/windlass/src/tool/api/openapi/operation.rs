//! One operation: which paths are its, and what a call of it must bring along.
//!
//! Values of paths and queries are texts; they are read as what their schema wants before they are checked.

use http::Method;
use regex::Regex;
use serde_json::{Map, Value, json};

use super::schema::{Parts, Schemas};
use super::{Asked, roof};
use crate::tool::check_values;

/// Longest summary of an operation, in characters.
const MAX_SUMMARY_CHARS: usize = 120;
/// Parameters of one operation.
const MAX_PARAMETERS: usize = 100;

/// An operation.
pub(super) struct Operation {
    pub method: Method,
    pub template: String,
    pattern: Regex,
    /// The names in the template, in order.
    names: Vec<String>,
    summary: String,
    parameters: Vec<Parameter>,
    body: Option<Body>,
}

struct Parameter {
    name: String,
    place: Place,
    required: bool,
    schema: Value,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Place {
    Path,
    Query,
    Header,
}

struct Body {
    required: bool,
    /// Media types with the schema of each, where it has one.
    kinds: Vec<(String, Option<Value>)>,
}

impl Operation {
    pub(super) fn read(
        method: Method,
        template: &str,
        (item, operation): (&Value, &Value),
        schemas: &Schemas,
    ) -> Result<Self, String> {
        let (pattern, names) = pattern(template)?;
        let list =
            |value: &Value| value.get("parameters").and_then(Value::as_array).cloned().unwrap_or_default();
        let mut parameters: Vec<Parameter> = Vec::new();
        // The operation's own come last and win.
        for parameter in list(item).iter().chain(&list(operation)).take(MAX_PARAMETERS) {
            let Some(read) = Parameter::read(schemas.follow(parameter)?) else { continue };
            parameters.retain(|known| (&known.name, known.place) != (&read.name, read.place));
            parameters.push(read);
        }
        let body = match operation.get("requestBody") {
            Some(body) => Some(Body::read(schemas.follow(body)?)),
            None => None,
        };
        let text = |name: &str| operation.get(name).and_then(Value::as_str);
        let summary = text("summary").or(text("description")).or(text("operationId")).unwrap_or_default();
        let summary = summary.lines().next().unwrap_or_default().chars().take(MAX_SUMMARY_CHARS).collect();
        Ok(Self { method, template: template.to_owned(), pattern, names, summary, parameters, body })
    }

    /// What a call of it begins with.
    pub(super) fn line(&self) -> String {
        format!("{} {}", self.method, self.template)
    }

    /// What a model is told of it.
    pub(super) fn summary(&self) -> String {
        let queries = self.parameters.iter().filter(|known| known.place == Place::Query);
        let queries: Vec<String> =
            queries.map(|known| format!("{}{}", known.name, if known.required { "" } else { "?" })).collect();
        let query =
            if queries.is_empty() { String::new() } else { format!(" (query: {})", queries.join(", ")) };
        let dash = if self.summary.is_empty() { "" } else { " — " };
        format!("- {}{query}{dash}{}", self.line(), self.summary)
    }

    /// The values in a path, where it is one of this operation.
    pub(super) fn parameters_of(&self, path: &str) -> Option<Vec<(String, String)>> {
        let found = self.pattern.captures(path)?;
        let values = found.iter().skip(1).flatten().map(|value| plain(value.as_str()));
        Some(self.names.iter().cloned().zip(values).collect())
    }

    /// Checks a call of it; the error is for the model.
    pub(super) fn check(
        &self,
        asked: &Asked<'_>,
        path: Vec<(String, String)>,
        schemas: &Schemas,
    ) -> Result<(), String> {
        let query: Vec<(String, String)> = match asked.query {
            Some(query) => pairs(query),
            None => Vec::new(),
        };
        if let Some((unknown, _)) = query.iter().find(|(name, _)| self.find(name, Place::Query).is_none()) {
            let known = self.parameters.iter().filter(|known| known.place == Place::Query);
            let known: Vec<&str> = known.map(|known| known.name.as_str()).collect();
            let known = if known.is_empty() { "none".to_owned() } else { known.join(", ") };
            return Err(format!("`{}` takes no query parameter `{unknown}`; it takes {known}", self.line()));
        }
        let missing = self.parameters.iter().find(|known| {
            known.place == Place::Header && known.required && !asked.headers.contains(&known.name.as_str())
        });
        if let Some(missing) = missing {
            return Err(format!("`{}` needs the header `{}`", self.line(), missing.name));
        }
        let mut parts = Parts::default();
        let mut properties = Map::new();
        let mut value = Map::new();
        for (name, place, given) in [("path", Place::Path, path), ("query", Place::Query, query)] {
            let (schema, read) = self.place(place, &given, (schemas, &mut parts))?;
            properties.insert(name.to_owned(), schema);
            value.insert(name.to_owned(), read);
        }
        if let Some((schema, body)) = self.body(asked)? {
            properties.insert("body".to_owned(), schemas.take(schema, &mut parts)?);
            value.insert("body".to_owned(), body.clone());
        }
        let mut schema = roof(properties, &[]);
        schema["$defs"] = Value::Object(parts.definitions());
        check_values(&schema, &Value::Object(value))
            .map_err(|faults| format!("the call does not fit `{}`: {faults}", self.line()))
    }

    fn find(&self, name: &str, place: Place) -> Option<&Parameter> {
        self.parameters.iter().find(|known| known.place == place && known.name == name)
    }

    /// The schema of the parameters at one place, and the values that are there.
    fn place(
        &self,
        place: Place,
        given: &[(String, String)],
        (schemas, parts): (&Schemas, &mut Parts),
    ) -> Result<(Value, Value), String> {
        let (mut properties, mut values, mut required) = (Map::new(), Map::new(), Vec::new());
        for parameter in self.parameters.iter().filter(|known| known.place == place) {
            let texts: Vec<&str> = given
                .iter()
                .filter(|(name, _)| *name == parameter.name)
                .map(|(_, value)| value.as_str())
                .collect();
            if parameter.required {
                required.push(parameter.name.as_str());
            }
            properties.insert(parameter.name.clone(), schemas.take(&parameter.schema, parts)?);
            if !texts.is_empty() {
                values.insert(
                    parameter.name.clone(),
                    read(&texts, schemas.follow(&parameter.schema)?, schemas)?,
                );
            }
        }
        Ok((roof(properties, &required), Value::Object(values)))
    }

    /// The schema that the body has to satisfy, with the body, where there is both.
    fn body<'a>(&'a self, asked: &Asked<'a>) -> Result<Option<(&'a Value, &'a Value)>, String> {
        let (body, given) = match (&self.body, asked.body) {
            (None, None) => return Ok(None),
            (None, Some(_)) => return Err(format!("`{}` takes no body", self.line())),
            (Some(body), None) if body.required => return Err(format!("`{}` needs a body", self.line())),
            (Some(_), None) => return Ok(None),
            (Some(body), Some(given)) => (body, given),
        };
        let wanted = asked.media_type.unwrap_or("application/json");
        let fits = |kind: &str| {
            kind == wanted
                || kind == "*/*"
                || kind.strip_suffix("/*").is_some_and(|kind| wanted.starts_with(kind))
        };
        match body.kinds.iter().find(|(kind, _)| fits(kind)) {
            _ if body.kinds.is_empty() => Ok(None),
            Some((_, schema)) => Ok(schema.as_ref().filter(|_| !asked.raw).map(|schema| (schema, given))),
            None => {
                let kinds: Vec<&str> = body.kinds.iter().map(|(kind, _)| kind.as_str()).collect();
                Err(format!("`{}` takes {}, not `{wanted}`", self.line(), kinds.join(", ")))
            }
        }
    }
}

impl Parameter {
    /// `None` for what is not checked: cookies, and headers that the service's own settings decide.
    fn read(value: &Value) -> Option<Self> {
        let name = value.get("name")?.as_str()?;
        let place = match value.get("in")?.as_str()? {
            "path" => Place::Path,
            "query" => Place::Query,
            "header" if super::super::headers::is_reserved(&name.to_ascii_lowercase()) => return None,
            "header" if ["accept", "content-type"].contains(&name.to_ascii_lowercase().as_str()) => {
                return None;
            }
            "header" => Place::Header,
            _ => return None,
        };
        let name = if place == Place::Header { name.to_ascii_lowercase() } else { name.to_owned() };
        let required = value.get("required").and_then(Value::as_bool).unwrap_or_default();
        let schema = value.get("schema").cloned().unwrap_or(json!({}));
        Some(Self { name, place, required, schema })
    }
}

impl Body {
    fn read(value: &Value) -> Self {
        let required = value.get("required").and_then(Value::as_bool).unwrap_or_default();
        let content = value.get("content").and_then(Value::as_object);
        let kinds = content.into_iter().flatten().map(|(kind, said)| {
            let kind = kind.split(';').next().unwrap_or_default().trim().to_ascii_lowercase();
            (kind, said.get("schema").cloned())
        });
        Self { required, kinds: kinds.collect() }
    }
}

/// A template as a pattern, with the names in it.
fn pattern(template: &str) -> Result<(Regex, Vec<String>), String> {
    let (mut pattern, mut names, mut rest) = (String::from("^"), Vec::new(), template);
    while let Some((before, behind)) = rest.split_once('{') {
        let (name, after) = behind
            .split_once('}')
            .ok_or_else(|| format!("the path `{template}` has a brace without its other"))?;
        pattern.push_str(&regex::escape(before));
        pattern.push_str("([^/]+)");
        names.push(name.to_owned());
        rest = after;
    }
    pattern.push_str(&regex::escape(rest));
    pattern.push('$');
    let pattern = Regex::new(&pattern).map_err(|_| format!("the path `{template}` is too long"))?;
    Ok((pattern, names))
}

/// The text that an encoded one stands for.
fn plain(text: &str) -> String {
    pairs(&format!("x={}", text.replace('+', "%2B").replace('&', "%26")))
        .pop()
        .map_or_else(String::new, |(_, value)| value)
}

/// The names and values of a query.
fn pairs(query: &str) -> Vec<(String, String)> {
    let Ok(mut url) = crate::outbound::Url::parse("http://x/") else { return Vec::new() };
    url.set_query(Some(query));
    url.query_pairs().map(|(name, value)| (name.into_owned(), value.into_owned())).collect()
}

/// Reads texts as what their schema wants. What cannot be read stays a text, and the check says so.
fn read(texts: &[&str], schema: &Value, schemas: &Schemas) -> Result<Value, String> {
    let kinds: Vec<&str> = match schema.get("type") {
        Some(Value::String(kind)) => vec![kind.as_str()],
        Some(Value::Array(kinds)) => kinds.iter().filter_map(Value::as_str).collect(),
        Some(_) | None => Vec::new(),
    };
    if kinds.contains(&"array") {
        let any = json!({});
        let item = schemas.follow(schema.get("items").unwrap_or(&any))?;
        // One value with commas is how lists are written where they are not repeated.
        let parts = texts.iter().flat_map(|text| text.split(',')).map(|text| read_one(text, item));
        return Ok(parts.collect());
    }
    let text = texts.last().copied().unwrap_or_default();
    Ok(read_one(text, schema))
}

fn read_one(text: &str, schema: &Value) -> Value {
    let wants = |kind: &str| match schema.get("type") {
        Some(Value::String(known)) => known == kind,
        Some(Value::Array(kinds)) => kinds.iter().any(|known| known == kind),
        Some(_) | None => false,
    };
    let as_json = serde_json::from_str::<Value>(text).ok();
    match as_json {
        Some(number @ Value::Number(_)) if wants("integer") || wants("number") => number,
        Some(truth @ Value::Bool(_)) if wants("boolean") => truth,
        Some(_) | None => Value::String(text.to_owned()),
    }
}
