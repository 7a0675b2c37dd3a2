//! Copies a folder's tree into an empty folder, within limits. Files share their blocks if the file system supports
//! it.
//!
//! Links are copied as links and not followed; an absolute link into the old folder points into the new folder.
//! Pipes, sockets, devices and unreadable entries are skipped and reported. Owners, extended attributes and hard
//! links between files are not preserved.

use std::ffi::OsStr;
use std::fs::{self, File, Permissions};
use std::io::{self, Read};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

use cap_std::fs::{Dir, Metadata, MetadataExt, OpenOptions, OpenOptionsExt, PermissionsExt as _};
use thiserror::Error;

use super::temporary::is_temporary;
use super::{FolderError, WorkingFolder, io_error, is_same, show};

/// Maximum number of files that are synced individually; for
/// more files, one sync of the whole file system is cheaper.
const SYNCED_EACH: u64 = if cfg!(target_os = "linux") { 256 } else { u64::MAX };

/// Limits of a copy.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CopyLimits {
    /// Maximum total number of files, directories and links.
    pub max_entries: u64,
    /// Maximum total size of all files in bytes.
    pub max_bytes: u64,
    /// Maximum nesting of directories.
    pub max_depth: usize,
}

impl Default for CopyLimits {
    /// Returns limits for a code base with its dependencies: 50,000 entries, 1 GiB, and 64 nested directories.
    /// Without shared blocks, copying takes seconds.
    fn default() -> Self {
        Self { max_entries: 50_000, max_bytes: 1024 * 1024 * 1024, max_depth: 64 }
    }
}

/// The content of a folder.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct FolderContent {
    /// Number of files, directories and links.
    pub entries: u64,
    /// Total size of all files in bytes.
    pub bytes: u64,
    /// Files and links changed at or after the given time, by ctime or mtime. If the folder itself is newer than that
    /// time, because it was copied or moved, only mtime is used, which programs can set.
    pub modified_since: Vec<PathBuf>,
    /// Entries that a copy skips.
    pub left_out: Vec<LeftOut>,
}

/// An entry that a copy skips.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LeftOut {
    /// Path relative to the folder.
    pub path: PathBuf,
    /// The reason in plain language.
    pub why: String,
}

/// The reason why a folder was not copied.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum CopyError {
    /// The folder has too many entries.
    #[error("it has more than {max} files, directories and links")]
    TooMany {
        /// The limit.
        max: u64,
    },
    /// The files are too large together.
    #[error("its files have more than {max} bytes")]
    TooLarge {
        /// The limit, in bytes.
        max: u64,
    },
    /// A directory is nested too deeply.
    #[error("`{path}` lies more than {max} directories deep")]
    TooDeep {
        /// The nested directory.
        path: String,
        /// The limit.
        max: usize,
    },
    /// The target folder already contains files.
    #[error("the new folder `{}` is not empty", .0.display())]
    NotEmpty(PathBuf),
    /// One of the folders is inside the other.
    #[error("the new folder `{}` lies in the old one", .0.display())]
    Inside(PathBuf),
    /// A folder could not be read or written.
    #[error(transparent)]
    Folder(#[from] FolderError),
}

impl WorkingFolder {
    /// Whether both are the same directory.
    pub(crate) fn is_same_folder(&self, other: &Self) -> Result<bool, FolderError> {
        let look = |folder: &Self| folder.root.dir_metadata();
        let failed = |source| io_error("look at", Path::new(""), source);
        Ok(is_same(&look(self).map_err(failed)?, &look(other).map_err(failed)?))
    }

    /// Returns the size of a copy and the entries that it would skip, without reading file contents. Blocks.
    pub fn content(
        &self,
        limits: &CopyLimits,
        since: Option<SystemTime>,
    ) -> Result<FolderContent, CopyError> {
        Walk::new(self, limits, since, None)?.run()
    }

