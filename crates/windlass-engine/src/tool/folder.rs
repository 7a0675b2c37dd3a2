//! The working folder: a directory capability, with resolution of paths from models inside it.
//!
//! This module resolves every symbolic link, and then opens the result without following links. The opened file is
//! therefore the checked file (inside, not protected, not the store), even if a program replaces links in between.
//! The folder only finds, opens and replaces files. Unix only.

use std::collections::VecDeque;
use std::ffi::{OsStr, OsString};
use std::fmt;
use std::fs;
use std::io;
use std::path::{Component, Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use cap_std::ambient_authority;
use cap_std::fs::{Dir, Metadata, MetadataExt, OpenOptions, OpenOptionsExt};

mod change;
mod copy;
mod error;
mod judged;
mod list;
mod protected;
mod quota;
mod temporary;
mod write;

pub(crate) use change::Now;
use change::Recorder;
pub use change::{ChangeRecorder, Changing, FileFound};
pub use copy::{CopyError, CopyLimits, FolderContent, LeftOut, remove_tree};
pub use error::FolderError;
use judged::JudgedPaths;
pub use list::{Entry, EntryKind};
pub use protected::ProtectedPaths;
pub use quota::FolderQuota;
use quota::Quota;
use temporary::Cleared;
pub use write::Written;

/// The working folder of tools, opened as a directory handle.
#[derive(Clone, Debug)]
pub struct WorkingFolder {
    root: Arc<Dir>,
    /// The absolute path as given. Models see it and use it in paths.
    path: PathBuf,
    /// The absolute path without symbolic links.
    canonical: PathBuf,
    protected: Arc<ProtectedPaths>,
    /// Relative path of the engine's store, if it is inside the folder.
    store: Option<PathBuf>,
    /// Locked from the read to the write of a file, because threads that share the folder edit the same files.
    turn: Arc<Mutex<()>>,
    cleared: Arc<Cleared>,
    /// Records each change before the folder makes it.
    recorder: Option<Recorder>,
    /// Limit on the bytes of files in the folder.
    quota: Option<Quota>,
    /// The paths that the gate has judged, in the folder of a call.
    judged: JudgedPaths,
}

/// A path inside a working folder with its symbolic links resolved. The file need not exist.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FolderPath {
    /// The path as given, without `.` and `..`.
    lexical: PathBuf,
    /// The path with every link resolved.
    resolved: PathBuf,
}

impl FolderPath {
    /// Returns the path relative to the folder, with every link resolved; empty for the folder itself.
    pub fn as_path(&self) -> &Path {
        &self.resolved
    }

    /// Returns the target if the path contains a symbolic link, else `None`.
    pub fn leads_to(&self) -> Option<&Path> {
        (self.lexical != self.resolved).then_some(&*self.resolved)
    }
}

impl fmt::Display for FolderPath {
    /// Shows the path as given, relative to the folder.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.lexical.as_os_str().is_empty() { f.write_str(".") } else { self.lexical.display().fmt(f) }
    }
}

impl WorkingFolder {
    /// Opens a folder with the default protected paths and without a store.
    pub fn open(path: impl AsRef<Path>) -> Result<Self, FolderError> {
        let given = path.as_ref();
        let failed = |source| FolderError::Open { path: given.to_owned(), source };
        let path = std::path::absolute(given).map_err(failed)?;
        let canonical = fs::canonicalize(given).map_err(failed)?;
        let root = Dir::open_ambient_dir(&canonical, ambient_authority()).map_err(failed)?;
        Ok(Self {
            root: Arc::new(root),
            path,
            canonical,
            protected: Arc::default(),
            store: None,
            turn: Arc::default(),
            cleared: Arc::default(),
            recorder: None,
            quota: None,
            judged: JudgedPaths::default(),
        })
    }

    /// Replaces the list of paths that file tools never write.
    pub fn with_protected(mut self, protected: ProtectedPaths) -> Self {
        self.protected = Arc::new(protected);
        self
    }

