//! Stores a provider's own items: only the parts that cannot be rebuilt from the fields of the block.
//!
//! An item is *hollowed*: values that repeat the block's text or arguments are replaced by `null`. If the
//! rest equals the wire's default item, the item is not stored. A restored item equals the original byte for
//! byte. An item that could not be restored exactly is stored whole.

use std::borrow::Cow;
use std::sync::Arc;

use serde::de::IgnoredAny;
use serde_json::{Map, Value, json};
use windlass_machine::{Native, Origin};

use super::config::WireKind;

/// Marks an item that is stored whole.
const WHOLE: &str = "$whole";

/// JSON pointers to the values in which items repeat a block's text.
const TEXTS: [&str; 11] = [
    "/text",
    "/thinking",
    "/content/0/text",
    "/summary/0/text",
    "/arguments",
    "/function/arguments",
    "/reasoning_content",
    "/reasoning",
    "/reasoning_details/0/text",
    "/thinking/0/text",
    "/reasoningContent/reasoningText/text",
];

/// JSON pointers to the values in which items repeat a call's arguments as an object.
const OBJECTS: [&str; 3] = ["/input", "/functionCall/args", "/toolUse/input"];

/// The fields of a block.
#[derive(Clone, Copy)]
pub(super) enum Own<'a> {
    /// Text of the answer.
    Text(&'a str),
    /// Text of the reasoning.
    Reasoning(&'a str),
    /// A tool call.
    Call {
        /// The provider's id.
        id: &'a str,
        /// The tool.
        name: &'a str,
        /// The arguments as the model wrote them.
        asked: &'a str,
    },
}

impl<'a> Own<'a> {
    fn text(self) -> &'a str {
        match self {
            Self::Text(text) | Self::Reasoning(text) | Self::Call { asked: text, .. } => text,
        }
    }
}

/// Converts a provider's item to the form stored with the block; `None` if the block suffices.
pub(super) fn keep(kind: WireKind, origin: &Arc<Origin>, own: Own<'_>, item: &Value) -> Option<Arc<Native>> {
    let hollowed = hollow(item, own.text());
    // The chat wire writes plain calls from the block's fields, in a different order.
    let any_order = kind == WireKind::OpenaiChat;
    let is_plain = |frame: Value| if any_order { frame == hollowed } else { same_bytes(&frame, &hollowed) };
    if frame(kind, own).is_some_and(is_plain) {
        return None;
    }
    let exact = same_bytes(&restore(&hollowed, own.text()), item);
    let item = if exact { hollowed } else { json!({ WHOLE: item }) };
    Some(Arc::new(Native { origin: Arc::clone(origin), item }))
}

/// Rebuilds a provider's item from its stored form.
pub(super) fn restore(item: &Value, text: &str) -> Value {
    if let Some(whole) = item.get(WHOLE) {
        return whole.clone();
    }
    let mut item = item.clone();
    if text.is_empty() {
        return item;
    }
    for pointer in TEXTS {
        if let Some(slot @ Value::Null) = place(&mut item, pointer) {
            *slot = Value::String(text.to_owned());
        }
    }
    for pointer in OBJECTS {
        if let Some(slot @ Value::Null) = place(&mut item, pointer)
            && let Ok(object) = serde_json::from_str(text)
        {
            *slot = object;
        }
    }
    item
}

/// Returns a stored item without the mark of an item that is stored whole.
pub(super) fn whole(item: &Value) -> &Value {
    item.get(WHOLE).unwrap_or(item)
}

/// Whether a stored item has a field.
pub(super) fn has_field(item: &Value, field: &str) -> bool {
    whole(item).get(field).is_some()
}

/// Builds the item of a block that was stored without an item. Returns `None` if the wire needs none.
#[cfg(any(test, feature = "bedrock"))]
pub(super) fn rebuild(kind: WireKind, own: Own<'_>) -> Option<Value> {
    if let Own::Call { asked, .. } = own
        && !serde_json::from_str::<Value>(asked).is_ok_and(|arguments| arguments.is_object())
    {
        return None;
    }
    Some(restore(&frame(kind, own)?, own.text()))
}

/// Returns a call's arguments in a form that providers accept in a history. A JSON object is returned as
/// written, and an object inside a JSON string is unwrapped. Other text becomes an empty object; the tool's
/// result reports the parse error.
pub(super) fn arguments(written: &str) -> Cow<'_, str> {
    fn is_object(text: &str) -> bool {
        text.trim_start().starts_with('{') && serde_json::from_str::<IgnoredAny>(text).is_ok()
    }
    if is_object(written) {
        return Cow::Borrowed(written);
    }
    match serde_json::from_str::<String>(written) {
        Ok(inner) if is_object(&inner) => Cow::Owned(inner),
        Ok(_) | Err(_) => Cow::Borrowed("{}"),
    }
}

/// Returns a call's arguments as an object, for wires that need one. An object inside a JSON string is
/// unwrapped; other text becomes an empty object.
pub(super) fn argument_object(written: &str) -> Map<String, Value> {
    let object = |text: &str| serde_json::from_str::<Map<String, Value>>(text).ok();
    let inner = || object(&serde_json::from_str::<String>(written).ok()?);
    object(written).or_else(inner).unwrap_or_default()
}

/// Whether every wire accepts the id unchanged, so that the call's origin need not be recorded. (SK-L10)
pub(super) fn is_plain_id(id: &str) -> bool {
    let legal = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'_' || byte == b'-';
    (1..=40).contains(&id.len()) && id.bytes().all(legal) && !id.contains("__thought__")
}

