//! Encodes the messages of a messages request from the history into the body.
//!
//! Items that the endpoint created are sent back to it unchanged, including thinking blocks with their signatures.
//! Instructions are a separate field of the body.

use serde_json::Value;
use windlass_engine::port::model::{ModelCall, ModelError};
use windlass_machine::{Block, Native, Origin};

use crate::body::Body;
use crate::history::turn::{self, Item, Part, Rules, SentResult, Turn};
use crate::messages::pairs::HostedPairs;
use crate::native;

/// The endpoint that receives the request.
pub(crate) struct Recipient<'a> {
    /// The origin that is stored with the endpoint's replies.
    pub origin: &'a Origin,
    /// Whether the request offers tools.
    pub tools: bool,
    /// Whether the model accepts system messages in the middle of a conversation.
    pub later_system: bool,
    /// Whether to send no thinking: the endpoint binds it to tools and instructions, which may have changed.
    pub drops_thinking: bool,
    /// Marks the end of the instructions for the cache. (SK-C11)
    pub mark: Option<&'a Value>,
    /// Whether the configuration replaces the instructions.
    pub own_system: bool,
    /// Whether the configuration names the container of hosted tools.
    pub own_container: bool,
}

/// Appends the messages of a call to a body, its instructions, and the container of hosted tools.
pub(crate) fn messages(
    call: &ModelCall,
    recipient: &Recipient<'_>,
    body: &mut Body,
) -> Result<(), ModelError> {
    let pairs = HostedPairs::of(call.request.messages.iter().map(AsRef::as_ref), recipient.origin);
    let keeps = |at, block_at, native: &Native| {
        !recipient.drops_thinking && container(native).is_none() && pairs.keeps(at, block_at, native)
    };
    let rules = Rules {
        origin: recipient.origin,
        fit: turn::legal_id,
        keeps: &keeps,
        keeps_reasoning: !recipient.drops_thinking,
        pairs_reasoning: false,
        reads_images: true,
        carries: |_| true,
        result_images: true,
        picture_sentence: None,
        tools: recipient.tools,
    };
    let turns = turn::turns(call, &rules)?;
    let (system, turns) = placed(turn::instructions(call)?, turns, recipient.later_system);
    let mut writer = Writer { body, is_first: true };
    writer.body.raw("[");
    for turn in &turns {
        match turn {
            Turn::System(text) => {
                writer.begin("system");
                writer.text(text);
            }
            Turn::User(parts) => {
                writer.begin("user");
                writer.list(parts, Writer::part);
            }
            Turn::Assistant(items) => {
                writer.begin("assistant");
                writer.list(items, Writer::item);
            }
        }
        writer.body.raw("]}");
    }
    writer.body.raw("]");
    if !recipient.own_system {
        writer.instructions(&system, recipient.mark);
    }
    if !recipient.own_container
        && let Some(id) = newest_container(call, recipient.origin)
    {
        body.field("container");
        body.string(&id);
    }
    Ok(())
}

/// Returns the instructions and the turns. The turns include later system messages if the model accepts them.
fn placed<'a>(
    instructions: Vec<&str>,
    turns: Vec<Turn<'a>>,
    later_system: bool,
) -> (Vec<String>, Vec<Turn<'a>>) {
    let mut system: Vec<String> = instructions.into_iter().map(str::to_owned).collect();
    let is_system = |turn: &Turn<'_>| matches!(turn, Turn::System(_));
    let first = turns.iter().position(|turn| !is_system(turn)).unwrap_or(turns.len());
    let is_folded = !later_system && turns[first..].iter().any(is_system);
    // The next turn that is not a system message decides whether a
    // system message is allowed at this position.
    let before_assistant = |at: usize| {
        let next = turns[at + 1..].iter().find(|turn| !is_system(turn));
        next.is_none_or(|next| matches!(next, Turn::Assistant(_)))
    };
    let slots: Vec<bool> =
        (0..turns.len()).map(|at| matches!(turns[at], Turn::User(_)) && before_assistant(at)).collect();
    let follows: Vec<bool> = (0..turns.len())
        .map(|at| {
            let previous = turns[..at].iter().rev().find(|turn| !is_system(turn));
            let fits = match previous {
                Some(Turn::User(_)) => true,
                Some(Turn::Assistant(items)) => ends_with_result(items),
                Some(Turn::System(_)) | None => false,
            };
            fits && before_assistant(at)
        })
        .collect();
    let mut placed = Vec::with_capacity(turns.len());
    let mut deferred: Vec<String> = Vec::new();
    for (at, turn) in turns.into_iter().enumerate() {
        match turn {
            Turn::System(text) if at >= first && later_system && follows[at] => {
                placed.push(Turn::System(text))
            }
            // A later system message among the instructions would change the prefix
            // and invalidate the cache after that point.
            Turn::System(text) if at >= first && later_system && slots[at + 1..].contains(&true) => {
                deferred.push(text);
            }
            Turn::System(text) => system.push(text),
            turn => {
                placed.push(turn);
                if slots[at] && !deferred.is_empty() {
                    placed.push(Turn::System(deferred.join("\n\n")));
                    deferred.clear();
                }
            }
        }
    }
    if !is_folded {
        return (system, placed);
    }
    if !system.is_empty() {
        system = vec![system.join("\n\n")];
    }
    (system, turn::merged(placed))
}

