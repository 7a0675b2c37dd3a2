//! Errors for paths in the working folder, worded for people and for models.
//!
//! Only the error for a folder that cannot be opened reveals where the folder is on the machine.

use std::io;
use std::path::PathBuf;

use thiserror::Error;

use super::{MAX_LINKS, MAX_PATH_BYTES};

/// The reason why a path in the working folder cannot be used. Models may see the text.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum FolderError {
    /// The working folder itself cannot be opened.
    #[error("cannot open the working folder `{}`: {source}", path.display())]
    Open {
        /// Path of the folder.
        path: PathBuf,
        /// The system's error.
        source: io::Error,
    },
    /// A protected path is not a valid glob.
    #[error("`{glob}` is not a glob: {source}")]
    Glob {
        /// The pattern.
        glob: String,
        /// The parse error.
        source: globset::Error,
    },
    /// The path is empty.
    #[error("the path is empty")]
    Empty,
    /// The path contains a NUL character.
    #[error("the path `{0}` contains a NUL character")]
    Nul(String),
    /// The path is longer than the system allows.
    #[error("the path `{path}` is {size_bytes} bytes long; at most {MAX_PATH_BYTES} are allowed")]
    TooLong {
        /// Beginning of the path.
        path: String,
        /// Length of the path.
        size_bytes: usize,
    },
    /// The path is outside the folder. The message omits the folder's
    /// location, because clients of a server should not learn it.
    #[error("`{0}` is outside the working folder; write paths relative to it")]
    Outside(String),
    /// A symbolic link on the path points outside.
    #[error("`{path}` leads out of the working folder through the symbolic link `{link}`")]
    LeadsOut {
        /// The path as given.
        path: String,
        /// The link.
        link: String,
    },
    /// The path contains too many symbolic links.
    #[error("`{0}` goes through more than {MAX_LINKS} symbolic links")]
    TooManyLinks(String),
    /// The path is protected from file tools.
    #[error("`{0}` is protected: file tools do not write it. Ask the user to change it")]
    Protected(String),
    /// The path belongs to the engine's store.
    #[error("`{0}` belongs to the engine's store, which tools neither read nor write")]
    Store(String),
    /// No entry exists at the path.
    #[error("`{0}` does not exist")]
    Missing(String),
    /// The path is a directory instead of a file.
    #[error("`{0}` is a directory")]
    Directory(String),
    /// The path is not a directory.
    #[error("`{0}` is not a directory")]
    NotDirectory(String),
    /// The path is a pipe, socket or device instead of a file.
    #[error("`{0}` is not a regular file")]
    NotRegular(String),
    /// The file is read-only.
    #[error("`{0}` is read-only")]
    ReadOnly(String),
    /// The old content could not be recorded, so the file was not changed.
    #[error("`{path}` was not changed: {why}")]
    Unrecorded {
        /// The path.
        path: String,
        /// The reason why recording failed.
        why: String,
    },
    /// The file would exceed the folder's quota.
    #[error("`{path}` was not written: {why}")]
    NoRoom {
        /// The path.
        path: String,
        /// The reason why the file does not fit.
        why: String,
    },
    /// A path resolves to another file than when the gate judged the call.
    #[error(
        "`{0}` resolves to another file than when the call was approved; nothing was changed; call the tool again"
    )]
    LeadsElsewhere(String),
    /// The entry was replaced while it was being opened.
    #[error("`{0}` changed while it was being opened; try again")]
    Changed(String),
    /// The system returned an error.
    #[error("cannot {action} `{path}`: {source}")]
    Io {
        /// The attempted operation.
        action: &'static str,
        /// The path.
        path: String,
        /// The system's error.
        source: io::Error,
    },
}
