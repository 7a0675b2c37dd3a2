//! The folder from which an engine opens the store and its bus.
//!
//! Reads nothing before the store is opened.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use async_trait::async_trait;
use windlass_engine::port::clock::Clock;
use windlass_engine::port::journal::StoreError;
use windlass_engine::port::store::{OpenStore, StoreParts};

use super::bus::SocketBus;
use super::{SqliteStore, StoreOptions};

/// A folder that contains a store, or will contain one once the store is opened.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SqliteFolder {
    path: PathBuf,
    options: StoreOptions,
}

impl SqliteFolder {
    /// Takes the folder's path. Opening the store creates a missing folder.
    pub fn new(path: impl Into<PathBuf>) -> Self {
        Self { path: path.into(), options: StoreOptions::default() }
    }

    /// Sets how the store is opened.
    pub fn options(mut self, options: StoreOptions) -> Self {
        self.options = options;
        self
    }
}

#[async_trait]
impl OpenStore for SqliteFolder {
    fn folder(&self) -> Option<&Path> {
        Some(&self.path)
    }

    async fn open(&self, clock: Arc<dyn Clock>) -> Result<StoreParts, StoreError> {
        let store = Arc::new(SqliteStore::open(&self.path, self.options, clock).await?);
        let bus = SocketBus::open(store.node().clone(), store.clone())?;
        let parts = StoreParts {
            journal: store.clone(),
            blobs: store.clone(),
            records: store,
            bus: Some(Arc::new(bus)),
        };
        Ok(parts)
    }
}
