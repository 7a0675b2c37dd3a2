//! The records port: small documents with a unique key, such as grants, modes and allow lists.
//!
//! A record is written as a whole, and only if its version is the
//! expected version. This module does not interpret any kind of record.

use async_trait::async_trait;
use serde_json::Value;
use windlass_machine::Timestamp;

use super::fault::{AppendError, StoreError};

/// Maximum size of a record's value as JSON, in bytes; larger values belong into a blob.
pub const VALUE_MAX_BYTES: usize = 256 * 1024;
/// Maximum length of a key or an owner, in bytes.
pub const KEY_MAX_BYTES: usize = 512;
/// Maximum length of a kind, in bytes.
pub const KIND_MAX_BYTES: usize = 64;
/// Maximum number of changes in one call. It exceeds the number of answers that a person sends at once.
pub const CHANGES_MAX: usize = 1_000;

/// Records by kind and key.
///
/// A change that failed as unavailable may have been made; the caller must read the record to find out.
#[async_trait]
pub trait Records: Send + Sync {
    /// Reads a record; `None` if it does not exist.
    async fn get(&self, kind: &str, key: &str) -> Result<Option<Record>, StoreError>;

    /// Lists up to `limit` records of a kind after a key, ordered by key, of one owner or of all owners.
    async fn list(
        &self,
        kind: &str,
        owner: Option<&str>,
        after: Option<&str>,
        limit: usize,
    ) -> Result<Vec<Record>, StoreError>;

    /// Applies several changes in order, all or nothing. Returns the new
    /// version of each record, `None` if the record no longer exists.
    async fn apply(&self, changes: Vec<RecordChange>) -> Result<Vec<Option<u64>>, RecordError>;

    /// Returns the number of the newest change for each of these kinds, 0 without a change. The
    /// call must be cheap, because callers poll it for changes by other processes. A deletion is
    /// a change. A number becomes visible together with its change and only grows within a kind:
    /// a reader that has seen a number has seen all changes of the kind up to it.
    async fn changes(&self, kinds: &[&str]) -> Result<Vec<u64>, StoreError>;

    /// Like [`Records::changes`], but for pairs of a kind and an owner. If a record
    /// changes its owner, the change is counted for both owners. A number may also
    /// grow with changes for other owners, so that a store may keep few counters.
    async fn changes_of(&self, owned: &[(&str, &str)]) -> Result<Vec<u64>, StoreError> {
        let kinds: Vec<&str> = owned.iter().map(|(kind, _)| *kind).collect();
        self.changes(&kinds).await
    }

    /// Writes a record and returns its new version.
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

    /// Deletes a record. Deleting a missing record succeeds, unless a version was expected.
    async fn delete(&self, kind: &str, key: &str, expected: Expect) -> Result<(), RecordError> {
        self.apply(vec![RecordChange::delete(kind, key, expected)]).await.map(drop)
    }
}

/// A record as stored.
#[derive(Clone, Debug, PartialEq)]
pub struct Record {
    /// Kind, a short word that the caller chooses: `grant`, `mode`.
    pub kind: String,
    /// Key, unique within the kind.
    pub key: String,
    /// Owner, by which records can be listed.
    pub owner: String,
    /// Content of the record.
    pub value: Value,
    /// Number of the change that wrote the record. Numbers are unique in a store, so that a deleted and recreated
    /// record has a different version.
    pub version: u64,
    /// Time at which the record was written.
    pub updated_at: Timestamp,
}

/// The version that a change expects.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Expect {
    /// The record must not exist.
    Absent,
    /// The record must have this version.
    Version(u64),
    /// No condition.
    Any,
}

impl Expect {
    /// Whether the found version satisfies the expectation; `None` means that the record does not exist.
    pub fn is_met(self, found: Option<u64>) -> bool {
        match self {
            Self::Absent => found.is_none(),
            Self::Version(version) => found == Some(version),
            Self::Any => true,
        }
    }
}

/// A conditional change of one record.
#[derive(Clone, Debug, PartialEq)]
pub struct RecordChange {
    /// Kind of the record.
    pub kind: String,
    /// Key of the record.
    pub key: String,
    /// Condition for the change.
    pub expected: Expect,
    /// The effect of the change.
    pub write: RecordWrite,
}

/// The effect of a change.
#[derive(Clone, Debug, PartialEq)]
pub enum RecordWrite {
    /// Writes the record.
    Put {
        /// New owner.
        owner: String,
        /// New content.
        value: Value,
    },
    /// Deletes the record.
    Delete,
    /// Only checks the condition, so that the other changes depend on it.
    Keep,
}

impl RecordChange {
    /// Creates a change that writes a record.
    pub fn put(kind: &str, key: &str, owner: &str, value: Value, expected: Expect) -> Self {
        let write = RecordWrite::Put { owner: owner.to_owned(), value };
        Self { kind: kind.to_owned(), key: key.to_owned(), expected, write }
    }

    /// Creates a change that deletes a record.
    pub fn delete(kind: &str, key: &str, expected: Expect) -> Self {
        let (kind, key) = (kind.to_owned(), key.to_owned());
        Self { kind, key, expected, write: RecordWrite::Delete }
    }

    /// Creates a change that only checks the condition on a record.
    pub fn keep(kind: &str, key: &str, expected: Expect) -> Self {
        let (kind, key) = (kind.to_owned(), key.to_owned());
        Self { kind, key, expected, write: RecordWrite::Keep }
    }

    /// Validates and encodes the change. Returns an error if the change exceeds the limits.
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

    /// Validates and encodes changes that are applied together.
    pub fn prepare_all(changes: Vec<Self>) -> Result<Vec<PreparedChange>, StoreError> {
        if changes.len() > CHANGES_MAX {
            let why = format!("{} changes of records at once; {CHANGES_MAX} are allowed", changes.len());
            return Err(StoreError::Refused { why });
        }
        changes.into_iter().map(Self::prepare).collect()
    }
}

/// A validated change, ready to be stored.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PreparedChange {
    /// Kind of the record.
    pub kind: String,
    /// Key of the record.
    pub key: String,
    /// Condition for the change.
    pub expected: Expect,
    /// The effect of the change.
    pub write: PreparedWrite,
}

/// The effect of a change, in stored form.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum PreparedWrite {
    /// Writes the record.
    Put {
        /// New owner.
        owner: String,
        /// New content as JSON.
        value: String,
    },
    /// Deletes the record.
    Delete,
    /// Only checks the condition.
    Keep,
}

impl PreparedChange {
    /// Returns a conflict if the found version does not satisfy the condition.
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
    // A value may be nested more deeply than the JSON parser accepts.
    serde_json::from_str::<Value>(&text).map_err(|error| StoreError::Refused {
        why: format!("the value of {kind} `{key}` could not be read back: {error}"),
    })?;
    Ok(text)
}

/// The reason why records were not changed.
#[derive(Debug, thiserror::Error)]
pub enum RecordError {
    /// A record has another version than expected. No record was changed.
    #[error("{kind} `{key}` was changed by somebody else; read it again")]
    Conflict {
        /// Kind of the record.
        kind: String,
        /// Key of the record.
        key: String,
        /// The version that was found; `None` if the record does not exist.
        found: Option<u64>,
    },
    /// The store rejected the change or failed.
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