    /// Adds a file that file tools never write, also through links. A file outside the folder has no effect.
    pub fn with_protected_file(mut self, file: impl AsRef<Path>) -> Self {
        if let Some(inside) = self.inside(&real_path(file.as_ref())).map(Path::to_owned) {
            Arc::make_mut(&mut self.protected).add_file(&inside);
        }
        self
    }

    /// Sets the path of the engine's store, a directory or a file. A path outside the folder has no effect.
    pub fn with_store(mut self, store: impl AsRef<Path>) -> Self {
        self.store = self.inside(&real_path(store.as_ref())).map(Path::to_owned);
        self
    }

    /// Whether tools could change this path: it is inside the folder and not part of the known store.
    pub(crate) fn offers(&self, path: &Path) -> bool {
        self.inside(&real_path(path)).is_some_and(|inside| !self.is_store(inside))
    }

    /// Returns the folder's absolute path as people and models see it.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Returns the folder's absolute path with symbolic links resolved.
    #[cfg(target_os = "linux")]
    pub fn canonical(&self) -> &Path {
        &self.canonical
    }

    /// Duplicates the handle of the folder's directory.
    #[cfg(target_os = "linux")]
    pub fn handle(&self) -> io::Result<std::os::fd::OwnedFd> {
        std::os::fd::AsFd::as_fd(&self.root).try_clone_to_owned()
    }

    /// Resolves a path from a model, which is relative to the folder, or absolute and inside it.
    ///
    /// Reads the disk, so call this method only where blocking is allowed.
    pub fn resolve(&self, given: &str) -> Result<FolderPath, FolderError> {
        let shown = || shorten(given);
        if given.is_empty() {
            return Err(FolderError::Empty);
        }
        if given.contains('\0') {
            return Err(FolderError::Nul(shown().replace('\0', "\\0")));
        }
        if given.len() > MAX_PATH_BYTES {
            return Err(FolderError::TooLong { path: shown(), size_bytes: given.len() });
        }
        let outside = || FolderError::Outside(shown());
        let path = Path::new(given);
        let relative = if path.is_absolute() { self.inside(path).ok_or_else(outside)? } else { path };
        let mut lexical = PathBuf::new();
        for component in relative.components() {
            match component {
                Component::Normal(name) => lexical.push(name),
                Component::ParentDir if !lexical.pop() => return Err(outside()),
                Component::ParentDir | Component::CurDir => {}
                Component::RootDir | Component::Prefix(_) => return Err(outside()),
            }
        }
        let resolved = self.follow(relative, &shown())?;
        if self.is_store(&resolved) || self.is_store(&lexical) {
            return Err(FolderError::Store(shown()));
        }
        let path = FolderPath { lexical, resolved };
        if self.judged.is_redirected(given, &path) {
            return Err(FolderError::LeadsElsewhere(shown()));
        }
        Ok(path)
    }

    /// Opens a regular file for reading. Never waits for a pipe and never opens a device.
    pub fn open_file(&self, path: &FolderPath) -> Result<fs::File, FolderError> {
        let (parent, name) = self.parent_of(path)?;
        self.open_entry(&parent, &name, path.as_path())
    }

    /// Locks the folder for a change, so that changes of this process do not overlap.
    pub fn take_turn(&self) -> MutexGuard<'_, ()> {
        // The lock guards no value, so a poisoned lock is safe to use.
        self.turn.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Opens a directory by its path relative to the folder, for listing.
    pub fn open_directory(&self, relative: &Path) -> Result<Dir, FolderError> {
        let start = open_directory_at(&self.root, OsStr::new("."))
            .map_err(|source| io_error("open", Path::new("."), source))?;
        relative.iter().try_fold(start, |directory, name| {
            open_directory_at(&directory, name).map_err(|source| io_error("open", relative, source))
        })
    }

