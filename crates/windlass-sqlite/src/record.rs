//! Stores records as rows, changed alone or in an append.
//!
//! A record's value is stored as text. Its version is the number of the change that wrote it.

use rusqlite::{Row, params};
use windlass_engine::port::journal::StoreError;
use windlass_engine::port::records::{PreparedChange, PreparedWrite, Record, RecordError};

use super::checksum::checksum;
use super::column::{encode, stored, time, whole};
use super::fault::damaged;
use crate::database::Database;

const VERSION: &str = "SELECT version, owner FROM records WHERE kind = ?1 AND key = ?2";
const COUNT: &str = "UPDATE record_changes SET count = count + 1 RETURNING count";
const CHANGED: &str = "INSERT INTO record_kinds (kind, changed) VALUES (?1, ?2) \
    ON CONFLICT (kind) DO UPDATE SET changed = ?2";
const CHANGED_OF: &str = "INSERT INTO record_owners (kind, slot, changed) VALUES (?1, ?2, ?3) \
    ON CONFLICT (kind, slot) DO UPDATE SET changed = ?3";
const PUT: &str = "INSERT INTO records (kind, key, owner, version, updated_at, value) \
    VALUES (?1, ?2, ?3, ?4, ?5, ?6) ON CONFLICT (kind, key) DO UPDATE \
    SET owner = ?3, version = ?4, updated_at = ?5, value = ?6";
/// Maximum number of change counters per kind. Owners are hashed to these slots.
const SLOTS: i64 = 256;
const DELETE: &str = "DELETE FROM records WHERE kind = ?1 AND key = ?2";

/// Applies changes in order. Returns each record's new version; `None` for a deleted record.
pub(super) fn apply(
    db: &Database,
    changes: &[PreparedChange],
    now_ms: u64,
) -> Result<Vec<Option<u64>>, RecordError> {
    changes.iter().map(|change| apply_one(db, change, now_ms)).collect()
}

fn apply_one(db: &Database, change: &PreparedChange, now_ms: u64) -> Result<Option<u64>, RecordError> {
    let (kind, key) = (change.kind.as_str(), change.key.as_str());
    let read = |row: &Row<'_>| Ok((row.get::<_, i64>(0)?.cast_unsigned(), row.get::<_, String>(1)?));
    let (found, known_owner) = db.first(VERSION, params![kind, key], read)?.unzip();
    change.check(found)?;
    match &change.write {
        PreparedWrite::Keep => Ok(found),
        PreparedWrite::Delete => {
            if let Some(owner) = known_owner {
                let version = count(db, kind)?;
                count_owner(db, kind, &owner, version)?;
                db.run(DELETE, params![kind, key])?;
            }
            Ok(None)
        }
        PreparedWrite::Put { owner, value } => {
            let version = count(db, kind)?;
            count_owner(db, kind, owner, version)?;
            if let Some(known) = known_owner.filter(|known| known != owner) {
                count_owner(db, kind, &known, version)?;
            }
            db.run(PUT, params![kind, key, owner, whole(version), whole(now_ms), value])?;
            Ok(Some(version))
        }
    }
}

/// Increments the kind's number of changes, and returns it as the number of the newest change.
fn count(db: &Database, kind: &str) -> Result<u64, StoreError> {
    let count = db.first(COUNT, [], |row| row.get::<_, i64>(0))?;
    let count = count.ok_or_else(|| damaged("the number of changes of records is gone"))?;
    db.run(CHANGED, params![kind, count])?;
    Ok(count.cast_unsigned())
}

fn count_owner(db: &Database, kind: &str, owner: &str, count: u64) -> Result<(), StoreError> {
    db.run(CHANGED_OF, params![kind, slot(owner), whole(count)])?;
    Ok(())
}

/// Returns the slot of an owner.
fn slot(owner: &str) -> i64 {
    checksum(owner.as_bytes()).rem_euclid(SLOTS)
}

/// Reads a record.
pub(super) fn get(db: &Database, kind: &str, key: &str) -> Result<Option<Record>, StoreError> {
    const GET: &str =
        "SELECT key, owner, version, updated_at, value FROM records WHERE kind = ?1 AND key = ?2";
    db.first(GET, params![kind, key], |row| record(kind, row))?.transpose()
}

/// Reads a kind's records whose keys follow a given key.
pub(super) fn list(
    db: &Database,
    kind: &str,
    owner: Option<&str>,
    after: &str,
    limit: usize,
) -> Result<Vec<Record>, StoreError> {
    const OF_OWNER: &str = "SELECT key, owner, version, updated_at, value FROM records \
        WHERE kind = ?1 AND key > ?2 AND owner = ?4 ORDER BY key LIMIT ?3";
    const OF_ALL: &str = "SELECT key, owner, version, updated_at, value FROM records \
        WHERE kind = ?1 AND key > ?2 ORDER BY key LIMIT ?3";
    let read = |row: &Row<'_>| record(kind, row);
    let limit = stored(limit);
    let rows = match owner {
        Some(owner) => db.all(OF_OWNER, params![kind, after, limit, owner], read),
        None => db.all(OF_ALL, params![kind, after, limit], read),
    };
    rows?.into_iter().collect()
}

/// Returns the number of the newest change of each given kind.
pub(super) fn changes(db: &Database, kinds: &[&str]) -> Result<Vec<u64>, StoreError> {
    const CHANGES: &str = "SELECT coalesce(changed, 0) FROM json_each(?1) AS wanted \
        LEFT JOIN record_kinds ON kind = wanted.value ORDER BY wanted.key";
    Ok(db.all(CHANGES, params![encode(&kinds)], |row| row.get(0).map(i64::cast_unsigned))?)
}

/// Returns the number of the newest change to an owner's records, for each given kind.
pub(super) fn changes_of(db: &Database, owned: &[(&str, &str)]) -> Result<Vec<u64>, StoreError> {
    const CHANGES_OF: &str = "SELECT coalesce(changed, 0) FROM json_each(?1) AS wanted \
        LEFT JOIN record_owners ON kind = wanted.value ->> 0 AND slot = wanted.value ->> 1 ORDER BY wanted.key";
    let wanted: Vec<(&str, i64)> = owned.iter().map(|(kind, owner)| (*kind, slot(owner))).collect();
    Ok(db.all(CHANGES_OF, params![encode(&wanted)], |row| row.get(0).map(i64::cast_unsigned))?)
}

fn record(kind: &str, row: &Row<'_>) -> rusqlite::Result<Result<Record, StoreError>> {
    let key: String = row.get(0)?;
    let value = match serde_json::from_str(row.get_ref(4)?.as_str()?) {
        Ok(value) => value,
        Err(error) => return Ok(Err(damaged(&format!("{kind} `{key}`: {error}")))),
    };
    Ok(Ok(Record {
        kind: kind.to_owned(),
        key,
        owner: row.get(1)?,
        value,
        version: row.get(2).map(i64::cast_unsigned)?,
        updated_at: time(row.get(3)?),
    }))
}
