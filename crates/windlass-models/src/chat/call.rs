//! Assembles the tool calls of a chat reply from fragments.
//!
//! Providers identify calls by position, by id, by both, or by neither.

use serde_json::{Map, Value};

use crate::native;

/// The calls of one reply, in the order in which they began.
#[derive(Default)]
pub(crate) struct Calls(Vec<Call>);

/// One call.
#[derive(Default)]
pub(crate) struct Call {
    /// The number of the call's part in the live display.
    pub part: u32,
    /// The provider's position.
    index: Option<u64>,
    /// The provider's id.
    pub id: Option<String>,
    /// The tool; empty until it is known.
    pub name: String,
    /// The arguments as they arrived.
    pub arguments: String,
    /// Number of bytes of the arguments that were sent to the live display.
    shown: usize,
    /// The provider's item, without `index` and with `null` in place of the arguments.
    item: Map<String, Value>,
    /// Whether further fragments belong to another call.
    closed: bool,
}

/// New display text from one fragment.
pub(crate) struct CallDelta {
    /// The call.
    pub part: u32,
    /// The tool, in the fragment that names it.
    pub name: Option<String>,
    /// More of the arguments.
    pub arguments: String,
}

/// The kinds of call.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Kind {
    /// A function with JSON arguments.
    Function,
    /// A tool with free text as its input.
    Custom,
    /// An unsupported kind.
    Unknown,
}

impl Call {
    /// Returns the kind of the call.
    pub(crate) fn kind(&self) -> Kind {
        match self.item.get("type").and_then(Value::as_str) {
            None | Some("function" | "") => Kind::Function,
            Some("custom") => Kind::Custom,
            Some(_) => Kind::Unknown,
        }
    }

    /// Whether the arguments are a complete object. Absent arguments are an empty object.
    pub(crate) fn is_complete(&self) -> bool {
        let text = self.arguments.trim();
        match self.kind() {
            Kind::Custom => self.input().is_some(),
            Kind::Function | Kind::Unknown => {
                text.is_empty()
                    || text.ends_with('}')
                        && serde_json::from_str::<Value>(text).is_ok_and(|arguments| arguments.is_object())
            }
        }
    }

    /// Whether the arguments are an object, `null`, or a string that holds an object.
    pub(crate) fn is_valid(&self) -> bool {
        let text = self.arguments.trim();
        self.is_complete() || text == "null" || text.starts_with('"') && native::arguments(text) != "{}"
    }

    /// Returns the arguments as JSON text.
    pub(crate) fn asked(&self) -> String {
        if self.kind() == Kind::Custom {
            let input = self.input().cloned().unwrap_or_else(|| "".into());
            return serde_json::json!({ "input": input }).to_string();
        }
        if self.arguments.trim().is_empty() { "{}".to_owned() } else { self.arguments.clone() }
    }

    /// Returns the provider's item with the arguments restored.
    pub(crate) fn into_item(mut self) -> Value {
        if let Some(slot) = self.item.get_mut("function").and_then(|function| function.get_mut("arguments")) {
            *slot = Value::String(self.arguments);
        }
        Value::Object(self.item)
    }

    /// Whether the item has only id, type, name and arguments, so that it can be rebuilt.
    pub(crate) fn is_plain(&self) -> bool {
        self.id.is_some()
            && self.item.len() == 3
            && self.item.get("type").and_then(Value::as_str) == Some("function")
            && self.item.get("id").and_then(Value::as_str) == self.id.as_deref()
            && self.item.get("function").and_then(Value::as_object).is_some_and(|function| {
                function.len() == 2
                    && function.get("name").and_then(Value::as_str) == Some(&self.name)
                    && function.contains_key("arguments")
            })
    }

    fn input(&self) -> Option<&Value> {
        self.item.get("custom")?.get("input")
    }

    fn add(&mut self, fragment: Map<String, Value>, id: Option<String>) -> CallDelta {
        if id.is_some() {
            self.id = id;
        }
        let named = name_of(&fragment).filter(|_| self.name.is_empty()).map(str::to_owned);
        if let Some(name) = &named {
            self.name.clone_from(name);
        }
        let more = arguments_of(&fragment).unwrap_or_default();
        // Some gateways send a literal `null` before the arguments.
        if self.arguments.trim() == "null" && !more.trim().is_empty() {
            self.arguments.clear();
            self.shown = 0;
        }
        self.arguments.push_str(&more);
        merge(&mut self.item, without_arguments(fragment));
        let mut fresh = String::new();
        if !"null".starts_with(self.arguments.trim()) {
            fresh.push_str(&self.arguments[self.shown..]);
            self.shown = self.arguments.len();
        }
        CallDelta { part: self.part, name: named, arguments: fresh }
    }
}

