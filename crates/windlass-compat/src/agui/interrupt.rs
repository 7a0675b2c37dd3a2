//! Encodes open interrupts for clients and parses the clients' answers.
//!
//! An interrupt's `responseSchema` is the shape of its answer. A payload that does not match is rejected.

use serde::Serialize;
use serde_json::{Map, Value, json};
use windlass::OpenInterrupt;
use windlass::machine::{Answer, Content, Digest, Given, InterruptKind, Reply, Timestamp};
use windlass_server::http::problem::Problem;

use super::super::revision::digest_of;
use super::input::{Resume, Status};
use super::message::text;

/// An interrupt as AG-UI encodes it.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Interrupt {
    id: String,
    reason: &'static str,
    message: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    tool_call_id: Option<String>,
    response_schema: Value,
    #[serde(skip_serializing_if = "Option::is_none")]
    expires_at: Option<String>,
    metadata: Map<String, Value>,
}

impl Interrupt {
    /// Encodes an open interrupt. `call` is the client-visible id of the call that waits for it.
    pub fn new(open: &OpenInterrupt, call: Option<&String>) -> Self {
        let asked = Asked::of(open);
        let mut metadata = Map::new();
        metadata.insert("since".into(), open.since.0.into());
        let arguments = open.arguments.as_ref().map(|text| serde_json::from_str(text).unwrap_or(json!(text)));
        let told = [
            ("tool", open.tool.as_deref().map(Value::from)),
            ("arguments", arguments),
            ("preview", open.preview.as_deref().map(Value::from)),
            ("approval", asked.approval.map(Value::from)),
            ("asked", asked.more),
        ];
        metadata.extend(told.into_iter().filter_map(|(name, value)| Some((name.to_owned(), value?))));
        Self {
            id: open.interrupt.to_string(),
            reason: asked.reason,
            message: asked.message,
            tool_call_id: call.cloned(),
            response_schema: asked.schema,
            expires_at: open.expires_at.map(moment),
            metadata,
        }
    }
}

/// The parts of an interrupt that depend on its kind.
struct Asked {
    reason: &'static str,
    message: String,
    schema: Value,
    approval: Option<String>,
    more: Option<Value>,
}

impl Asked {
    fn of(open: &OpenInterrupt) -> Self {
        let plain =
            |reason, message: String, schema| Self { reason, message, schema, approval: None, more: None };
        match &open.kind {
            InterruptKind::Approval { tool, approval, preview } => {
                let preview = preview.as_ref().map(|preview| text(preview).to_owned());
                let message = match open.preview.clone().or(preview) {
                    Some(preview) => format!("allow `{tool}` to run?\n{preview}"),
                    None => format!("allow `{tool}` to run?"),
                };
                Self { approval: Some(approval.to_string()), ..plain("tool_call", message, leave()) }
            }
            InterruptKind::Hook { tool, reason } => {
                plain("tool_call", format!("allow `{tool}` to run? {reason}"), leave())
            }
            InterruptKind::Question(question) => {
                let schema = question.schema.clone().unwrap_or_else(|| {
                    let mut selected = json!({"type": "string"});
                    if !question.options.is_empty() {
                        selected["enum"] = json!(question.options);
                    }
                    json!({"type": "object", "properties": {
                        "selected": selected, "text": {"type": "string"}, "values": {"type": "object"},
                    }})
                });
                let more = serde_json::to_value(question).ok();
                Self { more, ..plain("input_required", question.summary.clone(), schema) }
            }
            InterruptKind::SignIn { server, url, message } => {
                let said = match message {
                    Some(message) => format!("`{server}` asks: {message}: {url}"),
                    None => format!("sign in to `{server}`: {url}"),
                };
                plain("windlass:sign_in", said, json!({}))
            }
            InterruptKind::Handoff { runner } => {
                let schema = json!({"description": "the result of the call"});
                plain("windlass:handoff", format!("the runner `{runner}` handles this call"), schema)
            }
            InterruptKind::InDoubt { tool } => {
                let message = format!("`{tool}` was started, and its outcome is unknown");
                plain("windlass:in_doubt", message, doubt())
            }
            InterruptKind::Limit(limit) => {
                let (used, figure, name) = (limit.used, limit.figure, &limit.limit);
                let message =
                    format!("{used} of {figure} `{name}` are used; raise the limit, or stop the run");
                let schema =
                    json!({"type": "object", "properties": {"to": {"type": "integer"}}, "required": ["to"]});
                Self { more: serde_json::to_value(limit).ok(), ..plain("windlass:limit", message, schema) }
            }
        }
    }
}