/// Returns the hollowed item that a wire creates for a plain block.
fn frame(kind: WireKind, own: Own<'_>) -> Option<Value> {
    match (kind, own) {
        (WireKind::Anthropic, Own::Text(_)) => Some(json!({"type": "text", "text": null})),
        (WireKind::Gemini, Own::Text(_)) => Some(json!({"text": null})),
        (WireKind::Anthropic, Own::Call { id, name, .. }) if is_plain_id(id) => {
            Some(json!({"type": "tool_use", "id": id, "name": name, "input": null}))
        }
        (WireKind::OpenaiChat, Own::Call { id, name, .. }) if is_plain_id(id) => {
            Some(json!({"id": id, "type": "function", "function": {"name": name, "arguments": null}}))
        }
        (WireKind::Converse, Own::Call { id, name, .. }) if is_plain_id(id) => {
            Some(json!({"toolUse": {"toolUseId": id, "name": name, "input": null}}))
        }
        // Gemini's calls have signatures that belong to their position, and items
        // of the responses wire have separate ids.
        (WireKind::Gemini, Own::Call { .. } | Own::Reasoning(_))
        | (WireKind::OpenaiResponses, _)
        | (
            WireKind::Anthropic | WireKind::OpenaiChat | WireKind::Converse,
            Own::Call { .. } | Own::Reasoning(_),
        )
        | (WireKind::OpenaiChat | WireKind::Converse, Own::Text(_)) => None,
    }
}

fn hollow(item: &Value, text: &str) -> Value {
    let mut item = item.clone();
    if text.is_empty() {
        return item;
    }
    for pointer in TEXTS {
        if let Some(slot) = place(&mut item, pointer)
            && slot.as_str() == Some(text)
        {
            *slot = Value::Null;
        }
    }
    for pointer in OBJECTS {
        if let Some(slot) = place(&mut item, pointer)
            && slot.is_object()
            && serde_json::from_str::<Value>(text).is_ok_and(|asked| same_bytes(&asked, slot))
        {
            *slot = Value::Null;
        }
    }
    item
}

/// Returns the value at one of the pointers above. None of them needs unescaping, which would cost several
/// allocations for each pointer and item at each step.
fn place<'v>(item: &'v mut Value, pointer: &str) -> Option<&'v mut Value> {
    pointer.split('/').skip(1).try_fold(item, |value, key| match value {
        Value::Object(fields) => fields.get_mut(key),
        Value::Array(parts) => parts.get_mut(key.parse::<usize>().ok()?),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => None,
    })
}

/// Compares values including the key order, which equality of JSON objects ignores.
fn same_bytes(one: &Value, other: &Value) -> bool {
    let (first, second) = (one.to_string(), other.to_string());
    first == second
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Stores an item, prints the stored form, and asserts that restoring returns the item.
    fn check(kind: WireKind, own: Own<'_>, item: &str) -> String {
        let origin = Arc::new(Origin { api: kind.api().into(), model: "p/m".into() });
        let parsed: Value = serde_json::from_str(item).unwrap();
        let kept = keep(kind, &origin, own, &parsed);
        let back = match &kept {
            Some(native) => restore(&native.item, own.text()),
            None => rebuild(kind, own).unwrap(),
        };
        assert_eq!(back.to_string(), parsed.to_string());
        kept.map_or_else(|| "nothing".to_owned(), |native| native.item.to_string())
    }

    #[test]
    fn plain_items_are_not_stored() {
        let call = Own::Call { id: "a", name: "f", asked: r#"{ "x":1.50 }"# };
        assert_eq!(check(WireKind::Anthropic, Own::Text("hi"), r#"{"type":"text","text":"hi"}"#), "nothing");
        assert_eq!(
            check(WireKind::Anthropic, call, r#"{"type":"tool_use","id":"a","name":"f","input":{"x":1.5}}"#),
            "nothing"
        );
        let item = r#"{"id":"a","type":"function","function":{"name":"f","arguments":"{ \"x\":1.50 }"}}"#;
        assert_eq!(check(WireKind::OpenaiChat, call, item), "nothing");
        let other_order =
            r#"{"function":{"arguments":"{ \"x\":1.50 }","name":"f"},"id":"a","type":"function"}"#;
        let origin = Arc::new(Origin { api: String::new(), model: "".into() });
        let item: Value = serde_json::from_str(other_order).unwrap();
        assert!(keep(WireKind::OpenaiChat, &origin, call, &item).is_none());
    }

    #[test]
    fn other_items_are_stored_without_what_the_block_holds() {
        let thinking = r#"{"type":"thinking","thinking":"T","signature":"S"}"#;
        assert_eq!(
            check(WireKind::Anthropic, Own::Reasoning("T"), thinking),
            r#"{"type":"thinking","thinking":null,"signature":"S"}"#
        );
        let call = r#"{"functionCall":{"id":"g","name":"f","args":{"x":1}},"thoughtSignature":"R"}"#;
        assert_eq!(
            check(WireKind::Gemini, Own::Call { id: "g", name: "f", asked: r#"{"x":1}"# }, call),
            r#"{"functionCall":{"id":"g","name":"f","args":null},"thoughtSignature":"R"}"#
        );
        let long = "x".repeat(200);
        let call =
            format!(r#"{{"id":"{long}","type":"function","function":{{"name":"f","arguments":"{{}}"}}}}"#);
        check(WireKind::OpenaiChat, Own::Call { id: &long, name: "f", asked: "{}" }, &call);
    }

    #[test]
    fn items_with_nulls_of_their_own_are_stored_whole() {
        assert_eq!(
            check(WireKind::OpenaiChat, Own::Reasoning("R"), r#"{"reasoning":"R","reasoning_content":null}"#),
            r#"{"$whole":{"reasoning":"R","reasoning_content":null}}"#
        );
    }
}
