//! The blob port: content-addressed bytes, never overwritten.
//!
//! Which blobs may go is known only to whoever holds the journals.

use async_trait::async_trait;
use bytes::Bytes;
use windlass_machine::{BlobRef, Digest};

use super::journal::StoreError;

/// Blobs below this size travel in the append that names them. (design: "Ports")
pub const APPEND_MAX_BYTES: usize = 1024 * 1024;

/// Content-addressed bytes. Digest and bytes always agree: a damaged blob is an error, never other bytes.
#[async_trait]
pub trait Blobs: Send + Sync {
    /// Stores bytes of any size; durable when it returns. Storing the same bytes again is free.
    async fn put(&self, blob: &BlobRef, bytes: Bytes) -> Result<(), StoreError>;

    /// Reads a blob, wherever it was stored; `None` where it does not exist.
    async fn get(&self, digest: &Digest) -> Result<Option<Bytes>, StoreError>;

    /// Begins to delete the blobs that nothing names and that were not stored lately. The engine calls it once an hour.
    async fn collect(&self) -> Result<(), StoreError>;
}
