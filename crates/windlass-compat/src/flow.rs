//! Tracks which part of a streamed text was sent, so that the fragments add up to the whole text.
//!
//! A sent fragment cannot be retracted. After a failed attempt, its text remains, and the next attempt
//! continues the text as far as both agree.

use windlass::machine::Message;

use super::call::text;

/// A text that is sent in fragments.
#[derive(Debug, Default)]
pub struct Flow {
    /// The text received in this attempt.
    heard: String,
    /// Number of bytes of `heard` that were sent.
    shown_bytes: usize,
    /// Text sent by an earlier attempt, kept until the new attempt differs from it or extends it.
    before: String,
}

impl Flow {
    /// Adds a fragment. Returns the text to send.
    pub fn push(&mut self, fragment: &str) -> Option<String> {
        self.heard.push_str(fragment);
        self.show()
    }

    /// Sets the text received so far. Returns the text to send.
    pub fn set(&mut self, whole: &str) -> Option<String> {
        if !whole.starts_with(&self.heard[..self.shown_bytes]) {
            // The final text differs from its fragments. The sent text cannot be changed.
            return None;
        }
        whole.clone_into(&mut self.heard);
        self.show()
    }

    fn show(&mut self) -> Option<String> {
        if !self.before.is_empty() {
            if self.before.starts_with(&self.heard) {
                return None;
            }
            let before = std::mem::take(&mut self.before);
            self.shown_bytes = self.heard.len();
            return Some(match self.heard.strip_prefix(&before) {
                Some(rest) => rest.to_owned(),
                None => format!("\n\n{}", self.heard),
            });
        }
        let fresh = self.heard[self.shown_bytes..].to_owned();
        self.shown_bytes = self.heard.len();
        (!fresh.is_empty()).then_some(fresh)
    }

    /// Marks the attempt as failed.
    pub fn fail(&mut self) {
        if self.before.is_empty() {
            self.before = self.heard[..self.shown_bytes].to_owned();
        }
        self.shown_bytes = 0;
        self.heard.clear();
    }
}

/// Returns the text of a message.
pub fn said(message: &Message) -> String {
    message.texts().map(text).collect()
}
