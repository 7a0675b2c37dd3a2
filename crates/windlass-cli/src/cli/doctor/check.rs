//! The result of one check: its state, and hints for the user.

use serde::Serialize;
use windlass_server::text::shown;
use windlass_server::trouble::explain;

use crate::console::Console;

/// The column at which messages begin.
const COLUMN: usize = 26;

#[derive(Serialize)]
pub(super) struct Check {
    name: &'static str,
    pub(super) state: State,
    message: String,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    hints: Vec<String>,
}

#[derive(Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum State {
    Ok,
    Warning,
    Broken,
}

impl Check {
    pub(super) fn new(name: &'static str, state: State, message: impl Into<String>) -> Self {
        Self { name, state, message: message.into(), hints: Vec::new() }
    }
    pub(super) fn ok(name: &'static str, message: impl Into<String>) -> Self {
        Self::new(name, State::Ok, message)
    }
    pub(super) fn warning(name: &'static str, message: impl Into<String>) -> Self {
        Self::new(name, State::Warning, message)
    }
    pub(super) fn hint(mut self, hint: impl Into<String>) -> Self {
        self.hints.push(hint.into());
        self
    }
    pub(super) fn broken(name: &'static str, error: &anyhow::Error) -> Self {
        let trouble = explain(error);
        let (message, hints) = trouble.parts();
        Self { hints: hints.to_vec(), ..Self::new(name, State::Broken, message) }
    }

    /// Prints the check, with each hint on a separate line.
    pub(super) fn print(&self, console: &Console) {
        let paint = console.out_paint;
        let mark = match self.state {
            State::Ok => paint.green("✓ ok     "),
            State::Warning => paint.yellow("! warning"),
            State::Broken => paint.red("✗ broken "),
        };
        console.out_hanging(&format!("{mark}  {:<13}  ", self.name), COLUMN, &shown(&self.message));
        for hint in &self.hints {
            let head = format!("{:<COLUMN$}{} ", "", paint.cyan("hint:"));
            console.out_hanging(&head, COLUMN + "hint: ".len(), &shown(hint));
        }
    }
}