    /// Rejects a target folder that contains files or is inside this folder.
    pub(crate) fn require_target(&self, target: &Self) -> Result<(), CopyError> {
        if target.canonical.starts_with(&self.canonical) {
            return Err(CopyError::Inside(target.path.clone()));
        }
        let top = Path::new("");
        let mut entries = target.open_directory(top)?.entries().map_err(|it| io_error("list", top, it))?;
        if entries.next().is_some() {
            return Err(CopyError::NotEmpty(target.path.clone()));
        }
        Ok(())
    }

    /// Copies the tree into another folder, which must be empty. The copy is durable when this returns. After an
    /// error, the target contains a part of the copy. Blocks.
    pub fn copy_into(
        &self,
        target: &Self,
        limits: &CopyLimits,
        since: Option<SystemTime>,
    ) -> Result<FolderContent, CopyError> {
        self.require_target(target)?;
        let copy = NewFolder { source: self, target, modes: Vec::new(), synced: 0 };
        Walk::new(self, limits, since, Some(copy))?.run()
    }

    /// Deletes the folder itself with all its entries. Blocks.
    pub(crate) fn remove_whole(&self) -> io::Result<()> {
        remove_tree(&self.canonical)
    }
}

/// Removes a directory with all its entries, even if its owner has no
/// write permission for subdirectories. Does not follow links. Blocks.
pub fn remove_tree(path: &Path) -> io::Result<()> {
    match fs::remove_dir_all(path) {
        Err(error) if error.kind() == io::ErrorKind::PermissionDenied => {
            open_directories(path)?;
            fs::remove_dir_all(path)
        }
        removed => removed,
    }
}

fn open_directories(path: &Path) -> io::Result<()> {
    let mut open = vec![path.to_owned()];
    while let Some(directory) = open.pop() {
        fs::set_permissions(&directory, Permissions::from_mode(0o700))?;
        for entry in fs::read_dir(&directory)? {
            let entry = entry?;
            if entry.file_type()?.is_dir() {
                open.push(entry.path());
            }
        }
    }
    Ok(())
}

/// A single pass over a folder.
struct Walk<'a> {
    source: &'a WorkingFolder,
    limits: &'a CopyLimits,
    since: Option<SystemTime>,
    /// Whether ctime is used. It is not used in a folder that was created
    /// after `since`, because copying sets the ctime of every entry.
    knows_changes: bool,
    /// Target of the copy; `None` if the entries are only counted.
    copy: Option<NewFolder<'a>>,
    found: FolderContent,
}

impl<'a> Walk<'a> {
    fn new(
        source: &'a WorkingFolder,
        limits: &'a CopyLimits,
        since: Option<SystemTime>,
        copy: Option<NewFolder<'a>>,
    ) -> Result<Self, FolderError> {
        let own = source.root.dir_metadata().map_err(|error| io_error("look at", Path::new(""), error))?;
        let born = own.created().ok().map(|time| time.into_std());
        let knows_changes = matches!((born, since), (Some(born), Some(since)) if born <= since);
        Ok(Self { source, limits, since, knows_changes, copy, found: FolderContent::default() })
    }

    fn run(mut self) -> Result<FolderContent, CopyError> {
        let mut open = vec![PathBuf::new()];
        while let Some(path) = open.pop() {
            match self.source.open_directory(&path) {
                Ok(directory) => self.directory(&directory, &path, &mut open)?,
                Err(error) if path.as_os_str().is_empty() => return Err(error.into()),
                Err(error) => self.leave_out(path, error),
            }
        }
        if let Some(copy) = self.copy {
            copy.finish()?;
        }
        Ok(self.found)
    }

    fn directory(&mut self, directory: &Dir, path: &Path, open: &mut Vec<PathBuf>) -> Result<(), CopyError> {
        for entry in directory.entries().map_err(|source| io_error("list", path, source))? {
            let name = entry.map_err(|source| io_error("list", path, source))?.file_name();
            let at = path.join(&name);
            if self.source.is_store(&at) || is_temporary(&name) {
                continue;
            }
            match directory.symlink_metadata(&name) {
                Ok(metadata) => self.entry(directory, &name, at, &metadata, open)?,
                // A background command may have deleted the entry.
                Err(error) if error.kind() == io::ErrorKind::NotFound => {}
                Err(error) => self.leave_out(at, error),
            }
        }
        Ok(())
    }

