//! How a server is, for people: health, what it says of itself, what of it is left out, and its last words.
//!
//! Nothing here acts on it.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, PoisonError};

use serde::Serialize;
use windlass_machine::Timestamp;

use super::mask::Masks;

/// How a server is.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(tag = "health", rename_all = "snake_case")]
pub enum Health {
    /// It is being started or reached for the first time.
    Starting,
    /// It answers.
    Ready {
        /// Since when.
        since: Timestamp,
    },
    /// It does not answer; its last known tools stay, and say so.
    Unavailable {
        /// Why.
        why: String,
        /// Since when.
        since: Timestamp,
        /// When it is tried again.
        retry_at: Timestamp,
    },
    /// Somebody has to sign in first.
    NeedsSignIn {
        /// Since when.
        since: Timestamp,
    },
    /// It is switched off.
    Disabled,
}

impl Health {
    /// Whether calls reach it.
    pub fn is_ready(&self) -> bool {
        matches!(self, Self::Ready { .. })
    }
}

/// What is known of a server.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct ServerStatus {
    /// Its name here.
    pub name: String,
    /// How it is.
    #[serde(flatten)]
    pub health: Health,
    /// The revision of the protocol that is spoken with it.
    pub protocol: Option<String>,
    /// Its own name and version.
    pub software: Option<String>,
    /// What it says about its use.
    pub instructions: Option<String>,
    /// Whether its hints are believed.
    pub trusted: bool,
    /// Whether a start without it is refused.
    pub required: bool,
    /// Its tools, as models know them.
    pub tools: Vec<ListedTool>,
    /// Its tools that cannot be used, and why.
    pub left_out: Vec<LeftOut>,
}

/// A tool of a server, as people and toolsets know it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct ListedTool {
    /// The name that models use.
    pub name: String,
    /// The server's own name for it.
    pub remote: String,
    /// Its title for people.
    pub title: Option<String>,
    /// The group that it belongs to: its first tag, or what its name begins with. (SK-C7)
    pub tag: Option<String>,
}

/// A tool that cannot be used.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct LeftOut {
    /// The server's own name for it.
    pub tool: String,
    /// Why.
    pub why: String,
}

/// The last lines that a server wrote for people, without what it was given.
pub(super) struct Log {
    lines: Mutex<VecDeque<String>>,
    masks: Arc<Masks>,
}

/// Lines that are kept: a start with its stack trace fits.
pub(super) const LOG_MAX_LINES: usize = 500;
/// What lines of this program about a server begin with.
pub(super) const OUR_OWN: &str = "[windlass] ";
/// Bytes that are kept of a line; a longer one is cut.
pub(super) const LOG_MAX_LINE_BYTES: usize = 2_000;

impl Log {
    pub fn masking(masks: Arc<Masks>) -> Self {
        Self { lines: Mutex::default(), masks }
    }

    /// Keeps a line, without what moves a terminal's cursor. One that is too long was cut, perhaps within a secret.
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

    /// The last line that says something: often why a server ended.
    pub fn last(&self) -> Option<String> {
        let lines = self.lines.lock().unwrap_or_else(PoisonError::into_inner);
        let says = |line: &&String| !line.trim().is_empty() && !line.starts_with(OUR_OWN);
        lines.iter().rev().find(says).cloned()
    }
}