/// Whether a reply ends with the result of a hosted tool.
fn ends_with_result(items: &[Item<'_>]) -> bool {
    let Some(Item::Opaque { native }) = items.last() else { return false };
    let kind = native::whole(&native.item).get("type").and_then(Value::as_str);
    kind.is_some_and(|kind| kind.ends_with("_tool_result"))
}

/// Returns the id of the container if the item is one.
fn container(native: &Native) -> Option<&Value> {
    let item = native::whole(&native.item);
    (item.get("type")?.as_str()? == "container").then(|| item.get("container")).flatten()
}

/// Returns the container of the last reply that has one. The container keeps the state of hosted tools.
fn newest_container(call: &ModelCall, origin: &Origin) -> Option<String> {
    let blocks = call.request.messages.iter().rev().flat_map(|message| message.blocks.iter().rev());
    blocks
        .filter_map(|block| match block {
            Block::Opaque { native } if *native.origin == *origin => container(native),
            _ => None, // tidy: any other block has no container
        })
        .find_map(|container| Some(container.get("id")?.as_str()?.to_owned()))
}

struct Writer<'b> {
    body: &'b mut Body,
    is_first: bool,
}

impl Writer<'_> {
    fn begin(&mut self, role: &str) {
        if !std::mem::take(&mut self.is_first) {
            self.body.raw(",");
        }
        self.body.raw("{\"role\":\"");
        self.body.raw(role);
        self.body.raw("\",\"content\":[");
    }

    fn list<T>(&mut self, parts: &[T], write: impl Fn(&mut Self, &T)) {
        for (at, part) in parts.iter().enumerate() {
            if at > 0 {
                self.body.raw(",");
            }
            write(self, part);
        }
    }

    fn text(&mut self, text: &str) {
        self.body.raw("{\"type\":\"text\",\"text\":");
        self.body.string(text);
        self.body.raw("}");
    }

    fn part(&mut self, part: &Part<'_>) {
        match part {
            Part::Text(text) => self.text(text),
            Part::Image { media_type, bytes } => {
                self.body.raw("{\"type\":\"image\",\"source\":");
                self.source(media_type, bytes);
                self.body.raw("}");
            }
            Part::Document { name, bytes } => {
                self.body.raw("{\"type\":\"document\",\"source\":");
                self.source("application/pdf", bytes);
                self.body.field("title");
                self.body.string(name);
                self.body.raw("}");
            }
            Part::Result(result) => self.result(result),
        }
    }

    fn source(&mut self, media_type: &str, bytes: &[u8]) {
        self.body.raw("{\"type\":\"base64\",\"media_type\":");
        self.body.string(media_type);
        self.body.field("data");
        self.body.base64(bytes);
        self.body.raw("}");
    }

    fn result(&mut self, result: &SentResult<'_>) {
        self.body.raw("{\"type\":\"tool_result\",\"tool_use_id\":");
        self.body.string(&result.call_id);
        self.body.raw(",\"content\":[");
        self.list(&result.content, Self::part);
        self.body.raw(if result.error { "],\"is_error\":true}" } else { "]}" });
    }

    fn item(&mut self, item: &Item<'_>) {
        match item {
            Item::Text { text, native: Some(native) } => {
                self.body.value(&native::restore(&native.item, text))
            }
            Item::Text { text, native: None } => self.text(text),
            Item::Reasoning { text, native } => self.body.value(&native::restore(&native.item, text)),
            Item::Opaque { native } => self.body.value(&native::restore(&native.item, "")),
            Item::Call { id, arguments, native: Some(native), .. } => {
                let mut item = native::restore(&native.item, arguments);
                if let Value::Object(fields) = &mut item {
                    fields.insert("id".to_owned(), (&**id).into());
                }
                self.body.value(&item);
            }
            Item::Call { call, id, arguments, native: None } => {
                self.body.raw("{\"type\":\"tool_use\",\"id\":");
                self.body.string(id);
                self.body.field("name");
                self.body.string(call.name.as_str());
                self.body.field("input");
                self.body.value(&native::argument_object(arguments));
                self.body.raw("}");
            }
        }
    }

    fn instructions(&mut self, system: &[String], mark: Option<&Value>) {
        if system.is_empty() {
            return;
        }
        self.body.raw(",\"system\":[");
        for (at, text) in system.iter().enumerate() {
            self.body.raw(if at == 0 {
                "{\"type\":\"text\",\"text\":"
            } else {
                ",{\"type\":\"text\",\"text\":"
            });
            self.body.string(text);
            if let Some(mark) = mark.filter(|_| at + 1 == system.len()) {
                self.body.field("cache_control");
                self.body.value(mark);
            }
            self.body.raw("}");
        }
        self.body.raw("]");
    }
}
