//! Encodes a reply while it streams. Tracks the text already sent, so that the fragments add up to the whole reply.
//! Each item is opened and closed once, or continues from the end of a snapshot.
//!
//! A sent fragment cannot be retracted. If an attempt fails or the final reply differs from its fragments, a snapshot
//! of all messages corrects the client.

use windlass::port::model::Delta;

use super::message::{Message, ToolCall, call_id, of_reply, thought_id};
use super::word::{Role, Word};

/// Output of the encoder.
#[derive(Clone, Debug, PartialEq)]
pub enum Said {
    /// An event.
    Word(Word),
    /// A snapshot of all journaled messages, followed by these messages.
    History(Vec<Message>),
}

impl From<Word> for Said {
    fn from(word: Word) -> Self {
        Self::Word(word)
    }
}

/// A text that is sent in fragments.
#[derive(Debug, Default)]
struct Flow {
    told: String,
    is_open: bool,
}

#[derive(Debug)]
struct Call {
    part: u32,
    name: Option<String>,
    /// Arguments that arrived before the tool's name.
    early: String,
    flow: Flow,
}

/// The reply of one attempt.
#[derive(Debug)]
pub struct Reply {
    id: String,
    thought: Flow,
    text: Flow,
    calls: Vec<Call>,
    /// Whether the client may have received the beginning of this reply on an earlier
    /// stream, and no part on this stream.
    is_joined: bool,
}

/// A whole reply, or its part that has arrived.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Whole {
    /// The reasoning.
    pub thought: String,
    /// The text.
    pub said: String,
    /// Each call's tool and arguments.
    pub calls: Vec<(String, String)>,
}

impl Whole {
    /// Assembles the parts of a reply that have arrived.
    pub fn so_far(parts: &[Delta]) -> Self {
        let mut whole = Self::default();
        for part in parts {
            match part {
                Delta::Reasoning { text, .. } => whole.thought.push_str(text),
                Delta::Text { text, .. } => whole.said.push_str(text),
                Delta::Call { name: Some(name), arguments, .. } => {
                    whole.calls.push((name.to_string(), arguments.to_string()));
                }
                Delta::Call { name: None, .. } => {}
            }
        }
        whole
    }

    /// Converts the reply to messages.
    pub fn messages(&self, id: &str) -> Vec<Message> {
        let calls = self.calls.iter().enumerate();
        let calls = calls.map(|(index, (name, arguments))| {
            ToolCall::new(call_id(id, index), name.clone(), arguments.clone())
        });
        of_reply(id, self.thought.clone(), self.said.clone(), calls.collect())
    }
}

impl Reply {
    /// Creates the encoder of a reply. No part of the reply has been sent yet.
    pub fn new(id: String) -> Self {
        Self { id, thought: Flow::default(), text: Flow::default(), calls: Vec::new(), is_joined: false }
    }

    /// Sets whether the client may have received the beginning of this reply on an earlier stream.
    pub fn joins(&mut self, is_joined: bool) {
        self.is_joined = is_joined;
    }

    pub fn id(&self) -> &str {
        &self.id
    }

    /// Encodes a fragment.
    pub fn fragment(&mut self, delta: &Delta) -> Vec<Said> {
        let mut words = Vec::new();
        match delta {
            Delta::Reasoning { text, .. } => self.think(text, &mut words),
            Delta::Text { text, .. } => {
                self.stop_thinking(&mut words);
                self.say(text, &mut words);
            }
            Delta::Call { part, name, arguments } => {
                self.stop_thinking(&mut words);
                let known = self.calls.iter().position(|call| call.part == *part);
                let index = known.unwrap_or(self.calls.len());
                if known.is_none() {
                    let call = Call { part: *part, name: None, early: String::new(), flow: Flow::default() };
                    self.calls.push(call);
                }
                self.call(index, name.as_deref(), arguments, &mut words);
            }
        }
        words.into_iter().map(Said::Word).collect()
    }

    /// Encodes the parts that have arrived, after fragments were missed. Sends a snapshot if the client may have
    /// received some of these parts on another stream.
    pub fn snapshot(&mut self, parts: &[Delta]) -> Vec<Said> {
        let whole = Whole::so_far(parts);
        if self.is_begun() && self.agrees(&whole) {
            return self.rest(&whole).into_iter().map(Said::Word).collect();
        }
        let mut said: Vec<Said> = self.close().into_iter().map(Said::Word).collect();
        said.push(Said::History(whole.messages(&self.id)));
        let mut words = Vec::new();
        self.reopen(parts, &whole, &mut words);
        said.extend(words.into_iter().map(Said::Word));
        said
    }

    /// Encodes the end of the reply from its journaled form.
    pub fn finish(&mut self, whole: &Whole) -> Vec<Said> {
        if self.is_joined && !self.is_begun() {
            return vec![Said::History(Vec::new())];
        }
        if !self.agrees(whole) {
            return self.fail();
        }
        let mut words = self.rest(whole);
        words.extend(self.close());
        words.into_iter().map(Said::Word).collect()
    }

    /// Discards the attempt after a failure.
    pub fn fail(&mut self) -> Vec<Said> {
        let is_begun = self.is_begun() || self.is_joined;
        let mut said: Vec<Said> = self.close().into_iter().map(Said::Word).collect();
        if is_begun {
            said.push(Said::History(Vec::new()));
        }
        said
    }

