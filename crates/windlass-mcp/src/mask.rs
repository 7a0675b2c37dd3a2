//! Redacts secrets from a server's output: configured headers and variables, values sent with a request, and the
//! tokens, authorization codes and client secrets of a sign-in.
//!
//! This is a second line of defence against servers that echo their input. Values sent with a request are remembered
//! for a while, because a later response may echo them.

use std::collections::VecDeque;
use std::sync::{Mutex, MutexGuard, PoisonError};

use reqwest::Url;
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::{Map, Value};
use windlass_engine::port::tool::{OutputPart, ToolOutcome, ToolOutput};
use windlass_outbound::secret::{Mask, Secret};

use super::config::{McpServer, Transport};

/// Redacts the values that a server has received.
pub(super) struct Masks {
    /// Every value of the configuration.
    all: Vec<Secret>,
    /// The secret values, selected by name or by configuration. A folder or a region is not secret, and a
    /// result without it may be useless.
    secret: Vec<Secret>,
    now: Mutex<Now>,
}

/// The current masks.
struct Now {
    /// The values sent since the start, newest last.
    given: VecDeque<Secret>,
    reasons: Mask,
    results: Mask,
}

/// Maximum number of remembered values: several hours of tokens, or the
/// most recent signatures of single requests.
const GIVEN_MAX: usize = 64;

/// Substrings of the names of headers, variables and parameters whose values are secret.
const SECRET_NAMES: [&str; 8] = ["auth", "key", "token", "secret", "cookie", "passw", "credential", "dsn"];

/// Whether a name of a header, variable or parameter indicates a secret value.
pub(super) fn is_secret_name(name: &str) -> bool {
    let name = name.to_ascii_lowercase();
    SECRET_NAMES.iter().any(|word| name.contains(word))
}

impl Masks {
    pub fn of(server: &McpServer) -> Self {
        let (mut all, mut secret) = (server.secrets.0.clone(), server.secrets.0.clone());
        let named = match &server.transport {
            Transport::Stdio(stdio) => stdio.env.clone(),
            Transport::Http(http) | Transport::Sse(http) => {
                let url = Url::parse(&http.url).ok();
                let query = url.iter().flat_map(|url| url.query_pairs().into_owned());
                http.headers.iter().cloned().chain(query).collect()
            }
        };
        for (name, value) in &named {
            let is_secret = is_secret_name(name);
            for part in parts(value) {
                let part = Secret::new(part);
                all.push(part.clone());
                secret.extend(is_secret.then_some(part));
            }
        }
        if let Some(oauth) = server.transport.oauth() {
            secret.extend(oauth.client_secret.as_deref().map(Secret::new));
        }
        all.extend(secret.iter().cloned());
        let now = Now { given: VecDeque::new(), reasons: Mask::new(&all), results: Mask::new(&secret) };
        Self { all, secret, now: Mutex::new(now) }
    }

    /// Remembers values that are about to be sent to the server or its authorization server.
    pub fn remember<'a>(&self, values: impl IntoIterator<Item = &'a str>) {
        let mut now = self.now();
        let before = now.given.clone();
        for part in values.into_iter().flat_map(parts) {
            let part = Secret::new(part);
            // A value that is sent repeatedly is kept.
            now.given.retain(|known| *known != part);
            now.given.push_back(part);
        }
        let over = now.given.len().saturating_sub(GIVEN_MAX);
        now.given.drain(..over);
        if now.given.iter().any(|given| !before.contains(given)) {
            now.reasons = Mask::new(self.all.iter().chain(&now.given));
            now.results = Mask::new(self.secret.iter().chain(&now.given));
        }
    }

    /// Returns the mask for error messages and log lines: all values.
    pub fn reasons(&self) -> Mask {
        self.now().reasons.clone()
    }

    /// Returns the mask for results: secret values only.
    pub fn results(&self) -> Mask {
        self.now().results.clone()
    }

    fn now(&self) -> MutexGuard<'_, Now> {
        // A panic cannot leave a mask incomplete: each change assigns whole masks.
        self.now.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Redacts a value. Fails if it cannot be redacted.
    pub fn said<T: Serialize + DeserializeOwned>(&self, said: T) -> Result<T, String> {
        let said = serde_json::to_value(said).map_err(|error| error.to_string())?;
        // The parser's message might quote the value.
        serde_json::from_value(masked_json(&self.results(), said)?)
            .map_err(|_| "it contains a secret".to_owned())
    }

    /// Redacts parts of a result.
    pub fn parts(&self, parts: Vec<OutputPart>) -> Vec<OutputPart> {
        let mask = self.results();
        parts.into_iter().map(|part| masked_part(&mask, part)).collect()
    }

    /// Redacts and truncates a text. If the truncation splits a secret, redacts the rest of it too.
    pub fn beginning(&self, text: &str, max_bytes: usize) -> String {
        let (mask, end) = (self.results(), text.floor_char_boundary(max_bytes));
        if end == text.len() {
            return mask.text(text);
        }
        String::from_utf8_lossy(&mask.cut_bytes(&text.as_bytes()[..end])).into_owned()
    }

    /// Redacts a tool's output.
    pub fn output(&self, mut output: ToolOutput) -> ToolOutput {
        let mask = if output.error { self.reasons() } else { self.results() };
        output.parts = output.parts.into_iter().map(|part| masked_part(&mask, part)).collect();
        output
    }

    /// Redacts the outcome of a call. The error states why the call's state must not be recorded.
    pub fn outcome(&self, outcome: ToolOutcome) -> Result<ToolOutcome, String> {
        // The server's opaque state is recorded, and a redacted copy would be useless to the server.
        let records = |state: &Option<String>| match state {
            Some(state) if contains_secret(&self.results(), state) => Err(UNRECORDED.to_owned()),
            Some(_) | None => Ok(()),
        };
        Ok(match outcome {
            ToolOutcome::Done(output) => self.output(output).into(),
            ToolOutcome::Unknown { reason } => ToolOutcome::unknown(self.reasons().text(&reason)),
            ToolOutcome::Defer(deferral) => {
                records(&deferral.state)?;
                ToolOutcome::Defer(deferral)
            }
            ToolOutcome::Ask(mut ask) => {
                records(&ask.state)?;
                let kind = self.said(ask.kind.clone());
                ask.kind = kind.map_err(|why| format!("the question cannot be recorded: {why}"))?;
                ToolOutcome::Ask(ask)
            }
        })
    }
}

