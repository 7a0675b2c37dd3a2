//! Handles edited arguments of a call and edited values of a question.
//!
//! The caller opens the editor.

use serde_json::{Map, Value};
use windlass::machine::{Answer, Content, InterruptKind, Reply as QuestionReply};
use windlass_server::text::shown;

use super::{Asking, Item, Reply, Stage};
use crate::console::Console;

impl Asking {
    /// Requests editing of the call's arguments or the question's values.
    pub(super) fn edit(&mut self, console: &Console) -> Reply {
        match self.item() {
            Some(item) => Reply::Edit(item.to_edit()),
            None => self.again(console),
        }
    }

    /// Handles the edited text.
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

    /// Prints why an edit was rejected, and asks whether to edit again.
    pub fn fault(&mut self, console: &Console, fault: &str, text: String) -> Reply {
        console.note(&format!("  {}", shown(fault)));
        self.stage = Stage::Faulty(text);
        self.again(console)
    }

    /// Returns the text of an edit that was just submitted, to be edited again if the engine rejects it.
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
            // Send only changed values.
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

/// Formats JSON for editing. Text that is not valid JSON is returned unchanged.
pub fn pretty(text: &str) -> String {
    let value = serde_json::from_str::<Value>(text).ok();
    value.and_then(|value| serde_json::to_string_pretty(&value).ok()).unwrap_or_else(|| text.to_owned())
}

/// Parses the edited text.
pub fn read(text: &str) -> Result<Value, String> {
    serde_json::from_str(text).map_err(|error| format!("not valid JSON: {error}"))
}
