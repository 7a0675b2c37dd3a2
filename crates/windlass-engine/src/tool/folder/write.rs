//! Writes files of the working folder atomically: a reader sees either the old content or the new content.
//!
//! The new content is durable before it gets the name, and the name is durable before the call returns. Owner,
//! extended attributes and hard links of the old file are not preserved.

use std::ffi::OsStr;
use std::io::{self, Write};
use std::path::{Path, PathBuf};

use cap_std::fs::{Dir, File, Permissions, PermissionsExt};

use super::temporary::Temporary;
use super::{FolderError, FolderPath, WorkingFolder, io_error, open_directory_at, refuse_irregular, show};

/// Effect of a write.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Written {
    /// No file existed before.
    Created,
    /// An existing file was replaced.
    Overwritten,
}

impl WorkingFolder {
    /// Returns an error if file tools must not write to a path.
    pub fn refuse_protected(&self, path: &FolderPath) -> Result<(), FolderError> {
        let is_protected = self.protected.contains(&path.resolved)
            || self.protected.contains(&path.lexical)
            || self.protected.anchors().iter().any(|anchor| self.leads_to(anchor, &path.resolved));
        if is_protected { Err(FolderError::Protected(path.to_string())) } else { Ok(()) }
    }

    /// Replaces a file's content atomically, or creates it with missing parent directories.
    ///
    /// An existing file keeps its mode. Fails for a protected or read-only file, and
    /// if the folder's quota is exceeded. After an error the file still has the old
    /// content, unless the error came from the last step, the sync of the directory.
    ///
    /// In the folder of a call, the old content is recorded first, and this method waits for the thread's driver.
    /// Call it only where blocking is allowed.
    pub fn write(&self, path: &FolderPath, content: &[u8]) -> Result<Written, FolderError> {
        self.write_as(path, content, None)
    }

    /// Like [`write`](Self::write); a new file gets these permissions.
    pub(crate) fn write_as(
        &self,
        path: &FolderPath,
        content: &[u8],
        mode: Option<u32>,
    ) -> Result<Written, FolderError> {
        self.refuse_protected(path)?;
        self.take_room(path, content.len() as u64)?;
        self.tell(path, Some(content))?;
        let target = path.as_path();
        let (Some(parent), Some(name)) = (target.parent(), target.file_name()) else {
            return Err(FolderError::Directory(".".to_owned()));
        };
        let directory = self.create_directories(parent)?;
        let permissions = match directory.symlink_metadata(name) {
            Ok(metadata) => {
                refuse_irregular(&metadata, target)?;
                // Renaming over a file needs no permission to write it, so its mode is checked here.
                if metadata.permissions().readonly() {
                    return Err(FolderError::ReadOnly(show(target)));
                }
                Some(metadata.permissions())
            }
            Err(error) if error.kind() == io::ErrorKind::NotFound => None,
            Err(error) => return Err(io_error("write", target, error)),
        };
        self.cleared.clear(parent, &directory);
        let written = if permissions.is_some() { Written::Overwritten } else { Written::Created };
        let permissions = permissions.or_else(|| mode.map(Permissions::from_mode));
        replace(&directory, name, content, permissions)
            .map_err(|source| io_error("write", target, source))?;
        Ok(written)
    }

    /// Deletes a regular file. Fails for a protected or read-only file. The old content is recorded first, as for
    /// [`WorkingFolder::write`].
    pub fn remove(&self, path: &FolderPath) -> Result<(), FolderError> {
        self.refuse_protected(path)?;
        let (directory, name) = self.parent_of(path)?;
        let failed = |source| io_error("delete", path.as_path(), source);
        let found = directory.symlink_metadata(&name).map_err(failed)?;
        refuse_irregular(&found, path.as_path())?;
        if found.permissions().readonly() {
            return Err(FolderError::ReadOnly(show(path.as_path())));
        }
        self.tell(path, None)?;
        directory.remove_file(&name).and_then(|()| sync(&directory)).map_err(failed)
    }

    /// Deletes temporary files of dead writers in the folder's top directory. A subdirectory is cleared before the
    /// first write to it, because searching all subdirectories would take too long.
    pub fn clear_leftovers(&self) {
        let top = Path::new("");
        if let Ok(directory) = self.open_directory(top) {
            self.cleared.clear(top, &directory);
        }
    }

    /// Opens a directory, and creates missing directories on its path.
    fn create_directories(&self, relative: &Path) -> Result<Dir, FolderError> {
        let mut directory = self.open_directory(Path::new(""))?;
        let mut reached = PathBuf::new();
        for name in relative {
            reached.push(name);
            let failed = |source| io_error("create the directory", &reached, source);
            let opened = open_directory_at(&directory, name);
            let is_missing = matches!(&opened, Err(error) if error.kind() == io::ErrorKind::NotFound);
            directory = if is_missing {
                match directory.create_dir(name) {
                    Err(error) if error.kind() != io::ErrorKind::AlreadyExists => return Err(failed(error)),
                    // The name of the directory must be durable before the name of the file.
                    Ok(()) => sync(&directory).map_err(failed)?,
                    Err(_) => {}
                }
                open_directory_at(&directory, name).map_err(failed)?
            } else {
                opened.map_err(failed)?
            };
        }
        Ok(directory)
    }

    /// Whether a protected name is a link to a path or to a directory above it.
    fn leads_to(&self, anchor: &Path, path: &Path) -> bool {
        let shown = show(anchor);
        self.follow(anchor, &shown).is_ok_and(|target| target != anchor && path.starts_with(target))
    }
}

fn replace(directory: &Dir, name: &OsStr, content: &[u8], mode: Option<Permissions>) -> io::Result<()> {
    let mut new = Temporary::create(directory, mode.is_some())?;
    let renamed = (|| {
        new.file.write_all(content)?;
        if let Some(mode) = mode {
            File::from_std(new.file.try_clone()?).set_permissions(mode)?;
        }
        new.file.sync_all()?;
        directory.rename(&new.name, directory, name)
    })();
    if renamed.is_err() {
        // Report the first error, not an error of this deletion.
        let _ = directory.remove_file(&new.name);
    }
    renamed?;
    sync(directory)
}

/// Syncs a directory, so that its names are durable.
fn sync(directory: &Dir) -> io::Result<()> {
    match directory.try_clone()?.into_std_file().sync_all() {
        // Some file systems cannot sync a directory and return this error.
        Err(error) if error.kind() == io::ErrorKind::InvalidInput => Ok(()),
        synced => synced,
    }
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    /// The rename is the last step that can fail; a failure undoes all earlier steps.
    #[test]
    fn a_write_that_fails_leaves_nothing_behind() {
        let root = tempfile::tempdir().unwrap();
        fs::create_dir(root.path().join("taken")).unwrap();
        fs::write(root.path().join("taken/old.txt"), "old").unwrap();
        let folder = WorkingFolder::open(root.path()).unwrap();
        let directory = folder.open_directory(Path::new("")).unwrap();
        replace(&directory, OsStr::new("taken"), b"new", None).unwrap_err();
        let left: Vec<_> = fs::read_dir(root.path()).unwrap().map(|e| e.unwrap().file_name()).collect();
        assert_eq!(left, ["taken"]);
        assert_eq!(fs::read_to_string(root.path().join("taken/old.txt")).unwrap(), "old");
    }
}
