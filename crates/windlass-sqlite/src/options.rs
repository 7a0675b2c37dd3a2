//! Options of a store.
//!
//! `mod.rs` applies them to each connection.

use std::time::Duration;

/// How long a writer waits for another process's lock. (design: "One machine, many machines")
pub(super) const BUSY: Duration = Duration::from_secs(5);

/// How a store is opened.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct StoreOptions {
    /// What a power cut may take.
    pub durability: Durability,
    /// The database's largest size in bytes, blobs in files excepted; `None`: the disk's.
    pub max_bytes: Option<u64>,
}

/// What a power cut may take. A dying process takes nothing either way.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Durability {
    /// Nothing that was acknowledged: each commit is on disk before it is answered.
    #[default]
    Full,
    /// The last moments before it; the store stays whole.
    Relaxed,
}
