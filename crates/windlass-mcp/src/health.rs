//! The status of a server for users: its health, its description, excluded tools, and its log.
//!
//! The module only reports; it changes no server.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, PoisonError};

use serde::Serialize;
use windlass_machine::Timestamp;

use super::mask::Masks;

/// Health of a server's connection.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(tag = "health", rename_all = "snake_case")]
pub enum Health {
    /// The first connection is being established.
    Starting,
    /// Connected.
    Ready {
        /// When the connection was established.
        since: Timestamp,
    },
    /// Not connected. The last known tools are kept, and calls to them fail with the server's state.
    Unavailable {
        /// The reason, redacted.
        why: String,
        /// When the connection was lost or first failed.
        since: Timestamp,
        /// When the next attempt is made.
        retry_at: Timestamp,
    },
    /// A user must sign in first.
    NeedsSignIn {
        /// When the server first required the sign-in.
        since: Timestamp,
    },
    /// Disabled in the configuration, or stopped.
    Disabled,
}

impl Health {
    /// Whether calls reach the server.
    pub fn is_ready(&self) -> bool {
        matches!(self, Self::Ready { .. })
    }
}

/// The status of a server.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct ServerStatus {
    /// The name from the configuration.
    pub name: String,
    /// Health of the connection.
    #[serde(flatten)]
    pub health: Health,
    /// The negotiated protocol revision.
    pub protocol: Option<String>,
    /// The name and version that the server reports.
    pub software: Option<String>,
    /// The server's instructions for its use.
    pub instructions: Option<String>,
    /// Whether the hints of the server's tools affect the gate.
    pub trusted: bool,
    /// Whether startup fails without the server.
    pub required: bool,
    /// The server's tools under the names that models use.
    pub tools: Vec<ListedTool>,
    /// Tools that cannot be used, with the reason.
    pub left_out: Vec<LeftOut>,
}

/// A tool of a server, for users and toolsets.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct ListedTool {
    /// The name that models use.
    pub name: String,
    /// The server's own name of the tool.
    pub remote: String,
    /// The title for users.
    pub title: Option<String>,
    /// The tool's group: its first tag, or a known prefix of its name. (SK-C7)
    pub tag: Option<String>,
}

/// A tool that cannot be used.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct LeftOut {
    /// The server's own name of the tool.
    pub tool: String,
    /// Why the tool cannot be used.
    pub why: String,
}

/// The last log lines of a server, redacted.
pub(super) struct Log {
    lines: Mutex<VecDeque<String>>,
    masks: Arc<Masks>,
}

/// Maximum number of kept lines. They suffice for a start with its stack trace.
pub(super) const LOG_MAX_LINES: usize = 500;
/// Prefix of log lines that this program writes.
pub(super) const OUR_OWN: &str = "[windlass] ";
/// Maximum size of a kept line, in bytes. A longer line is truncated.
pub(super) const LOG_MAX_LINE_BYTES: usize = 2_000;

impl Log {
    pub fn masking(masks: Arc<Masks>) -> Self {
        Self { lines: Mutex::default(), masks }
    }

    /// Adds a line without control characters. The end of a truncated line may be
    /// part of a secret, which is redacted too.
    pub fn push(&self, line: &str) {
        let end = line.floor_char_boundary(LOG_MAX_LINE_BYTES);
        let is_cut = line.len() >= LOG_MAX_LINE_BYTES;
        let line: String = line[..end].chars().filter(|c| !c.is_control() || *c == '\t').collect();
        let mask = self.masks.reasons();
        let line = match is_cut {
            true => String::from_utf8_lossy(&mask.cut_bytes(line.as_bytes())).into_owned(),
            false => mask.text(&line),
        };
        let mut lines = self.lines.lock().unwrap_or_else(PoisonError::into_inner);
        if lines.len() == LOG_MAX_LINES {
            lines.pop_front();
        }
        lines.push_back(line);
    }

    pub fn lines(&self) -> Vec<String> {
        self.lines.lock().unwrap_or_else(PoisonError::into_inner).iter().cloned().collect()
    }

    /// Returns the last non-empty line of the server. It is often the reason why the server ended.
    pub fn last(&self) -> Option<String> {
        let lines = self.lines.lock().unwrap_or_else(PoisonError::into_inner);
        let says = |line: &&String| !line.trim().is_empty() && !line.starts_with(OUR_OWN);
        lines.iter().rev().find(says).cloned()
    }
}
