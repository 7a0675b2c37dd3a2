//! Whether a path is below another, by its text or by the file that the tool's working folder resolves it to.
//!
//! This module does not access the file system, and the comparison is case-sensitive. If the texts are not
//! sufficient, the result is unclear.

use serde::{Deserialize, Serialize};
use serde_json::Value;

/// A path among a call's arguments, as the tool's working folder resolves it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct PathArgument {
    /// Location of the argument, as a JSON pointer (RFC 6901).
    pub argument: String,
    /// The resolved path; `None` if the folder refuses the path. The tool then refuses the call.
    pub target: Option<PathTarget>,
}

/// The target of a path inside a working folder. The file need not exist.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct PathTarget {
    /// The folder's absolute paths: as configured, and without symbolic links.
    pub folders: Vec<String>,
    /// The path relative to the folder, without `.` and `..`; links are not followed. Empty for the folder itself.
    pub lexical: String,
    /// The path relative to the folder, with every symbolic link followed.
    pub resolved: String,
}

impl PathTarget {
    /// Whether a path of the working folder is below a folder that a rule names, relative or absolute.
    pub(super) fn lies_under(&self, path: &str, folder: &str) -> Result<bool, UnclearPath> {
        if !folder.starts_with('/') {
            // Inside the folder, a leading `~` is an ordinary character.
            return lies_under(&format!("./{path}"), folder);
        }
        for path in self.absolute(path) {
            if lies_under(&path, folder)? {
                return Ok(true);
            }
        }
        Ok(false)
    }

    /// Whether a rule names this path of the working folder, relative or absolute.
    pub(super) fn is_among(&self, path: &str, named: &[Value]) -> bool {
        let is_named = |named: &str| match parts(named) {
            Ok(named) if named.absolute => self.absolute(path).any(|path| parts(&path) == Ok(named.clone())),
            Ok(named) => parts(&format!("./{path}")).is_ok_and(|path| path == named),
            // A leading `~` is an ordinary character, and an empty text names the folder itself.
            Err(UnclearPath::Home | UnclearPath::Empty) => named == path,
            Err(UnclearPath::Mixed | UnclearPath::Leaves | UnclearPath::Nul | UnclearPath::Differs) => false,
        };
        named.iter().filter_map(Value::as_str).any(is_named)
    }

    /// Returns the absolute forms of a path of the working folder: one for each absolute path of the folder.
    pub(super) fn absolute(&self, path: &str) -> impl Iterator<Item = String> {
        self.folders.iter().map(move |folder| match path {
            "" => folder.clone(),
            path => format!("{}/{path}", folder.trim_end_matches('/')),
        })
    }
}

/// The reason why two paths cannot be compared.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum UnclearPath {
    /// One path is absolute and the other is not.
    #[error("one of the two paths is absolute and the other is not")]
    Mixed,
    /// The path leaves the folder that it is relative to.
    #[error("the path leaves the folder that it is relative to")]
    Leaves,
    /// The path starts with `~`, whose meaning depends on the reader.
    #[error("the path begins with `~`")]
    Home,
    /// The path is empty.
    #[error("the path is empty")]
    Empty,
    /// The path contains a NUL, at which some readers end it.
    #[error("the path holds a NUL")]
    Nul,
    /// The condition holds for the spelling but not for the file that it resolves to, or vice versa.
    #[error("the path and the file that it leads to differ")]
    Differs,
}

/// A path in its parts, without `.`, `..` and doubled slashes.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Parts<'p> {
    absolute: bool,
    names: Vec<&'p str>,
}

fn parts(path: &str) -> Result<Parts<'_>, UnclearPath> {
    if path.is_empty() {
        return Err(UnclearPath::Empty);
    }
    if path.contains('\0') {
        return Err(UnclearPath::Nul);
    }
    if path.starts_with('~') {
        return Err(UnclearPath::Home);
    }
    let absolute = path.starts_with('/');
    let mut names = Vec::new();
    for name in path.split('/') {
        match name {
            "" | "." => {}
            // The parent of the root is the root.
            ".." => match names.pop() {
                None if !absolute => return Err(UnclearPath::Leaves),
                Some(_) | None => {}
            },
            name => names.push(name),
        }
    }
    Ok(Parts { absolute, names })
}

/// Whether a path equals a folder or is below it.
pub fn lies_under(path: &str, folder: &str) -> Result<bool, UnclearPath> {
    let (path, folder) = (parts(path)?, parts(folder)?);
    if path.absolute != folder.absolute {
        return Err(UnclearPath::Mixed);
    }
    Ok(path.names.starts_with(&folder.names))
}

/// Checks that a rule can name this folder.
pub fn check_folder(folder: &str) -> Result<(), UnclearPath> {
    parts(folder).map(drop)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths_are_compared_part_by_part() {
        let cases = [
            ("src/a.rs", "src", Ok(true)),
            ("src", "src", Ok(true)),
            ("src/", "./src//", Ok(true)),
            ("srcs/a.rs", "src", Ok(false)),
            ("a/src/b", "src", Ok(false)),
            ("src/../secret", "src", Ok(false)),
            ("a/../src/b", "src", Ok(true)),
            ("anything/at/all", ".", Ok(true)),
            ("/etc/passwd", "/etc", Ok(true)),
            ("/etcetera", "/etc", Ok(false)),
            ("/a/../../etc/x", "/etc", Ok(true)),
            ("/x", "/", Ok(true)),
            ("src/./.git/config", "src/.git", Ok(true)),
            ("../src/a", "src", Err(UnclearPath::Leaves)),
            ("src/../../etc", "src", Err(UnclearPath::Leaves)),
            ("/etc", "src", Err(UnclearPath::Mixed)),
            ("src", "/etc", Err(UnclearPath::Mixed)),
            ("~/.ssh", "src", Err(UnclearPath::Home)),
            ("", "src", Err(UnclearPath::Empty)),
            ("src/a\0b", "src", Err(UnclearPath::Nul)),
        ];
        for (path, folder, wanted) in cases {
            assert_eq!(lies_under(path, folder), wanted, "{path} {folder}");
        }
    }

    #[test]
    fn paths_of_a_working_folder_are_compared_with_relative_and_absolute_folders() {
        let target = PathTarget {
            folders: vec!["/link".into(), "/srv/desk".into()],
            lexical: String::new(),
            resolved: String::new(),
        };
        let cases = [
            ("src/a.rs", "src", Ok(true)),
            ("srcs/a.rs", "src", Ok(false)),
            ("", ".", Ok(true)),
            ("", "src", Ok(false)),
            ("~/a", "~a", Err(UnclearPath::Home)),
            ("~/a", "./~", Ok(true)),
            ("src/a.rs", "/link/src", Ok(true)),
            ("src/a.rs", "/srv/desk/src", Ok(true)),
            ("src/a.rs", "/srv", Ok(true)),
            ("src/a.rs", "/etc", Ok(false)),
            ("src/a.rs", "/srv/desk/lib", Ok(false)),
        ];
        for (path, folder, wanted) in cases {
            assert_eq!(target.lies_under(path, folder), wanted, "{path} {folder}");
        }
    }
}
