//! The `.gitignore` patterns that apply during a directory walk, with the syntax and the precedence of git.
//!
//! Patterns above the working folder, `.git/info/exclude` and the user's own excludes are not read.

use std::io::Read as _;
use std::path::Path;
use std::rc::Rc;

use cap_std::fs::Dir;
use ignore::Match;
use ignore::gitignore::{Gitignore, GitignoreBuilder};
use windlass_engine::tool::WorkingFolder;

pub(super) const FILE: &str = ".gitignore";

/// Maximum number of bytes read from a `.gitignore` file. The largest widely used template has 10 KB.
const MAX_BYTES: u64 = 256 * 1024;

/// The patterns that apply in a directory: the patterns of its own
/// file before those of the directories above.
#[derive(Clone, Default)]
pub(super) struct Patterns(Option<Rc<Level>>);

struct Level {
    own: Gitignore,
    above: Patterns,
}

impl Patterns {
    /// Returns the patterns of every directory from the working folder to the parent of `directory`; the file in
    /// `directory` itself is not read.
    pub(super) fn above(folder: &WorkingFolder, directory: &Path) -> Self {
        let mut above: Vec<&Path> = directory.ancestors().skip(1).collect();
        above.reverse();
        let level = |patterns: Self, path: &Path| match folder.open_directory(path) {
            Ok(opened) => patterns.below(folder, &opened, path),
            Err(_) => patterns,
        };
        above.into_iter().fold(Self::default(), level)
    }

    /// Returns the patterns that apply in a subdirectory: the subdirectory's own file takes precedence over `self`.
    /// Ignores a file that cannot be read or parsed, and skips invalid lines, as git does.
    pub(super) fn below(&self, folder: &WorkingFolder, directory: &Dir, path: &Path) -> Self {
        let read = || {
            let file = folder.open_entry(directory, FILE.as_ref(), &path.join(FILE)).ok()?;
            let mut bytes = Vec::new();
            file.take(MAX_BYTES).read_to_end(&mut bytes).ok()?;
            let mut patterns = GitignoreBuilder::new(path);
            for line in String::from_utf8_lossy(&bytes).lines() {
                let _ = patterns.add_line(None, line);
            }
            patterns.build().ok()
        };
        match read() {
            Some(own) if !own.is_empty() => Self(Some(Rc::new(Level { own, above: self.clone() }))),
            Some(_) | None => self.clone(),
        }
    }

    /// Whether git ignores an entry. The caller must skip the entries below an ignored directory.
    pub(super) fn ignore(&self, path: &Path, is_directory: bool) -> bool {
        let mut level = self.0.as_ref();
        while let Some(patterns) = level {
            match patterns.own.matched(path, is_directory) {
                Match::Ignore(_) => return true,
                Match::Whitelist(_) => return false,
                Match::None => level = patterns.above.0.as_ref(),
            }
        }
        false
    }
}
