//! Account records between their types and the store's JSON, and the one way in which they are changed: together
//! with the entry of the audit log that says so.

use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::Value;
use windlass::port::journal::StoreError;
use windlass::port::records::{Expect, Record, RecordChange};

/// The kind and the key of the one record that says that the first account was registered without a link.
pub(super) const FIRST: &str = "first_account";

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
