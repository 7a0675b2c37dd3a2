//! The files and folders that the configuration makes accessible to commands. They are resolved without
//! following links and kept open from the start of this process.
//!
//! A command can replace any entry of a writable folder by a link. A configured path through that link would
//! give the next command access to the link's target.

use std::collections::VecDeque;
use std::ffi::{CString, OsStr, OsString};
use std::fs::File;
use std::io;
use std::os::fd::{AsRawFd, FromRawFd, RawFd};
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

/// One configured path.
#[derive(Debug)]
pub(super) struct Opening {
    /// The configuration key of the list that contains the path.
    key: &'static str,
    path: PathBuf,
    /// The file at startup. It is kept open, so that its inode number is not reused.
    first: Option<File>,
}

/// The current file with its path, which contains no links.
pub(crate) struct Opened {
    pub path: PathBuf,
    pub handle: File,
}

/// Why a path cannot be opened.
#[derive(Debug)]
pub(super) enum Blocked {
    /// The file is missing or inaccessible.
    Missing,
    /// The path contains a link.
    Link {
        at: PathBuf,
        to: PathBuf,
    },
    Failed(io::Error),
}

impl Opening {
    /// Resolves a path at startup.
    pub(super) fn new(key: &'static str, path: &Path) -> Self {
        let path = std::path::absolute(path).unwrap_or_else(|_| path.to_owned());
        let first = find(&path, |_| false).ok();
        Self { key, path, first }
    }

    pub(super) fn path(&self) -> &Path {
        &self.path
    }

    /// Opens the current file. Returns `None` if the file is missing. Returns an error if the path contains a
    /// link, or if the file has appeared since startup in one of `places`, which commands may change.
    pub(super) fn now(&self, places: &[&Path]) -> Result<Option<Opened>, String> {
        let Self { key, path, first } = self;
        let named = || format!("`{}` in `{key}` of `[tools.bash]`", path.display());
        let handle = match find(path, |_| false) {
            Ok(handle) => handle,
            Err(Blocked::Missing) => return Ok(None),
            Err(Blocked::Link { at, to }) => {
                return Err(format!(
                    "{} goes through the symbolic link `{}`, which points to `{}` and may have been created \
                     by a command; remove the link, or set `{key}` to the real path without links",
                    named(),
                    at.display(),
                    to.display()
                ));
            }
            Err(Blocked::Failed(error)) => return Err(format!("cannot open {}: {error}", named())),
        };
        let is_other = match first {
            Some(first) => !is_same(first, &handle).map_err(|error| error.to_string())?,
            None => false,
        };
        let around = places.iter().find(|place| path.starts_with(place) && path != *place);
        match around.filter(|_| is_other) {
            Some(around) => Err(format!(
                "{} has changed since Windlass started, and it is inside `{}`, where commands can write; \
                 inspect it and restart Windlass, or remove it from `{key}`",
                named(),
                around.display()
            )),
            None => Ok(Some(Opened { path: path.clone(), handle })),
        }
    }
}

/// Returns an error if a path no longer refers to the opened file.
pub(super) fn still_leads_to(path: &Path, meant: &File) -> Result<(), String> {
    let is_there = match find(path, |_| false) {
        Ok(found) => is_same(meant, &found).map_err(|error| error.to_string())?,
        Err(_) => false,
    };
    if is_there {
        return Ok(());
    }
    Err(format!(
        "the working folder `{}` is no longer the folder that was opened: it was moved, or replaced by a \
         link or another folder; restore it, or restart Windlass in the intended folder",
        path.display()
    ))
}

fn is_same(one: &File, other: &File) -> io::Result<bool> {
    let (one, other) = (one.metadata()?, other.metadata()?);
    Ok((one.dev(), one.ino()) == (other.dev(), other.ino()))
}

/// Maximum number of links followed in a path. Linux has the same limit (`path_resolution(7)`).
const LINKS_MAX: usize = 40;

/// Opens an absolute path component by component. Follows only links for which `follows` returns `true`.
/// `follows` receives the link's path, whose parents are resolved.
pub(super) fn find(path: &Path, follows: impl Fn(&Path) -> bool) -> Result<File, Blocked> {
    let root = open_at(libc::AT_FDCWD, OsStr::new("/"))?;
    let mut way = vec![(PathBuf::from("/"), root)];
    let mut pending: VecDeque<OsString> = path.iter().map(OsStr::to_owned).collect();
    let mut links = 0;
    while let Some(name) = pending.pop_front() {
        if name == "/" {
            way.truncate(1);
        } else if name == ".." {
            way.truncate(way.len().saturating_sub(1).max(1));
        } else if name != "."
            && let Some((above, parent)) = way.last()
        {
            let (at, found) = (above.join(&name), open_at(parent.as_raw_fd(), &name)?);
            if !found.metadata().map_err(Blocked::Failed)?.is_symlink() {
                way.push((at, found));
                continue;
            }
            let to = target(&found)?;
            links += 1;
            if links > LINKS_MAX || !follows(&at) {
                return Err(Blocked::Link { at, to });
            }
            to.iter().rev().for_each(|part| pending.push_front(part.to_owned()));
        }
    }
    way.pop().map(|(_, found)| found).ok_or(Blocked::Missing)
}