    fn entry(
        &mut self,
        directory: &Dir,
        name: &OsStr,
        at: PathBuf,
        metadata: &Metadata,
        open: &mut Vec<PathBuf>,
    ) -> Result<(), CopyError> {
        self.found.entries += 1;
        if self.found.entries > self.limits.max_entries {
            return Err(CopyError::TooMany { max: self.limits.max_entries });
        }
        if metadata.is_dir() {
            if at.components().count() > self.limits.max_depth {
                return Err(CopyError::TooDeep { path: show(&at), max: self.limits.max_depth });
            }
            if let Some(copy) = &mut self.copy {
                copy.directory(&at, metadata)?;
            }
            open.push(at);
        } else if metadata.is_symlink() {
            // Copying does not preserve the mtime of a link.
            if self.knows_changes && self.is_changed(metadata) {
                self.found.modified_since.push(at.clone());
            }
            match directory.read_link_contents(name) {
                Ok(target) => self.copy.iter().try_for_each(|copy| copy.link(&at, &target))?,
                Err(error) => self.leave_out(at, error),
            }
        } else if metadata.is_file() {
            self.file(directory, name, at, metadata)?;
        } else {
            self.leave_out(at, "a pipe, socket or device is not copied");
        }
        Ok(())
    }

    fn file(
        &mut self,
        directory: &Dir,
        name: &OsStr,
        at: PathBuf,
        metadata: &Metadata,
    ) -> Result<(), CopyError> {
        let max = self.limits.max_bytes;
        let left = max.saturating_sub(self.found.bytes);
        if metadata.len() > left {
            return Err(CopyError::TooLarge { max });
        }
        let file = match self.source.open_entry(directory, name, &at) {
            Ok(file) => file,
            Err(FolderError::Missing(_)) => return Ok(()),
            Err(error) => {
                self.leave_out(at, error);
                return Ok(());
            }
        };
        let size_bytes = match &mut self.copy {
            Some(copy) => copy.file(&at, &file, metadata, left)?,
            None => metadata.len(),
        };
        if size_bytes > left {
            return Err(CopyError::TooLarge { max });
        }
        self.found.bytes += size_bytes;
        if self.is_changed(metadata) {
            self.found.modified_since.push(at);
        }
        Ok(())
    }

    fn is_changed(&self, metadata: &Metadata) -> bool {
        let Some(since) = self.since else { return false };
        let modified = metadata.modified().ok().map(|time| time.into_std());
        let changed = Duration::from_secs(metadata.ctime().cast_unsigned())
            + Duration::from_nanos(metadata.ctime_nsec().cast_unsigned());
        let changed = Some(SystemTime::UNIX_EPOCH + changed).filter(|_| self.knows_changes);
        modified.into_iter().chain(changed).any(|time| time >= since)
    }

    fn leave_out(&mut self, path: PathBuf, why: impl ToString) {
        self.found.left_out.push(LeftOut { path, why: why.to_string() });
    }
}

/// The new folder during the copy.
struct NewFolder<'a> {
    source: &'a WorkingFolder,
    target: &'a WorkingFolder,
    /// Permissions of directories, which are set after their content was copied.
    modes: Vec<(PathBuf, u32)>,
    /// Number of files synced individually.
    synced: u64,
}

