//! Records as rows, changed alone or in an append.
//!
//! A record's value is stored as text; its version is the number of the change that wrote it.

use std::sync::Arc;

use sqlx::SqlitePool;
use windlass_engine::port::journal::StoreError;
use windlass_engine::port::records::{PreparedChange, PreparedWrite, Record, RecordError};

use super::checksum::checksum;
use super::column::{encode, stored, time};
use super::fault::{Fault, damaged, store_error};
use crate::writer::raw::{Raw, Row, Statement, Value};

const VERSION: &str = "SELECT version, owner FROM records WHERE kind = ?1 AND key = ?2";
const COUNT: &str = "UPDATE record_changes SET count = count + 1 RETURNING count";
const CHANGED: &str = "INSERT INTO record_kinds (kind, changed) VALUES (?1, ?2) \
    ON CONFLICT (kind) DO UPDATE SET changed = ?2";
const CHANGED_OF: &str = "INSERT INTO record_owners (kind, slot, changed) VALUES (?1, ?2, ?3) \
    ON CONFLICT (kind, slot) DO UPDATE SET changed = ?3";
const PUT: &str = "INSERT INTO records (kind, key, owner, version, updated_at, value) \
    VALUES (?1, ?2, ?3, ?4, ?5, ?6) ON CONFLICT (kind, key) DO UPDATE \
    SET owner = ?3, version = ?4, updated_at = ?5, value = ?6";
/// Slots that owners share: so many numbers are kept for each kind at most.
const SLOTS: i64 = 256;
const DELETE: &str = "DELETE FROM records WHERE kind = ?1 AND key = ?2";

/// The prepared statements of records.
pub(super) struct RecordRows {
    version: Statement,
    count: Statement,
    changed: Statement,
    changed_of: Statement,
    put: Statement,
    delete: Statement,
}

impl RecordRows {
    /// Prepares every statement.
    pub fn prepare(raw: &Arc<Raw>) -> Result<Self, Fault> {
        Ok(Self {
            version: raw.prepare(VERSION)?,
            count: raw.prepare(COUNT)?,
            changed: raw.prepare(CHANGED)?,
            changed_of: raw.prepare(CHANGED_OF)?,
            put: raw.prepare(PUT)?,
            delete: raw.prepare(DELETE)?,
        })
    }

    /// Makes changes one after the other; returns each record's new version.
    pub fn apply(
        &mut self,
        changes: &[PreparedChange],
        now_ms: u64,
    ) -> Result<Vec<Option<u64>>, RecordError> {
        changes.iter().map(|change| self.change(change, now_ms)).collect()
    }

    fn change(&mut self, change: &PreparedChange, now_ms: u64) -> Result<Option<u64>, RecordError> {
        let place = [Value::Text(&change.kind), Value::Text(&change.key)];
        let read = |row: &Row<'_>| (row.integer(0).cast_unsigned(), row.text(1).unwrap_or_default());
        let (found, known_owner) = self.version.first(&place, read)?.unzip();
        change.check(found)?;
        match &change.write {
            PreparedWrite::Keep => Ok(found),
            PreparedWrite::Delete => {
                if let Some(owner) = known_owner {
                    let version = self.count(&change.kind)?;
                    self.count_owner(&change.kind, &owner, version)?;
                    self.delete.run(&place)?;
                }
                Ok(None)
            }
            PreparedWrite::Put { owner, value } => {
                let version = self.count(&change.kind)?;
                self.count_owner(&change.kind, owner, version)?;
                if let Some(known) = known_owner.filter(|known| known != owner) {
                    self.count_owner(&change.kind, &known, version)?;
                }
                let [kind, key] = place;
                let (version_now, now) = (Value::number(version), Value::number(now_ms));
                self.put.run(&[kind, key, Value::Text(owner), version_now, now, Value::Text(value)])?;
                Ok(Some(version))
            }
        }
    }

    /// Raises the number of changes, and returns it as that of the kind's newest one.
    fn count(&mut self, kind: &str) -> Result<u64, StoreError> {
        let count = self.count.first(&[], |row| row.integer(0).cast_unsigned())?;
        let count = count.ok_or_else(|| damaged("the number of changes of records is gone"))?;
        self.changed.run(&[Value::Text(kind), Value::number(count)])?;
        Ok(count)
    }

