//! Changes of files, reported before they are made so that the old content can be kept.
//!
//! This module stores no contents: the recorder decides whether a change may be made. Changes that bypass the folder,
//! such as changes by commands, are not reported.

use std::collections::HashSet;
use std::fmt;
use std::io::{self, Read};
use std::sync::Arc;

use bytes::Bytes;
use cap_std::fs::{MetadataExt, PermissionsExt};
use windlass_machine::Digest;

use super::{FolderError, FolderPath, WorkingFolder, io_error, show};

/// Maximum size in bytes of a file whose old content is kept: tools edit text, and the store is not a disk backup.
const FILE_KEPT_MAX_BYTES: u64 = 8 * 1024 * 1024;

/// Records the old content of files before they are changed. May block. An error prevents the change.
pub trait ChangeRecorder: Send + Sync {
    /// Called before a file is changed.
    fn changing(&self, change: Changing) -> Result<(), String>;
}

/// A change that a tool is about to make.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Changing {
    /// Path relative to the folder, with every link resolved.
    pub path: String,
    /// The present file.
    pub before: FileFound,
    /// Digest and size of the new content; `None` if the file is deleted.
    pub after: Option<(Digest, u64)>,
}

/// The entry at a path.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum FileFound {
    /// The path has no entry.
    Missing,
    /// A file, with its permissions.
    File {
        /// Complete content.
        bytes: Bytes,
        /// Unix permission bits.
        mode: u32,
    },
    /// A file that is too large to be kept.
    TooLarge {
        /// Size of the file.
        size_bytes: u64,
    },
}

/// The present content of a path, compared with sizes of interest.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Now {
    /// The path has no file.
    Missing,
    /// A file with this digest.
    File(Digest),
    /// A file with another size.
    Other,
}

/// The recorder of a folder.
#[derive(Clone)]
pub(super) struct Recorder(Arc<dyn ChangeRecorder>);

impl fmt::Debug for Recorder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Recorder")
    }
}

impl WorkingFolder {
    /// Returns the same folder with a recorder that receives every change made through it.
    pub fn recorded_by(&self, recorder: Arc<dyn ChangeRecorder>) -> Self {
        Self { recorder: Some(Recorder(recorder)), ..self.clone() }
    }

    /// Reads the entry at a path without following a link.
    pub(crate) fn found(&self, path: &FolderPath) -> Result<FileFound, FolderError> {
        let file = match self.open_file(path) {
            Ok(file) => file,
            Err(FolderError::Missing(_)) => return Ok(FileFound::Missing),
            Err(error) => return Err(error),
        };
        let failed = |source| io_error("read", path.as_path(), source);
        let metadata = cap_std::fs::Metadata::from_file(&file).map_err(failed)?;
        let mut bytes = Vec::new();
        file.take(FILE_KEPT_MAX_BYTES + 1).read_to_end(&mut bytes).map_err(failed)?;
        if bytes.len() as u64 > FILE_KEPT_MAX_BYTES {
            return Ok(FileFound::TooLarge { size_bytes: metadata.size().max(bytes.len() as u64) });
        }
        // Record only permission bits: a restored file does not get a set-user bit.
        Ok(FileFound::File { bytes: bytes.into(), mode: metadata.permissions().mode() & 0o777 })
    }

    /// Returns the digest of the file at a path. A file whose size is not in `sizes` is not read.
    pub(crate) fn digest_of(&self, path: &FolderPath, sizes: &HashSet<u64>) -> Result<Now, FolderError> {
        let mut file = match self.open_file(path) {
            Ok(file) => file,
            Err(FolderError::Missing(_)) => return Ok(Now::Missing),
            Err(error) => return Err(error),
        };
        let failed = |source| io_error("read", path.as_path(), source);
        let size = file.metadata().map_err(failed)?.len();
        if !sizes.contains(&size) {
            return Ok(Now::Other);
        }
        let mut hasher = blake3::Hasher::new();
        io::copy(&mut file.by_ref().take(size + 1), &mut hasher).map_err(failed)?;
        Ok(Digest::from_hex(&hasher.finalize().to_hex()).map_or(Now::Other, Now::File))
    }

    /// Reports a change before it is made.
    pub(super) fn tell(&self, path: &FolderPath, after: Option<&[u8]>) -> Result<(), FolderError> {
        let Some(Recorder(recorder)) = &self.recorder else { return Ok(()) };
        let unrecorded = |why| FolderError::Unrecorded { path: show(path.as_path()), why };
        let name = path.as_path().to_str();
        let name = name.ok_or_else(|| unrecorded("its path is not UTF-8".to_owned()))?;
        let after = after.map(|bytes| (Digest::of(bytes), bytes.len() as u64));
        let change = Changing { path: name.to_owned(), before: self.found(path)?, after };
        recorder.changing(change).map_err(unrecorded)
    }
}
