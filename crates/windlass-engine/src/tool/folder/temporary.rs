//! Temporary files for atomic replacement, and the cleanup of temporary files of dead processes.
//!
//! The writer holds a lock on its temporary file, which the kernel releases when the writer dies. A process that can
//! take the lock may delete the file. No other file is touched.

use std::collections::HashSet;
use std::ffi::OsStr;
use std::fs::TryLockError;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError};

use cap_std::fs::{Dir, MetadataExt, OpenOptions, OpenOptionsExt};

/// Maximum number of names to try. A name is taken only if a crashed process left its file.
const MAX_NAMES: usize = 100;

/// Maximum number of directories that are remembered as cleared; above it, some directories are searched again.
const MAX_CLEARED: usize = 1_024;

/// A new file with a unique name, locked until this value is dropped.
pub(super) struct Temporary {
    pub name: String,
    pub file: std::fs::File,
}

impl Temporary {
    /// Creates a file with an unused name in the directory, so that the rename stays on one file system.
    pub fn create(directory: &Dir, replaces: bool) -> io::Result<Self> {
        static NEXT: AtomicU64 = AtomicU64::new(0);
        let mut options = OpenOptions::new();
        options.write(true).create_new(true);
        if replaces {
            // The new content of a private file must not be readable before it gets that file's mode.
            options.mode(0o600);
        }
        let mut last = io::Error::from(io::ErrorKind::AlreadyExists);
        for _ in 0..MAX_NAMES {
            let name = format!("{BEGIN}{}-{}{END}", std::process::id(), NEXT.fetch_add(1, Ordering::Relaxed));
            match directory.open_with(&name, &options) {
                Ok(file) => {
                    let file = file.into_std();
                    if is_kept(&file)? {
                        return Ok(Self { name, file });
                    }
                }
                Err(error) if error.kind() == io::ErrorKind::AlreadyExists => last = error,
                Err(error) => return Err(error),
            }
        }
        Err(last)
    }
}

/// Locks a newly created file. Returns `false` if another process locked the file first: that process takes the file
/// for a leftover, and deletes it or has deleted it.
fn is_kept(file: &std::fs::File) -> io::Result<bool> {
    use std::os::unix::fs::MetadataExt;
    match file.try_lock() {
        Ok(()) => Ok(file.metadata()?.nlink() > 0),
        Err(TryLockError::WouldBlock) => Ok(false),
        // On a file system without locks, no process can take the lock, so none deletes the file.
        Err(TryLockError::Error(_)) => Ok(true),
    }
}

const BEGIN: &str = ".windlass-";
const END: &str = ".tmp";

/// Whether a name has the form that [`Temporary::create`] uses.
pub(super) fn is_temporary(name: &OsStr) -> bool {
    let number = |text: &str| !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
    name.to_str()
        .and_then(|name| name.strip_prefix(BEGIN)?.strip_suffix(END)?.split_once('-'))
        .is_some_and(|(process, count)| number(process) && number(count))
}

/// The directories that this process has cleared.
#[derive(Debug, Default)]
pub(super) struct Cleared(Mutex<HashSet<PathBuf>>);

impl Cleared {
    /// Deletes the files that dead processes left in a directory, once per directory.
    pub fn clear(&self, path: &Path, directory: &Dir) {
        {
            // A panic cannot leave the set inconsistent.
            let mut cleared = self.0.lock().unwrap_or_else(PoisonError::into_inner);
            if cleared.len() >= MAX_CLEARED {
                cleared.clear();
            }
            if !cleared.insert(path.to_owned()) {
                return;
            }
        }
        // Entries that cannot be listed, opened or deleted remain, which is harmless.
        let Ok(entries) = directory.entries() else { return };
        for entry in entries.flatten().filter(|entry| is_temporary(&entry.file_name())) {
            let _ = delete_if_left(directory, &entry.file_name());
        }
    }
}

