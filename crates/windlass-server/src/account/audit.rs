//! The audit log: who did what, one chain of entries per workspace. An entry is written in the transaction of the
//! change that it tells of, or alone where there is none.
//!
//! Nothing changes or removes an entry. Each names the digest of the one before, so that whoever has noted one digest
//! can check everything up to there without the store (`verify.rs`).

pub mod answer;
pub mod export;
mod list;
pub mod log;
pub mod verify;

use std::net::IpAddr;

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};
use utoipa::ToSchema;
use windlass::machine::{Principal, Timestamp};

use super::{Identity, secret};

/// The kind of the entries, whose key is the workspace and the position.
const AUDIT: &str = "audit";
/// The kind of the chains' ends, whose key is the workspace.
const HEAD: &str = "audit_head";

/// Longest text of an entry, in characters: addresses that somebody types come from outside.
const TEXT_MAX_CHARS: usize = 256;
/// Largest details of an entry as JSON, in bytes.
const DETAILS_MAX_BYTES: usize = 16 * 1024;
/// What begins every chain.
pub const GENESIS: &str = "0000000000000000000000000000000000000000000000000000000000000000";

/// An entry.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct Entry {
    /// Its position in the workspace's chain, from 1.
    pub seq: u64,
    /// When it was written, in milliseconds since the Unix epoch.
    #[schema(value_type = u64)]
    pub at: Timestamp,
    /// The workspace.
    pub workspace: String,
    /// Whoever did it; null where nobody is known.
    #[schema(value_type = Option<String>)]
    pub actor: Option<Principal>,
    /// The session or key by which they came.
    pub via: Option<String>,
    /// What was done.
    #[schema(example = "login.failed")]
    pub action: String,
    /// To what or whom.
    pub subject: Option<String>,
    /// The address of the connection.
    pub from: Option<String>,
    /// What else there is to know.
    #[schema(value_type = Object)]
    pub details: Map<String, Value>,
    /// The hash of the entry before.
    pub prev: String,
    /// SHA-256, in hexadecimal, of `prev`, a line feed, and this entry as JSON with an empty `hash`.
    pub hash: String,
}

impl Entry {
    /// The hash that it should have.
    fn digest(&self) -> String {
        let bare = Self { hash: String::new(), ..self.clone() };
        secret::hex(format!("{}\n{}", self.prev, bare.line()).as_bytes())
    }

    /// The entry as a line of JSON.
    pub fn line(&self) -> String {
        // Strings, numbers and JSON: nothing that the serialiser refuses.
        serde_json::to_string(self).unwrap_or_default()
    }
}

/// Where a chain ends.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct Head {
    /// The workspace.
    pub workspace: String,
    /// How many entries there are.
    pub seq: u64,
    /// The hash of the last one.
    pub hash: String,
}

/// What is to be written.
#[derive(Clone, Debug)]
pub struct Note {
    workspace: String,
    actor: Option<Principal>,
    via: Option<String>,
    action: String,
    subject: Option<String>,
    from: Option<String>,
    details: Map<String, Value>,
    /// Further entries that the same changes make.
    beside: Vec<Note>,
}

impl Note {
    /// That something was done in a workspace; nobody is named yet.
    pub fn new(workspace: &str, action: &str) -> Self {
        let (workspace, action) = (workspace.to_owned(), action.to_owned());
        let (details, beside) = (Map::new(), Vec::new());
        Self { workspace, actor: None, via: None, action, subject: None, from: None, details, beside }
    }

    /// That somebody who made a request did something.
    pub fn by(identity: &Identity, action: &str) -> Self {
        let via = Some(identity.credential.to_string());
        Self { actor: Some(identity.user.clone()), via, ..Self::new(&identity.workspace, action) }
            .from(identity.from)
    }

    /// Names whoever did it.
    pub fn actor(mut self, actor: &Principal) -> Self {
        self.actor = Some(actor.clone());
        self
    }

    /// Names how the actor reached the store, where no session or key says so.
    pub fn via(mut self, via: &str) -> Self {
        self.via = Some(via.to_owned());
        self
    }

    /// Names to what or whom it was done.
    pub fn on(mut self, subject: &str) -> Self {
        self.subject = Some(crate::text::first_line(subject, TEXT_MAX_CHARS));
        self
    }

    /// Names the address of the connection.
    pub fn from(mut self, from: Option<IpAddr>) -> Self {
        self.from = from.map(|address| address.to_string());
        self
    }

    /// Adds what else there is to know.
    pub fn with(mut self, key: &str, value: impl Into<Value>) -> Self {
        self.details.insert(key.to_owned(), value.into());
        self
    }

    /// Writes another entry with this one, which comes after it if both are of one workspace.
    pub(super) fn beside(mut self, other: Note) -> Self {
        self.beside.push(other);
        self
    }

    fn after(&self, head: Option<&Head>, at: Timestamp) -> Entry {
        let size = Value::Object(self.details.clone()).to_string().len();
        let details = match size {
            0..=DETAILS_MAX_BYTES => self.details.clone(),
            _ => Map::from_iter([("left_out_bytes".to_owned(), size.into())]),
        };
        let mut entry = Entry {
            seq: head.map_or(0, |head| head.seq) + 1,
            at,
            workspace: self.workspace.clone(),
            actor: self.actor.clone(),
            via: self.via.clone(),
            action: self.action.clone(),
            subject: self.subject.clone(),
            from: self.from.clone(),
            details,
            prev: head.map_or_else(|| GENESIS.to_owned(), |head| head.hash.clone()),
            hash: String::new(),
        };
        entry.hash = entry.digest();
        entry
    }
}

fn key(workspace: &str, seq: u64) -> String {
    format!("{workspace}/{seq:016x}")
}
