//! A yes or a no, as dialects have it, in the words that fit what is asked.
//!
//! Who may say it, and whether it comes in time, the engine decides.

use serde_json::{Map, Value};
use windlass::machine::{Answer, Content, InterruptKind, Reply};

/// What somebody decided.
#[derive(Clone, Debug, Default)]
pub struct Decided {
    /// Whether it is a yes.
    pub is_yes: bool,
    /// Why: told to the model with a no; beside a question, it is the reply.
    pub reason: Option<String>,
    /// Other arguments for the call, or the values of a form.
    pub parameters: Option<Map<String, Value>>,
}

impl Decided {
    /// The answer to what is asked. (SK-X9, ZE-H4, ZE-H6)
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
