//! What a call was about to do to a file: recorded before it is done, so that it can be taken back.
//!
//! Part of what is serialised for ever; no bytes of a file stand here.

use serde::{Deserialize, Serialize};

use crate::id::Digest;
use crate::message::BlobRef;

/// A change of one file, as it was about to be made. Whether it was made, the file itself tells.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct FileChange {
    /// The file, relative to the working folder, with every symbolic link resolved.
    pub path: String,
    /// What was there.
    pub before: FileImage,
    /// What is to be there.
    pub after: FileImage,
}

impl FileChange {
    /// The bytes that are kept of it.
    pub fn kept_bytes(&self) -> u64 {
        match &self.before {
            FileImage::Kept { blob, .. } => blob.size_bytes,
            FileImage::Missing | FileImage::Known { .. } | FileImage::TooLarge { .. } => 0,
        }
    }
}

/// What is at a path.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "state", rename_all = "snake_case")]
pub enum FileImage {
    /// Nothing.
    Missing,
    /// A file of which every byte is kept.
    Kept {
        /// Its bytes.
        blob: BlobRef,
        /// Its permissions, as Unix counts them.
        mode: u32,
    },
    /// A file that can be told from others and that is not kept.
    Known {
        /// Of its bytes.
        digest: Digest,
        /// How many those are.
        size_bytes: u64,
    },
    /// A file of which nothing but the size is known.
    TooLarge {
        /// Its size.
        size_bytes: u64,
    },
}

impl FileImage {
    /// The digest of its bytes, where there is a file of which it is known.
    pub fn digest(&self) -> Option<Digest> {
        match self {
            Self::Kept { blob, .. } => Some(blob.digest),
            Self::Known { digest, .. } => Some(*digest),
            Self::Missing | Self::TooLarge { .. } => None,
        }
    }
}
