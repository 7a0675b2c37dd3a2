//! Changes of files, told before they are made, so that what was there can be kept.
//!
//! Nothing is kept here: whoever records says whether the change may be made. What goes round the folder, such as a
//! command, is not told.

use std::collections::HashSet;
use std::fmt;
use std::io::{self, Read};
use std::sync::Arc;

use bytes::Bytes;
use cap_std::fs::{MetadataExt, PermissionsExt};
use windlass_machine::Digest;

use super::{FolderError, FolderPath, WorkingFolder, io_error, show};

/// A larger file is not kept as it was: what tools edit is text, and the store is no backup of a disk.
const FILE_KEPT_MAX_BYTES: u64 = 8 * 1024 * 1024;

/// Records what a file was before it is changed. May block; an error keeps the change from being made.
pub trait ChangeRecorder: Send + Sync {
    /// A file is about to be changed.
    fn changing(&self, change: Changing) -> Result<(), String>;
}

/// A change that is about to be made.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Changing {
    /// The file, relative to the folder, with every link resolved.
    pub path: String,
    /// What is there.
    pub before: FileFound,
    /// Digest and size of what is to be there; `None` where the file is deleted.
    pub after: Option<(Digest, u64)>,
}

/// What is at a path.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum FileFound {
    /// Nothing.
    Missing,
    /// A file, with its permissions.
    File {
        /// All of it.
        bytes: Bytes,
        /// As Unix counts them.
        mode: u32,
    },
    /// A file that is too large to be kept.
    TooLarge {
        /// Its size.
        size_bytes: u64,
    },
}

/// What is at a path now, as far as it can be what a tool left.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Now {
    /// Nothing.
    Missing,
    /// A file of these bytes.
    File(Digest),
    /// A file of another size than any that is looked for.
    Other,
}

/// Who is told.
#[derive(Clone)]
pub(super) struct Recorder(Arc<dyn ChangeRecorder>);

impl fmt::Debug for Recorder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Recorder")
    }
}

impl WorkingFolder {
    /// The same folder; this recorder is told of every change that is made through it.
    pub fn recorded_by(&self, recorder: Arc<dyn ChangeRecorder>) -> Self {
        Self { recorder: Some(Recorder(recorder)), ..self.clone() }
    }

    /// What is at a path now, never through a link.
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
        // Only who may do what: a set-user bit is not given back to a file.
        Ok(FileFound::File { bytes: bytes.into(), mode: metadata.permissions().mode() & 0o777 })
    }

    /// Compares what is at a path now with files of these sizes; one of another size is not read.
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

    /// Tells of a change before it is made.
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
