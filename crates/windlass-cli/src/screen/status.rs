//! The status line of a chat: model, mode, how full the context is, and what the conversation has cost.

use windlass::machine::{MicroUsd, Usage};
use windlass_server::config::Dollars;
use windlass_server::text::shown_line;

/// What the status line shows.
#[derive(Debug, Default)]
pub struct ChatStatus {
    pub model: String,
    pub mode: String,
    /// Tokens that the model's context holds; `None` if that is not known.
    pub context_tokens: Option<u64>,
    /// Tokens of the last request and its reply.
    pub used_tokens: Option<u64>,
    /// Known cost of the conversation.
    pub cost: u64,
}

impl ChatStatus {
    /// Adds a reply.
    pub fn add(&mut self, usage: &Usage, cost: Option<MicroUsd>) {
        if let Some(input) = usage.input {
            self.used_tokens = Some(input + usage.output.unwrap_or_default());
        }
        self.cost = self.cost.saturating_add(cost.map_or(0, |cost| cost.0));
    }

    /// The line; empty while there is no model.
    pub fn text(&self) -> String {
        if self.model.is_empty() {
            return String::new();
        }
        let mut parts = vec![shown_line(&self.model).into_owned(), self.mode.clone()];
        match (self.used_tokens, self.context_tokens) {
            (Some(used), Some(holds)) if holds > 0 => {
                parts.push(format!("context {} %", (used * 100).div_ceil(holds)));
            }
            (Some(used), _) => parts.push(format!("context {used} tokens")),
            (None, _) => {}
        }
        if self.cost > 0 {
            parts.push(format!("${}", Dollars(self.cost)));
        }
        parts.join(" · ")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_shows_what_is_known() {
        let mut status = ChatStatus { model: "a/b".into(), mode: "plan".into(), ..ChatStatus::default() };
        assert_eq!(status.text(), "a/b · plan");
        let usage = Usage { input: Some(900), output: Some(101), ..Usage::default() };
        status.add(&usage, Some(MicroUsd(1_500_000)));
        assert_eq!(status.text(), "a/b · plan · context 1001 tokens · $1.50");
        status.context_tokens = Some(100_000);
        assert_eq!(status.text(), "a/b · plan · context 2 % · $1.50");
    }
}
