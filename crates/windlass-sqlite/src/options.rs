//! Options of a store.
//!
//! `lib.rs` applies them to each connection.

use std::time::Duration;

/// How long a writer waits for another process's lock.
pub(super) const BUSY: Duration = Duration::from_secs(5);

/// How a store is opened.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct StoreOptions {
    /// What a power failure may lose.
    pub durability: Durability,
    /// Largest size of the database in bytes, without blobs in files; `None`: limited by the disk only.
    pub max_bytes: Option<u64>,
}

/// What a power failure may lose. A dying process loses nothing in either case.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Durability {
    /// Nothing that was acknowledged: each commit is on disk before its response.
    #[default]
    Full,
    /// The most recent commits; the store stays consistent.
    Relaxed,
}
