//! Records in memory, as they were at the newest change of their kind.
//!
//! A change of any record of the kind empties the cache, so that what another process ended ends here with the next
//! request.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};

/// Records in memory.
const CACHED: usize = 10_000;

/// Records of one kind as they were last read, by key.
#[derive(Debug)]
pub(super) struct RecordCache<T>(Mutex<Known<T>>);

#[derive(Debug)]
struct Known<T> {
    /// The newest change of the kind when they were read.
    changes: u64,
    /// `None` for a key without a record.
    records: HashMap<String, Option<Arc<T>>>,
}

impl<T> Default for RecordCache<T> {
    fn default() -> Self {
        Self(Mutex::new(Known { changes: 0, records: HashMap::new() }))
    }
}

impl<T> RecordCache<T> {
    /// The record of a key at the newest change of the kind; the outer `None` says that it has to be read.
    pub fn find(&self, changes: u64, key: &str) -> Option<Option<Arc<T>>> {
        let known = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if known.changes == changes { known.records.get(key).cloned() } else { None }
    }

    /// Keeps what was read after `changes` was.
    pub fn keep(&self, changes: u64, key: &str, record: Option<Arc<T>>) {
        let mut known = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if known.changes < changes {
            *known = Known { changes, records: HashMap::new() };
        }
        // Another request may have seen a newer change by now.
        if known.changes == changes && known.records.len() < CACHED {
            known.records.insert(key.to_owned(), record);
        }
    }
}
