//! Which folders' `windlass.toml` a person has trusted, by digest. A changed file is untrusted again.
//!
//! The list lies in the user's data directory, where an agent's file tools never reach.

use std::collections::BTreeMap;
use std::fs::File;
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};
use windlass::machine::Digest;

use crate::paths::{CONFIG_FILE, UserPaths, private_directory};
use crate::trouble::Trouble;

/// A configuration file is read by people before they trust it: this is far more than they read.
const MAX_BYTES: u64 = 1024 * 1024;

/// The list of trusted files.
#[derive(Debug, Default, Serialize, Deserialize)]
pub struct Trusted {
    /// Folder to digest of its file.
    folders: BTreeMap<String, String>,
    #[serde(skip)]
    path: PathBuf,
}

/// A folder's configuration file.
#[derive(Debug)]
pub struct FolderFile {
    /// The file.
    pub path: PathBuf,
    /// The folder as the list names it.
    pub folder: String,
    /// Its text, which is what the digest is of.
    pub text: String,
    digest: String,
}

/// How a folder's file stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Standing {
    /// A person has trusted exactly this text.
    Trusted,
    /// A person has trusted another text.
    Changed,
    /// Nobody has trusted it.
    Unknown,
}

impl FolderFile {
    /// Reads a folder's file once: what is judged is what is used. `None` where there is none.
    pub fn read(folder: &Path) -> Result<Option<Self>, Trouble> {
        let path = folder.join(CONFIG_FILE);
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
        let digest = Digest::of(text.as_bytes()).to_string();
        Ok(Some(Self { folder: name(folder), path, text, digest }))
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

    /// How a file stands.
    pub fn standing(&self, file: &FolderFile) -> Standing {
        match self.folders.get(&file.folder) {
            Some(digest) if *digest == file.digest => Standing::Trusted,
            Some(_) => Standing::Changed,
            None => Standing::Unknown,
        }
    }

    /// Notes a person's word.
    pub fn trust(&mut self, file: &FolderFile) -> Result<(), Trouble> {
        self.change(|folders| folders.insert(file.folder.clone(), file.digest.clone())).map(drop)
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
            FolderFile::read(&folder).unwrap().unwrap()
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
}
