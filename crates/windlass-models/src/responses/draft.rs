//! One output item of a response while its events arrive.
//!
//! A draft does not depend on the other items.

use serde_json::{Map, Value, json};
use windlass_engine::port::model::Delta;

/// An item in progress.
pub(crate) struct Draft {
    /// The number of the item's part in the live display.
    pub part: u32,
    /// The item's position in the reply, if the provider sent a unique one.
    pub place: Option<u64>,
    pub kind: Kind,
    /// The provider's id of the item.
    pub id: Option<String>,
    /// Whether the end of the item has not arrived.
    pub open: bool,
    /// The item in the provider's final statement.
    pub item: Option<Map<String, Value>>,
    /// Text, reasoning, arguments or input received so far.
    pub text: String,
    /// The kind of delta that contained the text, and the index of the item's part.
    streamed: Option<(Stream, u64)>,
    /// The id that a result of the call names.
    pub call_id: Option<String>,
    /// The tool; empty until it is known.
    pub name: String,
    /// Whether the call's name was sent to the live display.
    announced: bool,
    /// Number of bytes of the arguments or the input that were sent to the live
    /// display; `None` before the first fragment.
    shown: Option<usize>,
}

/// The kinds of item.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    /// Text, or a refusal.
    Message,
    /// Reasoning.
    Reasoning,
    /// A call of a function with JSON arguments.
    Function,
    /// A call of a tool with free text as its input.
    Custom,
    /// The item of a hosted tool, or an item of an unknown type.
    Opaque,
}

/// The kinds of delta that contain text.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Stream {
    /// Text of a message, or of a refusal.
    Text,
    /// A summary of reasoning.
    Summary,
    /// Reasoning itself.
    Reasoning,
}

impl Stream {
    /// Returns the kind of the items to which this delta belongs.
    pub(crate) fn kind(self) -> Kind {
        match self {
            Self::Text => Kind::Message,
            Self::Summary | Self::Reasoning => Kind::Reasoning,
        }
    }
}

impl Kind {
    /// Returns the kind of an item.
    pub(crate) fn of(item: &Map<String, Value>) -> Self {
        match text_field(item, "type") {
            Some("message") => Self::Message,
            Some("reasoning") => Self::Reasoning,
            Some("function_call") => Self::Function,
            Some("custom_tool_call") => Self::Custom,
            _ => Self::Opaque,
        }
    }

    /// Whether the item is a call, of either kind.
    pub(crate) fn is_call(self) -> bool {
        matches!(self, Self::Function | Self::Custom)
    }

    /// Whether an item of one kind may be restated as the other.
    pub(crate) fn is_like(self, other: Self) -> bool {
        self == other || self.is_call() && other.is_call()
    }
}

impl Draft {
    /// Creates a draft from the initial state of an item.
    pub(crate) fn new(part: u32, place: Option<u64>, item: &Map<String, Value>) -> Self {
        let kind = Kind::of(item);
        let initial = match kind {
            Kind::Function => text_field(item, "arguments"),
            Kind::Custom => text_field(item, "input"),
            Kind::Message | Kind::Reasoning | Kind::Opaque => None,
        };
        Self {
            part,
            place,
            kind,
            id: id_of(item).map(str::to_owned),
            open: true,
            item: None,
            text: initial.unwrap_or_default().to_owned(),
            streamed: None,
            call_id: call_id(item),
            name: text_field(item, "name").unwrap_or_default().to_owned(),
            announced: false,
            shown: None,
        }
    }

    /// Whether the provider's final statement contains the item.
    pub(crate) fn is_stated(&self) -> bool {
        self.item.is_some()
    }

    /// Adds text to a message or to reasoning. A new part of reasoning is a new paragraph. A second kind of
    /// delta repeats the text of the first kind and is ignored.
    pub(crate) fn add_text(&mut self, stream: Stream, index: u64, more: &str) -> Option<Delta> {
        let added = match self.streamed {
            Some((first, _)) if first != stream => return None,
            Some((_, part)) if part != index && self.kind == Kind::Reasoning => format!("\n\n{more}"),
            _ => more.to_owned(),
        };
        self.streamed = Some((stream, index));
        self.text.push_str(&added);
        Some(self.delta(added))
    }

