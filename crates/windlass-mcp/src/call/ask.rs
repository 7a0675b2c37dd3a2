//! Converts a server's requests for input to interrupts, and users' answers to the protocol's results.
//!
//! The whole state of a waiting call is recorded, so that another process can resume the call days later. The
//! state contains the server's opaque state, the requests, and the answers so far.

use std::collections::BTreeMap;

use rmcp::model::{InputRequest, InputResponses};
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value, json};
use windlass_engine::port::tool::Ask;
use windlass_engine::tool::ValueCheck;
use windlass_machine::{Answer, InterruptKind, Question, Terms, check_json};
use windlass_outbound::secret::MASKED;
use windlass_schema::JsonSchemas;

use crate::call::task::Watched;
use crate::mask::Masks;

/// The recorded state of a waiting call.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "waits_for", rename_all = "snake_case")]
pub(crate) enum Parked {
    /// Input requests of a server that uses the newer revision and does not keep the call open.
    Input {
        /// The server's opaque state, returned byte for byte.
        state: Option<String>,
        requests: BTreeMap<String, Value>,
        /// The answers so far.
        answers: InputResponses,
        /// The name of the request that users are answering.
        asked: String,
    },
    /// A question of an older server, which keeps the call open until it is answered.
    Held {
        /// Identifies the open call in the process that holds it.
        ticket: u64,
        /// The parameters of the question.
        asked: Value,
        /// Earlier questions and answers, for a call that may be repeated.
        known: Vec<Known>,
    },
    /// A sign-in is required. The server did not execute the call.
    SignIn,
    /// All input is answered, but a sign-in is required or the server is unreachable.
    Ready {
        /// The server's opaque state, returned byte for byte.
        state: Option<String>,
        answers: Option<InputResponses>,
        /// Questions and answers of a call to an older server that will be repeated.
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        known: Vec<Known>,
    },
    /// A task that runs at the server. A poll of the task may require a sign-in.
    Task(Watched),
    /// Input requests of a task at the server.
    TaskInput {
        task: Watched,
        requests: BTreeMap<String, Value>,
        /// The answers so far.
        answers: InputResponses,
        /// The name of the request that users are answering.
        asked: String,
    },
    /// All input of a task is answered and must be sent to the server.
    TaskReady { task: Watched, requests: BTreeMap<String, Value>, answers: InputResponses },
    /// Pages that users must open before the call can be made.
    Pages {
        /// The pages after the current one.
        left: Vec<Value>,
    },
}

/// A question of an older server with its answer.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct Known {
    pub asked: Value,
    pub answer: Value,
}

impl Parked {
    /// Serializes the state that is returned with the resumed call.
    pub fn written(&self) -> String {
        // Cannot fail: the state has strings, numbers and JSON only.
        serde_json::to_string(self).expect("the state of a waiting call serializes")
    }
}

/// Maximum size of a page's message, in bytes. The message is displayed in full with the interrupt.
const MESSAGE_MAX_BYTES: usize = 4_000;

/// Creates the interrupt for a server's question. `parameters`: the parameters of `elicitation/create`.
pub(crate) fn question(
    server: &str,
    parameters: &Value,
    again: Option<&str>,
    parked: &Parked,
) -> Result<Ask, String> {
    let text = |name: &str| parameters.get(name).and_then(Value::as_str);
    let message = text("message").unwrap_or_default();
    let kind = match text("url") {
        Some(url) => {
            if url.contains(MASKED) {
                return Err("its URL contains a secret".into());
            }
            let parsed =
                reqwest::Url::parse(url).map_err(|error| format!("`{url}` is not a valid URL: {error}"))?;
            if !matches!(parsed.scheme(), "http" | "https") {
                return Err(format!("cannot open `{url}`: only http and https are supported"));
            }
            let said = if message.is_empty() { "The server asks you to open this page" } else { message };
            let end = said.floor_char_boundary(MESSAGE_MAX_BYTES);
            let message = Some(said[..end].to_owned());
            InterruptKind::SignIn { server: server.to_owned(), url: url.to_owned(), message }
        }
        None => {
            let note =
                again.map(|why| format!("\n\n(The previous answer was invalid: {why})")).unwrap_or_default();
            InterruptKind::Question(Box::new(Question {
                summary: format!("The server `{server}` asks: {message}{note}"),
                schema: Some(
                    parameters.get("requestedSchema").cloned().unwrap_or_else(|| json!({ "type": "object" })),
                ),
                ..Question::default()
            }))
        }
    };
    kind.check().map_err(|why| format!("the question {why}"))?;
    Ok(Ask { kind, terms: Terms::default(), state: Some(parked.written()) })
}

