//! The records port: small documents with a unique key, such as grants, modes and allow lists.
//!
//! A record is written as a whole, and only where it is still what the writer expects. Nothing here knows what a
//! kind of record means.

use async_trait::async_trait;
use serde_json::Value;
use windlass_machine::Timestamp;

use super::fault::{AppendError, StoreError};

/// Largest value of a record as JSON, in bytes; what is larger belongs into a blob.
pub const VALUE_MAX_BYTES: usize = 256 * 1024;
/// Longest key, and longest owner, in bytes.
pub const KEY_MAX_BYTES: usize = 512;
/// Longest kind, in bytes.
pub const KIND_MAX_BYTES: usize = 64;
/// Changes that are made together at most: more than a person answers at once.
pub const CHANGES_MAX: usize = 1_000;

/// Records by kind and key.
///
/// A change that failed as unavailable may have been made: whoever made it reads the record.
#[async_trait]
pub trait Records: Send + Sync {
    /// Reads a record.
    async fn get(&self, kind: &str, key: &str) -> Result<Option<Record>, StoreError>;

    /// Reads up to `limit` records of a kind after a key, in the order of their keys, of one owner or of all.
    async fn list(
        &self,
        kind: &str,
        owner: Option<&str>,
        after: Option<&str>,
        limit: usize,
    ) -> Result<Vec<Record>, StoreError>;

    /// Makes several changes one after the other, all or nothing. Returns each record's version after that, `None` where
    /// there is no such record any more.
    async fn apply(&self, changes: Vec<RecordChange>) -> Result<Vec<Option<u64>>, RecordError>;

    /// For each of some kinds, the number of the newest change of its records, 0 if there was none: a cheap look at whether
    /// another process has changed something. A deletion is a change. The number is visible together with the change, and
    /// within a kind it only grows: a reader that has seen a number has seen all changes of the kind up to it.
    async fn changes(&self, kinds: &[&str]) -> Result<Vec<u64>, StoreError>;

    /// The same for the records of one owner in each of some kinds: a pair is a kind and an owner. A change of the owner of
    /// a record counts for both. A number may also grow with changes for other owners, so that a store may keep few of them.
    async fn changes_of(&self, owned: &[(&str, &str)]) -> Result<Vec<u64>, StoreError> {
        let kinds: Vec<&str> = owned.iter().map(|(kind, _)| *kind).collect();
        self.changes(&kinds).await
    }

    /// Writes a record; returns its new version.
    async fn put(
        &self,
        kind: &str,
        key: &str,
        owner: &str,
        value: Value,
        expected: Expect,
    ) -> Result<u64, RecordError> {
        let versions = self.apply(vec![RecordChange::put(kind, key, owner, value, expected)]).await?;
        versions.into_iter().flatten().next().ok_or_else(|| {
            let why = format!("the store gave {kind} `{key}` no version; this is a defect");
            StoreError::Unavailable { why }.into()
        })
    }

    /// Deletes a record. One that does not exist is deleted already, unless a version of it was expected.
    async fn delete(&self, kind: &str, key: &str, expected: Expect) -> Result<(), RecordError> {
        self.apply(vec![RecordChange::delete(kind, key, expected)]).await.map(drop)
    }
}

/// A record as it was read.
#[derive(Clone, Debug, PartialEq)]
pub struct Record {
    /// What it is, in a short word of the caller's: `grant`, `mode`.
    pub kind: String,
    /// Its key, unique in its kind.
    pub key: String,
    /// Whose it is.
    pub owner: String,
    /// What it says.
    pub value: Value,
    /// The number of the change that wrote it. No two changes in a store have the same, so that a record that was
    /// deleted and made again is another.
    pub version: u64,
    /// When it was written.
    pub updated_at: Timestamp,
}

/// What a change expects to find.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Expect {
    /// No record.
    Absent,
    /// This version.
    Version(u64),
    /// Whatever there is.
    Any,
}

impl Expect {
    /// Whether it is met by the version that was found, `None` where there is no record.
    pub fn is_met(self, found: Option<u64>) -> bool {
        match self {
            Self::Absent => found.is_none(),
            Self::Version(version) => found == Some(version),
            Self::Any => true,
        }
    }
}

/// A change of one record.
#[derive(Clone, Debug, PartialEq)]
pub struct RecordChange {
    /// The record's kind.
    pub kind: String,
    /// Its key.
    pub key: String,
    /// What must be found there.
    pub expected: Expect,
    /// What is written.
    pub write: RecordWrite,
}

/// What a change writes.
#[derive(Clone, Debug, PartialEq)]
pub enum RecordWrite {
    /// A record.
    Put {
        /// Whose it is.
        owner: String,
        /// What it says.
        value: Value,
    },
    /// Nothing: the record goes.
    Delete,
    /// Nothing: the record stays as it is, and the others are made only where it is what was expected.
    Keep,
}