    /// Opens a regular file in an open directory, like [`WorkingFolder::open_file`].
    pub fn open_entry(&self, parent: &Dir, name: &OsStr, path: &Path) -> Result<fs::File, FolderError> {
        if self.is_store(path) {
            return Err(FolderError::Store(show(path)));
        }
        let failed = |source| io_error("open", path, source);
        let before = parent.symlink_metadata(name).map_err(failed)?;
        refuse_irregular(&before, path)?;
        let mut options = OpenOptions::new();
        options.read(true).custom_flags(libc::O_NOFOLLOW | libc::O_NONBLOCK);
        let file = parent.open_with(name, &options).map_err(failed)?;
        if !is_same(&before, &file.metadata().map_err(failed)?) {
            return Err(FolderError::Changed(show(path)));
        }
        Ok(file.into_std())
    }

    /// Reads the metadata of the entry at a path. The entry is never a symbolic link.
    pub fn metadata(&self, path: &FolderPath) -> Result<Metadata, FolderError> {
        let relative = match path.as_path() {
            empty if empty.as_os_str().is_empty() => Path::new("."),
            relative => relative,
        };
        self.root.symlink_metadata(relative).map_err(|source| io_error("look at", path.as_path(), source))
    }

    /// Whether a relative path belongs to the store, including the files beside a store file.
    pub fn is_store(&self, path: &Path) -> bool {
        let Some(store) = &self.store else { return false };
        // Ignores case, as some file systems do.
        let (store, path) = (store.to_string_lossy().to_lowercase(), path.to_string_lossy().to_lowercase());
        // `store.db-wal` and `store.db-shm` contain the same secrets as `store.db`.
        store.is_empty()
            || path
                .strip_prefix(&store)
                .is_some_and(|rest| matches!(rest.bytes().next(), None | Some(b'/' | b'-')))
    }

    /// Returns the part of an absolute path below the folder, if it is inside the folder.
    fn inside<'a>(&self, absolute: &'a Path) -> Option<&'a Path> {
        absolute.strip_prefix(&self.path).or_else(|_| absolute.strip_prefix(&self.canonical)).ok()
    }

    /// Resolves links and `..` like the system, but never beyond the folder.
    fn follow(&self, relative: &Path, shown: &str) -> Result<PathBuf, FolderError> {
        let mut pending: VecDeque<OsString> = relative.iter().map(OsString::from).collect();
        let mut resolved = PathBuf::new();
        let mut last_link: Option<PathBuf> = None;
        let mut links = 0;
        let leads_out = |link: &Option<PathBuf>| match link {
            Some(link) => FolderError::LeadsOut { path: shown.to_owned(), link: show(link) },
            None => FolderError::Outside(shown.to_owned()),
        };
        while let Some(name) = pending.pop_front() {
            if name == "." || name == "/" {
                continue;
            }
            if name == ".." {
                if !resolved.pop() {
                    return Err(leads_out(&last_link));
                }
                continue;
            }
            let candidate = resolved.join(&name);
            let is_link = match self.root.symlink_metadata(&candidate) {
                Ok(metadata) => metadata.is_symlink(),
                Err(error) if error.kind() == io::ErrorKind::NotFound => false,
                Err(error) if error.kind() == io::ErrorKind::NotADirectory => {
                    return Err(FolderError::NotDirectory(show(&resolved)));
                }
                Err(error) => return Err(io_error("look at", &candidate, error)),
            };
            if !is_link {
                resolved = candidate;
                continue;
            }
            links += 1;
            if links > MAX_LINKS {
                return Err(FolderError::TooManyLinks(shown.to_owned()));
            }
            let target = self.root.read_link_contents(&candidate);
            let target = target.map_err(|source| io_error("follow", &candidate, source))?;
            last_link = Some(candidate);
            let target = if target.is_absolute() {
                resolved.clear();
                self.inside(&target).ok_or_else(|| leads_out(&last_link))?
            } else {
                &target
            };
            target.iter().rev().for_each(|part| pending.push_front(part.to_owned()));
        }
        Ok(resolved)
    }

    fn parent_of(&self, path: &FolderPath) -> Result<(Dir, OsString), FolderError> {
        let path = path.as_path();
        let (Some(parent), Some(name)) = (path.parent(), path.file_name()) else {
            return Err(FolderError::Directory(".".to_owned()));
        };
        let directory = self.open_directory(parent).map_err(|error| match error {
            // The model named the file, so report the file as missing, not its directory.
            FolderError::Missing(_) => FolderError::Missing(show(path)),
            other => other,
        })?;
        Ok((directory, name.to_owned()))
    }
}