fn leave() -> Value {
    json!({
        "type": "object",
        "properties": {
            "approved": {"type": "boolean"},
            "reason": {"type": "string", "description": "shown to the model if the call is not approved"},
            "editedArgs": {"type": "object", "description": "the complete arguments to run the call with"},
        },
        "required": ["approved"],
    })
}

fn doubt() -> Value {
    json!({
        "type": "object",
        "properties": {
            "outcome": {"enum": ["done", "retry", "failed"]},
            "result": {"type": "string", "description": "the result, if the call was done"},
            "reason": {"type": "string", "description": "why the call failed"},
        },
        "required": ["outcome"],
    })
}

/// Formats a time as ISO 8601.
fn moment(at: Timestamp) -> String {
    let ms = i64::try_from(at.0).unwrap_or(i64::MAX);
    jiff::Timestamp::from_millisecond(ms).unwrap_or(jiff::Timestamp::MAX).to_string()
}

/// Parses the answers to all open interrupts. Returns `None` if an interrupt has no answer; then no answer is applied.
pub fn answers(
    open: &[OpenInterrupt],
    resume: &[Resume],
    now: Timestamp,
) -> Result<Option<Vec<Given>>, Problem> {
    let mut given = Vec::with_capacity(open.len());
    for open in open {
        let mut mine = resume.iter().filter(|entry| entry.interrupt_id == open.interrupt.as_str());
        let Some(entry) = mine.next() else { return Ok(None) };
        if mine.next().is_some() {
            return Err(Problem::invalid(format!("interrupt `{}` is answered twice", open.interrupt)));
        }
        let is_expired = open.expires_at.is_some_and(|at| at <= now);
        if is_expired && entry.status == Status::Resolved {
            let detail = format!("interrupt `{}` has expired", open.interrupt);
            return Err(Problem::conflict("expired", detail).hint("send it with the status `cancelled`"));
        }
        given.push(Given {
            interrupt: open.interrupt.clone(),
            answer: answer(open, entry)?,
            // Without a digest from the client, the approval applies to the call in the version that the open interrupt
            // shows.
            approval: approval(entry)?.or_else(|| digest_of(&open.kind)),
        });
    }
    Ok(Some(given))
}

/// Parses the approval digest of the call, if the client returns one.
fn approval(entry: &Resume) -> Result<Option<Digest>, Problem> {
    let Some(text) = entry.metadata["approval"].as_str() else { return Ok(None) };
    let digest = Digest::from_hex(text);
    digest.map(Some).ok_or_else(|| Problem::invalid(format!("`approval` is `{text}`, which is not a digest")))
}

