//! Why a path in the working folder cannot be used, in words for people and for models.
//!
//! Where the folder lies on the machine is not told, except by the error that it cannot be opened.

use std::io;
use std::path::PathBuf;

use thiserror::Error;

use super::{MAX_LINKS, MAX_PATH_BYTES};

/// Why a path in the working folder cannot be used. The text is meant for the model as well.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum FolderError {
    /// The working folder itself cannot be opened.
    #[error("cannot open the working folder `{}`: {source}", path.display())]
    Open {
        /// The folder.
        path: PathBuf,
        /// Why.
        source: io::Error,
    },
    /// A protected path is not a glob.
    #[error("`{glob}` is not a glob: {source}")]
    Glob {
        /// The pattern.
        glob: String,
        /// Why.
        source: globset::Error,
    },
    /// The path is empty.
    #[error("the path is empty")]
    Empty,
    /// The path contains a NUL.
    #[error("the path `{0}` contains a NUL character")]
    Nul(String),
    /// The path is longer than the system takes.
    #[error("the path `{path}` is {size_bytes} bytes long; at most {MAX_PATH_BYTES} are allowed")]
    TooLong {
        /// Its beginning.
        path: String,
        /// Its length.
        size_bytes: usize,
    },
    /// The path lies outside. Where the folder lies is not said: on a server that is the operator's business.
    #[error("`{0}` is outside the working folder; write paths relative to it")]
    Outside(String),
    /// A symbolic link on the path leads outside.
    #[error("`{path}` leads out of the working folder through the symbolic link `{link}`")]
    LeadsOut {
        /// The path as given.
        path: String,
        /// The link.
        link: String,
    },
    /// Too many symbolic links.
    #[error("`{0}` goes through more than {MAX_LINKS} symbolic links")]
    TooManyLinks(String),
    /// The path is protected from file tools.
    #[error("`{0}` is protected: file tools do not write it. Ask the user to change it")]
    Protected(String),
    /// The path belongs to the store.
    #[error("`{0}` belongs to the engine's store, which tools neither read nor write")]
    Store(String),
    /// Nothing is there.
    #[error("`{0}` does not exist")]
    Missing(String),
    /// A directory is there where a file is meant.
    #[error("`{0}` is a directory")]
    Directory(String),
    /// Something else is there where a directory is meant.
    #[error("`{0}` is not a directory")]
    NotDirectory(String),
    /// A pipe, socket or device is there where a file is meant.
    #[error("`{0}` is not a regular file")]
    NotRegular(String),
    /// The file may not be written.
    #[error("`{0}` is read-only")]
    ReadOnly(String),
    /// It could not be recorded what the file was before the change.
    #[error("`{path}` was not changed: {why}")]
    Unrecorded {
        /// The path.
        path: String,
        /// Why.
        why: String,
    },
    /// It would hold more than there is room for.
    #[error("`{path}` was not written: {why}")]
    NoRoom {
        /// The path.
        path: String,
        /// Why it does not fit.
        why: String,
    },
    /// A path resolves to another file than when the gate judged the call.
    #[error(
        "`{0}` resolves to another file than when the call was approved; nothing was changed; call the tool again"
    )]
    LeadsElsewhere(String),
    /// Something was swapped while it was opened.
    #[error("`{0}` changed while it was being opened; try again")]
    Changed(String),
    /// The system refused.
    #[error("cannot {action} `{path}`: {source}")]
    Io {
        /// What was tried.
        action: &'static str,
        /// The path.
        path: String,
        /// Why.
        source: io::Error,
    },
}