    /// Closes all open items.
    pub fn close(&mut self) -> Vec<Word> {
        let mut words = Vec::new();
        self.stop_thinking(&mut words);
        if std::mem::take(&mut self.text.is_open) {
            words.push(Word::TextMessageEnd { message_id: self.id.clone() });
        }
        for (index, call) in self.calls.iter_mut().enumerate() {
            if std::mem::take(&mut call.flow.is_open) {
                words.push(Word::ToolCallEnd { tool_call_id: call_id(&self.id, index) });
            }
        }
        words
    }

    fn is_begun(&self) -> bool {
        let calls = self.calls.iter().any(|call| call.name.is_some());
        calls || !self.text.told.is_empty() || !self.thought.told.is_empty()
    }

    /// Whether the sent text is a prefix of `whole`.
    fn agrees(&self, whole: &Whole) -> bool {
        let told = self.calls.iter().filter_map(|call| Some((call.name.as_ref()?, &call.flow.told)));
        let calls: Vec<_> = told.collect();
        let begins = |((name, told), (other, arguments)): (&(&String, &String), &(String, String))| {
            *name == other && arguments.starts_with(told.as_str())
        };
        whole.thought.starts_with(&self.thought.told)
            && whole.said.starts_with(&self.text.told)
            && calls.len() <= whole.calls.len()
            && calls.iter().zip(&whole.calls).all(begins)
    }

    /// Sends the part of `whole` that was not sent yet. `whole` must extend the sent text.
    fn rest(&mut self, whole: &Whole) -> Vec<Word> {
        let mut words = Vec::new();
        let more = whole.thought[self.thought.told.len()..].to_owned();
        self.think(&more, &mut words);
        let more = whole.said[self.text.told.len()..].to_owned();
        if !more.is_empty() || !whole.calls.is_empty() {
            self.stop_thinking(&mut words);
        }
        self.say(&more, &mut words);
        self.calls.retain(|call| call.name.is_some());
        for (index, (name, arguments)) in whole.calls.iter().enumerate() {
            if index == self.calls.len() {
                // Later fragments find the call by its part number.
                let part = self.calls.last().map_or(0, |call| call.part + 1);
                self.calls.push(Call { part, name: None, early: String::new(), flow: Flow::default() });
            }
            let more = arguments[self.calls[index].flow.told.len()..].to_owned();
            self.call(index, Some(name), &more, &mut words);
        }
        words
    }

    /// Reopens the last item after a snapshot, so that fragments continue it.
    fn reopen(&mut self, parts: &[Delta], whole: &Whole, words: &mut Vec<Word>) {
        self.thought.told.clone_from(&whole.thought);
        self.text.told.clone_from(&whole.said);
        let named = parts.iter().filter_map(|part| match part {
            Delta::Call { part, name: Some(name), arguments } => Some((*part, name, arguments)),
            Delta::Call { name: None, .. } | Delta::Text { .. } | Delta::Reasoning { .. } => None,
        });
        self.calls = named
            .map(|(part, name, arguments)| Call {
                part,
                name: Some(name.to_string()),
                early: String::new(),
                flow: Flow { told: arguments.to_string(), is_open: false },
            })
            .collect();
        if !self.text.told.is_empty() {
            self.open_text(words);
        }
        for index in 0..self.calls.len() {
            self.open_call(index, words);
        }
    }

    fn think(&mut self, more: &str, words: &mut Vec<Word>) {
        if more.is_empty() {
            return;
        }
        let message_id = thought_id(&self.id);
        if !std::mem::replace(&mut self.thought.is_open, true) {
            words.push(Word::ReasoningStart { message_id: message_id.clone() });
            words.push(Word::ReasoningMessageStart { message_id: message_id.clone(), role: Role::Reasoning });
        }
        self.thought.told.push_str(more);
        words.push(Word::ReasoningMessageContent { message_id, delta: more.to_owned() });
    }

    fn stop_thinking(&mut self, words: &mut Vec<Word>) {
        if std::mem::take(&mut self.thought.is_open) {
            let message_id = thought_id(&self.id);
            words.push(Word::ReasoningMessageEnd { message_id: message_id.clone() });
            words.push(Word::ReasoningEnd { message_id });
        }
    }

    fn say(&mut self, more: &str, words: &mut Vec<Word>) {
        if more.is_empty() {
            return;
        }
        self.open_text(words);
        self.text.told.push_str(more);
        words.push(Word::TextMessageContent { message_id: self.id.clone(), delta: more.to_owned() });
    }

    fn open_text(&mut self, words: &mut Vec<Word>) {
        if !std::mem::replace(&mut self.text.is_open, true) {
            words.push(Word::TextMessageStart { message_id: self.id.clone(), role: Role::Assistant });
        }
    }

    fn call(&mut self, index: usize, name: Option<&str>, more: &str, words: &mut Vec<Word>) {
        let call = &mut self.calls[index];
        call.early.push_str(more);
        if let (None, Some(name)) = (&call.name, name) {
            call.name = Some(name.to_owned());
            self.open_call(index, words);
        }
        let call = &mut self.calls[index];
        if call.name.is_none() || call.early.is_empty() {
            return;
        }
        let delta = std::mem::take(&mut call.early);
        call.flow.told.push_str(&delta);
        words.push(Word::ToolCallArgs { tool_call_id: call_id(&self.id, index), delta });
    }

    fn open_call(&mut self, index: usize, words: &mut Vec<Word>) {
        let call = &mut self.calls[index];
        let Some(name) = call.name.clone() else { return };
        if !std::mem::replace(&mut call.flow.is_open, true) {
            words.push(Word::ToolCallStart {
                tool_call_id: call_id(&self.id, index),
                tool_call_name: name,
                parent_message_id: self.id.clone(),
            });
        }
    }
}
