//! Records in memory.
//!
//! All changes of a call are validated before the first change is applied.

use std::collections::BTreeMap;
use std::ops::Bound;
use std::sync::Arc;

use windlass_machine::Timestamp;

use crate::port::journal::StoreError;
use crate::port::records::{PreparedChange, PreparedWrite, Record, RecordError};

#[derive(Default)]
pub(super) struct RecordRows {
    rows: BTreeMap<(String, String), Row>,
    /// Number of the newest change.
    count: u64,
    /// Number of the newest change of each kind.
    changed: BTreeMap<String, u64>,
    /// Number of the newest change of each owner's records of a kind.
    changed_of: BTreeMap<(String, String), u64>,
}

struct Row {
    owner: String,
    version: u64,
    updated_at: Timestamp,
    // As text, so that an unreadable value fails as in other stores.
    value: Arc<str>,
}

/// Validated changes.
pub(super) struct Plan {
    changes: Vec<PreparedChange>,
    /// The new version of each record.
    pub versions: Vec<Option<u64>>,
    count: u64,
    changed: BTreeMap<String, u64>,
}

impl RecordRows {
    /// Checks whether the changes can be applied in order.
    pub fn plan(&self, changes: Vec<PreparedChange>) -> Result<Plan, RecordError> {
        let mut count = self.count;
        let (mut planned, mut changed) = (BTreeMap::new(), BTreeMap::new());
        let mut versions = Vec::with_capacity(changes.len());
        for change in &changes {
            let place = (change.kind.clone(), change.key.clone());
            let kept = || self.rows.get(&place).map(|row| row.version);
            let found = planned.get(&place).copied().unwrap_or_else(kept);
            change.check(found)?;
            let before = count;
            let version = match &change.write {
                PreparedWrite::Keep => found,
                PreparedWrite::Put { .. } => {
                    count += 1;
                    Some(count)
                }
                PreparedWrite::Delete => {
                    count += u64::from(found.is_some());
                    None
                }
            };
            if count > before {
                changed.insert(change.kind.clone(), count);
            }
            planned.insert(place, version);
            versions.push(version);
        }
        Ok(Plan { changes, versions, count, changed })
    }

    /// Applies the changes of a plan.
    pub fn write(&mut self, plan: Plan, now: Timestamp) {
        for (change, version) in plan.changes.into_iter().zip(plan.versions) {
            let place = (change.kind, change.key);
            let known = self.rows.get(&place).map(|row| row.owner.clone());
            if let Some(owner) = known.filter(|_| change.write != PreparedWrite::Keep) {
                self.changed_of.insert((place.0.clone(), owner), plan.count);
            }
            match (change.write, version) {
                (PreparedWrite::Keep, _) => {}
                (PreparedWrite::Put { owner, value }, Some(version)) => {
                    self.changed_of.insert((place.0.clone(), owner.clone()), plan.count);
                    let row = Row { owner, version, updated_at: now, value: value.into() };
                    self.rows.insert(place, row);
                }
                (PreparedWrite::Put { .. }, None) | (PreparedWrite::Delete, _) => {
                    self.rows.remove(&place);
                }
            }
        }
        self.count = plan.count;
        self.changed.extend(plan.changed);
    }

    /// See [`Records::changes`](crate::port::records::Records::changes).
    pub fn changes(&self, kinds: &[&str]) -> Vec<u64> {
        kinds.iter().map(|kind| self.changed.get(*kind).copied().unwrap_or_default()).collect()
    }

    /// See [`Records::changes_of`](crate::port::records::Records::changes_of).
    pub fn changes_of(&self, owned: &[(&str, &str)]) -> Vec<u64> {
        let newest = |(kind, owner): &(&str, &str)| {
            self.changed_of.get(&((*kind).to_owned(), (*owner).to_owned())).copied().unwrap_or_default()
        };
        owned.iter().map(newest).collect()
    }

    /// See [`Records::get`](crate::port::records::Records::get).
    pub fn get(&self, kind: &str, key: &str) -> Result<Option<Record>, StoreError> {
        let place = (kind.to_owned(), key.to_owned());
        self.rows.get(&place).map(|row| record(&place, row)).transpose()
    }

    /// See [`Records::list`](crate::port::records::Records::list).
    pub fn list(
        &self,
        kind: &str,
        owner: Option<&str>,
        after: Option<&str>,
        limit: usize,
    ) -> Result<Vec<Record>, StoreError> {
        let from = (kind.to_owned(), after.unwrap_or_default().to_owned());
        let rows = self.rows.range((Bound::Excluded(from), Bound::Unbounded));
        rows.take_while(|((found, _), _)| found == kind)
            .filter(|(_, row)| owner.is_none_or(|owner| row.owner == owner))
            .take(limit)
            .map(|(place, row)| record(place, row))
            .collect()
    }

    /// Replaces the text of a record's value.
    pub fn overwrite(&mut self, kind: &str, key: &str, value: &str) -> Result<(), StoreError> {
        let row = self.rows.get_mut(&(kind.to_owned(), key.to_owned()));
        let row = row.ok_or_else(|| StoreError::NotFound { what: format!("{kind} `{key}`") })?;
        row.value = value.into();
        Ok(())
    }
}

fn record((kind, key): &(String, String), row: &Row) -> Result<Record, StoreError> {
    let value = serde_json::from_str(&row.value)
        .map_err(|error| StoreError::Corrupt { why: format!("{kind} `{key}`: {error}") })?;
    Ok(Record {
        kind: kind.clone(),
        key: key.clone(),
        owner: row.owner.clone(),
        value,
        version: row.version,
        updated_at: row.updated_at,
    })
}
