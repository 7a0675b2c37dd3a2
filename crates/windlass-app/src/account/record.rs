//! Account records between their types and the store's JSON, and the one way in which they are changed: together
//! with the entry of the audit log that says so.

use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::Value;
use windlass::port::journal::StoreError;
use windlass::port::records::{Expect, Record, RecordChange};

use super::Accounts;

/// Records read at a time.
pub(super) const PAGE: usize = 500;

/// A record's value as its type.
pub(super) fn read<T: DeserializeOwned>(record: Record) -> Result<T, StoreError> {
    let Record { kind, key, value, .. } = record;
    serde_json::from_value(value)
        .map_err(|error| StoreError::Corrupt { why: format!("the {kind} `{key}` cannot be read: {error}") })
}

/// Writes a record.
pub(super) fn put(
    kind: &str,
    key: &str,
    owner: &str,
    value: &impl Serialize,
    expected: Expect,
) -> RecordChange {
    // Our own types: strings, numbers and lists of them, which are always JSON.
    let value = serde_json::to_value(value).unwrap_or(Value::Null);
    RecordChange::put(kind, key, owner, value, expected)
}

impl Accounts {
    /// Every record of a kind, of one owner or of all. Only for kinds whose number has a limit.
    pub(super) async fn every(&self, kind: &str, owner: Option<&str>) -> Result<Vec<Record>, StoreError> {
        let mut all: Vec<Record> = Vec::new();
        loop {
            let after = all.last().map(|record| record.key.clone());
            let page = self.records.list(kind, owner, after.as_deref(), PAGE).await?;
            let last = page.len() < PAGE;
            all.extend(page);
            if last {
                return Ok(all);
            }
        }
    }
}
