//! What a person changed in an editor: arguments of a call, or the values of a question.
//!
//! The editor itself is opened elsewhere.

use serde_json::{Map, Value};
use windlass::machine::{Answer, Content, InterruptKind, Reply as QuestionReply};
use windlass_server::text::shown;

use super::{Asking, Item, Reply, Stage};
use crate::console::Console;

impl Asking {
    /// Has the call's arguments or the question's values edited.
    pub(super) fn edit(&mut self, console: &Console) -> Reply {
        match self.item() {
            Some(item) => Reply::Edit(item.to_edit()),
            None => self.again(console),
        }
    }

    /// Takes what came back from the editor.
    pub fn edited(&mut self, console: &Console, text: String) -> Reply {
        let Some(item) = self.item() else { return self.again(console) };
        match read(&text) {
            Err(fault) => self.fault(console, &fault, text),
            Ok(value) if Some(&value) == read(&item.to_edit()).ok().as_ref() => {
                console.note("  nothing was changed");
                self.again(console)
            }
            Ok(value) => {
                let answer = item.answer_with(value);
                self.stage = Stage::Faulty(text);
                self.give(&answer, "edited")
            }
        }
    }

    /// Says why an edit does not do, and asks whether to go on with it.
    pub fn fault(&mut self, console: &Console, fault: &str, text: String) -> Reply {
        console.note(&format!("  {}", shown(fault)));
        self.stage = Stage::Faulty(text);
        self.again(console)
    }

    /// The text of an edit that was sent just now, for the case that it is refused.
    pub fn sent_edit(&self) -> Option<String> {
        match &self.stage {
            Stage::Faulty(text) => Some(text.clone()),
            _ => None, // tidy: nothing else was edited
        }
    }

    pub(super) fn after_fault(&mut self, console: &Console, left: String, text: &str) -> Reply {
        match text.to_lowercase().as_str() {
            "e" | "edit" => Reply::Edit(left),
            _ => self.again(console), // tidy: anything else leaves it
        }
    }
}

impl Item {
    fn to_edit(&self) -> String {
        let text = match &self.open.kind {
            InterruptKind::Question(question) => {
                question.params.clone().unwrap_or(Value::Object(Map::new())).to_string()
            }
            _ => self.open.arguments.clone().unwrap_or_default(), // tidy: the others are calls
        };
        pretty(&text)
    }

    fn answer_with(&self, value: Value) -> Answer {
        let InterruptKind::Question(question) = &self.open.kind else {
            return Answer::Edit { arguments: Content::Inline(value.to_string()) };
        };
        let values = match (&question.params, value) {
            // Only what is to be different.
            (Some(Value::Object(known)), Value::Object(mut values)) => {
                values.retain(|name, value| known.get(name) != Some(value));
                Value::Object(values)
            }
            (_, value) => value,
        };
        let reply = QuestionReply { values: Some(values), ..QuestionReply::default() };
        Answer::Reply(Box::new(reply))
    }
}

/// JSON as a person edits it; what is no JSON stays as it is.
pub fn pretty(text: &str) -> String {
    let value = serde_json::from_str::<Value>(text).ok();
    value.and_then(|value| serde_json::to_string_pretty(&value).ok()).unwrap_or_else(|| text.to_owned())
}

/// Reads what a person wrote.
pub fn read(text: &str) -> Result<Value, String> {
    serde_json::from_str(text).map_err(|error| format!("this is no JSON: {error}"))
}
