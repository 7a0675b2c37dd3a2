//! What is remembered of a server's tools from one process to the next, so that they are there, and named as before,
//! while the server is still on its way.
//!
//! Where it is kept is the host program's.

use serde::{Deserialize, Serialize};

use crate::list::RemoteTool;

/// A server's tools as they were last seen.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct KnownServer {
    /// The server.
    pub server: String,
    /// Its tools, with the names that models know them by.
    pub(crate) tools: Vec<KnownTool>,
}

impl KnownServer {
    /// Whether one of its tools has this name for models.
    pub fn has_tool(&self, name: &str) -> bool {
        self.tools.iter().any(|tool| tool.given == name)
    }

    /// The same in parts that are no longer than so many bytes as JSON each. A tool that is longer by itself is left out.
    pub fn parts(self, max_bytes: usize) -> Vec<Self> {
        let mut parts: Vec<Self> = Vec::new();
        let mut left = 0;
        for tool in self.tools {
            let size = serde_json::to_vec(&tool).map_or(usize::MAX, |text| text.len() + 1);
            if size > max_bytes.saturating_sub(PART_BYTES) {
                continue;
            }
            if parts.is_empty() || size > left {
                parts.push(Self { server: self.server.clone(), tools: Vec::new() });
                left = max_bytes - PART_BYTES;
            }
            left -= size;
            if let Some(part) = parts.last_mut() {
                part.tools.push(tool);
            }
        }
        parts
    }
}

/// What stands in a part around its tools, the server's name in it, and some room.
const PART_BYTES: usize = 256;

/// A tool as it was last seen.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct KnownTool {
    /// The name that models know it by.
    pub given: String,
    #[serde(flatten)]
    pub tool: RemoteTool,
}
