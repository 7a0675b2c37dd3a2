//! `[files]`: limits on uploads, and the working folder of new threads.

use serde::Deserialize;

/// Default maximum size of an upload, in bytes: the limit of model providers for documents.
const MAX_BYTES: u64 = 25 * 1024 * 1024;
/// Default quota of a user, in bytes.
const MAX_TOTAL_BYTES: u64 = 1024 * 1024 * 1024;

/// `[files]`.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct FilesFile {
    /// Maximum size of a file, in bytes.
    pub max_bytes: Option<u64>,
    /// Quota of a user's uploads and thread folders, in bytes. Uploads beyond it are rejected.
    pub max_total_bytes: Option<u64>,
    /// Allowed file name extensions, such as `pdf`. `None` allows all; an empty list allows none.
    pub extensions: Option<Vec<String>>,
    /// Working folder of new threads.
    pub folder: Option<FolderWord>,
}

/// `folder = "conversation" | "user"`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum FolderWord {
    /// A separate folder for each thread.
    #[default]
    Conversation,
    /// One folder shared by all such threads of a user. (ZE-C15)
    User,
}

impl FilesFile {
    /// Merges two layers, key by key; `self` takes precedence.
    pub fn over(self, weaker: Self) -> Self {
        Self {
            max_bytes: self.max_bytes.or(weaker.max_bytes),
            max_total_bytes: self.max_total_bytes.or(weaker.max_total_bytes),
            extensions: self.extensions.or(weaker.extensions),
            folder: self.folder.or(weaker.folder),
        }
    }

    pub fn max_bytes(&self) -> u64 {
        self.max_bytes.unwrap_or(MAX_BYTES)
    }

    pub fn max_total_bytes(&self) -> u64 {
        self.max_total_bytes.unwrap_or(MAX_TOTAL_BYTES)
    }

    pub fn folder(&self) -> FolderWord {
        self.folder.unwrap_or_default()
    }

    /// Returns whether a user may upload a file with this name.
    pub fn takes(&self, name: &str) -> bool {
        let Some(extensions) = &self.extensions else { return true };
        let extension = name.rsplit_once('.').map_or("", |(_, extension)| extension);
        extensions.iter().any(|known| known.trim_start_matches('.').eq_ignore_ascii_case(extension))
    }
}
