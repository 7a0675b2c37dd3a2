//! A tool call as clients see it: its outward id, its arguments as an object, and its result as text blocks.
//!
//! The id encodes the call's journal position, so that an answer finds the call without a table, even after a restart.
//! The id may also encode the revision of the call that the client was asked about (`revision.rs`).

use serde_json::{Map, Value, json};
use windlass::machine::{Block, CallKey, Content, Fact, LONG_TEXT, Message, Outcome, RunId};

use super::revision::Revision;

/// A call in the shape of a dialect.
#[derive(Clone, Debug, PartialEq)]
pub struct Call {
    /// The client-visible id.
    pub id: String,
    pub tool: String,
    pub args: Value,
    /// The id without a revision.
    plain_id: String,
    revision: Revision,
}

/// Returns the outward id of a call: run, step and index. A provider's own id may be of any length, and some providers
/// restart the numbering in each reply. (SK-L10)
pub fn outward_id(run: &RunId, key: CallKey) -> String {
    format!("{run}-{}-{}", key.step, key.index)
}

/// Parses an outward id, ignoring its revision.
pub fn named(id: &str) -> Option<(RunId, CallKey)> {
    let mut parts = Revision::split(id).0.rsplitn(3, '-');
    let index = parts.next()?.parse().ok()?;
    let step = parts.next()?.parse().ok()?;
    Some((RunId::from(parts.next()?), CallKey { step, index }))
}

impl Call {
    /// Returns the calls of a reply, with their keys.
    pub fn of_reply<'a>(
        run: &'a RunId,
        step: u32,
        message: &'a Message,
    ) -> impl Iterator<Item = (CallKey, Self)> + 'a {
        (0..).zip(message.calls()).map(move |(index, call)| {
            let key = CallKey { step, index };
            (key, Self::new(run, key, call.name.as_str(), &call.asked))
        })
    }

    /// Creates a call with the arguments as the model wrote them.
    pub fn new(run: &RunId, key: CallKey, tool: &str, arguments: &Content) -> Self {
        let id = outward_id(run, key);
        let (tool, args) = (tool.to_owned(), args(arguments));
        Self { plain_id: id.clone(), id, tool, args, revision: Revision::default() }
    }

    /// Creates a call of the current step.
    pub fn of_state(run: &RunId, key: CallKey, call: &windlass::machine::Call) -> Self {
        let mut made = Self::new(run, key, call.tool.as_str(), &call.arguments);
        made.revision = Revision::of(call);
        made.id = made.revision.id(&made.plain_id);
        made
    }

    /// Applies an event about the call. The id changes if an approval of another revision is requested.
    pub fn apply(&mut self, fact: &Fact) {
        self.revision.apply(fact);
        self.id = self.revision.id(&self.plain_id);
    }

    /// Returns the members that every event about the call has. A tool's title is its name.
    pub fn data(&self) -> Map<String, Value> {
        let mut data = self.title();
        data.insert("args".into(), self.args.clone());
        data
    }

    /// Returns the same members as `data`, without the arguments.
    pub fn title(&self) -> Map<String, Value> {
        let mut data = Map::new();
        data.insert("call_id".into(), self.id.as_str().into());
        data.insert("tool".into(), self.tool.as_str().into());
        data.insert("title".into(), self.tool.as_str().into());
        data
    }

    /// Whether the call is hidden from clients because it only affects the next prompt. (SK-E10)
    pub fn is_meta(&self) -> bool {
        self.tool == "load_toolset" || self.tool.starts_with("memory_")
    }
}

/// Parses arguments as an object. Invalid arguments become an empty object.
pub fn args(arguments: &Content) -> Value {
    let value = serde_json::from_str(text(arguments)).ok();
    value.filter(Value::is_object).unwrap_or_else(|| json!({}))
}

/// Returns the text of a content. The caller fills in offloaded texts beforehand; a missing text is replaced by a mark.
pub fn text(content: &Content) -> &str {
    content.inline().unwrap_or(LONG_TEXT)
}

/// Formats a result as text blocks. Describes media by name, type and size.
pub fn blocks(content: &[Block]) -> Vec<Value> {
    let told = content.iter().filter_map(|block| match block {
        Block::Text { text: said, .. } => Some(text(said).to_owned()),
        Block::Image { blob } => Some(format!("[image: {}, {} bytes]", blob.media_type, blob.size_bytes)),
        Block::File { name, blob } => {
            Some(format!("[file `{name}`: {}, {} bytes]", blob.media_type, blob.size_bytes))
        }
        Block::Reasoning { .. } | Block::ToolCall(_) | Block::ToolResult(_) | Block::Opaque { .. } => None,
    });
    told.map(|text| json!({"type": "text", "text": text})).collect()
}

/// Formats a result as one text.
pub fn plain(content: &[Block]) -> String {
    let texts: Vec<String> =
        blocks(content).into_iter().filter_map(|block| block["text"].as_str().map(str::to_owned)).collect();
    texts.join("\n")
}

/// Whether a result is displayed as a failure.
pub fn is_failure(outcome: Outcome, error: bool) -> bool {
    error
        || match outcome {
            Outcome::Returned | Outcome::Told | Outcome::Reconciled => false,
            Outcome::Refused
            | Outcome::Unavailable
            | Outcome::Denied
            | Outcome::Cancelled
            | Outcome::InDoubt => true,
        }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_id_leads_back_to_its_call() {
        let (run, key) = (RunId::from("run_1-2"), CallKey { step: 3, index: 14 });
        let id = outward_id(&run, key);
        assert_eq!(id, "run_1-2-3-14");
        assert_eq!(named(&id), Some((run, key)));
        assert_eq!(named(&format!("{id}-v{}", "0".repeat(32))), named(&id));
        for id in ["", "run_1", "run_1-2", "run_1-2-x", "call_abc"] {
            assert_eq!(named(id), None, "{id}");
        }
    }

    #[test]
    fn arguments_are_an_object_whatever_the_model_wrote() {
        assert_eq!(args(&"{\"a\": 1}".into()), json!({"a": 1}));
        assert_eq!(args(&"[1]".into()), json!({}));
        assert_eq!(args(&"{oops".into()), json!({}));
    }
}
