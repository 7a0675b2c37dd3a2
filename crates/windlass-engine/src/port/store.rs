//! The store port: opens all parts of a store together.
//!
//! Each part has its own port. The engine never closes a store.

use std::path::Path;
use std::sync::Arc;

use async_trait::async_trait;

use super::blob::Blobs;
use super::bus::Bus;
use super::clock::Clock;
use super::journal::{Journal, StoreError};
use super::records::Records;

/// A store that the engine opens when it is built.
#[async_trait]
pub trait OpenStore: Send + Sync {
    /// Returns the folder that contains the store; `None` if the store is not on
    /// this machine's disk. The engine rejects a working folder that contains the
    /// store: an agent that can write to its own store could forge approvals.
    fn folder(&self) -> Option<&Path>;

    /// Opens the store. `clock` is the engine's clock.
    async fn open(&self, clock: Arc<dyn Clock>) -> Result<StoreParts, StoreError>;
}

/// The parts of an open store.
#[derive(Clone)]
pub struct StoreParts {
    /// Events, list views and inboxes.
    pub journal: Arc<dyn Journal>,
    /// Large contents.
    pub blobs: Arc<dyn Blobs>,
    /// Records outside the threads.
    pub records: Arc<dyn Records>,
    /// The bus between the processes that have the store open; `None` for a store of a single process.
    pub bus: Option<Arc<dyn Bus>>,
}
