//! Converts a dialect's yes or no to the answer that an interrupt's kind requires.
//!
//! The engine decides who may answer and whether the answer is in time.

use serde_json::{Map, Value};
use windlass::machine::{Answer, Content, InterruptKind, Reply};

/// A decision as a dialect's client sends it.
#[derive(Clone, Debug, Default)]
pub struct Decided {
    pub is_yes: bool,
    /// The reason of a denial, which the model reads. For a question: the reply.
    pub reason: Option<String>,
    /// Replacement arguments of the call, or the values of a form.
    pub parameters: Option<Map<String, Value>>,
}

impl Decided {
    /// Returns the answer for an interrupt of this kind. (SK-X9, ZE-H4, ZE-H6)
    pub fn answer(self, kind: &InterruptKind) -> Answer {
        let Self { is_yes, reason, parameters } = self;
        let reason = reason.filter(|reason| !reason.is_empty());
        match (kind, is_yes) {
            (InterruptKind::Approval { .. } | InterruptKind::Hook { .. }, true) => match parameters {
                Some(parameters) => {
                    Answer::Edit { arguments: Content::Inline(Value::Object(parameters).to_string()) }
                }
                None => Answer::Approve,
            },
            (InterruptKind::Question(question), true) => {
                let selected = reason.clone().filter(|reason| question.options.contains(reason));
                let text = if selected.is_some() { None } else { reason };
                Answer::Reply(Box::new(Reply { selected, text, values: parameters.map(Value::Object) }))
            }
            (InterruptKind::SignIn { .. } | InterruptKind::Handoff { .. }, true) => {
                Answer::Reply(Box::new(Reply { text: reason, ..Reply::default() }))
            }
            (InterruptKind::InDoubt { .. }, true) => Answer::Retry,
            (InterruptKind::InDoubt { .. }, false) => Answer::Fail { reason },
            (InterruptKind::Limit(limit), true) => Answer::Raise { to: limit.figure.max(limit.used) + 1 },
            (InterruptKind::Limit(_), false) => Answer::Stop,
            (
                InterruptKind::Approval { .. }
                | InterruptKind::Hook { .. }
                | InterruptKind::Question(_)
                | InterruptKind::SignIn { .. }
                | InterruptKind::Handoff { .. },
                false,
            ) => Answer::Deny { reason },
        }
    }
}