impl NewFolder<'_> {
    fn directory(&mut self, at: &Path, metadata: &Metadata) -> Result<(), FolderError> {
        let (parent, name) = self.place(at)?;
        parent.create_dir(name).map_err(|source| io_error("create the directory", at, source))?;
        self.modes.push((at.to_owned(), metadata.permissions().mode() & 0o777));
        Ok(())
    }

    /// Creates a link. An absolute target inside the old folder becomes the same path in the new folder; otherwise
    /// the new thread's tools and commands would reach the old folder.
    fn link(&self, at: &Path, target: &Path) -> Result<(), FolderError> {
        let inside = if target.is_absolute() { self.source.inside(target) } else { None };
        let target = inside.map_or_else(|| target.to_owned(), |inside| self.target.canonical.join(inside));
        let (parent, name) = self.place(at)?;
        parent.symlink_contents(target, name).map_err(|source| io_error("create the link", at, source))
    }

    /// Copies a file. Stops one byte above the remaining limit. Returns the size of the new file.
    fn file(&mut self, at: &Path, from: &File, metadata: &Metadata, left: u64) -> Result<u64, FolderError> {
        let failed = |source| io_error("copy", at, source);
        let (parent, name) = self.place(at)?;
        let mut options = OpenOptions::new();
        options.write(true).create_new(true).mode(0o600).custom_flags(libc::O_NOFOLLOW);
        let mut to = parent.open_with(name, &options).map_err(failed)?.into_std();
        if !shares_blocks(from, &to) {
            io::copy(&mut from.take(left.saturating_add(1)), &mut to).map_err(failed)?;
        }
        to.set_permissions(Permissions::from_mode(metadata.permissions().mode() & 0o777)).map_err(failed)?;
        if let Ok(modified) = metadata.modified() {
            to.set_modified(modified.into_std()).map_err(failed)?;
        }
        self.synced += 1;
        if self.synced <= SYNCED_EACH {
            to.sync_all().map_err(failed)?;
        }
        Ok(to.metadata().map_err(failed)?.len())
    }

    /// Sets the permissions of directories and syncs all entries that were not synced yet.
    fn finish(self) -> Result<(), FolderError> {
        let syncs = self.synced <= SYNCED_EACH;
        // Set inner directories first, because an outer directory may not be accessible to its owner.
        for (path, mode) in self.modes.iter().rev() {
            let failed = |source| io_error("copy", path, source);
            let directory = self.target.open_directory(path)?.into_std_file();
            if syncs {
                sync(&directory).map_err(failed)?;
            }
            directory.set_permissions(Permissions::from_mode(*mode)).map_err(failed)?;
        }
        let failed = |source| io_error("sync", Path::new(""), source);
        let top = self.target.open_directory(Path::new(""))?.into_std_file();
        if syncs { sync(&top) } else { sync_all(&top) }.map_err(failed)?;
        // Sync the parent, which contains the name of the new folder.
        match self.target.canonical.parent() {
            Some(parent) => File::open(parent).and_then(|parent| sync(&parent)).map_err(failed),
            None => Ok(()),
        }
    }

    /// Returns the directory of an entry, and the entry's name in it.
    fn place<'p>(&self, at: &'p Path) -> Result<(Dir, &'p OsStr), FolderError> {
        let (Some(parent), Some(name)) = (at.parent(), at.file_name()) else {
            return Err(FolderError::Directory(show(at)));
        };
        Ok((self.target.open_directory(parent)?, name))
    }
}

/// Makes the new file share the old file's blocks, if the file system supports it (`ioctl_ficlone(2)`).
#[cfg(target_os = "linux")]
fn shares_blocks(from: &File, to: &File) -> bool {
    rustix::fs::ioctl_ficlone(to, from).is_ok()
}

#[cfg(not(target_os = "linux"))]
fn shares_blocks(_: &File, _: &File) -> bool {
    false
}

fn sync(directory: &File) -> io::Result<()> {
    match directory.sync_all() {
        // Some file systems cannot sync a directory and return this error.
        Err(error) if error.kind() == io::ErrorKind::InvalidInput => Ok(()),
        synced => synced,
    }
}

/// Syncs the whole file system.
#[cfg(target_os = "linux")]
fn sync_all(directory: &File) -> io::Result<()> {
    Ok(rustix::fs::syncfs(directory)?)
}

#[cfg(not(target_os = "linux"))]
fn sync_all(directory: &File) -> io::Result<()> {
    sync(directory)
}
