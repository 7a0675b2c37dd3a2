//! Options of a store.
//!
//! `lib.rs` applies them to each connection.

use std::time::Duration;

/// Maximum time that a writer waits for another process's lock.
pub(super) const BUSY: Duration = Duration::from_secs(5);

/// Options for opening a store.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct StoreOptions {
    /// Which commits a power failure may lose.
    pub durability: Durability,
    /// Maximum size of the database in bytes, without the blobs in files. `None`: only the disk limits it.
    pub max_bytes: Option<u64>,
}

/// Which commits a power failure may lose. A process that dies loses no commit in either case.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Durability {
    /// No acknowledged commit: each commit is on disk before its response.
    #[default]
    Full,
    /// The most recent commits. The store stays consistent.
    Relaxed,
}
