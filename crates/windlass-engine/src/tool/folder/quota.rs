//! Limits the bytes in a folder, if the host program sets a limit.
//!
//! The program counts the bytes; one limit may cover several folders.

use std::fmt;
use std::sync::Arc;

use super::{FolderError, FolderPath, WorkingFolder, show};

/// A limit on the total size of files. The methods are called where blocking is allowed.
pub trait FolderQuota: Send + Sync {
    /// Reserves space for bytes that are about to be written. The
    /// error describes why they do not fit, worded for a model.
    fn take(&self, bytes: u64) -> Result<(), String>;

    /// Returns the current total size of all files in bytes. The error describes why the files cannot be counted.
    fn taken(&self) -> Result<u64, String>;

    /// Returns the maximum total size of all files in bytes.
    fn limit(&self) -> u64;
}

/// The limit of a folder.
#[derive(Clone)]
pub(super) struct Quota(Arc<dyn FolderQuota>);

impl fmt::Debug for Quota {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Quota")
    }
}

impl WorkingFolder {
    /// Sets a limit. File tools reject writes above the limit, and commands that exceed it are stopped.
    pub fn with_quota(self, quota: Arc<dyn FolderQuota>) -> Self {
        Self { quota: Some(Quota(quota)), ..self }
    }

    /// Returns the folder's limit, if it has one.
    pub fn quota(&self) -> Option<&Arc<dyn FolderQuota>> {
        self.quota.as_ref().map(|quota| &quota.0)
    }

    /// Reserves space for a file that is about to be written, minus the size of the file that it replaces.
    pub(super) fn take_room(&self, path: &FolderPath, bytes: u64) -> Result<(), FolderError> {
        let Some(quota) = self.quota() else { return Ok(()) };
        let replaced = self.metadata(path).map_or(0, |found| found.len());
        let more = bytes.saturating_sub(replaced);
        if more == 0 {
            return Ok(());
        }
        quota.take(more).map_err(|why| FolderError::NoRoom { path: show(path.as_path()), why })
    }
}
