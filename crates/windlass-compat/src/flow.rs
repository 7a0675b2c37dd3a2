//! A text while it comes: what of it was shown, so that the fragments that a client is told make up the whole.
//!
//! A fragment cannot be taken back. What a failed try has shown stays, and the next try goes on from there where it says
//! the same.

use windlass::machine::Message;

use super::call::text;

/// A text that comes in fragments.
#[derive(Debug, Default)]
pub struct Flow {
    /// What came of this try.
    heard: String,
    /// How many bytes of that were shown.
    shown_bytes: usize,
    /// What a try before it has shown, until it is clear how this one goes on from there.
    before: String,
}

impl Flow {
    /// Takes a fragment; returns what is to be shown now.
    pub fn push(&mut self, fragment: &str) -> Option<String> {
        self.heard.push_str(fragment);
        self.show()
    }

    /// Takes the whole so far; returns what is to be shown now.
    pub fn set(&mut self, whole: &str) -> Option<String> {
        if !whole.starts_with(&self.heard[..self.shown_bytes]) {
            // The finished text is another than its fragments said; what was shown stays.
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

    /// The try has failed.
    pub fn fail(&mut self) {
        if self.before.is_empty() {
            self.before = self.heard[..self.shown_bytes].to_owned();
        }
        self.shown_bytes = 0;
        self.heard.clear();
    }
}

/// What a message says.
pub fn said(message: &Message) -> String {
    message.texts().map(text).collect()
}
