//! The mounts of a command: all files are read-only except its writable
//! places, and `/proc` shows its own processes.
//!
//! Landlock does not cover modes, owners, times and attributes of files; a read-only mount protects them. The sandbox
//! determines which files can be read or changed.

use std::ffi::CString;
use std::fs::File;
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::MetadataExt;
use std::path::PathBuf;
use std::ptr;

use crate::sandbox::Opened;

/// Maximum number of writable places, without places inside others. A
/// typical configuration has fewer than ten.
const PLACES_MAX: usize = 64;

/// The files and folders that a command may change.
pub(crate) struct Places(Vec<Place>);

struct Place {
    path: CString,
    /// Device and inode number. The path may refer to another file by the time it is mounted.
    is: (u64, u64),
    /// The open handle prevents that the inode number is reused.
    _handle: File,
}

impl Places {
    /// Creates the list of these places, which were opened without following links.
    pub(crate) fn of(mut opened: Vec<Opened>) -> Result<Self, String> {
        opened.sort_by(|one, other| one.path.cmp(&other.path));
        let mut places: Vec<(PathBuf, Place)> = Vec::new();
        for Opened { path, handle } in opened {
            // The parent place includes this path.
            if places.iter().any(|(above, _)| path.starts_with(above)) {
                continue;
            }
            let failed = |error| format!("cannot give commands access to `{}`: {error}", path.display());
            let found = handle.metadata().map_err(failed)?;
            let name = CString::new(path.as_os_str().as_bytes()).map_err(|error| failed(error.into()))?;
            places.push((path, Place { path: name, is: (found.dev(), found.ino()), _handle: handle }));
        }
        if places.len() > PLACES_MAX {
            return Err(format!(
                "commands have {} writable paths, and the limit is {PLACES_MAX}; configure folders that \
                 contain several of them",
                places.len()
            ));
        }
        Ok(Self(places.into_iter().map(|(_, place)| place).collect()))
    }

    /// Creates an empty list: the command cannot change any file.
    pub(super) fn none() -> Self {
        Self(Vec::new())
    }

    /// Makes all files read-only except these places. Descriptors that were
    /// opened earlier still refer to the old mounts.
    ///
    /// # Safety
    ///
    /// Call this function only in a child that was just cloned with separate mounts.
    pub(super) unsafe fn close_others(&self) -> io::Result<()> {
        let mut trees = [-1; PLACES_MAX];
        for (place, tree) in self.0.iter().zip(&mut trees) {
            // SAFETY: the caller guarantees the conditions of this function.
            *tree = unsafe { place.copied()? };
        }
        // SAFETY: the kernel reads a structure in its own layout; the paths are null-terminated.
        unsafe {
            let closed = libc::mount_attr {
                attr_set: libc::MOUNT_ATTR_RDONLY,
                attr_clr: 0,
                propagation: 0,
                userns_fd: 0,
            };
            let (root, size) = (c"/".as_ptr(), size_of::<libc::mount_attr>());
            let whole = libc::AT_RECURSIVE;
            checked(libc::syscall(
                libc::SYS_mount_setattr,
                libc::AT_FDCWD,
                root,
                whole,
                &raw const closed,
                size,
            ))?;
            for (place, tree) in self.0.iter().zip(trees) {
                let (from, to) = (c"".as_ptr(), place.path.as_ptr());
                let flags = libc::MOVE_MOUNT_F_EMPTY_PATH;
                checked(libc::syscall(libc::SYS_move_mount, tree, from, libc::AT_FDCWD, to, flags))?;
                libc::close(tree);
            }
        }
        Ok(())
    }
}

impl Place {
    /// Copies the mount tree of this place.
    unsafe fn copied(&self) -> io::Result<libc::c_int> {
        let flags = libc::OPEN_TREE_CLONE | libc::OPEN_TREE_CLOEXEC | libc::AT_RECURSIVE as libc::c_uint;
        // SAFETY: the path is null-terminated; the kernel fills in the structure, for which zeroes are valid.
        unsafe {
            let opened = libc::syscall(libc::SYS_open_tree, libc::AT_FDCWD, self.path.as_ptr(), flags);
            checked(opened)?;
            let mut found: libc::stat = std::mem::zeroed();
            checked(libc::fstat(opened as libc::c_int, &raw mut found).into())?;
            if (found.st_dev, found.st_ino) == self.is {
                Ok(opened as libc::c_int)
            } else {
                Err(io::Error::from_raw_os_error(libc::ESTALE))
            }
        }
    }
}

/// Creates separate mounts: writable places, everything else read-only, and a `/proc` of the namespace's
/// processes. If the mount of `/proc` is forbidden, `/proc` is unchanged; the kernel protects its secrets.
///
/// # Safety
///
/// Call this function only in a child that was just cloned into new namespaces.
pub(super) unsafe fn own(places: Option<&Places>) -> io::Result<()> {
    // SAFETY: the texts are null-terminated.
    unsafe {
        let private = libc::MS_REC | libc::MS_PRIVATE;
        checked(libc::mount(ptr::null(), c"/".as_ptr(), ptr::null(), private, ptr::null()).into())?;
        if let Some(places) = places {
            places.close_others()?;
        }
        let quiet = libc::MS_NOSUID | libc::MS_NODEV | libc::MS_NOEXEC;
        let proc = c"proc".as_ptr();
        libc::mount(proc, c"/proc".as_ptr(), proc, quiet, ptr::null());
    }
    Ok(())
}

fn checked(returned: libc::c_long) -> io::Result<()> {
    if returned < 0 { Err(io::Error::last_os_error()) } else { Ok(()) }
}
