//! The status line of a chat: model, mode, use of the context window, and cost of the conversation.

use windlass::machine::{MicroUsd, Usage};
use windlass_server::config::Dollars;
use windlass_server::text::shown_line;

#[derive(Debug, Default)]
pub struct ChatStatus {
    pub model: String,
    pub mode: String,
    /// Size of the model's context window in tokens; `None` if it is unknown.
    pub context_tokens: Option<u64>,
    pub used_tokens: Option<u64>,
    /// Known cost of the conversation, in millionths of a dollar.
    pub cost: u64,
}

impl ChatStatus {
    /// Adds the usage and cost of a reply.
    pub fn add(&mut self, usage: &Usage, cost: Option<MicroUsd>) {
        if let Some(input) = usage.input {
            self.used_tokens = Some(input + usage.output.unwrap_or_default());
        }
        self.cost = self.cost.saturating_add(cost.map_or(0, |cost| cost.0));
    }

    /// Formats the status line. Returns an empty text before a model is set.
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
