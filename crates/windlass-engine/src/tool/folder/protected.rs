//! Paths that file tools never write: what would let a model run code or loosen its own rules.
//!
//! Reading them is allowed. A later answer of a person may allow a write; nothing here asks.

use std::path::{Path, PathBuf};

use globset::{GlobBuilder, GlobSet, GlobSetBuilder};

use super::FolderError;

/// Globs of paths that file tools never write, matched without regard to letters' case.
#[derive(Clone, Debug)]
pub struct ProtectedPaths {
    globs: GlobSet,
    /// Paths at the folder's top that may themselves be links: their targets are protected as well.
    anchors: Vec<PathBuf>,
    /// Single files, in small letters.
    files: Vec<String>,
}

impl ProtectedPaths {
    /// Makes a list of globs, relative to the folder. What lies below a match is protected as well.
    pub fn new<'a>(globs: impl IntoIterator<Item = &'a str>) -> Result<Self, FolderError> {
        let mut set = GlobSetBuilder::new();
        let mut anchors = Vec::new();
        let failed = |glob: &str, source| FolderError::Glob { glob: glob.to_owned(), source };
        for glob in globs {
            // A file system may ignore case; refusing `Windlass.toml` elsewhere costs nothing.
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

    /// The default list: this engine's configuration and policy, git's insides, start-up files of shells, sessions and
    /// editors. It does not contain workflows of a forge: they run elsewhere, after a push.
    pub fn default_globs() -> &'static [&'static str] {
        DEFAULT
    }

    /// Tells whether a relative path, or a directory above it, is protected.
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
        // Invariant: the list below is constant and a test builds it.
        Self::new(DEFAULT.iter().copied()).expect("the default globs are valid")
    }
}

const DEFAULT: &[&str] = &[
    "**/windlass.toml",
    "**/windlass.policy.toml",
    // The user's own, as the platforms have it.
    "**/windlass/policy.toml",
    // All of it, not only `hooks` and `config`: `commondir` and `modules` lead to other hooks. The
    // file `.git` of a linked work tree names the directory.
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
    // Files that editors, package managers and git execute on their own, and that start tool servers.
    "**/.vimrc",
    "**/.exrc",
    "**/.npmrc",
    "**/.mcp.json",
    "**/.vscode/tasks.json",
    "**/.husky",
    "**/.pre-commit-config.yaml",
];
