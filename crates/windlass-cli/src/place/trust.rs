//! Records the folders whose `windlass.toml` and `windlass.policy.toml` the user trusts. One digest covers both and all
//! files in the folder that the settings refer to. If one of these files changes, none of them is trusted any longer.
//!
//! The list is in the user's data directory, which an agent's file tools cannot access.

pub mod prompt;

use std::collections::BTreeMap;
use std::fs::File;
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};
use windlass::machine::Digest;
use windlass_server::trouble::Trouble;

use crate::paths::{CONFIG_FILE, POLICY_FILE, UserPaths, private_directory};
use crate::place::programs::{Program, named_in};

/// Maximum size of a file in bytes. Users review a file before they trust it, so real files are much smaller.
const MAX_BYTES: u64 = 1024 * 1024;

#[derive(Debug, Default, Serialize, Deserialize)]
pub struct Trusted {
    /// Maps a folder's real path to the digest of its files.
    folders: BTreeMap<String, String>,
    #[serde(skip)]
    path: PathBuf,
}

/// The files of a folder; at least one of them exists.
#[derive(Debug)]
pub struct FolderFiles {
    /// The folder's key in the list.
    pub folder: String,
    pub config: Option<FolderFile>,
    pub policy: Option<FolderFile>,
    /// Files in the folder that the configuration executes or reads, including missing ones.
    pub programs: Vec<Program>,
    digest: String,
}

#[derive(Debug)]
pub struct FolderFile {
    pub path: PathBuf,
    /// The text, which the digest covers.
    pub text: String,
}

/// Whether a folder's files are trusted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Standing {
    /// The user has trusted exactly these texts.
    Trusted,
    /// The user has trusted an earlier version.
    Changed,
    /// The user has never trusted them.
    Unknown,
}

impl FolderFiles {
    /// Reads a folder's files once, so that the verified text is the text in use. Returns `None` if
    /// the folder has none of these files.
    pub fn read(folder: &Path) -> Result<Option<Self>, Trouble> {
        let config = FolderFile::read(folder.join(CONFIG_FILE))?;
        let policy = FolderFile::read(folder.join(POLICY_FILE))?;
        if config.is_none() && policy.is_none() {
            return Ok(None);
        }
        let texts = [&config, &policy].map(|file| file.as_ref().map(|file| &file.text));
        let mut digest = Digest::default().chain(&texts);
        let programs = config.as_ref().map(|file| named_in(folder, &file.text)).unwrap_or_default();
        for Program { name, digest: of_program, .. } in &programs {
            digest = digest.chain(&(name, of_program.map(|digest| digest.to_string())));
        }
        Ok(Some(Self { folder: name(folder), config, policy, programs, digest: digest.to_string() }))
    }

    /// Returns the files that exist.
    pub fn iter(&self) -> impl Iterator<Item = &FolderFile> {
        self.config.iter().chain(&self.policy)
    }
}

impl FolderFile {
    fn read(path: PathBuf) -> Result<Option<Self>, Trouble> {
        let failed =
            |error: std::io::Error| Trouble::usage(format!("cannot read `{}`: {error}", path.display()));
        match std::fs::metadata(&path) {
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(None),
            Err(error) => return Err(failed(error)),
            Ok(found) if !found.is_file() || found.len() > MAX_BYTES => {
                let what = format!("`{}` is not a file of at most {MAX_BYTES} bytes", path.display());
                return Err(Trouble::usage(what));
            }
            Ok(_) => {}
        }
        let text = std::fs::read_to_string(&path).map_err(failed)?;
        Ok(Some(Self { path, text }))
    }
}

/// Returns a folder's key in the list: its real path.
fn name(folder: &Path) -> String {
    folder.canonicalize().unwrap_or_else(|_| folder.to_owned()).display().to_string()
}

impl Trusted {
    pub fn load(user: &UserPaths) -> Result<Self, Trouble> {
        Self::read(user.data.join("trusted.json"))
    }

    fn read(path: PathBuf) -> Result<Self, Trouble> {
        let text = match std::fs::read_to_string(&path) {
            Ok(text) => text,
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => {
                return Ok(Self { path, ..Self::default() });
            }
            Err(error) => return Err(Trouble::usage(format!("cannot read `{}`: {error}", path.display()))),
        };
        let list: Self = serde_json::from_str(&text).map_err(|error| {
            Trouble::usage(format!("`{}` is damaged: {error}", path.display()))
                .hint("delete it, then trust the folders again")
        })?;
        Ok(Self { path, ..list })
    }

    /// Compares a folder's files with the list.
    pub fn standing(&self, files: &FolderFiles) -> Standing {
        match self.folders.get(&files.folder) {
            Some(digest) if *digest == files.digest => Standing::Trusted,
            Some(_) => Standing::Changed,
            None => Standing::Unknown,
        }
    }

    /// Adds the folder to the list, or updates its digest.
    pub fn trust(&mut self, files: &FolderFiles) -> Result<(), Trouble> {
        self.change(|folders| folders.insert(files.folder.clone(), files.digest.clone())).map(drop)
    }

    /// Removes a folder from the list. Returns whether the list contained the folder.
    pub fn revoke(&mut self, folder: &Path) -> Result<bool, Trouble> {
        let folder = name(folder);
        self.change(|folders| folders.remove(&folder).is_some())
    }

