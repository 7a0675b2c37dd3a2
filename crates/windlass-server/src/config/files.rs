//! `[files]`: what people may upload to a server, and which folder their conversations work in.

use serde::Deserialize;

/// Largest upload, unless said otherwise: what providers take of a document.
const MAX_BYTES: u64 = 25 * 1024 * 1024;
/// What all uploads of a user may have together, unless said otherwise.
const MAX_TOTAL_BYTES: u64 = 1024 * 1024 * 1024;

/// `[files]`.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct FilesFile {
    /// Bytes of one file at most.
    pub max_bytes: Option<u64>,
    /// Bytes of a user's uploads and conversations' folders together, beyond which nothing more is uploaded.
    pub max_total_bytes: Option<u64>,
    /// Ends of names that may be uploaded, such as `pdf`; absent: any; an empty list: none.
    pub extensions: Option<Vec<String>>,
    /// Which folder the tools of a new conversation work in.
    pub folder: Option<FolderWord>,
}

/// `folder = "conversation" | "user"`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum FolderWord {
    /// One of its own.
    #[default]
    Conversation,
    /// The one that all such conversations of its user have. (ZE-C15)
    User,
}

impl FilesFile {
    /// This layer over a weaker one, key by key.
    pub fn over(self, weaker: Self) -> Self {
        Self {
            max_bytes: self.max_bytes.or(weaker.max_bytes),
            max_total_bytes: self.max_total_bytes.or(weaker.max_total_bytes),
            extensions: self.extensions.or(weaker.extensions),
            folder: self.folder.or(weaker.folder),
        }
    }

    /// Bytes of one file at most.
    pub fn max_bytes(&self) -> u64 {
        self.max_bytes.unwrap_or(MAX_BYTES)
    }

    /// Bytes of a user's uploads together at most.
    pub fn max_total_bytes(&self) -> u64 {
        self.max_total_bytes.unwrap_or(MAX_TOTAL_BYTES)
    }

    /// Which folder the tools of a new conversation work in.
    pub fn folder(&self) -> FolderWord {
        self.folder.unwrap_or_default()
    }

    /// Whether files with this name may be uploaded.
    pub fn takes(&self, name: &str) -> bool {
        let Some(extensions) = &self.extensions else { return true };
        let extension = name.rsplit_once('.').map_or("", |(_, extension)| extension);
        extensions.iter().any(|known| known.trim_start_matches('.').eq_ignore_ascii_case(extension))
    }
}
