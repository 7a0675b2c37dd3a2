//! Encodes an interrupt as a question of this dialect, and parses its answer. (WT-H5..H7)
//!
//! Approvals are encoded as questions too, because clients support no other form.

use serde::Deserialize;
use serde_json::{Map, Value, json};
use windlass::machine::{Answer, Content, InterruptId, InterruptKind, Reply, Timestamp};

use crate::call::text;

/// Time after which a question expires. (WT-H4)
const EXPIRES_MS: u64 = 30 * 60 * 1000;

/// An interrupt with its call.
#[derive(Clone, Copy, Debug)]
pub struct Asked<'a> {
    /// The interrupt's id, which the answer must name.
    pub interrupt: &'a InterruptId,
    pub kind: &'a InterruptKind,
    /// The tool of the waiting call.
    pub tool: &'a str,
    pub arguments: &'a Value,
}

/// A person's response.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
pub struct Said {
    approved: Option<bool>,
    cancelled: bool,
    overrides: Option<Map<String, Value>>,
    selected: Option<String>,
    free_input: Option<String>,
}

/// Whether a question has expired. An approval does not expire in this dialect.
pub fn is_expired(kind: &InterruptKind, since: Timestamp, now: Timestamp) -> bool {
    matches!(kind, InterruptKind::Question(_)) && now.since(since) >= EXPIRES_MS
}

impl Asked<'_> {
    /// Returns the question as clients display it.
    pub fn payload(&self, session: &str) -> Map<String, Value> {
        let tool = self.tool;
        let (checkpoint, summary) = match self.kind {
            InterruptKind::Question(question) => {
                (question.checkpoint.clone().unwrap_or_default(), question.summary.clone())
            }
            InterruptKind::Approval { preview, .. } => {
                let preview = preview.as_ref().map(|preview| format!("\n\n{}", text(preview)));
                let summary = format!("Allow `{tool}` to run?{}", preview.unwrap_or_default());
                ("approval".into(), summary)
            }
            InterruptKind::Hook { reason, .. } => {
                ("approval".into(), format!("Allow `{tool}` to run? {reason}"))
            }
            InterruptKind::SignIn { server, url, message } => {
                let summary = match message {
                    Some(message) => format!("`{server}` asks: {message}\n\nOpen {url}, then approve."),
                    None => format!("Sign in to `{server}` at {url}, then approve."),
                };
                ("sign_in".into(), summary)
            }
            InterruptKind::Handoff { runner } => {
                ("handoff".into(), format!("`{tool}` is waiting for a result from `{runner}`."))
            }
            InterruptKind::InDoubt { .. } => {
                let summary = format!(
                    "The outcome of the call of `{tool}` is unknown. Approve to run it again, cancel to \
                     continue without it."
                );
                ("in_doubt".into(), summary)
            }
            InterruptKind::Limit(limit) => {
                let summary =
                    format!("{} of {} `{}` are used. Continue?", limit.used, limit.figure, limit.limit);
                ("limit".into(), summary)
            }
        };
        let (params, options, free_input) = match self.kind {
            InterruptKind::Question(question) => {
                (question.params.clone().unwrap_or_default(), question.options.clone(), question.free_input)
            }
            InterruptKind::Handoff { .. } => (self.arguments.clone(), Vec::new(), true),
            InterruptKind::Approval { .. }
            | InterruptKind::Hook { .. }
            | InterruptKind::SignIn { .. }
            | InterruptKind::InDoubt { .. }
            | InterruptKind::Limit(_) => (self.arguments.clone(), Vec::new(), false),
        };
        let mut payload = Map::new();
        for (name, value) in [
            ("checkpoint", checkpoint.into()),
            ("summary", summary.into()),
            ("params", if params.is_null() { json!({}) } else { params }),
            ("options", options.into()),
            ("allow_free_input", free_input.into()),
            ("checkpoint_id", self.interrupt.as_str().into()),
            ("session_id", session.into()),
        ] {
            payload.insert(name.into(), value);
        }
        payload
    }

    /// Converts a response to an answer. Any response that is neither cancelled nor refused is a yes. A refused
    /// question is denied with a reason, which may be empty. A cancelled question is denied without a reason, so that
    /// the model can distinguish the two. (WT-H7)
    pub fn answer(&self, said: Said) -> Answer {
        let is_yes = !said.cancelled && said.approved != Some(false);
        let text = said.free_input.filter(|text| !text.trim().is_empty());
        match (self.kind, is_yes) {
            (InterruptKind::Question(_), false) if said.cancelled => Answer::Deny { reason: None },
            (InterruptKind::Question(_), false) => Answer::Deny { reason: Some(text.unwrap_or_default()) },
            (InterruptKind::Question(_), true) => {
                let values = said.overrides.map(Value::Object);
                Answer::Reply(Box::new(Reply { selected: said.selected, text, values }))
            }
            (InterruptKind::Approval { .. } | InterruptKind::Hook { .. }, true) => {
                match said.overrides.filter(|overrides| !overrides.is_empty()) {
                    Some(overrides) => Answer::Edit { arguments: self.with(overrides) },
                    None => Answer::Approve,
                }
            }
            (InterruptKind::SignIn { .. } | InterruptKind::Handoff { .. }, true) => {
                Answer::Reply(Box::new(Reply { text, ..Reply::default() }))
            }
            (InterruptKind::InDoubt { .. }, true) => Answer::Retry,
            (InterruptKind::InDoubt { .. }, false) => Answer::Fail { reason: text },
            (InterruptKind::Limit(limit), true) => Answer::Raise { to: limit.figure.max(limit.used) + 1 },
            (InterruptKind::Limit(_), false) => Answer::Stop,
            (
                InterruptKind::Approval { .. }
                | InterruptKind::Hook { .. }
                | InterruptKind::SignIn { .. }
                | InterruptKind::Handoff { .. },
                false,
            ) => Answer::Deny { reason: text },
        }
    }

    /// Returns the call's arguments with the overrides applied.
    fn with(&self, overrides: Map<String, Value>) -> Content {
        let mut arguments = self.arguments.as_object().cloned().unwrap_or_default();
        arguments.extend(overrides);
        Content::Inline(Value::Object(arguments).to_string())
    }
}

