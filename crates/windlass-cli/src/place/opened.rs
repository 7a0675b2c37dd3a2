//! The store that this process opened last, for reports of failures: an error that comes from deep inside does not know it.

use std::path::PathBuf;
use std::sync::{Arc, PoisonError, RwLock};

/// What a report of a failure says of the store.
pub struct OpenedStore {
    /// The store's folder.
    pub path: PathBuf,
    /// Flags that a later command needs to find the same folder, store and model.
    pub flags: String,
}

static OPENED: RwLock<Option<Arc<OpenedStore>>> = RwLock::new(None);

/// The store that this process works on, once it has tried to open it.
pub fn opened() -> Option<Arc<OpenedStore>> {
    // A poisoned lock still holds a whole value.
    OPENED.read().unwrap_or_else(PoisonError::into_inner).clone()
}

/// Remembers a store before it is opened.
pub fn remember(store: OpenedStore) {
    *OPENED.write().unwrap_or_else(PoisonError::into_inner) = Some(Arc::new(store));
}