fn answer(open: &OpenInterrupt, entry: &Resume) -> Result<Answer, Problem> {
    let payload = &entry.payload;
    let text = |member: &str| payload[member].as_str().map(str::to_owned);
    let is_answered = entry.status == Status::Resolved;
    let unfit = |wanted: &str| {
        let detail = format!("the answer to interrupt `{}` is `{payload}`; {wanted}", open.interrupt);
        Err(Problem::invalid(detail).hint("the interrupt's `responseSchema` describes the expected answer"))
    };
    match &open.kind {
        InterruptKind::InDoubt { .. } if !is_answered => Ok(Answer::Fail { reason: None }),
        InterruptKind::Limit(_) if !is_answered => Ok(Answer::Stop),
        _ if !is_answered => Ok(Answer::Deny { reason: None }), // tidy: the same for all other kinds
        InterruptKind::Approval { .. } | InterruptKind::Hook { .. } => {
            match (payload.as_bool().or(payload["approved"].as_bool()), &payload["editedArgs"]) {
                (Some(true), Value::Object(edited)) => {
                    let arguments = Value::from(edited.clone()).to_string();
                    Ok(Answer::Edit { arguments: Content::Inline(arguments) })
                }
                (Some(true), Value::Null) => Ok(Answer::Approve),
                (Some(false), _) => Ok(Answer::Deny { reason: text("reason") }),
                _ => unfit("it must say whether the call is `approved`"), // tidy: JSON of any other shape
            }
        }
        // A client with a generic "reject" button sends `approved: false` for every kind of
        // interrupt. That is a denial, not a reply.
        InterruptKind::Question(_) if payload["approved"] == false => {
            Ok(Answer::Deny { reason: text("reason") })
        }
        InterruptKind::Question(question) => Ok(Answer::Reply(Box::new(match payload {
            Value::String(said) if question.options.contains(said) => {
                Reply { selected: Some(said.clone()), ..Reply::default() }
            }
            Value::String(said) => Reply { text: Some(said.clone()), ..Reply::default() },
            Value::Object(_) if question.schema.is_some() => {
                Reply { values: Some(payload.clone()), ..Reply::default() }
            }
            Value::Object(members) => Reply {
                selected: text("selected"),
                text: text("text"),
                values: members.get("values").filter(|values| values.is_object()).cloned(),
            },
            Value::Null | Value::Bool(_) | Value::Number(_) | Value::Array(_) => {
                return unfit("it must be a string or an object");
            }
        }))),
        InterruptKind::SignIn { .. } => Ok(Answer::Reply(Box::default())),
        InterruptKind::Handoff { .. } => {
            let said = payload.as_str().map_or_else(|| payload.to_string(), str::to_owned);
            Ok(Answer::Reply(Box::new(Reply { text: Some(said), ..Reply::default() })))
        }
        InterruptKind::InDoubt { .. } => match payload["outcome"].as_str() {
            Some("done") => Ok(Answer::Done { result: text("result").unwrap_or_default() }),
            Some("retry") => Ok(Answer::Retry),
            Some("failed") => Ok(Answer::Fail { reason: text("reason") }),
            Some(_) | None => unfit("its `outcome` must be `done`, `retry` or `failed`"),
        },
        InterruptKind::Limit(_) => match payload.as_u64().or(payload["to"].as_u64()) {
            Some(to) => Ok(Answer::Raise { to }),
            None => unfit("`to` must be the new limit"),
        },
    }
}

#[cfg(test)]
mod tests {
    use windlass::machine::Terms;

    use super::*;

    fn answered(payload: Value) -> Value {
        let open = OpenInterrupt {
            interrupt: "i".into(),
            kind: InterruptKind::Question(Box::default()),
            tool: None,
            server: None,
            arguments: None,
            preview: None,
            evidence: None,
            since: Timestamp(1),
            expires_at: None,
            terms: Terms::default(),
            approved_by: Vec::new(),
        };
        let entry = json!({"interruptId": "i", "status": "resolved", "payload": payload});
        let entry = serde_json::from_value(entry).unwrap();
        serde_json::to_value(answer(&open, &entry).unwrap()).unwrap()
    }

    #[test]
    fn a_rejected_question_is_denied() {
        assert_eq!(answered(json!({"approved": false})), json!({"answer": "deny"}));
        let words = json!({"approved": false, "reason": "too soon"});
        assert_eq!(answered(words), json!({"answer": "deny", "reason": "too soon"}));
        assert_eq!(answered(json!({"approved": true})), json!({"answer": "reply"}));
    }
}
