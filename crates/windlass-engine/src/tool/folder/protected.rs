//! Paths that file tools never write, because such a write would let a model run code or loosen its own rules.
//!
//! Reading these paths is allowed. This module does not ask people for permission.

use std::path::{Path, PathBuf};

use globset::{GlobBuilder, GlobSet, GlobSetBuilder};

use super::FolderError;

/// Globs of paths that file tools never write, matched without regard to case.
#[derive(Clone, Debug)]
pub struct ProtectedPaths {
    globs: GlobSet,
    /// Paths at the top of the folder that may themselves be links: their targets are protected as well.
    anchors: Vec<PathBuf>,
    /// Single files, in lower case.
    files: Vec<String>,
}

impl ProtectedPaths {
    /// Creates a list from globs relative to the folder. All paths below a match are protected as well.
    pub fn new<'a>(globs: impl IntoIterator<Item = &'a str>) -> Result<Self, FolderError> {
        let mut set = GlobSetBuilder::new();
        let mut anchors = Vec::new();
        let failed = |glob: &str, source| FolderError::Glob { glob: glob.to_owned(), source };
        for glob in globs {
            // A file system may ignore case; protecting `Windlass.toml` elsewhere is harmless.
            let built = GlobBuilder::new(glob).case_insensitive(true).literal_separator(true).build();
            set.add(built.map_err(|source| failed(glob, source))?);
            let anchor = glob.strip_prefix("**/").unwrap_or(glob);
            if !anchor.contains(['*', '?', '[', '{']) {
                anchors.push(PathBuf::from(anchor));
            }
        }
        let globs = set.build().map_err(|source| failed("the list", source))?;
        Ok(Self { globs, anchors, files: Vec::new() })
    }

    /// Returns the default list: this engine's configuration and policy, git directories, start-up files of shells
    /// and sessions, and editor settings. Workflows of a forge are not included, because they run elsewhere after a
    /// push.
    pub fn default_globs() -> &'static [&'static str] {
        DEFAULT
    }

    /// Whether a relative path, or a directory above it, is protected.
    pub(super) fn contains(&self, path: &Path) -> bool {
        path.ancestors().any(|part| !part.as_os_str().is_empty() && self.globs.is_match(part))
            || self.files.contains(&in_small_letters(path))
    }

    /// Adds a file by its path relative to the folder.
    pub(super) fn add_file(&mut self, path: &Path) {
        self.files.push(in_small_letters(path));
    }

    pub(super) fn anchors(&self) -> &[PathBuf] {
        &self.anchors
    }
}

fn in_small_letters(path: &Path) -> String {
    path.to_string_lossy().to_lowercase()
}

impl Default for ProtectedPaths {
    fn default() -> Self {
        // Invariant: the list below is constant, and a test builds it.
        Self::new(DEFAULT.iter().copied()).expect("the default globs are valid")
    }
}

const DEFAULT: &[&str] = &[
    "**/windlass.toml",
    "**/windlass.policy.toml",
    // The user's own policy, in the platform's configuration folder.
    "**/windlass/policy.toml",
    // The whole directory is protected, not only `hooks` and `config`, because `commondir` and `modules` point to
    // other hooks. In a linked work tree, `.git` is a file that names the directory.
    "**/.git",
    ".git/hooks",
    ".git/config",
    "**/.gitconfig",
    "**/.bashrc",
    "**/.bash_profile",
    "**/.bash_login",
    "**/.bash_logout",
    "**/.bash_aliases",
    "**/.profile",
    "**/.zshrc",
    "**/.zshenv",
    "**/.zprofile",
    "**/.zlogin",
    "**/.zlogout",
    "**/.kshrc",
    "**/.cshrc",
    "**/.tcshrc",
    "**/.login",
    "**/.xprofile",
    "**/.xinitrc",
    "**/.config/fish",
    "**/.config/systemd",
    "**/.config/autostart",
    "**/.local/bin",
    "**/.ssh",
    "**/.envrc",
    // Files that editors, package managers and git execute automatically, or that start tool servers.
    "**/.vimrc",
    "**/.exrc",
    "**/.npmrc",
    "**/.mcp.json",
    "**/.vscode/tasks.json",
    "**/.husky",
    "**/.pre-commit-config.yaml",
];
