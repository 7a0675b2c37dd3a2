//! Visits the files below a directory of the working folder in a stable order.
//!
//! Symbolic links are visited but never followed. The walk skips `.git`, the store and, unless the caller includes
//! them, the entries that `.gitignore` files match. The number of entries and the depth are limited.

mod ignore;

use std::ffi::{OsStr, OsString};
use std::path::{Path, PathBuf};

use cap_std::fs::{Dir, FileType};
use tokio_util::sync::CancellationToken;
use windlass_engine::tool::{FolderPath, WorkingFolder};

use self::ignore::Patterns;
use super::Refusal;

/// Maximum number of entries that one walk visits: twice the size of a very large source tree.
const MAX_ENTRIES: usize = 1_000_000;
const MAX_DEPTH: usize = 128;

/// A file or a link that a walk visits.
pub(super) struct Entry<'a> {
    /// The opened directory of the entry.
    pub(super) parent: &'a Dir,
    /// The name of the entry in the directory.
    pub(super) name: &'a OsStr,
    /// The path of the entry, relative to the working folder.
    pub(super) path: &'a Path,
    pub(super) is_link: bool,
}

/// Whether to continue a walk.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Flow {
    On,
    Stop,
}

/// Whether a walk visits the entries that `.gitignore` files match.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Ignored {
    Skip,
    Visit,
}

impl Ignored {
    /// Converts the argument `include_ignored`.
    pub(super) fn included(is_included: bool) -> Self {
        if is_included { Self::Visit } else { Self::Skip }
    }
}

/// The numbers of entries that a walk skipped.
#[derive(Debug, Default)]
pub(super) struct Passed {
    /// Number of directories that could not be read or are too deep.
    pub(super) unreadable: usize,
    /// Number of files and directories that `.gitignore` files match.
    pub(super) ignored: usize,
    /// Whether the walk stopped at the maximum number of entries.
    pub(super) is_cut: bool,
}

impl Passed {
    /// Appends a note about skipped entries, if there are any.
    pub(super) fn note(&self, text: &mut String) {
        if self.unreadable > 0 {
            text.push_str(&format!("[{} directories could not be read]\n", self.unreadable));
        }
        if self.ignored > 0 {
            let entries = if self.ignored == 1 { "entry" } else { "entries" };
            let ignored = self.ignored;
            text.push_str(&format!(
                "[{ignored} {entries} ignored by `.gitignore`; set `include_ignored` to search them]\n"
            ));
        }
        if self.is_cut {
            text.push_str(&format!("[stopped after {MAX_ENTRIES} entries; use a narrower path]\n"));
        }
    }
}

/// Visits the files and links below a directory: first the entries of a
/// directory by name, then its subdirectories.
pub(super) fn walk(
    folder: &WorkingFolder,
    start: &FolderPath,
    ignored: Ignored,
    cancel: &CancellationToken,
    visit: &mut dyn FnMut(Entry<'_>) -> Result<Flow, Refusal>,
) -> Result<Passed, Refusal> {
    let mut passed = Passed::default();
    let mut seen = 0;
    // If the start directory is unreadable, the call fails.
    folder.open_directory(start.as_path())?;
    let patterns = match ignored {
        Ignored::Skip => Patterns::above(folder, start.as_path()),
        Ignored::Visit => Patterns::default(),
    };
    let mut pending = vec![(start.as_path().to_owned(), 0, patterns)];
    while let Some((path, depth, patterns)) = pending.pop() {
        let listed = folder.open_directory(&path).ok().and_then(|dir| Some((list(&dir, cancel)?, dir)));
        let Some((mut entries, directory)) = listed.filter(|_| depth < MAX_DEPTH) else {
            if cancel.is_cancelled() {
                return Err(Refusal::cancelled());
            }
            passed.unreadable += 1;
            continue;
        };
        entries.sort();
        let patterns = match ignored {
            Ignored::Skip if entries.iter().any(|(name, _)| name == ignore::FILE) => {
                patterns.below(folder, &directory, &path)
            }
            Ignored::Skip | Ignored::Visit => patterns,
        };
        let mut below: Vec<(PathBuf, usize, Patterns)> = Vec::new();
        for (name, kind) in entries {
            seen += 1;
            if cancel.is_cancelled() {
                return Err(Refusal::cancelled());
            }
            if seen > MAX_ENTRIES {
                passed.is_cut = true;
                return Ok(passed);
            }
            let path = path.join(&name);
            if name == ".git" || folder.is_store(&path) {
                continue;
            }
            if patterns.ignore(&path, kind == Kind::Directory) {
                passed.ignored += 1;
                continue;
            }
            let is_link = match kind {
                Kind::Directory => {
                    below.push((path, depth + 1, patterns.clone()));
                    continue;
                }
                Kind::Other => continue,
                Kind::File => false,
                Kind::Link => true,
            };
            let entry = Entry { parent: &directory, name: &name, path: &path, is_link };
            if visit(entry)? == Flow::Stop {
                return Ok(passed);
            }
        }
        pending.extend(below.into_iter().rev());
    }
    Ok(passed)
}

#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Kind {
    File,
    Link,
    Directory,
    Other,
}

