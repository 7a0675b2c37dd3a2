//! The store that this process opened last. Error reports name it, because an error from a lower layer does not know
//! it.

use std::path::PathBuf;
use std::sync::{Arc, PoisonError, RwLock};

pub struct OpenedStore {
    pub path: PathBuf,
    /// The flags with which a later command finds the same folder, store and model.
    pub flags: String,
}

static OPENED: RwLock<Option<Arc<OpenedStore>>> = RwLock::new(None);

/// The store of this process; `None` before the first attempt to open one.
pub fn opened() -> Option<Arc<OpenedStore>> {
    // A poisoned lock still holds a complete value.
    OPENED.read().unwrap_or_else(PoisonError::into_inner).clone()
}

/// Sets the store. Called before it is opened, so that a failure to open names it too.
pub fn remember(store: OpenedStore) {
    *OPENED.write().unwrap_or_else(PoisonError::into_inner) = Some(Arc::new(store));
}
