//! The audit log: users' actions, as one chain of entries per workspace. The server writes an entry in the transaction
//! of the change that the entry describes, or alone if there is no change.
//!
//! The server never changes or removes entries. Each entry contains the hash of the previous one. An auditor who has
//! noted one hash can check all entries up to that hash without the store (`verify.rs`).

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

/// Record kind of entries. The key is the workspace and the position.
const AUDIT: &str = "audit";
/// Record kind of the chain heads. The key is the workspace.
const HEAD: &str = "audit_head";

/// Maximum length of a text of an entry, in characters. A limit is needed, because clients choose texts such as email
/// addresses.
const TEXT_MAX_CHARS: usize = 256;
/// Maximum size of an entry's details as JSON, in bytes.
const DETAILS_MAX_BYTES: usize = 16 * 1024;
/// The `prev` hash of the first entry of every chain.
pub const GENESIS: &str = "0000000000000000000000000000000000000000000000000000000000000000";

/// An entry of the audit log.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct Entry {
    /// Position in the workspace's chain, from 1.
    pub seq: u64,
    /// When it was written, in milliseconds since the Unix epoch.
    #[schema(value_type = u64)]
    pub at: Timestamp,
    /// Name of the workspace.
    pub workspace: String,
    /// Id of the acting user; null if unknown.
    #[schema(value_type = Option<String>)]
    pub actor: Option<Principal>,
    /// Id of the session or key that the actor used.
    pub via: Option<String>,
    /// The action.
    #[schema(example = "login.failed")]
    pub action: String,
    /// The object of the action, such as the id of a user or thread.
    pub subject: Option<String>,
    /// Network address of the client.
    pub from: Option<String>,
    /// Additional details.
    #[schema(value_type = Object)]
    pub details: Map<String, Value>,
    /// Hash of the previous entry.
    pub prev: String,
    /// SHA-256, in hexadecimal, of `prev`, a line feed, and this entry as JSON with an empty `hash`.
    pub hash: String,
}

impl Entry {
    /// Computes the hash of this entry.
    fn digest(&self) -> String {
        let bare = Self { hash: String::new(), ..self.clone() };
        secret::hex(format!("{}\n{}", self.prev, bare.line()).as_bytes())
    }

    /// Returns the entry as one line of JSON.
    pub fn line(&self) -> String {
        // Invariant: an entry has only strings, numbers and JSON values, so it always serializes.
        serde_json::to_string(self).unwrap_or_default()
    }
}

/// The end of a chain.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct Head {
    /// Name of the workspace.
    pub workspace: String,
    /// Number of entries.
    pub seq: u64,
    /// Hash of the last entry.
    pub hash: String,
}

/// The draft of an audit entry.
#[derive(Clone, Debug)]
pub struct Note {
    workspace: String,
    actor: Option<Principal>,
    via: Option<String>,
    action: String,
    subject: Option<String>,
    from: Option<String>,
    details: Map<String, Value>,
    /// Further entries that the same transaction writes.
    beside: Vec<Note>,
}

impl Note {
    /// Starts a note about an action in a workspace, without an actor.
    pub fn new(workspace: &str, action: &str) -> Self {
        let (workspace, action) = (workspace.to_owned(), action.to_owned());
        let (details, beside) = (Map::new(), Vec::new());
        Self { workspace, actor: None, via: None, action, subject: None, from: None, details, beside }
    }

    /// Starts a note about an action of an authenticated caller.
    pub fn by(identity: &Identity, action: &str) -> Self {
        let via = Some(identity.credential.to_string());
        Self { actor: Some(identity.user.clone()), via, ..Self::new(&identity.workspace, action) }
            .from(identity.from)
    }

    pub fn actor(mut self, actor: &Principal) -> Self {
        self.actor = Some(actor.clone());
        self
    }

    /// Sets the access path of an actor who used neither a session nor a key.
    pub fn via(mut self, via: &str) -> Self {
        self.via = Some(via.to_owned());
        self
    }

    /// Sets the object of the action.
    pub fn on(mut self, subject: &str) -> Self {
        self.subject = Some(crate::text::first_line(subject, TEXT_MAX_CHARS));
        self
    }

    /// Sets the network address of the client.
    pub fn from(mut self, from: Option<IpAddr>) -> Self {
        self.from = from.map(|address| address.to_string());
        self
    }

    /// Adds a detail.
    pub fn with(mut self, key: &str, value: impl Into<Value>) -> Self {
        self.details.insert(key.to_owned(), value.into());
        self
    }

    /// Adds another note to the same transaction. If both notes belong to one workspace, the entry of `other` follows
    /// this note's entry.
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
