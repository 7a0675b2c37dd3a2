//! The three wire formats of the server, behind one set of functions.
//!
//! Each module parses the part of a request that a script needs, and encodes a reply, whole or as events. Other parts
//! of a request are not validated.

mod chat;
mod messages;
mod responses;

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};

use bytes::Bytes;
use serde_json::Value;

use super::script::{Ask, Call, Reply, Text};
use super::stream::Frames;

/// Maximum number of cached texts. The limit is necessary because clients choose the models' names;
/// a benchmark uses a handful of them.
const TEXTS_MAX: usize = 64;

/// Number of characters in one fragment of a call's arguments.
const FRAGMENT_CHARS: usize = 16;

/// A wire format.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Wire {
    /// OpenAI chat completions.
    Chat,
    /// Anthropic messages.
    Messages,
    /// OpenAI responses.
    Responses,
}

/// The events of texts, shared by all streams with the same text.
#[derive(Debug, Default)]
pub struct Texts(Mutex<HashMap<TextKey, Arc<[Bytes]>>>);

/// The key of a text: wire, name of the model, and text.
type TextKey = (Wire, String, Text);

/// The parts of a request that affect the form of the reply.
#[derive(Debug)]
pub struct Form<'a> {
    /// The model's name, which the reply repeats.
    pub model: &'a str,
    /// Size of the request in tokens, estimated at four bytes each.
    pub input_tokens: usize,
    /// Whether a stream ends with the usage, on a wire where that is optional.
    pub wants_usage: bool,
}

impl Wire {
    /// Returns the wire of a path.
    pub fn at(path: &str) -> Option<Wire> {
        let ends = [
            ("/chat/completions", Wire::Chat),
            ("/messages", Wire::Messages),
            ("/responses", Wire::Responses),
        ];
        ends.into_iter().find(|(end, _)| path.ends_with(end)).map(|(_, wire)| wire)
    }

    /// Parses a request.
    pub fn read(self, body: &[u8]) -> serde_json::Result<Ask<'_>> {
        match self {
            Wire::Chat => chat::read(body),
            Wire::Messages => messages::read(body),
            Wire::Responses => responses::read(body),
        }
    }

    /// Encodes a reply as events.
    pub fn frames(self, form: &Form<'_>, reply: &Reply, texts: &Texts) -> Frames {
        match self {
            Wire::Chat => chat::frames(form, reply, texts),
            Wire::Messages => messages::frames(form, reply, texts),
            Wire::Responses => responses::frames(form, reply, texts),
        }
    }

    /// Encodes a reply as one document.
    pub fn document(self, form: &Form<'_>, reply: &Reply) -> Value {
        match self {
            Wire::Chat => chat::document(form, reply),
            Wire::Messages => messages::document(form, reply),
            Wire::Responses => responses::document(form, reply),
        }
    }
}

impl Texts {
    /// Returns the events of a text's tokens; the first request creates them with `event`.
    fn events(&self, wire: Wire, model: &str, text: Text, event: impl Fn(&str) -> Bytes) -> Arc<[Bytes]> {
        // A panic cannot leave the map inconsistent, so a poisoned lock is usable.
        let mut kept = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if kept.len() >= TEXTS_MAX {
            kept.clear();
        }
        let make = || (0..text.tokens).map(|index| event(&text.token(index))).collect();
        kept.entry((wire, model.to_owned(), text)).or_insert_with(make).clone()
    }
}

/// Encodes an event with data only.
fn data(value: &Value) -> Bytes {
    Bytes::from(format!("data: {value}\n\n"))
}

/// Encodes an event that repeats its type as its name.
fn named(value: &Value) -> Bytes {
    let name = value["type"].as_str().unwrap_or_default();
    Bytes::from(format!("event: {name}\ndata: {value}\n\n"))
}

/// Splits the arguments of a call into fragments, as a model streams them.
fn fragments(call: &Call) -> Vec<String> {
    let chars: Vec<char> = call.arguments.chars().collect();
    chars.chunks(FRAGMENT_CHARS).map(|piece| piece.iter().collect()).collect()
}
