//! The report on the folder of a fork: which files match the history, and which may not.
//!
//! This module reads and writes no files.

use std::collections::HashSet;

use serde::Serialize;
use windlass_machine::{FileImage, ThreadId};

use super::{FileFate, Restored, RestoredFile, UnseenCall, size_of};

/// Maximum number of files that are reported individually.
const MAX_NAMED: usize = 1_000;

/// The result of a fork.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct ForkedThread {
    /// Id of the new thread.
    pub thread: ThreadId,
    /// Report on the folder of the new thread.
    pub files: ForkFiles,
}

/// Report on the folder of a fork.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct ForkFiles {
    /// Relation of the folder to the origin's folder.
    pub folder: ForkFolder,
    /// Files whose recorded changes after the event were undone.
    pub restored: Vec<RestoredFile>,
    /// Files that may differ from the history; at most 1,000.
    pub not_restored: Vec<UnrestoredFile>,
    /// Total number of such files.
    pub not_restored_total: usize,
    /// Calls after the event that may have changed files without a record, such as commands; at most 200.
    pub unseen: Vec<UnseenCall>,
    /// Total number of such calls.
    pub unseen_total: usize,
}

/// The folder that a fork works in.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum ForkFolder {
    /// A copy of the origin's folder.
    Copied,
    /// The origin's folder, unchanged.
    Shared,
    /// A folder without files of the origin, or no folder.
    Empty,
}

/// A file that may differ from the history of a fork.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct UnrestoredFile {
    /// Path relative to the folder.
    pub path: String,
    /// The reason why the file may differ.
    pub reason: UnrestoredReason,
    /// The reason in plain language.
    pub why: String,
}

/// The reason why a file may differ from the history.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum UnrestoredReason {
    /// A command, an upload or another program changed the file, and no event has its previous content.
    ChangedUnrecorded,
    /// The content of the file at the event was too large to be recorded.
    NotRecorded,
    /// Writing the old content failed.
    Failed,
    /// The entry was not copied, because it could not be read or is not a file.
    NotCopied,
}

impl ForkFiles {
    /// Creates a report without copied files.
    pub fn without_copy(folder: ForkFolder) -> Self {
        Self {
            folder,
            restored: Vec::new(),
            not_restored: Vec::new(),
            not_restored_total: 0,
            unseen: Vec::new(),
            unseen_total: 0,
        }
    }
}

/// Files, by the result of their restoration.
#[derive(Default)]
pub(super) struct Report {
    pub restored: Vec<RestoredFile>,
    pub not_restored: Vec<UnrestoredFile>,
}

impl Report {
    /// Adds a file with recorded changes after the event.
    pub fn take(&mut self, file: RestoredFile, target: &FileImage, is_explained: bool) {
        let RestoredFile { path, fate, why } = file;
        match fate {
            // The copy is restored in every case, because the origin's folder keeps the newer content.
            FileFate::Restored | FileFate::Removed | FileFate::ChangedSince => {
                let is_missing = matches!(target, FileImage::Missing);
                let fate = if is_missing { FileFate::Removed } else { FileFate::Restored };
                self.restored.push(RestoredFile { path: path.clone(), fate, why: None });
            }
            FileFate::Unchanged => {}
            FileFate::NotKept => {
                let size_bytes = size_of(target).unwrap_or_default();
                let why = format!(
                    "its content at this event was not recorded ({size_bytes} bytes); it has its present content"
                );
                return self.name(path, UnrestoredReason::NotRecorded, why);
            }
            FileFate::Failed => {
                let why = why.unwrap_or_else(|| "it could not be written".to_owned());
                return self.name(path, UnrestoredReason::Failed, why);
            }
        }
        if !is_explained {
            let why = "a command or another program may have changed it; it has the content that the first later change found";
            self.name(path, UnrestoredReason::ChangedUnrecorded, why.to_owned());
        }
    }

    /// Returns files with their recorded old content that no command can have changed before.
    pub fn restored_by_record(&self) -> Vec<String> {
        let named: HashSet<_> = self.not_restored.iter().map(|file| &file.path).collect();
        let written = self.restored.iter().filter(|file| file.fate == FileFate::Restored);
        written.map(|file| file.path.clone()).filter(|path| !named.contains(path)).collect()
    }

    pub fn name(&mut self, path: String, reason: UnrestoredReason, why: String) {
        self.not_restored.push(UnrestoredFile { path, reason, why });
    }

    pub fn finish(mut self, unseen: Restored) -> ForkFiles {
        self.not_restored.sort_by(|one, other| (&one.path, one.reason).cmp(&(&other.path, other.reason)));
        let not_restored_total = self.not_restored.len();
        self.not_restored.truncate(MAX_NAMED);
        ForkFiles {
            folder: ForkFolder::Copied,
            restored: self.restored,
            not_restored: self.not_restored,
            not_restored_total,
            unseen: unseen.unseen,
            unseen_total: unseen.unseen_total,
        }
    }
}
