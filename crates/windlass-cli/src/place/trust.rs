//! Which folders' `windlass.toml` and `windlass.policy.toml` a person has trusted, by one digest over both and over the
//! files in the folder that the settings name. If one of them changes, none of them is trusted any more.
//!
//! The list lies in the user's data directory, where an agent's file tools never reach.

pub mod prompt;

use std::collections::BTreeMap;
use std::fs::File;
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};
use windlass::machine::Digest;
use windlass_server::trouble::Trouble;

use crate::paths::{CONFIG_FILE, POLICY_FILE, UserPaths, private_directory};
use crate::place::programs::{Program, named_in};

/// A configuration file is read by people before they trust it: this is far more than they read.
const MAX_BYTES: u64 = 1024 * 1024;

/// The list of trusted folders.
#[derive(Debug, Default, Serialize, Deserialize)]
pub struct Trusted {
    /// Folder to digest of its files.
    folders: BTreeMap<String, String>,
    #[serde(skip)]
    path: PathBuf,
}

/// A folder's files. At least one is there.
#[derive(Debug)]
pub struct FolderFiles {
    /// The folder as the list names it.
    pub folder: String,
    /// The configuration.
    pub config: Option<FolderFile>,
    /// The policy.
    pub policy: Option<FolderFile>,
    /// The files in the folder that the configuration starts or reads, those that do not exist yet among them.
    pub programs: Vec<Program>,
    digest: String,
}

/// One of them.
#[derive(Debug)]
pub struct FolderFile {
    /// The file.
    pub path: PathBuf,
    /// Its text, which is what the digest is of.
    pub text: String,
}

/// How a folder's files stand.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Standing {
    /// A person has trusted exactly these texts.
    Trusted,
    /// A person has trusted other texts.
    Changed,
    /// Nobody has trusted them.
    Unknown,
}

impl FolderFiles {
    /// Reads a folder's files once: what is judged is what is used. `None` where there are none.
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

    /// Those that are there.
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
                let what = format!("`{}` is no file of at most {MAX_BYTES} bytes", path.display());
                return Err(Trouble::usage(what));
            }
            Ok(_) => {}
        }
        let text = std::fs::read_to_string(&path).map_err(failed)?;
        Ok(Some(Self { path, text }))
    }
}

/// A folder's name in the list: its real path.
fn name(folder: &Path) -> String {
    folder.canonicalize().unwrap_or_else(|_| folder.to_owned()).display().to_string()
}

impl Trusted {
    /// Reads the list.
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
                .hint("remove it; folders then have to be trusted anew")
        })?;
        Ok(Self { path, ..list })
    }

    /// How a folder's files stand.
    pub fn standing(&self, files: &FolderFiles) -> Standing {
        match self.folders.get(&files.folder) {
            Some(digest) if *digest == files.digest => Standing::Trusted,
            Some(_) => Standing::Changed,
            None => Standing::Unknown,
        }
    }

    /// Notes a person's word.
    pub fn trust(&mut self, files: &FolderFiles) -> Result<(), Trouble> {
        self.change(|folders| folders.insert(files.folder.clone(), files.digest.clone())).map(drop)
    }

    /// Takes it back; says whether there was any.
    pub fn revoke(&mut self, folder: &Path) -> Result<bool, Trouble> {
        let folder = name(folder);
        self.change(|folders| folders.remove(&folder).is_some())
    }

    /// Changes the list as it is now, with nobody else at it: while a person was asked, another process may have
    /// written it, and what was taken back then must stay so.
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

    /// Every folder in the list.
    pub fn folders(&self) -> impl Iterator<Item = &str> {
        self.folders.keys().map(String::as_str)
    }

    /// Replaces the list in one piece, so that a crash leaves the old one.
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
        // One process asks about a folder, and meanwhile another one takes its trust in the other back.
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
        // A file that settings name and that did not exist is new code as well.
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