#[cfg(test)]
mod tests {
    use windlass::machine::Digest;

    use super::*;

    fn answer(kind: &InterruptKind, said: Value) -> Value {
        let (interrupt, arguments) = (InterruptId::from("i"), json!({"file_path": "a", "content": "x"}));
        let asked = Asked { interrupt: &interrupt, kind, tool: "Write", arguments: &arguments };
        serde_json::to_value(asked.answer(serde_json::from_value(said).unwrap())).unwrap()
    }

    // rows: WT-H6, WT-H7
    #[test]
    fn each_response_is_an_answer() {
        let question = InterruptKind::Question(Box::default());
        let approval =
            InterruptKind::Approval { tool: "Write".into(), approval: Digest::default(), preview: None };
        for (kind, said, wanted) in [
            (&question, json!({"approved": true}), json!({"answer": "reply"})),
            (
                &question,
                json!({"approved": true, "overrides": {"n": 1}}),
                json!({"answer": "reply", "values": {"n": 1}}),
            ),
            (&question, json!({"selected": "later"}), json!({"answer": "reply", "selected": "later"})),
            (&question, json!({"free_input": "twice"}), json!({"answer": "reply", "text": "twice"})),
            (&question, json!({"cancelled": true}), json!({"answer": "deny"})),
            (&question, json!({"approved": false}), json!({"answer": "deny", "reason": ""})),
            (
                &question,
                json!({"approved": false, "free_input": "no"}),
                json!({"answer": "deny", "reason": "no"}),
            ),
            (&approval, json!({"approved": true}), json!({"answer": "approve"})),
            (
                &approval,
                json!({"approved": true, "overrides": {"content": "y"}}),
                json!({"answer": "edit", "arguments": r#"{"file_path":"a","content":"y"}"#}),
            ),
            (
                &approval,
                json!({"cancelled": true, "free_input": "no"}),
                json!({"answer": "deny", "reason": "no"}),
            ),
        ] {
            assert_eq!(answer(kind, said.clone()), wanted, "{said}");
        }
    }

    // rows: WT-H4
    #[test]
    fn a_question_expires_after_half_an_hour_and_a_consent_never() {
        let question = InterruptKind::Question(Box::default());
        let doubt = InterruptKind::InDoubt { tool: "Write".into() };
        let (since, minutes) = (Timestamp(1_000), |minutes: u64| Timestamp(1_000 + minutes * 60_000));
        assert!(!is_expired(&question, since, minutes(29)));
        assert!(is_expired(&question, since, minutes(30)));
        assert!(!is_expired(&doubt, since, minutes(60 * 24)));
    }
}
