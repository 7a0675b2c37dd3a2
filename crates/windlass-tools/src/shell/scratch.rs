//! A command's scratch folder, which goes with it, and what dead processes left of such folders.
//!
//! Whoever has made one holds a lock on it, which the kernel frees however the process dies: whoever can take the lock
//! may delete the folder. Nothing else beside it is ever touched.

use std::fs::{self, File, OpenOptions, TryLockError};
use std::io;
use std::os::fd::AsRawFd;
use std::os::unix::fs::{MetadataExt, OpenOptionsExt, PermissionsExt};
use std::path::{Path, PathBuf};

use tempfile::TempDir;

use crate::sandbox::Opened;

const BEGIN: &str = "windlass-command-";

/// Names tried before giving up: only somebody who sweeps in the same moment is in the way.
const MAX_NAMES: usize = 100;

/// Folders in folders that are opened to be deleted; what lies deeper stays.
const DEPTH_MAX: usize = 128;

/// A scratch folder.
pub(crate) struct Scratch {
    folder: TempDir,
    /// The folder itself; held as long as it is needed.
    lock: File,
}

impl Scratch {
    /// Makes one.
    pub(crate) fn create() -> io::Result<Self> {
        for _ in 0..MAX_NAMES {
            let folder = tempfile::Builder::new().prefix(BEGIN).tempdir()?;
            // Whoever sweeps may take it for a leftover until the lock is held.
            let lock = match opened_itself(folder.path()) {
                Err(error) if error.kind() == io::ErrorKind::NotFound => continue,
                opened => opened?,
            };
            let is_locked = match lock.try_lock() {
                Ok(()) => true,
                Err(TryLockError::WouldBlock) => false,
                // A file system without locks: nobody can take it there, and so nobody deletes the folder.
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

    /// It, as it was made: whatever stands in its place by now is not meant.
    pub(crate) fn opened(&self) -> io::Result<Opened> {
        Ok(Opened { path: self.path().canonicalize()?, handle: self.lock.try_clone()? })
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        delete(self.folder.path());
    }
}

/// Deletes what dead processes left, in a thread of its own: nobody waits for it.
pub(crate) fn sweep() {
    let swept = || {
        // What cannot be listed, opened or deleted stays, for the next time.
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
    // SAFETY: reads a number of this process.
    if !found.is_dir() || found.uid() != unsafe { libc::geteuid() } {
        return Ok(());
    }
    let lock = match opened_itself(folder) {
        Err(error) if error.kind() == io::ErrorKind::PermissionDenied => {
            // Its command has shut it.
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

/// Opens a folder, and nothing that a link in its place leads to.
fn opened_itself(folder: &Path) -> io::Result<File> {
    OpenOptions::new().read(true).custom_flags(libc::O_DIRECTORY | libc::O_NOFOLLOW).open(folder)
}

/// Deletes a folder, also what its command has shut in it.
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

/// Lets this user into a folder, by a handle: no link in its place is followed. Returns the handle with a path by it.
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

    /// Where commands may change the folder that scratch folders lie in, one of them can take another one's place.
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
