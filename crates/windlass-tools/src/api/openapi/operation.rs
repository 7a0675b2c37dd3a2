//! One operation: the paths that it matches, and the parameters and body that it requires.
//!
//! A check is compiled on first use. If a schema is unusable, its check is skipped, because the caller cannot
//! correct the schema. A warning is logged once.

use std::sync::OnceLock;

use http::Method;
use regex::Regex;
use serde_json::{Map, Value};
use windlass_engine::tool::ValueCheck;
use windlass_schema::JsonSchemas;

use super::parameter::{Form, Parameter, Place, Reading};
use super::schema::{Parts, Schemas};
use super::{Asked, roof};

/// Maximum length of an operation's summary, in characters.
const MAX_SUMMARY_CHARS: usize = 120;
/// Maximum number of parameters of one operation.
const MAX_PARAMETERS: usize = 100;

/// An operation of the description.
pub(super) struct Operation {
    pub method: Method,
    pub template: String,
    pattern: Regex,
    /// The parameter names in the template, in order.
    names: Vec<String>,
    summary: String,
    parameters: Vec<Parameter>,
    parameters_check: Lazy,
    body: Option<Body>,
}

/// A check that is compiled on first use; `None` if its schema is unusable.
type Lazy = OnceLock<Option<ValueCheck>>;

struct Body {
    required: bool,
    kinds: Vec<Kind>,
}

/// A media type with its schema, if it has one.
struct Kind {
    media_type: String,
    schema: Option<Value>,
    check: Lazy,
}

impl Operation {
    pub(super) fn read(
        method: Method,
        template: &str,
        item: &Value,
        operation: &Value,
        schemas: &Schemas,
    ) -> Result<Self, String> {
        let (pattern, names) = pattern(template)?;
        let list =
            |value: &Value| value.get("parameters").and_then(Value::as_array).cloned().unwrap_or_default();
        let mut parameters: Vec<Parameter> = Vec::new();
        // Parameters of the operation override the parameters of the path.
        for parameter in list(item).iter().chain(&list(operation)).take(MAX_PARAMETERS) {
            let Some(read) = Parameter::read(schemas.follow(parameter)?, schemas) else { continue };
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
        let (template, parameters_check) = (template.to_owned(), Lazy::new());
        Ok(Self { method, template, pattern, names, summary, parameters, parameters_check, body })
    }

    /// Returns the method and the path template.
    pub(super) fn line(&self) -> String {
        format!("{} {}", self.method, self.template)
    }

    /// Returns the line that describes the operation to the model.
    pub(super) fn summary(&self) -> String {
        let queries = self.parameters.iter().filter(|known| known.place == Place::Query);
        let queries: Vec<String> =
            queries.map(|known| format!("{}{}", known.name, if known.required { "" } else { "?" })).collect();
        let query =
            if queries.is_empty() { String::new() } else { format!(" (query: {})", queries.join(", ")) };
        let dash = if self.summary.is_empty() { "" } else { " — " };
        format!("- {}{query}{dash}{}", self.line(), self.summary)
    }

    /// Returns the parameter values in a path; `None` if the path does not match.
    pub(super) fn parameters_of(&self, path: &str) -> Option<Vec<(String, String)>> {
        let found = self.pattern.captures(path)?;
        let values = found.iter().skip(1).flatten().map(|value| plain(value.as_str()));
        Some(self.names.iter().cloned().zip(values).collect())
    }

    /// Validates a call. The model reads the error.
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
        let mut unknown = query.iter().filter(|(name, _)| !self.takes_query(name));
        if let Some((unknown, _)) = unknown.next() {
            let known = self.parameters.iter().filter(|known| known.place == Place::Query);
            let known: Vec<&str> = known.map(|known| known.name.as_str()).collect();
            let known = if known.is_empty() { "none".to_owned() } else { known.join(", ") };
            return Err(format!("`{}` has no query parameter `{unknown}`; available: {known}", self.line()));
        }
        let missing = self.parameters.iter().find(|known| {
            let is_unread = known.place == Place::Query && known.form != Form::Read;
            is_unread && known.required && !query.iter().any(|(name, _)| known.is_named(name))
        });
        if let Some(missing) = missing {
            return Err(format!("`{}` requires the query parameter `{}`", self.line(), missing.name));
        }
        let missing = self.parameters.iter().find(|known| {
            known.place == Place::Header && known.required && !asked.headers.contains(&known.name.as_str())
        });
        if let Some(missing) = missing {
            return Err(format!("`{}` requires the header `{}`", self.line(), missing.name));
        }
        let given = [(Place::Path, path.as_slice()), (Place::Query, query.as_slice())];
        self.check_parameters(given, schemas).map_err(|faults| self.unfit(&faults))?;
        let Some((kind, schema, body)) = self.body(asked)? else { return Ok(()) };
        let check = kind.check.get_or_init(|| {
            let mut parts = Parts::default();
            let taken = schemas.take(schema, &mut parts).map(|schema| ("body".to_owned(), schema));
            self.ready("body", taken.map(|body| Map::from_iter([body])), parts)
        });
        let value = Value::Object(Map::from_iter([("body".to_owned(), body.clone())]));
        check.as_ref().map_or(Ok(()), |check| check.check(&value)).map_err(|faults| self.unfit(&faults))
    }

    fn unfit(&self, faults: &str) -> String {
        format!("invalid call of `{}`: {faults}", self.line())
    }

    /// Compiles a check.
    fn ready(
        &self,
        of: &str,
        properties: Result<Map<String, Value>, String>,
        parts: Parts,
    ) -> Option<ValueCheck> {
        let made = properties.and_then(|properties| {
            let mut schema = roof(properties, &[]);
            schema["$defs"] = Value::Object(parts.definitions());
            ValueCheck::new(&JsonSchemas, &schema)
        });
        made.inspect_err(|why| {
            tracing::warn!(
                operation = self.line(),
                of,
                why,
                "calls of an operation are only partly validated"
            );
        })
        .ok()
    }