/// Why a call cannot wait: its state contains a secret.
const UNRECORDED: &str = "the server's state contains a secret, which must not be recorded";

/// Whether recorded state contains a secret.
fn contains_secret(mask: &Mask, state: &str) -> bool {
    match serde_json::from_str::<Value>(state) {
        Ok(state) => masked_json(mask, state.clone()) != Ok(state),
        Err(_) => mask.text(state) != state,
    }
}

fn masked_part(mask: &Mask, part: OutputPart) -> OutputPart {
    match part {
        OutputPart::Text(text) => OutputPart::Text(mask.text(&text)),
        OutputPart::Image { media_type, bytes } => {
            OutputPart::Image { media_type: mask.text(&media_type), bytes: mask.bytes(&bytes).into() }
        }
        OutputPart::File { name, media_type, bytes } => OutputPart::File {
            name: mask.text(&name),
            media_type: mask.text(&media_type),
            bytes: mask.bytes(&bytes).into(),
        },
    }
}

/// Names of the protocol and of JSON Schema. They are not redacted, even if a variable such as
/// `AUTH_MODE` has one of them as its value.
const NAMES: [&str; 8] =
    ["content", "default", "description", "message", "method", "params", "properties", "required"];
const TYPES: [&str; 7] = ["array", "boolean", "integer", "null", "number", "object", "string"];

/// Redacts a server's JSON. Fails if a member's name contains a secret, because a
/// renamed member would have another meaning.
pub(super) fn masked_json(mask: &Mask, value: Value) -> Result<Value, String> {
    let is_clean = |name: &str| NAMES.contains(&name) || mask.text(name) == name;
    match value {
        Value::Null | Value::Bool(_) => Ok(value),
        Value::String(text) => Ok(Value::String(mask.text(&text))),
        Value::Number(number) => {
            let (plain, masked) = (number.to_string(), mask.text(&number.to_string()));
            Ok(if plain == masked { Value::Number(number) } else { Value::String(masked) })
        }
        Value::Array(items) => items.into_iter().map(|item| masked_json(mask, item)).collect(),
        Value::Object(members) => {
            let mut told = Map::new();
            for (name, value) in members {
                let names = value.as_array().filter(|_| name == "required").into_iter().flatten();
                if !is_clean(&name) || !names.filter_map(Value::as_str).all(is_clean) {
                    return Err("a key in it contains a secret".into());
                }
                let is_type = name == "type" && each(&value, |kind| TYPES.contains(&kind));
                if is_type || name == "required" && each(&value, is_clean) {
                    told.insert(name, value);
                    continue;
                }
                // A default is sent back to the server unchanged, so it cannot be redacted. A `default` that
                // is an object is a property with that name.
                let default = (name == "default" && !value.is_object()).then(|| value.clone());
                let masked = masked_json(mask, value)?;
                if default.is_none_or(|default| default == masked) {
                    told.insert(name, masked);
                }
            }
            Ok(Value::Object(told))
        }
    }
}

/// Returns a value, the part after its scheme, and its lines. Servers may echo any of them.
fn parts(value: &str) -> impl Iterator<Item = &str> {
    let credentials = value.split_once(' ').map(|(_, rest)| rest);
    [value].into_iter().chain(credentials).chain(value.lines())
}

/// Whether a value is a text or a list of texts that `is` accepts.
fn each(value: &Value, is: impl Fn(&str) -> bool) -> bool {
    let items = value.as_array().map_or(std::slice::from_ref(value), Vec::as_slice);
    items.iter().all(|item| item.as_str().is_some_and(&is))
}

#[cfg(test)]
mod tests {
    use serde_json::json;
    use windlass_machine::{InterruptKind, Rest, Terms};

    use super::super::client::{OAuth, Secrets};
    use super::super::config::{Http, Stdio};
    use super::*;
    use windlass_engine::port::tool::{Ask, Deferral};

