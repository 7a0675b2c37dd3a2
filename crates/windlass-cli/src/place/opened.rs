//! The store that this process opened last. Error reports name the store, because an error
//! from a lower layer does not know it.

use std::path::PathBuf;
use std::sync::{Arc, PoisonError, RwLock};

pub struct OpenedStore {
    pub path: PathBuf,
    /// The flags with which a later command finds the same folder, store and model.
    pub flags: String,
}

static OPENED: RwLock<Option<Arc<OpenedStore>>> = RwLock::new(None);

/// Returns the store of this process; `None` before the first attempt to open a store.
pub fn opened() -> Option<Arc<OpenedStore>> {
    // The value under a poisoned lock is still complete.
    OPENED.read().unwrap_or_else(PoisonError::into_inner).clone()
}

/// Records the store. Called before the store is opened, so that the report of a failure to open it can name it.
pub fn remember(store: OpenedStore) {
    *OPENED.write().unwrap_or_else(PoisonError::into_inner) = Some(Arc::new(store));
}
