//! A file change of a call. The change is recorded before the call makes it, so that it can be reverted.
//!
//! These types are part of the permanent journal format and contain no bytes of files.

use serde::{Deserialize, Serialize};

use crate::id::Digest;
use crate::message::BlobRef;

/// A planned change of one file. Only the file itself shows whether the change was made.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct FileChange {
    /// Path relative to the working folder, with every symbolic link resolved.
    pub path: String,
    /// Image of the file before the change.
    pub before: FileImage,
    /// Image of the file after the change.
    pub after: FileImage,
}

impl FileChange {
    /// Returns the number of stored bytes of the old content.
    pub fn kept_bytes(&self) -> u64 {
        match &self.before {
            FileImage::Kept { blob, .. } => blob.size_bytes,
            FileImage::Missing | FileImage::Known { .. } | FileImage::TooLarge { .. } => 0,
        }
    }
}

/// The state of a path.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "state", rename_all = "snake_case")]
pub enum FileImage {
    /// No file exists.
    Missing,
    /// A file whose whole content is stored.
    Kept {
        /// Reference to the content.
        blob: BlobRef,
        /// Unix permission bits.
        mode: u32,
    },
    /// A file that is identified by its digest, and whose content is not stored.
    Known {
        /// Digest of the content.
        digest: Digest,
        /// Size of the content.
        size_bytes: u64,
    },
    /// A file that was too large to read.
    TooLarge {
        /// Size of the file.
        size_bytes: u64,
    },
}

impl FileImage {
    /// Returns the digest of the content, if the file exists and its digest is known.
    pub fn digest(&self) -> Option<Digest> {
        match self {
            Self::Kept { blob, .. } => Some(blob.digest),
            Self::Known { digest, .. } => Some(*digest),
            Self::Missing | Self::TooLarge { .. } => None,
        }
    }
}