    #[test]
    fn what_was_given_is_not_said_back_and_what_is_no_secret_stays_in_results() {
        let env = [("API_TOKEN", "SENTINEL-1"), ("ROOT", "/srv/data"), ("PEM_KEY", "line-one\nline-two")];
        let env = env.map(|(name, value)| (name.to_owned(), value.to_owned())).to_vec();
        let stdio = Stdio { env, ..Stdio::new("sh", [""; 0]) };
        let server = McpServer::new("sh", Transport::Stdio(stdio));
        let server = McpServer { secrets: Secrets(vec![Secret::new("SENTINEL-2")]), ..server };
        let masks = Masks::of(&server);
        let said = "SENTINEL-1 SENTINEL-2 /srv/data line-two";
        assert_eq!(masks.results().text(said), "[masked] [masked] /srv/data [masked]");
        assert_eq!(masks.reasons().text(said), "[masked] [masked] [masked] [masked]");
        assert!(!format!("{server:?}").contains("SENTINEL"));
        let headers = vec![("Authorization".to_owned(), "Bearer SENTINEL-3".to_owned())];
        let http = Http { headers, ..Http::new("https://a/mcp?api_key=SENTINEL-4&set=default") };
        let masks = Masks::of(&McpServer::new("a", Transport::Http(http)));
        assert_eq!(masks.results().text("SENTINEL-3, SENTINEL-4, default"), "[masked], [masked], default");
    }

    #[test]
    fn redacted_json_keeps_its_structure() {
        let secrets = ["SENTINEL-1", "default", "object", "1234567"].map(Secret::new);
        let mask = Mask::new(&secrets);
        let schema = json!({
            "type": "object",
            "required": ["default", "n"],
            "properties": {
                "default": { "description": "SENTINEL-1", "type": "string", "default": "is SENTINEL-1" },
                "n": { "type": "integer", "default": 3, "enum": [1, 1_234_567] },
            },
        });
        let told = json!({
            "type": "object",
            "required": ["default", "n"],
            "properties": {
                "default": { "description": "[masked]", "type": "string" },
                "n": { "type": "integer", "default": 3, "enum": [1, "[masked]"] },
            },
        });
        assert_eq!(masked_json(&mask, schema), Ok(told));
        let named = "a key in it contains a secret";
        for told in [json!([{ "a": { "x-sentinel-1": 1 } }]), json!({ "required": ["SENTINEL-1"] })] {
            assert_eq!(masked_json(&mask, told), Err(named.to_owned()));
        }
    }

    #[test]
    fn what_a_call_waits_with_is_masked_or_not_recorded() {
        let server = McpServer::new("sh", Transport::Stdio(Stdio::new("sh", [""; 0])));
        let masks = Masks::of(&McpServer { secrets: Secrets(vec![Secret::new("SENTINEL-1")]), ..server });
        let kind = |url: &str| InterruptKind::SignIn { server: "sh".into(), url: url.into(), message: None };
        let asks = |state: &str| Ask {
            kind: kind("https://a/SENTINEL-1"),
            terms: Terms::default(),
            state: Some(state.into()),
        };
        let asked = masks.outcome(ToolOutcome::ask(asks(r#"{"state":"plain"}"#))).unwrap();
        let ToolOutcome::Ask(asked) = asked else { panic!("{asked:?}") };
        assert_eq!(asked.kind, kind("https://a/[masked]"));
        let later = |state: &str| Deferral { after_ms: 1, state: Some(state.into()), rest: Rest::AsTheCall };
        for state in
            [r#"{"state":"{\"to\":\"\\u0053ENTINEL-1\"}"}"#, r#"{"SENTINEL-1":1}"#, "no JSON: SENTINEL-1"]
        {
            for output in [ToolOutcome::ask(asks(state)), ToolOutcome::defer(later(state))] {
                assert_eq!(masks.outcome(output), Err(UNRECORDED.to_owned()), "{state}");
            }
        }
    }

    #[test]
    fn what_is_given_at_the_moment_of_a_request_is_not_said_back_while_it_is_remembered() {
        let oauth = OAuth { client_secret: Some("SENTINEL-0".into()), ..OAuth::new("http://127.0.0.1/back") };
        let http = Http { oauth: Some(oauth), ..Http::new("https://a/mcp") };
        let masks = Masks::of(&McpServer::new("a", Transport::Http(http)));
        masks.remember(["Bearer SENTINEL-1"]);
        let said = "SENTINEL-0, SENTINEL-1, Bearer";
        assert_eq!(masks.results().text(said), "[masked], [masked], Bearer");
        assert_eq!(masks.reasons().text(said), "[masked], [masked], Bearer");
        // A value that is still used is kept; an unused value is dropped after many newer ones.
        for nth in 0..GIVEN_MAX {
            masks.remember([format!("once-{nth:0>6}").as_str(), "SENTINEL-2"]);
        }
        assert_eq!(
            masks.results().text("SENTINEL-1, SENTINEL-2, once-000063"),
            "SENTINEL-1, [masked], [masked]"
        );
    }
}