impl Calls {
    /// Whether the reply has any call.
    pub(crate) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Returns the call at a position that [`Calls::add`] returned.
    pub(crate) fn get(&self, at: usize) -> Option<&Call> {
        self.0.get(at)
    }

    /// Takes all calls.
    pub(crate) fn take(&mut self) -> Vec<Call> {
        std::mem::take(&mut self.0)
    }

    /// Adds a fragment to its call, or to a new call with the part number `next_part`. Returns the position
    /// of the call, whether it is new, and the text that the fragment adds.
    pub(crate) fn add(
        &mut self,
        mut fragment: Map<String, Value>,
        next_part: u32,
    ) -> (usize, bool, CallDelta) {
        let id = match fragment.get("id") {
            Some(Value::String(id)) if !id.is_empty() && id != "null" => Some(id.clone()),
            Some(Value::Number(id)) => Some(id.to_string()),
            _ => None,
        };
        let index = fragment.shift_remove("index").as_ref().and_then(Value::as_u64);
        let known = match index {
            Some(index) => self.at_index(index, id.as_deref(), &fragment),
            None => self.without_index(id.as_deref(), &fragment),
        };
        let at = known.unwrap_or_else(|| {
            self.0.push(Call { part: next_part, index, ..Call::default() });
            self.0.len() - 1
        });
        (at, known.is_none(), self.0[at].add(fragment, id))
    }

    /// Closes the calls whose arguments are complete, after the provider
    /// reported that the reply ends with calls.
    pub(crate) fn close_complete(&mut self) {
        for call in &mut self.0 {
            call.closed = call.closed || call.kind() != Kind::Unknown && call.is_complete();
        }
    }

    /// Returns the open call at an index. Closes the call if the fragment belongs to another
    /// one: the fragment has another id, or names a tool while the arguments are complete.
    /// Gateways to Gemini send index 0 for every call.
    fn at_index(&mut self, index: u64, id: Option<&str>, fragment: &Map<String, Value>) -> Option<usize> {
        let names = name_of(fragment).is_some();
        let brings = names && arguments_of(fragment).is_some_and(|text| !text.is_empty());
        let at = self.0.iter().rposition(|call| !call.closed && call.index == Some(index))?;
        let call = &mut self.0[at];
        let replaced = call.id.as_deref().zip(id).is_some_and(|(held, new)| held != new);
        let follows = id.is_none() && brings && !call.arguments.trim().is_empty() && call.is_complete();
        if replaced && (names || call.is_complete()) || follows {
            call.closed = true;
            return None;
        }
        Some(at)
    }

    fn without_index(&self, id: Option<&str>, fragment: &Map<String, Value>) -> Option<usize> {
        let open = |call: &Call| !call.closed;
        if let Some(id) = id {
            return self.0.iter().position(|call| open(call) && call.id.as_deref() == Some(id));
        }
        let begins =
            name_of(fragment).is_some() || arguments_of(fragment).is_some_and(|text| !text.is_empty());
        let last = self.0.iter().rposition(open)?;
        let call = &self.0[last];
        (call.kind() == Kind::Unknown || !begins || !call.is_complete()).then_some(last)
    }
}

fn name_of(fragment: &Map<String, Value>) -> Option<&str> {
    ["function", "custom"]
        .iter()
        .find_map(|kind| fragment.get(*kind)?.get("name")?.as_str())
        .filter(|name| !name.is_empty())
}

/// Returns a fragment's arguments: JSON text, or a value that a server did not encode as text.
fn arguments_of(fragment: &Map<String, Value>) -> Option<String> {
    match fragment.get("function")?.get("arguments")? {
        Value::Null => None,
        Value::String(text) => Some(text.clone()),
        other => Some(other.to_string()),
    }
}

fn without_arguments(mut fragment: Map<String, Value>) -> Map<String, Value> {
    if let Some(Value::Object(function)) = fragment.get_mut("function")
        && let Some(arguments) = function.get_mut("arguments")
    {
        *arguments = Value::Null;
    }
    fragment
}

/// Merges a fragment into an item: objects by key; lists and input text are appended. `null` and empty text change
/// nothing. A value is never replaced by one of another type.
fn merge(item: &mut Map<String, Value>, fragment: Map<String, Value>) {
    for (key, value) in fragment {
        match (item.get_mut(&key), value) {
            (Some(known), Value::Null) if !known.is_null() => {}
            (Some(Value::String(known)), Value::String(more)) if key == "input" => known.push_str(&more),
            (Some(Value::String(known)), Value::String(more)) if more.is_empty() && !known.is_empty() => {}
            (Some(Value::Array(known)), Value::Array(more)) => known.extend(more),
            (Some(Value::Object(known)), Value::Object(more)) => merge(known, more),
            (Some(known), more)
                if !known.is_null() && std::mem::discriminant(known) != std::mem::discriminant(&more) => {}
            (_, value) => {
                item.insert(key, value);
            }
        }
    }
}
