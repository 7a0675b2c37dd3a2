//! The report on the folder of a fork: which files are as the history says, and which may not be.
//!
//! It reads and writes no file.

use std::collections::HashSet;

use serde::Serialize;
use windlass_machine::{FileImage, ThreadId};

use super::{FileFate, Restored, RestoredFile, UnseenCall, size_of};

/// Files named in a report that may not be as the history says; more than a person reads.
const MAX_NAMED: usize = 1_000;

/// A thread that was forked from another.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct ForkedThread {
    /// The new thread.
    pub thread: ThreadId,
    /// What its folder holds.
    pub files: ForkFiles,
}

/// What the folder of a fork holds.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct ForkFiles {
    /// Which folder it is.
    pub folder: ForkFolder,
    /// Files whose recorded changes after the event are undone.
    pub restored: Vec<RestoredFile>,
    /// Files that may differ from what the history says, the first 1,000.
    pub not_restored: Vec<UnrestoredFile>,
    /// How many such files there are.
    pub not_restored_total: usize,
    /// Calls after the event that may have changed files without a record, such as commands, the first 200.
    pub unseen: Vec<UnseenCall>,
    /// How many such calls there are.
    pub unseen_total: usize,
}

/// Which folder a fork works in.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum ForkFolder {
    /// A copy of the other thread's.
    Copied,
    /// The same as the other thread; nothing in it is changed.
    Shared,
    /// None that holds files of the other thread.
    Empty,
}

/// A file that may differ from what the history of a fork says.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct UnrestoredFile {
    /// Relative to the folder.
    pub path: String,
    /// The reason.
    pub reason: UnrestoredReason,
    /// The reason in words.
    pub why: String,
}

/// Why a file may differ from what the history says.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum UnrestoredReason {
    /// A command, an upload or another program changed it, and no event says what it was before.
    ChangedUnrecorded,
    /// Its content at the event was too large to be recorded.
    NotRecorded,
    /// Its old content could not be written.
    Failed,
    /// It is not in the new folder: it could not be read, or is no file.
    NotCopied,
}

impl ForkFiles {
    /// No file was copied.
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

/// Files by what became of them.
#[derive(Default)]
pub(super) struct Report {
    pub restored: Vec<RestoredFile>,
    pub not_restored: Vec<UnrestoredFile>,
}

impl Report {
    /// Takes a file with recorded changes after the event.
    pub fn take(&mut self, file: RestoredFile, target: &FileImage, is_explained: bool) {
        let RestoredFile { path, fate, why } = file;
        match fate {
            // The copy restores it in any case: the other folder keeps the newer content.
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

    /// Files with their old content, as the records say: no command may have been there first.
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
