//! Determines which items of hosted tools are sent back: a call and its result only together.
//!
//! A call in the last reply that is still running is sent alone.

use std::collections::{HashMap, HashSet};

use windlass_machine::{Block, Message, Native, Origin, Role};

use crate::history::turn;
use crate::native;

/// The items of a history that are sent, by message and block.
#[derive(Default)]
pub(crate) struct HostedPairs(HashSet<(usize, usize)>);

enum Side {
    Use,
    Result,
}

impl HostedPairs {
    /// Collects the pairs of a history among the items of `origin`.
    pub(crate) fn of<'a>(messages: impl Iterator<Item = &'a Message>, origin: &Origin) -> Self {
        let messages: Vec<&Message> = messages.collect();
        let mut sent = HashSet::new();
        let mut open: HashMap<String, (usize, usize)> = HashMap::new();
        for (at, message) in messages.iter().enumerate() {
            for (block_at, block) in message.blocks.iter().enumerate() {
                let Block::Opaque { native } = block else { continue };
                if message.role != Role::Assistant || *native.origin != *origin {
                    continue;
                }
                match side(native) {
                    Some((Side::Use, id)) => drop(open.insert(id, (at, block_at))),
                    Some((Side::Result, id)) => {
                        if let Some(used) = open.remove(&id) {
                            sent.extend([used, (at, block_at)]);
                        }
                    }
                    None => {}
                }
            }
        }
        if let Some(last) = messages.iter().rposition(|message| message.role == Role::Assistant) {
            let blocks = &messages[last].blocks;
            let calls = blocks.iter().any(|block| matches!(block, Block::ToolCall(_)));
            let is_end = messages[last + 1..].iter().all(|message| message.role == Role::System);
            let running = blocks.iter().enumerate().filter_map(|(block_at, block)| {
                let Block::Opaque { native } = block else { return None };
                let is_use = *native.origin == *origin && matches!(side(native), Some((Side::Use, _)));
                let is_last = !blocks[block_at + 1..].iter().any(|block| says(block, origin));
                (is_use && is_last && (calls || is_end)).then_some((last, block_at))
            });
            sent.extend(running);
        }
        Self(sent)
    }

    /// Whether an item is sent.
    pub(crate) fn keeps(&self, at: usize, block_at: usize, native: &Native) -> bool {
        side(native).is_none() || self.0.contains(&(at, block_at))
    }
}

/// Whether a block is sent as text or reasoning. A hosted tool has
/// stopped running if such a block follows it.
fn says(block: &Block, origin: &Origin) -> bool {
    let is_own = turn::native_of(block).is_some_and(|native| *native.origin == *origin);
    match block {
        Block::Text { text, .. } => is_own || text.inline().is_none_or(|text| !text.trim().is_empty()),
        Block::Reasoning { .. } => is_own,
        Block::ToolCall(_)
        | Block::Opaque { .. }
        | Block::Image { .. }
        | Block::File { .. }
        | Block::ToolResult(_) => false,
    }
}

/// Returns the half of the pair that an item represents (call or result), and the id that both halves share.
fn side(native: &Native) -> Option<(Side, String)> {
    let item = native::whole(&native.item);
    let kind = item.get("type")?.as_str()?;
    let (side, key) = if kind.ends_with("_tool_use") {
        (Side::Use, "id")
    } else if kind.ends_with("_tool_result") {
        (Side::Result, "tool_use_id")
    } else {
        return None;
    };
    Some((side, item.get(key)?.as_str()?.to_owned()))
}