    /// Adds arguments or input to a call.
    pub(crate) fn add_arguments(&mut self, more: &str, deltas: &mut impl Extend<Delta>) {
        self.text.push_str(more);
        self.show_call(deltas);
    }

    /// Emits the part of a call that the live display lacks.
    pub(crate) fn show_call(&mut self, deltas: &mut impl Extend<Delta>) {
        if self.name.is_empty() {
            return;
        }
        if !self.announced {
            self.announced = true;
            let name = Some(self.name.as_str().into());
            deltas.extend([Delta::Call { part: self.part, name, arguments: "".into() }]);
        }
        // Some gateways send a literal `null` before the arguments.
        if self.kind == Kind::Function && "null".starts_with(self.text.trim()) || self.text.is_empty() {
            return;
        }
        let fresh = &self.text[self.shown.unwrap_or(0)..];
        let json = match self.kind {
            Kind::Custom => {
                let quoted = Value::from(fresh).to_string();
                let escaped = &quoted[1..quoted.len() - 1];
                if self.shown.is_none() { format!("{{\"input\":\"{escaped}") } else { escaped.to_owned() }
            }
            Kind::Function | Kind::Message | Kind::Reasoning | Kind::Opaque => fresh.to_owned(),
        };
        self.shown = Some(self.text.len());
        if !json.is_empty() {
            deltas.extend([Delta::Call { part: self.part, name: None, arguments: json.into() }]);
        }
    }

    /// Applies the provider's final statement of the item. Fields that it omits keep their streamed values.
    pub(crate) fn end(&mut self, mut item: Map<String, Value>, deltas: &mut impl Extend<Delta>) {
        self.open = false;
        if self.id.is_none() {
            self.id = id_of(&item).map(str::to_owned);
        }
        match self.kind {
            Kind::Function | Kind::Custom => self.end_call(&item, deltas),
            Kind::Message | Kind::Reasoning => {
                let stated = text_of(self.kind, &item);
                if stated.is_empty() {
                    // Raw reasoning is not inserted: the item would contain
                    // a summary that the provider never wrote.
                    let is_summary = !matches!(self.streamed, Some((Stream::Reasoning, _)));
                    if !self.text.is_empty() && is_summary {
                        state_text(self.kind, &mut item, &self.text);
                    }
                } else if let Some(rest) = stated.strip_prefix(self.text.as_str()) {
                    if !rest.is_empty() {
                        deltas.extend([self.delta(rest.to_owned())]);
                    }
                    self.text = stated;
                } else {
                    self.text = stated;
                }
            }
            Kind::Opaque => {}
        }
        self.item = Some(item);
    }

    fn end_call(&mut self, item: &Map<String, Value>, deltas: &mut impl Extend<Delta>) {
        if self.call_id.is_none() {
            self.call_id = call_id(item);
        }
        if self.name.is_empty() {
            self.name = text_field(item, "name").unwrap_or_default().to_owned();
        }
        let shown = self.shown.map_or("", |shown| &self.text[..shown]).to_owned();
        if let Some(stated) = stated_arguments(self.kind, item) {
            self.text = stated;
        }
        if !self.text.starts_with(&shown) {
            // Emitted text is not retracted; the reply uses the final statement.
            return;
        }
        self.show_call(deltas);
        self.close_shown(deltas);
    }

    /// Emits the end of a call's arguments.
    fn close_shown(&self, deltas: &mut impl Extend<Delta>) {
        let end = match (self.kind, self.shown) {
            (Kind::Custom, Some(_)) => "\"}",
            (Kind::Custom, None) => "{\"input\":\"\"}",
            (_, None) => "{}",
            (_, Some(_)) => return,
        };
        if !self.name.is_empty() {
            deltas.extend([Delta::Call { part: self.part, name: None, arguments: end.into() }]);
        }
    }

