//! Blobs: small ones are rows, large ones are files named by their digest.
//!
//! Nothing is overwritten, and every read verifies the digest.

pub(super) mod collect;

use std::path::{Path, PathBuf};
use std::sync::Arc;

use bytes::Bytes;
use object_store::local::LocalFileSystem;
use object_store::path::Path as Key;
use object_store::{ObjectStore, ObjectStoreExt, PutMode, PutOptions, PutPayload};
use rusqlite::params;
use windlass_engine::port::journal::StoreError;
use windlass_machine::{BlobRef, Digest};

use crate::database::Database;
use crate::node::private_folder;

/// The folder of large blobs.
pub(super) struct BlobFiles(Arc<dyn ObjectStore>);

impl BlobFiles {
    /// Opens the folder, and creates it if it is missing.
    pub fn open(store: &Path) -> Result<Self, StoreError> {
        let folder = folder(store);
        private_folder(&folder)?;
        // Without `with_fsync` a file is not on disk when `put` returns.
        let files = LocalFileSystem::new_with_prefix(&folder).map_err(files_error)?.with_fsync(true);
        Ok(Self(Arc::new(files)))
    }

    /// Writes a file unless it exists already. The caller must have recorded the intention: see `collect.rs`.
    pub async fn put(&self, blob: &BlobRef, bytes: Bytes) -> Result<(), StoreError> {
        let key = key(&blob.digest);
        let size_bytes = bytes.len() as u64;
        let create = PutOptions { mode: PutMode::Create, ..PutOptions::default() };
        match self.0.put_opts(&key, PutPayload::from(bytes.clone()), create).await {
            Ok(_) => return Ok(()),
            Err(object_store::Error::AlreadyExists { .. }) => {}
            Err(error) => return Err(files_error(error)),
        }
        // A file of a different size is damaged. Overwrite it with the correct bytes.
        if self.0.head(&key).await.map_err(files_error)?.size != size_bytes {
            self.0.put(&key, PutPayload::from(bytes)).await.map_err(files_error)?;
        }
        Ok(())
    }

    /// Reads a file.
    pub async fn get(&self, digest: &Digest) -> Result<Option<Bytes>, StoreError> {
        match self.0.get(&key(digest)).await {
            Ok(found) => found.bytes().await.map(Some).map_err(files_error),
            Err(object_store::Error::NotFound { .. }) => Ok(None),
            Err(error) => Err(files_error(error)),
        }
    }
}

/// Reads a blob that is stored as a row.
pub(super) fn row(db: &Database, digest: &Digest) -> Result<Option<Bytes>, StoreError> {
    const ROW: &str = "SELECT bytes FROM blobs WHERE digest = ?1";
    Ok(db.first(ROW, params![digest.as_bytes()], |row| {
        Ok(Bytes::copy_from_slice(row.get_ref(0)?.as_bytes()?))
    })?)
}

/// Returns a blob's object key. Two levels of folders keep each folder small enough to list.
fn key(digest: &Digest) -> Key {
    Key::from(place(&digest.to_string()))
}

/// Returns the path of a blob's file below the folder, given the hexadecimal digest.
pub(super) fn place(hex: &str) -> String {
    format!("{}/{hex}", hex.get(..2).unwrap_or_default())
}

/// Returns the folder in which a store keeps its large blobs.
pub(super) fn folder(store: &Path) -> PathBuf {
    store.join("blobs")
}

fn files_error(error: object_store::Error) -> StoreError {
    StoreError::Unavailable {
        why: format!("the folder `blobs`: {error}; look at the disk's space and rights"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn files_are_synced_before_a_write_returns() {
        let store = tempfile::tempdir().unwrap();
        let files = BlobFiles::open(store.path()).unwrap();
        // The library offers no other way to read the setting.
        let settings = format!("{:?}", files.0);
        assert!(settings.contains("fsync: true"), "{settings}");
    }
}