impl From<FileType> for Kind {
    fn from(kind: FileType) -> Self {
        if kind.is_file() {
            Self::File
        } else if kind.is_symlink() {
            Self::Link
        } else if kind.is_dir() {
            Self::Directory
        } else {
            Self::Other
        }
    }
}

fn list(directory: &Dir, cancel: &CancellationToken) -> Option<Vec<(OsString, Kind)>> {
    let mut entries = Vec::new();
    for entry in directory.entries().ok()? {
        if cancel.is_cancelled() || entries.len() > MAX_ENTRIES {
            break;
        }
        // An entry that has vanished is skipped.
        if let Ok(entry) = entry
            && let Ok(kind) = entry.file_type()
        {
            entries.push((entry.file_name(), Kind::from(kind)));
        }
    }
    Some(entries)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_cancel_ends_a_walk_between_two_entries() {
        let root = tempfile::tempdir().unwrap();
        for name in ["a", "b", "c"] {
            std::fs::write(root.path().join(name), "").unwrap();
        }
        let folder = WorkingFolder::open(root.path()).unwrap();
        let start = folder.resolve(".").unwrap();
        let cancel = CancellationToken::new();
        let mut visited = 0;
        let walked = walk(&folder, &start, Ignored::Skip, &cancel, &mut |_| {
            visited += 1;
            cancel.cancel();
            Ok(Flow::On)
        });
        assert_eq!(walked.unwrap_err(), Refusal::cancelled());
        assert_eq!(visited, 1);
    }

    #[test]
    fn a_directory_too_deep_is_passed_over_and_counted() {
        let root = tempfile::tempdir().unwrap();
        let deep: PathBuf = std::iter::repeat_n("d", MAX_DEPTH).collect();
        std::fs::create_dir_all(root.path().join(&deep)).unwrap();
        std::fs::write(root.path().join(&deep).join("a"), "").unwrap();
        let folder = WorkingFolder::open(root.path()).unwrap();
        let start = folder.resolve(".").unwrap();
        let mut visited = 0;
        let walked = walk(&folder, &start, Ignored::Skip, &CancellationToken::new(), &mut |_| {
            visited += 1;
            Ok(Flow::On)
        });
        assert_eq!((walked.unwrap().unreadable, visited), (1, 0));
    }

    #[test]
    fn entries_of_gitignore_are_skipped_as_git_does() {
        let root = tempfile::tempdir().unwrap();
        let files = [
            (".gitignore", "/target\n*.log\n!kept.log\n# note\n"),
            ("a.rs", ""),
            ("b.log", ""),
            ("kept.log", ""),
            ("target/x", ""),
            ("sub/.gitignore", "*.rs\n!*.log\n"),
            ("sub/c.log", ""),
            ("sub/d.rs", ""),
            ("sub/target/e", ""),
        ];
        for (path, text) in files {
            let path = root.path().join(path);
            std::fs::create_dir_all(path.parent().unwrap()).unwrap();
            std::fs::write(path, text).unwrap();
        }
        let folder = WorkingFolder::open(root.path()).unwrap();
        let check = |start: &str, ignored: Ignored, expected: &[&str], skipped: usize| {
            let start = folder.resolve(start).unwrap();
            let mut visited = Vec::new();
            let passed = walk(&folder, &start, ignored, &CancellationToken::new(), &mut |entry| {
                visited.push(entry.path.to_str().unwrap().to_owned());
                Ok(Flow::On)
            });
            assert_eq!(
                (visited, passed.unwrap().ignored),
                (expected.iter().map(|&path| path.to_owned()).collect(), skipped)
            );
        };
        let kept = [".gitignore", "a.rs", "kept.log", "sub/.gitignore", "sub/c.log", "sub/target/e"];
        check(".", Ignored::Skip, &kept, 3);
        check("sub", Ignored::Skip, &kept[3..], 1);
        // A directory that the caller names is searched even if it is ignored.
        check("target", Ignored::Skip, &["target/x"], 0);
        check(
            ".",
            Ignored::Visit,
            &[
                ".gitignore",
                "a.rs",
                "b.log",
                "kept.log",
                "sub/.gitignore",
                "sub/c.log",
                "sub/d.rs",
                "sub/target/e",
                "target/x",
            ],
            0,
        );
    }
}
