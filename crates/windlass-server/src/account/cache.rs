//! An in-memory cache of records of one kind.
//!
//! The cached records are valid for the newest change of that kind; any later change empties the cache. So a revocation
//! by another process takes effect with the next request.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};

/// Maximum number of cached records.
const CACHED: usize = 10_000;

/// Cached records of one kind, by key.
#[derive(Debug)]
pub(super) struct RecordCache<T>(Mutex<Known<T>>);

#[derive(Debug)]
struct Known<T> {
    /// The newest change of the kind at the time of reading.
    changes: u64,
    /// The value `None` means that the key has no record.
    records: HashMap<String, Option<Arc<T>>>,
}

impl<T> Default for RecordCache<T> {
    fn default() -> Self {
        Self(Mutex::new(Known { changes: 0, records: HashMap::new() }))
    }
}

impl<T> RecordCache<T> {
    /// Looks up a key, given the newest change of the kind. Returns an outer `None` if the caller must read the record.
    pub fn find(&self, changes: u64, key: &str) -> Option<Option<Arc<T>>> {
        let known = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if known.changes == changes { known.records.get(key).cloned() } else { None }
    }

    /// Caches a record that was read after `changes` had been read.
    pub fn keep(&self, changes: u64, key: &str, record: Option<Arc<T>>) {
        let mut known = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if known.changes < changes {
            *known = Known { changes, records: HashMap::new() };
        }
        // A concurrent request may have seen a newer change already.
        if known.changes == changes && known.records.len() < CACHED {
            known.records.insert(key.to_owned(), record);
        }
    }
}
