//! A command's scratch folder, deleted when the command ends, and the
//! cleanup of folders that dead processes left.
//!
//! The owner holds a lock on the folder, which the kernel releases when the process dies. A process that can
//! take the lock may delete the folder. The cleanup does not change other entries of the directory.

use std::fs::{self, File, OpenOptions, TryLockError};
use std::io;
use std::os::fd::AsRawFd;
use std::os::unix::fs::{MetadataExt, OpenOptionsExt, PermissionsExt};
use std::path::{Path, PathBuf};

use tempfile::TempDir;

use crate::sandbox::Opened;

const BEGIN: &str = "windlass-command-";

/// Maximum number of names to try. A name fails only if a concurrent sweep takes it.
const MAX_NAMES: usize = 100;

/// Maximum depth of folders that are opened for deletion. Deeper content is not deleted.
const DEPTH_MAX: usize = 128;

pub(crate) struct Scratch {
    folder: TempDir,
    /// The open folder. Its lock is held while the folder is needed.
    lock: File,
}

impl Scratch {
    /// Creates a scratch folder.
    pub(crate) fn create() -> io::Result<Self> {
        for _ in 0..MAX_NAMES {
            let folder = tempfile::Builder::new().prefix(BEGIN).tempdir()?;
            // A concurrent sweep may delete the folder before the lock is taken.
            let lock = match opened_itself(folder.path()) {
                Err(error) if error.kind() == io::ErrorKind::NotFound => continue,
                opened => opened?,
            };
            let is_locked = match lock.try_lock() {
                Ok(()) => true,
                Err(TryLockError::WouldBlock) => false,
                // On a file system without locks, a sweep cannot take the lock either and deletes nothing.
                Err(TryLockError::Error(_)) => true,
            };
            if is_locked && fs::symlink_metadata(folder.path()).is_ok() {
                return Ok(Self { folder, lock });
            }
        }
        Err(io::Error::from(io::ErrorKind::AlreadyExists))
    }

    pub(crate) fn path(&self) -> &Path {
        self.folder.path()
    }

    /// Returns the folder as created, even if its path now refers to another file.
    pub(crate) fn opened(&self) -> io::Result<Opened> {
        Ok(Opened { path: self.path().canonicalize()?, handle: self.lock.try_clone()? })
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        delete(self.folder.path());
    }
}

/// Deletes the folders that dead processes left, on a background thread.
pub(crate) fn sweep() {
    let swept = || {
        // Entries that cannot be listed, opened or deleted are left for the next sweep.
        let Ok(entries) = fs::read_dir(std::env::temp_dir()) else { return };
        for entry in entries.flatten().filter(|entry| entry.file_name().to_string_lossy().starts_with(BEGIN))
        {
            let _ = delete_if_left(&entry.path());
        }
    };
    let _ = std::thread::Builder::new().name("windlass-sweep".into()).spawn(swept);
}

fn delete_if_left(folder: &Path) -> io::Result<()> {
    let found = fs::symlink_metadata(folder)?;
    // SAFETY: the call only returns a number of this process.
    if !found.is_dir() || found.uid() != unsafe { libc::geteuid() } {
        return Ok(());
    }
    let lock = match opened_itself(folder) {
        Err(error) if error.kind() == io::ErrorKind::PermissionDenied => {
            // The folder's command may have removed the access rights.
            let _ = opened(folder);
            opened_itself(folder)?
        }
        opened => opened?,
    };
    if lock.try_lock().is_ok() {
        delete(folder);
    }
    Ok(())
}

/// Opens a folder, but never a link at its path.
fn opened_itself(folder: &Path) -> io::Result<File> {
    OpenOptions::new().read(true).custom_flags(libc::O_DIRECTORY | libc::O_NOFOLLOW).open(folder)
}

/// Deletes a folder, including content without access rights.
fn delete(folder: &Path) {
    if fs::remove_dir_all(folder).is_err() {
        open_all(folder, DEPTH_MAX);
        let _ = fs::remove_dir_all(folder);
    }
}

fn open_all(folder: &Path, depth: usize) {
    let Ok((_handle, path)) = opened(folder) else { return };
    let Ok(entries) = fs::read_dir(&path) else { return };
    for entry in entries.flatten().filter(|_| depth > 0) {
        if entry.file_type().is_ok_and(|kind| kind.is_dir()) {
            open_all(&entry.path(), depth - 1);
        }
    }
}

/// Gives this user access to a folder through a handle, so that a link at its path is not followed. Returns
/// the handle and a path through it.
fn opened(folder: &Path) -> io::Result<(File, PathBuf)> {
    let flags = libc::O_PATH | libc::O_DIRECTORY | libc::O_NOFOLLOW;
    let handle = OpenOptions::new().read(true).custom_flags(flags).open(folder)?;
    let path = PathBuf::from(format!("/proc/self/fd/{}", handle.as_raw_fd()));
    fs::set_permissions(&path, fs::Permissions::from_mode(0o700))?;
    Ok((handle, path))
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::symlink;

    use super::*;

    /// If commands can change the parent of scratch folders, one of them can replace another's folder.
    #[test]
    fn what_stands_in_the_place_of_a_scratch_folder_is_not_opened() {
        let root = tempfile::tempdir().unwrap();
        let (secret, gone) = (root.path().join("secret"), root.path().join("gone"));
        fs::create_dir(&secret).unwrap();
        fs::write(secret.join("file"), "x").unwrap();
        let scratch = Scratch::create().unwrap();
        fs::rename(scratch.path(), &gone).unwrap();
        symlink(&secret, scratch.path()).unwrap();
        assert!(opened_itself(scratch.path()).is_err());
        let opened = scratch.opened().unwrap().handle.metadata().unwrap();
        assert_eq!(opened.ino(), gone.metadata().unwrap().ino());
        drop(scratch);
        assert!(secret.join("file").exists());
    }
}
