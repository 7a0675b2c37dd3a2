//! What is remembered of a server's tools from one process to the next, so that they are there, and named as before,
//! while the server is still on its way.
//!
//! Where it is kept is the host program's.

use serde::{Deserialize, Serialize};

use super::list::RemoteTool;

/// A server's tools as they were last seen.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct KnownServer {
    /// The server.
    pub server: String,
    /// Its tools, with the names that models know them by.
    pub(super) tools: Vec<KnownTool>,
}

/// A tool as it was last seen.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(super) struct KnownTool {
    /// The name that models know it by.
    pub given: String,
    #[serde(flatten)]
    pub tool: RemoteTool,
}