/// Returns a path without links. If it does not exist, links are resolved in its longest existing part only.
fn real_path(path: &Path) -> PathBuf {
    let path = std::path::absolute(path).unwrap_or_else(|_| path.to_owned());
    let known = path.ancestors().find_map(|known| Some((known, known.canonicalize().ok()?)));
    let (rest, mut real) = match &known {
        Some((known, real)) => (path.strip_prefix(known).unwrap_or(&path), real.clone()),
        None => (path.as_path(), PathBuf::new()),
    };
    for part in rest.components() {
        match part {
            Component::ParentDir => {
                real.pop();
            }
            Component::CurDir => {}
            Component::Normal(_) | Component::RootDir | Component::Prefix(_) => real.push(part),
        }
    }
    real
}

/// Maximum length of a path in bytes: Linux's `PATH_MAX`.
const MAX_PATH_BYTES: usize = 4096;
/// Maximum number of links in a path, as in Linux (`path_resolution(7)`).
const MAX_LINKS: usize = 40;
/// Maximum number of characters of an invalid path in an error.
const MAX_SHOWN_CHARS: usize = 200;

/// Opens a subdirectory without following a link.
fn open_directory_at(parent: &Dir, name: &OsStr) -> io::Result<Dir> {
    let before = parent.symlink_metadata(name)?;
    if !before.is_dir() {
        return Err(io::ErrorKind::NotADirectory.into());
    }
    let mut options = OpenOptions::new();
    options.read(true).custom_flags(libc::O_DIRECTORY | libc::O_NOFOLLOW);
    let directory = parent.open_with(name, &options)?;
    // Without `openat2`, cap-std itself follows links despite the flags: compare the opened directory with the entry.
    if !is_same(&before, &directory.metadata()?) {
        return Err(io::Error::other("it changed while it was being opened"));
    }
    Ok(Dir::from_std_file(directory.into_std()))
}

fn is_same(before: &Metadata, after: &Metadata) -> bool {
    (before.dev(), before.ino()) == (after.dev(), after.ino())
}

fn refuse_irregular(metadata: &Metadata, path: &Path) -> Result<(), FolderError> {
    if metadata.is_file() {
        Ok(())
    } else if metadata.is_dir() {
        Err(FolderError::Directory(show(path)))
    } else if metadata.is_symlink() {
        Err(FolderError::Changed(show(path)))
    } else {
        Err(FolderError::NotRegular(show(path)))
    }
}

fn io_error(action: &'static str, path: &Path, source: io::Error) -> FolderError {
    match source.kind() {
        io::ErrorKind::NotFound => FolderError::Missing(show(path)),
        io::ErrorKind::NotADirectory => FolderError::NotDirectory(show(path)),
        _ => FolderError::Io { action, path: show(path), source },
    }
}

/// Formats a relative path; the folder itself is `.`.
fn show(path: &Path) -> String {
    if path.as_os_str().is_empty() { ".".to_owned() } else { shorten(&path.to_string_lossy()) }
}

fn shorten(text: &str) -> String {
    match text.char_indices().nth(MAX_SHOWN_CHARS) {
        Some((end, _)) => format!("{}…", &text[..end]),
        None => text.to_owned(),
    }
}
