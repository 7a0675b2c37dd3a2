//! The blob port: content-addressed bytes that are never overwritten.
//!
//! Only a store that can see all journals knows which blobs it may delete.

use async_trait::async_trait;
use bytes::Bytes;
use windlass_machine::{BlobRef, Digest};

use super::journal::StoreError;

/// The driver includes blobs below this size in the append that references them.
pub const APPEND_MAX_BYTES: usize = 1024 * 1024;

/// Content-addressed bytes. Digest and bytes always agree: a damaged blob is an error, never other bytes.
#[async_trait]
pub trait Blobs: Send + Sync {
    /// Stores bytes of any size. They are durable when the call returns. Storing the same bytes again is a no-op.
    async fn put(&self, blob: &BlobRef, bytes: Bytes) -> Result<(), StoreError>;

    /// Reads a blob, however it was stored; `None` if it does not exist.
    async fn get(&self, digest: &Digest) -> Result<Option<Bytes>, StoreError>;

    /// Starts to delete blobs that no journal references and that were not stored recently. The engine calls it once
    /// an hour.
    async fn collect(&self) -> Result<(), StoreError>;
}
