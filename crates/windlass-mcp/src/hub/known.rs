//! A server's tools as remembered between processes. The tools are offered under the same
//! names while the server is still connecting.
//!
//! The host program stores the tools.

use serde::{Deserialize, Serialize};

use crate::list::RemoteTool;

/// A server's tools as last listed.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct KnownServer {
    /// The server's name.
    pub server: String,
    /// The tools with the names that models use.
    pub(crate) tools: Vec<KnownTool>,
}

impl KnownServer {
    /// Whether a tool has this name for models.
    pub fn has_tool(&self, name: &str) -> bool {
        self.tools.iter().any(|tool| tool.given == name)
    }

    /// Splits the tools into parts of at most `max_bytes` as JSON. A
    /// tool that is larger on its own is omitted.
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

/// Number of bytes reserved in a part for all data except the tools, such as the server's name.
const PART_BYTES: usize = 256;

/// A tool as last listed.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct KnownTool {
    /// The name that models use.
    pub given: String,
    #[serde(flatten)]
    pub tool: RemoteTool,
}