    fn count_owner(&mut self, kind: &str, owner: &str, count: u64) -> Result<(), StoreError> {
        let row = [Value::Text(kind), Value::Integer(slot(owner)), Value::number(count)];
        self.changed_of.run(&row)?;
        Ok(())
    }
}

/// The slot of an owner.
fn slot(owner: &str) -> i64 {
    checksum(owner.as_bytes()).rem_euclid(SLOTS)
}

type Columns = (String, String, i64, i64, String);

/// Reads a record.
pub(super) async fn get(pool: &SqlitePool, kind: &str, key: &str) -> Result<Option<Record>, StoreError> {
    const GET: &str =
        "SELECT key, owner, version, updated_at, value FROM records WHERE kind = ?1 AND key = ?2";
    let row: Option<Columns> =
        sqlx::query_as(GET).bind(kind).bind(key).fetch_optional(pool).await.map_err(store_error)?;
    row.map(|row| record(kind, row)).transpose()
}

/// Reads records of a kind after a key.
pub(super) async fn list(
    pool: &SqlitePool,
    kind: &str,
    owner: Option<&str>,
    after: &str,
    limit: usize,
) -> Result<Vec<Record>, StoreError> {
    const OF_OWNER: &str = "SELECT key, owner, version, updated_at, value FROM records \
        WHERE kind = ?1 AND key > ?2 AND owner = ?4 ORDER BY key LIMIT ?3";
    const OF_ALL: &str = "SELECT key, owner, version, updated_at, value FROM records \
        WHERE kind = ?1 AND key > ?2 ORDER BY key LIMIT ?3";
    let query = match owner {
        Some(_) => sqlx::query_as(OF_OWNER),
        None => sqlx::query_as(OF_ALL),
    };
    let query = query.bind(kind).bind(after).bind(stored(limit));
    let query = match owner {
        Some(owner) => query.bind(owner),
        None => query,
    };
    let rows: Vec<Columns> = query.fetch_all(pool).await.map_err(store_error)?;
    rows.into_iter().map(|row| record(kind, row)).collect()
}

/// The newest change of each of some kinds.
pub(super) async fn changes(pool: &SqlitePool, kinds: &[&str]) -> Result<Vec<u64>, StoreError> {
    const CHANGES: &str = "SELECT coalesce(changed, 0) FROM json_each(?1) AS wanted \
        LEFT JOIN record_kinds ON kind = wanted.value ORDER BY wanted.key";
    let rows: Vec<i64> =
        sqlx::query_scalar(CHANGES).bind(encode(&kinds)).fetch_all(pool).await.map_err(store_error)?;
    Ok(rows.into_iter().map(i64::cast_unsigned).collect())
}

/// The newest change of the records of an owner in each of some kinds.
pub(super) async fn changes_of(pool: &SqlitePool, owned: &[(&str, &str)]) -> Result<Vec<u64>, StoreError> {
    const CHANGES_OF: &str = "SELECT coalesce(changed, 0) FROM json_each(?1) AS wanted \
        LEFT JOIN record_owners ON kind = wanted.value ->> 0 AND slot = wanted.value ->> 1 ORDER BY wanted.key";
    let wanted: Vec<(&str, i64)> = owned.iter().map(|(kind, owner)| (*kind, slot(owner))).collect();
    let rows: Vec<i64> =
        sqlx::query_scalar(CHANGES_OF).bind(encode(&wanted)).fetch_all(pool).await.map_err(store_error)?;
    Ok(rows.into_iter().map(i64::cast_unsigned).collect())
}

fn record(kind: &str, columns: Columns) -> Result<Record, StoreError> {
    let (key, owner, version, updated_at, value) = columns;
    let value = serde_json::from_str(&value).map_err(|error| damaged(&format!("{kind} `{key}`: {error}")))?;
    let (version, updated_at) = (version.cast_unsigned(), time(updated_at));
    Ok(Record { kind: kind.to_owned(), key, owner, value, version, updated_at })
}
