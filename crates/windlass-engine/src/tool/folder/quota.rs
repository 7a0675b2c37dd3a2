//! How many bytes may be written into a folder, where its program sets a limit.
//!
//! What files hold is counted by the program, which may have several folders under one limit.

use std::fmt;
use std::sync::Arc;

use super::{FolderError, FolderPath, WorkingFolder, show};

/// A limit of the bytes that files may hold. It is asked where blocking is allowed.
pub trait FolderQuota: Send + Sync {
    /// Takes room for bytes that are about to be written. The error says why they do not fit, in words for a model.
    fn take(&self, bytes: u64) -> Result<(), String>;

    /// The bytes that files hold now. The error says why that is not known.
    fn taken(&self) -> Result<u64, String>;

    /// The bytes that files may hold.
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
    /// Limits what may be written: file tools are refused what does not fit, and commands that write more are stopped.
    pub fn with_quota(self, quota: Arc<dyn FolderQuota>) -> Self {
        Self { quota: Some(Quota(quota)), ..self }
    }

    /// The limit on what the folder may hold, if it has one.
    pub fn quota(&self) -> Option<&Arc<dyn FolderQuota>> {
        self.quota.as_ref().map(|quota| &quota.0)
    }

    /// Takes room for a file that is about to be written. The file that it replaces makes room.
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