    fn takes_query(&self, name: &str) -> bool {
        let mut known = self.parameters.iter().filter(|known| known.place == Place::Query);
        known.any(|known| known.is_named(name))
    }

    /// Validates the parameters in path and query.
    fn check_parameters(
        &self,
        given: [(Place, &[(String, String)]); 2],
        schemas: &Schemas,
    ) -> Result<(), String> {
        let check = self.parameters_check.get_or_init(|| {
            let mut parts = Parts::default();
            let taken = given.iter().map(|(place, _)| {
                self.place_schema(*place, schemas, &mut parts).map(|schema| (place.name().to_owned(), schema))
            });
            let taken = taken.collect();
            self.ready("parameters", taken, parts)
        });
        let Some(check) = check else { return Ok(()) };
        let values = |reading: Reading| -> Value {
            let places = given.iter().map(|(place, given)| {
                (place.name().to_owned(), self.place_values(*place, given, schemas, reading))
            });
            Value::Object(places.collect())
        };
        check.check(&values(Reading::AsWanted)).or_else(|faults| {
            // If the schema allows both a number and a text, a numeric text may mean either.
            check.check(&values(Reading::TextsFirst)).map_err(|_| faults)
        })
    }

    /// Returns the schema of all parameters in one location, such as the query.
    fn place_schema(&self, place: Place, schemas: &Schemas, parts: &mut Parts) -> Result<Value, String> {
        let (mut properties, mut required) = (Map::new(), Vec::new());
        for parameter in self.read_at(place) {
            if parameter.required {
                required.push(parameter.name.as_str());
            }
            properties.insert(parameter.name.clone(), schemas.take(&parameter.schema, parts)?);
        }
        Ok(roof(properties, &required))
    }

    /// Returns the values of all parameters in one location, such as the query.
    fn place_values(
        &self,
        place: Place,
        given: &[(String, String)],
        schemas: &Schemas,
        reading: Reading,
    ) -> Value {
        let mut values = Map::new();
        for parameter in self.read_at(place) {
            let texts = given.iter().filter(|(name, _)| *name == parameter.name);
            let texts: Vec<&str> = texts.map(|(_, value)| value.as_str()).collect();
            if !texts.is_empty() {
                values.insert(parameter.name.clone(), parameter.value(&texts, schemas, reading));
            }
        }
        Value::Object(values)
    }

    fn read_at(&self, place: Place) -> impl Iterator<Item = &Parameter> {
        self.parameters.iter().filter(move |known| known.place == place && known.form == Form::Read)
    }

    /// Returns the body's media type, its schema and the body, if all three are present.
    fn body<'a>(&'a self, asked: &Asked<'a>) -> Result<Option<(&'a Kind, &'a Value, &'a Value)>, String> {
        let (body, given) = match (&self.body, asked.body) {
            (None, None) => return Ok(None),
            (None, Some(_)) => return Err(format!("`{}` does not accept a body", self.line())),
            (Some(body), None) if body.required => return Err(format!("`{}` requires a body", self.line())),
            (Some(_), None) => return Ok(None),
            (Some(body), Some(given)) => (body, given),
        };
        let wanted = asked.media_type.unwrap_or("application/json");
        let fits = |kind: &str| {
            kind == wanted
                || kind == "*/*"
                || kind.strip_suffix("/*").is_some_and(|kind| wanted.starts_with(kind))
        };
        match body.kinds.iter().find(|kind| fits(&kind.media_type)) {
            _ if body.kinds.is_empty() => Ok(None),
            Some(kind) => {
                let schema = kind.schema.as_ref().filter(|_| !asked.raw);
                Ok(schema.map(|schema| (kind, schema, given)))
            }
            None => {
                let kinds: Vec<&str> = body.kinds.iter().map(|kind| kind.media_type.as_str()).collect();
                Err(format!("`{}` accepts {}, not `{wanted}`", self.line(), kinds.join(", ")))
            }
        }
    }
}

impl Body {
    fn read(value: &Value) -> Self {
        let required = value.get("required").and_then(Value::as_bool).unwrap_or_default();
        let content = value.get("content").and_then(Value::as_object);
        let kinds = content.into_iter().flatten().map(|(kind, said)| {
            let media_type = kind.split(';').next().unwrap_or_default().trim().to_ascii_lowercase();
            Kind { media_type, schema: said.get("schema").cloned(), check: Lazy::new() }
        });
        Self { required, kinds: kinds.collect() }
    }
}

/// Converts a path template to a pattern and its parameter names.
fn pattern(template: &str) -> Result<(Regex, Vec<String>), String> {
    let (mut pattern, mut names, mut rest) = (String::from("^"), Vec::new(), template);
    while let Some((before, behind)) = rest.split_once('{') {
        let (name, after) =
            behind.split_once('}').ok_or_else(|| format!("the path `{template}` has an unmatched brace"))?;
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

/// Decodes a percent-encoded text.
fn plain(text: &str) -> String {
    pairs(&format!("x={}", text.replace('+', "%2B").replace('&', "%26")))
        .pop()
        .map_or_else(String::new, |(_, value)| value)
}

/// Returns the names and values of a query.
fn pairs(query: &str) -> Vec<(String, String)> {
    let Ok(mut url) = windlass_outbound::Url::parse("http://x/") else { return Vec::new() };
    url.set_query(Some(query));
    url.query_pairs().map(|(name, value)| (name.into_owned(), value.into_owned())).collect()
}