impl RecordChange {
    /// Writes a record.
    pub fn put(kind: &str, key: &str, owner: &str, value: Value, expected: Expect) -> Self {
        let write = RecordWrite::Put { owner: owner.to_owned(), value };
        Self { kind: kind.to_owned(), key: key.to_owned(), expected, write }
    }

    /// Deletes a record.
    pub fn delete(kind: &str, key: &str, expected: Expect) -> Self {
        let (kind, key) = (kind.to_owned(), key.to_owned());
        Self { kind, key, expected, write: RecordWrite::Delete }
    }

    /// Leaves a record as it is, where it is what was expected.
    pub fn keep(kind: &str, key: &str, expected: Expect) -> Self {
        let (kind, key) = (kind.to_owned(), key.to_owned());
        Self { kind, key, expected, write: RecordWrite::Keep }
    }

    /// Makes the change ready to be stored; refuses what no store takes.
    pub fn prepare(self) -> Result<PreparedChange, StoreError> {
        let Self { kind, key, expected, write } = self;
        check_size("kind of a record", kind.len(), 1, KIND_MAX_BYTES)?;
        check_size("key of a record", key.len(), 1, KEY_MAX_BYTES)?;
        let write = match write {
            RecordWrite::Delete => PreparedWrite::Delete,
            RecordWrite::Keep => PreparedWrite::Keep,
            RecordWrite::Put { owner, value } => {
                check_size("owner of a record", owner.len(), 0, KEY_MAX_BYTES)?;
                let value = encode(&kind, &key, &value)?;
                PreparedWrite::Put { owner, value }
            }
        };
        Ok(PreparedChange { kind, key, expected, write })
    }

    /// Makes changes ready that are made together.
    pub fn prepare_all(changes: Vec<Self>) -> Result<Vec<PreparedChange>, StoreError> {
        if changes.len() > CHANGES_MAX {
            let why = format!("{} changes of records at once; {CHANGES_MAX} are allowed", changes.len());
            return Err(StoreError::Refused { why });
        }
        changes.into_iter().map(Self::prepare).collect()
    }
}

/// A change of which everything is known to fit.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PreparedChange {
    /// The record's kind.
    pub kind: String,
    /// Its key.
    pub key: String,
    /// What must be found there.
    pub expected: Expect,
    /// What is written.
    pub write: PreparedWrite,
}

/// What a change writes, as it is stored.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum PreparedWrite {
    /// A record.
    Put {
        /// Whose it is.
        owner: String,
        /// Its value as JSON.
        value: String,
    },
    /// Nothing: the record goes.
    Delete,
    /// Nothing: the record stays.
    Keep,
}

impl PreparedChange {
    /// Refuses the change where something else was found than it expects.
    pub fn check(&self, found: Option<u64>) -> Result<(), RecordError> {
        if self.expected.is_met(found) {
            return Ok(());
        }
        Err(RecordError::Conflict { kind: self.kind.clone(), key: self.key.clone(), found })
    }
}

fn check_size(what: &str, found: usize, least: usize, most: usize) -> Result<(), StoreError> {
    if (least..=most).contains(&found) {
        return Ok(());
    }
    Err(StoreError::Refused { why: format!("the {what} has {found} bytes; it must have {least} to {most}") })
}

fn encode(kind: &str, key: &str, value: &Value) -> Result<String, StoreError> {
    let text = value.to_string();
    check_size(&format!("value of {kind} `{key}`"), text.len(), 1, VALUE_MAX_BYTES)?;
    // A value can be nested more deeply than whoever reads it back allows.
    serde_json::from_str::<Value>(&text).map_err(|error| StoreError::Refused {
        why: format!("the value of {kind} `{key}` could not be read back: {error}"),
    })?;
    Ok(text)
}

/// Why records were not changed.
#[derive(Debug, thiserror::Error)]
pub enum RecordError {
    /// Something else was found than was expected: nothing was changed.
    #[error("{kind} `{key}` was changed by somebody else; read it again")]
    Conflict {
        /// The kind of the record.
        kind: String,
        /// Its key.
        key: String,
        /// The version that was found; `None` where there is no record.
        found: Option<u64>,
    },
    /// The store refused or failed.
    #[error(transparent)]
    Store(#[from] StoreError),
}

impl From<RecordError> for AppendError {
    fn from(error: RecordError) -> Self {
        match error {
            RecordError::Conflict { kind, key, .. } => Self::Record { kind, key },
            RecordError::Store(error) => Self::Failed(error),
        }
    }
}