    /// Adds the encrypted content from the final statement to reasoning that arrived without it.
    pub(crate) fn add_ciphertext(&mut self, stated: &Map<String, Value>) {
        const CIPHERTEXT: &str = "encrypted_content";
        let filled =
            |item: &Map<String, Value>| text_field(item, CIPHERTEXT).is_some_and(|text| !text.is_empty());
        let Some(item) = self.item.as_mut().filter(|item| !filled(item)) else { return };
        if filled(stated)
            && let Some(ciphertext) = stated.get(CIPHERTEXT)
        {
            item.insert(CIPHERTEXT.to_owned(), ciphertext.clone());
        }
    }

    /// Whether the arguments of a call are complete. Absent arguments are an empty object.
    pub(crate) fn is_whole(&self) -> bool {
        match self.kind {
            Kind::Custom => self.is_stated(),
            Kind::Function | Kind::Message | Kind::Reasoning | Kind::Opaque => {
                self.text.trim().is_empty() || serde_json::from_str::<Map<String, Value>>(&self.text).is_ok()
            }
        }
    }

    /// Returns a call's arguments as JSON text.
    pub(crate) fn asked(&self) -> String {
        match self.kind {
            Kind::Custom => json!({ "input": self.text }).to_string(),
            Kind::Function | Kind::Message | Kind::Reasoning | Kind::Opaque
                if self.text.trim().is_empty() =>
            {
                "{}".to_owned()
            }
            Kind::Function | Kind::Message | Kind::Reasoning | Kind::Opaque => self.text.clone(),
        }
    }

    fn delta(&self, text: String) -> Delta {
        match self.kind {
            Kind::Reasoning => Delta::Reasoning { part: self.part, text: text.into() },
            Kind::Message | Kind::Function | Kind::Custom | Kind::Opaque => {
                Delta::Text { part: self.part, text: text.into() }
            }
        }
    }
}

/// Returns the id of an item, unless it is empty.
pub(crate) fn id_of(item: &Map<String, Value>) -> Option<&str> {
    text_field(item, "id").filter(|id| !id.is_empty())
}

/// Returns a field that is a string.
pub(crate) fn text_field<'v>(item: &'v Map<String, Value>, key: &str) -> Option<&'v str> {
    item.get(key).and_then(Value::as_str)
}

/// Returns the id of a call. Some gateways send an empty id or the word `null` for a call without an id.
fn call_id(item: &Map<String, Value>) -> Option<String> {
    text_field(item, "call_id").filter(|id| !id.is_empty() && *id != "null").map(str::to_owned)
}

fn stated_arguments(kind: Kind, item: &Map<String, Value>) -> Option<String> {
    if kind == Kind::Custom {
        return text_field(item, "input").map(str::to_owned);
    }
    match item.get("arguments")? {
        Value::String(arguments) if arguments.is_empty() => None,
        Value::String(arguments) => Some(arguments.clone()),
        Value::Null => None,
        arguments => Some(arguments.to_string()),
    }
}

/// Returns the text of an item: a message's parts, concatenated; the
/// summary of reasoning, or else its content.
fn text_of(kind: Kind, item: &Map<String, Value>) -> String {
    let texts = |key: &str| -> Vec<&str> {
        match item.get(key) {
            Some(Value::String(text)) => vec![text.as_str()],
            Some(Value::Array(parts)) => parts
                .iter()
                .filter_map(|part| {
                    part.as_str()
                        .or_else(|| part.get("text")?.as_str())
                        .or_else(|| part.get("refusal")?.as_str())
                })
                .collect(),
            _ => Vec::new(),
        }
    };
    if kind == Kind::Message {
        return texts("content").concat();
    }
    let summary = texts("summary");
    if summary.is_empty() { texts("content") } else { summary }.join("\n\n")
}

/// Inserts streamed text into an item that omits it.
fn state_text(kind: Kind, item: &mut Map<String, Value>, text: &str) {
    let (key, part) = if kind == Kind::Message {
        ("content", json!({"type": "output_text", "text": text, "annotations": []}))
    } else {
        ("summary", json!({"type": "summary_text", "text": text}))
    };
    item.insert(key.to_owned(), json!([part]));
}