/// Opens a component, or a link itself, as a handle without access to its content.
fn open_at(parent: RawFd, name: &OsStr) -> Result<File, Blocked> {
    let name = CString::new(name.as_bytes()).map_err(|error| Blocked::Failed(error.into()))?;
    let flags = libc::O_PATH | libc::O_NOFOLLOW | libc::O_CLOEXEC;
    // SAFETY: the name is null-terminated, and the parent is open.
    let opened = unsafe { libc::openat(parent, name.as_ptr(), flags) };
    if opened >= 0 {
        // SAFETY: the descriptor was just opened and has no other owner.
        return Ok(unsafe { File::from_raw_fd(opened) });
    }
    let error = io::Error::last_os_error();
    Err(match error.kind() {
        io::ErrorKind::NotFound | io::ErrorKind::NotADirectory | io::ErrorKind::PermissionDenied => {
            Blocked::Missing
        }
        _ => Blocked::Failed(error), // tidy: kinds of the standard library
    })
}

/// Returns the target of a link.
fn target(link: &File) -> Result<PathBuf, Blocked> {
    let mut text = vec![0_u8; libc::PATH_MAX as usize];
    // SAFETY: the name is null-terminated; the kernel writes at most the buffer's length.
    let read =
        unsafe { libc::readlinkat(link.as_raw_fd(), c"".as_ptr(), text.as_mut_ptr().cast(), text.len()) };
    let size = usize::try_from(read).map_err(|_| Blocked::Failed(io::Error::last_os_error()))?;
    text.truncate(size);
    Ok(OsString::from_vec(text).into())
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::os::unix::fs::symlink;

    use super::*;

    /// Creates a folder with a file, and links to that file from another folder.
    fn linked() -> (tempfile::TempDir, PathBuf) {
        let root = tempfile::tempdir().unwrap();
        let top = root.path().canonicalize().unwrap();
        fs::create_dir_all(top.join("real/deep")).unwrap();
        fs::create_dir(top.join("links")).unwrap();
        fs::write(top.join("real/deep/file"), "x").unwrap();
        symlink(top.join("real"), top.join("links/whole")).unwrap();
        symlink("../real/./deep/../deep", top.join("links/relative")).unwrap();
        symlink("whole/deep/file", top.join("links/twice")).unwrap();
        symlink("round", top.join("links/round")).unwrap();
        (root, top)
    }

    fn same(one: &Path, follows: impl Fn(&Path) -> bool, other: &Path) -> bool {
        find(one, follows).is_ok_and(|found| is_same(&found, &File::open(other).unwrap()).unwrap())
    }

    #[test]
    fn a_path_is_found_through_the_links_that_may_be_followed_and_no_others() {
        let (_root, top) = linked();
        let file = top.join("real/deep/file");
        for name in ["links/whole/deep/file", "links/relative/file", "links/twice", "real/../real/deep/file"]
        {
            assert!(same(&top.join(name), |_| true, &file), "{name}");
        }
        assert!(same(&file, |_| false, &file));
        for name in ["links/whole/deep/file", "links/relative/file", "links/twice", "links/round"] {
            let found = find(&top.join(name), |_| false);
            assert!(matches!(&found, Err(Blocked::Link { .. })), "{name}: {found:?}");
        }
        // Every link is checked with its own path, including the second.
        let second = find(&top.join("links/twice"), |at| at.ends_with("links/twice")).unwrap_err();
        let Blocked::Link { at, to } = second else { panic!("{second:?}") };
        assert_eq!((at, to), (top.join("links/whole"), top.join("real")));
        assert!(matches!(find(&top.join("links/round"), |_| true), Err(Blocked::Link { .. })));
        for name in ["nothing", "real/deep/file/below", "links/whole/nothing"] {
            assert!(matches!(find(&top.join(name), |_| true), Err(Blocked::Missing)), "{name}");
        }
    }

    #[test]
    fn a_replaced_folder_is_detected() {
        let (_root, top) = linked();
        let (real, moved) = (top.join("real"), top.join("moved"));
        let meant = find(&real, |_| false).unwrap();
        assert_eq!(still_leads_to(&real, &meant), Ok(()));
        fs::rename(&real, &moved).unwrap();
        assert!(still_leads_to(&real, &meant).is_err());
        fs::create_dir(&real).unwrap();
        assert!(still_leads_to(&real, &meant).is_err());
        fs::remove_dir(&real).unwrap();
        symlink(&moved, &real).unwrap();
        assert!(still_leads_to(&real, &meant).is_err());
        fs::remove_file(&real).unwrap();
        fs::rename(&moved, &real).unwrap();
        assert_eq!(still_leads_to(&real, &meant), Ok(()));
    }
}