/// Deletes a file whose writer has ended. While this function holds the lock, no other process can reuse the name.
fn delete_if_left(directory: &Dir, name: &OsStr) -> io::Result<()> {
    let mut options = OpenOptions::new();
    options.read(true).custom_flags(libc::O_NOFOLLOW | libc::O_NONBLOCK);
    let file = directory.open_with(name, &options)?;
    let found = file.metadata()?;
    let locked = file.into_std();
    if !found.is_file() || locked.try_lock().is_err() {
        return Ok(());
    }
    let now = directory.symlink_metadata(name)?;
    if (now.dev(), now.ino()) == (found.dev(), found.ino()) { directory.remove_file(name) } else { Ok(()) }
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;
    use crate::tool::WorkingFolder;

    fn names(path: &Path) -> Vec<String> {
        let entries = fs::read_dir(path).unwrap();
        let mut names: Vec<_> = entries.map(|e| e.unwrap().file_name().into_string().unwrap()).collect();
        names.sort();
        names
    }

    fn opened(root: &Path) -> Dir {
        WorkingFolder::open(root).unwrap().open_directory(Path::new("")).unwrap()
    }

    #[test]
    fn a_temporary_file_of_a_crashed_process_is_in_nobodys_way() {
        let root = tempfile::tempdir().unwrap();
        let directory = opened(root.path());
        let first = Temporary::create(&directory, false).unwrap();
        let (process, number) = first.name.strip_suffix(END).unwrap().rsplit_once('-').unwrap();
        let next: u64 = number.parse::<u64>().unwrap() + 1;
        fs::write(root.path().join(format!("{process}-{next}.tmp")), "left").unwrap();
        let second = Temporary::create(&directory, false).unwrap();
        assert_ne!(first.name, second.name);
    }

    #[test]
    fn what_a_dead_writer_left_is_deleted_and_nothing_else() {
        let root = tempfile::tempdir().unwrap();
        let directory = opened(root.path());
        let alive = Temporary::create(&directory, false).unwrap();
        let dead = Temporary::create(&directory, true).unwrap().name;
        let others = [
            ".windlass-1.tmp",
            ".windlass-1-x.tmp",
            ".windlass-1-2.tmp.bak",
            ".windlass-notes-1.tmp",
            "a.tmp",
        ];
        others.iter().for_each(|name| fs::write(root.path().join(name), "mine").unwrap());
        std::os::unix::fs::symlink("a.tmp", root.path().join(".windlass-1-1.tmp")).unwrap();
        fs::create_dir(root.path().join(".windlass-1-2.tmp")).unwrap();
        assert!(names(root.path()).contains(&dead));
        let cleared = Cleared::default();
        cleared.clear(Path::new(""), &directory);
        let mut left: Vec<_> = others.iter().map(|name| (*name).to_owned()).collect();
        left.extend([".windlass-1-1.tmp".to_owned(), ".windlass-1-2.tmp".to_owned(), alive.name.clone()]);
        left.sort();
        assert_eq!(names(root.path()), left);
        // A directory is cleared once per process, so that frequent writers do not search it each time.
        let later = Temporary::create(&directory, false).unwrap().name;
        cleared.clear(Path::new(""), &directory);
        assert!(names(root.path()).contains(&later));
        Cleared::default().clear(Path::new(""), &directory);
        assert!(!names(root.path()).contains(&later));
    }

    /// A clearing process may open the new file before its writer has locked it.
    #[test]
    fn a_writer_notices_that_its_new_file_was_taken_for_a_leftover() {
        let root = tempfile::tempdir().unwrap();
        let path = root.path().join(".windlass-1-1.tmp");
        let file = fs::File::create(&path).unwrap();
        let clearing = fs::File::open(&path).unwrap();
        clearing.lock().unwrap();
        assert!(!is_kept(&file).unwrap(), "it is about to be deleted");
        fs::remove_file(&path).unwrap();
        drop(clearing);
        assert!(!is_kept(&file).unwrap(), "it is gone");
    }

    #[test]
    fn writers_and_clearers_at_once_lose_nothing() {
        let root = tempfile::tempdir().unwrap();
        fs::write(root.path().join("a.txt"), "0").unwrap();
        std::thread::scope(|scope| {
            for writer in 0..2 {
                let root = root.path();
                scope.spawn(move || {
                    let folder = WorkingFolder::open(root).unwrap();
                    let path = folder.resolve(&format!("{writer}.txt")).unwrap();
                    for count in 0..200 {
                        folder.write(&path, count.to_string().as_bytes()).unwrap();
                    }
                });
                scope.spawn(move || {
                    let directory = opened(root);
                    (0..2_000).for_each(|_| Cleared::default().clear(Path::new(""), &directory));
                });
            }
        });
        assert_eq!(names(root.path()), ["0.txt", "1.txt", "a.txt"]);
        assert_eq!(fs::read_to_string(root.path().join("1.txt")).unwrap(), "199");
    }
}
