//! The blob port: content-addressed bytes that are never overwritten.
//!
//! The store decides which blobs it deletes, because it has all journals.

use async_trait::async_trait;
use bytes::Bytes;
use windlass_machine::{BlobRef, Digest};

use super::journal::StoreError;

/// Size in bytes below which the driver includes a blob in the append that references it.
pub const APPEND_MAX_BYTES: usize = 1024 * 1024;

/// Content-addressed bytes. Digest and bytes always agree: a damaged blob is an error, never other bytes.
#[async_trait]
pub trait Blobs: Send + Sync {
    /// Stores bytes of any size. They are durable when the call returns. Storing the same bytes again is a no-op.
    async fn put(&self, blob: &BlobRef, bytes: Bytes) -> Result<(), StoreError>;

    /// Reads a blob that was stored by [`put`](Self::put) or by an append; `None` if the blob does not exist.
    async fn get(&self, digest: &Digest) -> Result<Option<Bytes>, StoreError>;

    /// Starts to delete blobs that no journal references and that were not stored recently. The engine calls it once
    /// an hour.
    async fn collect(&self) -> Result<(), StoreError>;
}
