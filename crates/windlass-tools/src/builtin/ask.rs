//! `request_human_approval`: lets a model ask a person before it continues. (WT-H1)
//!
//! The question is an interrupt, and the person's reply is the call's result.

use async_trait::async_trait;
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::{Map, Value, json};
use windlass_engine::port::tool::{Ask, CallContext, Tool, ToolOutcome, ToolTraits};
use windlass_machine::{
    Annotations, Answer, Area, EffectClass, InterruptKind, Question, Reply, Terms, ToolSpec,
};
use windlass_schema::schema_for;

#[derive(Deserialize, JsonSchema)]
struct AskArguments {
    /// A short id of this decision, such as `send-invoice`.
    #[serde(default)]
    checkpoint: Option<String>,
    /// What you want to do, and why.
    #[serde(default)]
    summary: Option<String>,
    /// Parameters that the person can approve or change.
    #[serde(default)]
    params: Option<Map<String, Value>>,
    /// Options to choose from, if any.
    #[serde(default)]
    options: Vec<String>,
    #[serde(default)]
    allow_free_input: bool,
}

/// The tool `request_human_approval`.
pub struct RequestHumanApproval {
    spec: ToolSpec,
    expires_in_ms: Option<u64>,
}

/// Creates the tool `request_human_approval`. If `expires_in_ms` is set, an unanswered question is declined after that
/// time. (WT-H4)
pub fn request_human_approval(expires_in_ms: Option<u64>) -> RequestHumanApproval {
    let mut input_schema = schema_for::<AskArguments>();
    // The tool itself reports missing arguments, in the text that models know from the original.
    if let Some(properties) = input_schema.as_object_mut() {
        properties.insert("required".into(), json!([]));
    }
    let spec = ToolSpec {
        name: "request_human_approval".into(),
        description: DESCRIPTION.into(),
        input_schema,
        annotations: Annotations { read_only_hint: true, ..Annotations::default() },
        withheld: Vec::new(),
    };
    RequestHumanApproval { spec, expires_in_ms }
}

const DESCRIPTION: &str = "Ask a person to confirm the parameters of an action, or to choose the next step. \
Requires `checkpoint` and `summary`. Returns whether the person approved, with changed parameters \
(`overrides`), the selected option (`selected`) or a free-text reply (`free_input`). Not for calls of tools \
that ask for approval themselves.";

#[async_trait]
impl Tool for RequestHumanApproval {
    fn spec(&self) -> &ToolSpec {
        &self.spec
    }

    fn traits(&self) -> ToolTraits<'_> {
        ToolTraits { class: Some(EffectClass::Pure), area: Area::People, ..ToolTraits::default() }
    }

    fn asks(&self, arguments: &Value) -> Option<Ask> {
        let terms = Terms { expires_in_ms: self.expires_in_ms, ..Terms::default() };
        Some(Ask { kind: question(arguments).ok()?, terms, state: None })
    }

    async fn call(&self, context: CallContext, arguments: Value) -> ToolOutcome {
        match (context.reply, question(&arguments)) {
            (None, Err(why)) => ToolOutcome::error(json!({ "error": why }).to_string()),
            (reply, _) => ToolOutcome::text(result(reply.map(|reply| reply.answer)).to_string()),
        }
    }
}

/// Parses a question. The model reads the error.
fn question(arguments: &Value) -> Result<InterruptKind, String> {
    let missing = || "checkpoint and summary are required".to_owned();
    let named = |text: Option<String>| text.filter(|text| !text.trim().is_empty());
    let asked: AskArguments = serde_json::from_value(arguments.clone()).map_err(|error| error.to_string())?;
    let question = Box::new(Question {
        checkpoint: Some(named(asked.checkpoint).ok_or_else(missing)?),
        summary: named(asked.summary).ok_or_else(missing)?,
        params: asked.params.map(Value::Object),
        options: asked.options,
        free_input: asked.allow_free_input,
        schema: None,
    });
    let kind = InterruptKind::Question(question);
    kind.check().map_err(|why| format!("the question {why}"))?;
    Ok(kind)
}

/// Builds the result for the model: all four members, with `null` for absent ones. A dismissed question has
/// no reason; an empty reason is a plain "no". (WT-H7)
fn result(answer: Option<Answer>) -> Value {
    match answer {
        Some(Answer::Reply(reply)) => {
            let Reply { selected, text, values } = *reply;
            json!({ "approved": true, "overrides": values, "selected": selected, "free_input": text })
        }
        Some(Answer::Deny { reason: Some(reason) }) if reason.is_empty() => json!({ "approved": false }),
        Some(Answer::Deny { reason: Some(reason) }) => {
            json!({ "approved": false, "cancelled": true, "reason": reason })
        }
        Some(Answer::Deny { reason: None }) => json!({ "approved": false, "cancelled": true }),
        Some(_) | None => json!({ "approved": false }),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    // rows: WT-H7
    #[test]
    fn each_reply_has_its_result() {
        let reply = |reply: Reply| result(Some(Answer::Reply(Box::new(reply))));
        let yes = |overrides: Value, selected: Value, free_input: Value| {
            json!({
                "approved": true, "overrides": overrides, "selected": selected, "free_input": free_input,
            })
        };
        assert_eq!(reply(Reply::default()), yes(Value::Null, Value::Null, Value::Null));
        let values = Some(json!({ "amount": 5 }));
        assert_eq!(
            reply(Reply { values, ..Reply::default() }),
            yes(json!({ "amount": 5 }), Value::Null, Value::Null)
        );
        let selected = Some("later".to_owned());
        assert_eq!(
            reply(Reply { selected, ..Reply::default() }),
            yes(Value::Null, json!("later"), Value::Null)
        );
        let text = Some("do it twice".to_owned());
        assert_eq!(
            reply(Reply { text, ..Reply::default() }),
            yes(Value::Null, Value::Null, json!("do it twice"))
        );
        let no = |reason: Option<&str>| result(Some(Answer::Deny { reason: reason.map(str::to_owned) }));
        assert_eq!(no(None), json!({ "approved": false, "cancelled": true }));
        assert_eq!(no(Some("")), json!({ "approved": false }));
        let words = json!({ "approved": false, "cancelled": true, "reason": "too soon" });
        assert_eq!(no(Some("too soon")), words);
        assert_eq!(result(None), json!({ "approved": false }));
    }

    #[test]
    fn a_question_has_a_checkpoint_and_a_summary() {
        let missing = "checkpoint and summary are required".to_owned();
        for arguments in
            [json!({}), json!({ "checkpoint": "a" }), json!({ "checkpoint": " ", "summary": "s" })]
        {
            assert_eq!(question(&arguments), Err(missing.clone()));
            assert_eq!(request_human_approval(None).asks(&arguments), None);
        }
        let arguments = json!({ "checkpoint": "a", "summary": "s", "options": ["x"], "params": { "n": 1 } });
        let InterruptKind::Question(question) = question(&arguments).unwrap() else { panic!("{arguments}") };
        assert_eq!((question.options, question.params), (vec!["x".to_owned()], Some(json!({ "n": 1 }))));
        assert!(!question.free_input);
    }
}
