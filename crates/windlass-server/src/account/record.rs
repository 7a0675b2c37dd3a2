//! Conversion of account records, and constants that all kinds share.

use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::Value;
use windlass::port::journal::StoreError;
use windlass::port::records::{Expect, Record, RecordChange};

/// Kind and key of the record that marks the first account as registered.
pub(super) const FIRST: &str = "first_account";

/// Number of records that one read of the store returns.
pub(super) const PAGE: usize = 500;

/// Parses a record's value.
pub(super) fn read<T: DeserializeOwned>(record: Record) -> Result<T, StoreError> {
    let Record { kind, key, value, .. } = record;
    serde_json::from_value(value)
        .map_err(|error| StoreError::Corrupt { why: format!("the {kind} `{key}` cannot be read: {error}") })
}

/// Builds the change that writes a record.
pub(super) fn put(
    kind: &str,
    key: &str,
    owner: &str,
    value: &impl Serialize,
    expected: Expect,
) -> RecordChange {
    // Invariant: our own types contain only strings, numbers and lists of them, so they always serialize.
    let value = serde_json::to_value(value).unwrap_or(Value::Null);
    RecordChange::put(kind, key, owner, value, expected)
}