    /// Changes the current list under a lock. Another process may have changed the list during the prompt, and a trust
    /// that it revoked must stay revoked.
    fn change<T>(&mut self, change: impl FnOnce(&mut BTreeMap<String, String>) -> T) -> Result<T, Trouble> {
        if let Some(directory) = self.path.parent() {
            private_directory(directory)?;
        }
        let lock = File::create(self.path.with_extension("lock")).map_err(|error| self.unwritten(&error))?;
        lock.lock().map_err(|error| self.unwritten(&error))?;
        *self = Self::read(std::mem::take(&mut self.path))?;
        let changed = change(&mut self.folders);
        self.save()?;
        Ok(changed)
    }

    pub fn folders(&self) -> impl Iterator<Item = &str> {
        self.folders.keys().map(String::as_str)
    }

    /// Replaces the file atomically, so that a crash preserves the old list.
    fn save(&self) -> Result<(), Trouble> {
        let failed = |error: std::io::Error| self.unwritten(&error);
        let text = serde_json::to_string_pretty(self).map_err(|error| failed(error.into()))?;
        let fresh = self.path.with_extension(format!("{}.new", std::process::id()));
        write_private(&fresh, &text).and_then(|()| std::fs::rename(&fresh, &self.path)).map_err(failed)
    }

    fn unwritten(&self, error: &std::io::Error) -> Trouble {
        Trouble::engine(format!("cannot write `{}`: {error}", self.path.display()))
            .hint("give this user write access, or make room on the disk")
    }
}

fn write_private(path: &Path, text: &str) -> std::io::Result<()> {
    use std::io::Write;
    let mut options = std::fs::OpenOptions::new();
    options.write(true).create(true).truncate(true);
    #[cfg(unix)]
    {
        use std::os::unix::fs::OpenOptionsExt;
        options.mode(0o600);
    }
    let mut file = options.open(path)?;
    file.write_all(format!("{text}\n").as_bytes())?;
    file.sync_all()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_taken_back_while_a_person_is_asked_stays_so() {
        let base = tempfile::tempdir().unwrap();
        let user = UserPaths { config: base.path().join("config"), data: base.path().join("data") };
        let file = |name: &str| {
            let folder = base.path().join(name);
            std::fs::create_dir(&folder).unwrap();
            std::fs::write(folder.join(CONFIG_FILE), "relaxed = true\n").unwrap();
            FolderFiles::read(&folder).unwrap().unwrap()
        };
        let (old, new) = (file("old"), file("new"));
        Trusted::load(&user).unwrap().trust(&old).unwrap();
        // One process prompts for a folder. Meanwhile, another process revokes the trust in another folder.
        let mut asking = Trusted::load(&user).unwrap();
        assert!(Trusted::load(&user).unwrap().revoke(&base.path().join("old")).unwrap());
        asking.trust(&new).unwrap();
        let now = Trusted::load(&user).unwrap();
        assert_eq!((now.standing(&old), now.standing(&new)), (Standing::Unknown, Standing::Trusted));
    }

    #[test]
    fn trust_is_in_the_programs_that_settings_start() {
        let base = tempfile::tempdir().unwrap();
        let user = UserPaths { config: base.path().join("config"), data: base.path().join("data") };
        let folder = base.path().join("folder");
        std::fs::create_dir(&folder).unwrap();
        let settings = "[mcp.x]\ncommand = 'node'\nargs = ['server.js']\n";
        std::fs::write(folder.join(CONFIG_FILE), settings).unwrap();
        std::fs::write(folder.join("server.js"), "good").unwrap();
        let read = || FolderFiles::read(&folder).unwrap().unwrap();
        Trusted::load(&user).unwrap().trust(&read()).unwrap();
        let standing = || Trusted::load(&user).unwrap().standing(&read());
        std::fs::write(folder.join("other.js"), "x").unwrap();
        assert_eq!(standing(), Standing::Trusted);
        // A new file that the settings name and that did not exist before is new code as well.
        std::fs::write(folder.join("node"), "x").unwrap();
        assert_eq!(standing(), Standing::Changed);
        std::fs::remove_file(folder.join("node")).unwrap();
        assert_eq!(standing(), Standing::Trusted);
        std::fs::write(folder.join("server.js"), "evil").unwrap();
        assert_eq!(standing(), Standing::Changed);
        std::fs::remove_file(folder.join("server.js")).unwrap();
        assert_eq!(standing(), Standing::Changed);
    }

    #[test]
    fn trust_is_in_both_files_together() {
        let base = tempfile::tempdir().unwrap();
        let user = UserPaths { config: base.path().join("config"), data: base.path().join("data") };
        let folder = base.path().join("folder");
        std::fs::create_dir(&folder).unwrap();
        let put = |name: &str, text: Option<&str>| match text {
            Some(text) => std::fs::write(folder.join(name), text).unwrap(),
            None => drop(std::fs::remove_file(folder.join(name))),
        };
        assert!(FolderFiles::read(&folder).unwrap().is_none());
        put(CONFIG_FILE, Some("a"));
        put(POLICY_FILE, Some("b"));
        Trusted::load(&user).unwrap().trust(&FolderFiles::read(&folder).unwrap().unwrap()).unwrap();
        let cases = [
            (Some("a"), Some("b"), Standing::Trusted),
            (Some("a"), Some("c"), Standing::Changed),
            (Some("c"), Some("b"), Standing::Changed),
            (Some("a"), None, Standing::Changed),
            (None, Some("b"), Standing::Changed),
            (Some("b"), Some("a"), Standing::Changed),
            (Some("ab"), Some(""), Standing::Changed),
        ];
        for (config, policy, wanted) in cases {
            put(CONFIG_FILE, config);
            put(POLICY_FILE, policy);
            let files = FolderFiles::read(&folder).unwrap().unwrap();
            assert_eq!(Trusted::load(&user).unwrap().standing(&files), wanted, "{config:?} {policy:?}");
        }
    }
}