pub(crate) fn sign_in(server: &str, url: String, parked: &Parked) -> Ask {
    let kind = InterruptKind::SignIn { server: server.to_owned(), url, message: None };
    Ask { kind, terms: Terms::default(), state: Some(parked.written()) }
}

/// Returns the parameters of an input request if the request is a question; `None` for other requests.
pub(crate) fn elicitation(request: &Value) -> Option<&Value> {
    let method = request.get("method").and_then(Value::as_str)?;
    (method == "elicitation/create").then(|| request.get("params")).flatten()
}

/// Returns input requests as JSON, redacted for recording.
pub(crate) fn written(
    requests: &BTreeMap<String, InputRequest>,
    masks: &Masks,
) -> Result<BTreeMap<String, Value>, String> {
    let written = requests.iter().map(|(name, request)| {
        let value = serde_json::to_value(request).map_err(|error| error.to_string())?;
        // The state of a waiting call is JSON within JSON, and is decoded again later.
        check_json(&value).map_err(|why| format!("the input `{name}` {why}"))?;
        Ok((name.clone(), value))
    });
    masks.said(written.collect::<Result<_, String>>()?)
}

/// Converts an answer to the result of `elicitation/create`. The error
/// states why the question must be asked again.
pub(crate) fn result(parameters: &Value, answer: &Answer) -> Result<Value, String> {
    match answer {
        Answer::Reply(_) if parameters.get("url").is_some() => Ok(json!({ "action": "accept" })),
        Answer::Reply(reply) => {
            let mut content = match &reply.values {
                Some(Value::Object(values)) => values.clone(),
                Some(other) => return Err(format!("`{other}` is not an object")),
                None => Map::new(),
            };
            let schema = parameters.get("requestedSchema");
            let properties = schema.and_then(|schema| schema.get("properties")?.as_object());
            for (name, property) in properties.into_iter().flatten() {
                if let Some(default) = property.get("default")
                    && !content.contains_key(name)
                {
                    content.insert(name.clone(), default.clone());
                }
            }
            // If a form has a single text field, a free-text reply fills it.
            if let (Some(text), Some(properties)) =
                (reply.text.as_ref().or(reply.selected.as_ref()), properties)
                && let [name] = properties.keys().collect::<Vec<_>>()[..]
                && properties[name].get("type").and_then(Value::as_str) == Some("string")
            {
                content.entry(name.clone()).or_insert_with(|| json!(text));
            }
            let content = Value::Object(content);
            if let Some(schema) = schema {
                ValueCheck::new(&JsonSchemas, schema)?.check(&content)?;
            }
            Ok(json!({ "action": "accept", "content": content }))
        }
        Answer::Deny { .. } => Ok(json!({ "action": "decline" })),
        Answer::Approve
        | Answer::Edit { .. }
        | Answer::Done { .. }
        | Answer::Retry
        | Answer::Fail { .. }
        | Answer::Raise { .. }
        | Answer::Stop
        | Answer::Withdrawn => Ok(json!({ "action": "cancel" })),
    }
}

#[cfg(test)]
mod tests {
    use windlass_machine::Reply;

    use super::*;

    fn form() -> Value {
        json!({
            "mode": "form",
            "message": "How many?",
            "requestedSchema": {
                "type": "object",
                "properties": { "n": { "type": "integer" }, "unit": { "type": "string", "default": "kg" } },
                "required": ["n"],
            },
        })
    }

    fn reply(values: Value) -> Answer {
        Answer::Reply(Box::new(Reply { values: Some(values), ..Reply::default() }))
    }

    // rows: LM-P1
    #[test]
    fn an_answer_is_encoded_in_the_servers_format() {
        let content = json!({ "action": "accept", "content": { "n": 2, "unit": "kg" } });
        assert_eq!(
            result(&form(), &reply(json!({ "n": 2 }))),
            Ok(content),
            "a default counts for what was left out"
        );
        let wrong = result(&form(), &reply(json!({ "n": "two" }))).unwrap_err();
        assert!(wrong.contains("two"), "{wrong}");
        assert!(result(&form(), &Answer::Reply(Box::default())).is_err(), "something is missing");
        assert_eq!(result(&form(), &Answer::Deny { reason: None }), Ok(json!({ "action": "decline" })));
        assert_eq!(result(&form(), &Answer::Withdrawn), Ok(json!({ "action": "cancel" })));
        let page = json!({ "mode": "url", "message": "Pay", "url": "https://pay/1" });
        assert_eq!(result(&page, &Answer::Reply(Box::default())), Ok(json!({ "action": "accept" })));
        let one = json!({ "requestedSchema": { "type": "object", "properties": { "name": { "type": "string" } } } });
        let words = Answer::Reply(Box::new(Reply { text: Some("Ada".into()), ..Reply::default() }));
        assert_eq!(result(&one, &words), Ok(json!({ "action": "accept", "content": { "name": "Ada" } })));
    }

    #[test]
    fn a_form_that_nests_too_deeply_is_not_asked() {
        let deep = |levels| (0..levels).fold(json!({}), |inner, _| json!({ "properties": inner }));
        let asked = |levels| {
            question(
                "stock",
                &json!({ "message": "m", "requestedSchema": deep(levels) }),
                None,
                &Parked::SignIn,
            )
        };
        assert!(asked(60).is_ok());
        let why = "the question has `schema`, which is nested more than 64 levels deep";
        assert_eq!(asked(100).unwrap_err(), why);
    }

    #[test]
    fn a_form_that_is_too_long_is_not_asked() {
        let long = json!({ "message": "m".repeat(20_000) });
        let why = question("stock", &long, None, &Parked::SignIn).unwrap_err();
        assert!(why.starts_with("the question has `summary` of 200"), "{why}");
        let wide = json!({ "message": "m", "requestedSchema": { "title": "t".repeat(20_000) } });
        let why = question("stock", &wide, None, &Parked::SignIn).unwrap_err();
        assert_eq!(why, "the question has `schema` of 20012 bytes; at most 16384");
    }

    #[test]
    fn a_question_says_who_asks_and_a_page_is_one() {
        let parked = Parked::SignIn;
        let asked = question("stock", &form(), Some("too many"), &parked).unwrap();
        let InterruptKind::Question(question_asked) = asked.kind else { panic!("{asked:?}") };
        let summary = "The server `stock` asks: How many?\n\n(The previous answer was invalid: too many)";
        assert_eq!(question_asked.summary, summary);
        let page = |url: &str| {
            question("stock", &json!({ "mode": "url", "message": "m", "url": url }), None, &parked)
        };
        let asked = page("https://pay/1").unwrap().kind;
        let (server, url, message) = ("stock".into(), "https://pay/1".into(), Some("m".into()));
        assert_eq!(asked, InterruptKind::SignIn { server, url, message });
        // A question without a message must still differ from the interrupt of a sign-in.
        let silent = question("stock", &json!({ "url": "https://pay/1" }), None, &parked).unwrap();
        assert!(matches!(silent.kind, InterruptKind::SignIn { message: Some(_), .. }));
        for wrong in ["javascript:alert(1)", "file:///etc/passwd", "pay"] {
            assert!(page(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn what_a_call_waits_with_comes_back_as_it_was() {
        let parked = Parked::Input {
            state: Some("\u{0}é\"\\ 🦀 {\"n\":1.50}".into()),
            requests: BTreeMap::from([(
                "a".into(),
                json!({ "method": "elicitation/create", "params": form() }),
            )]),
            answers: InputResponses::from([("b".into(), json!({ "action": "decline" }))]),
            asked: "a".into(),
        };
        assert_eq!(serde_json::from_str::<Parked>(&parked.written()).unwrap(), parked);
    }
}
