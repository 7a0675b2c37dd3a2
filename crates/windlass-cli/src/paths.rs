//! File locations: the user's configuration and data directories, and the store that belongs to a folder.

use std::path::{Path, PathBuf};

use etcetera::BaseStrategy;
use windlass::machine::Digest;
use windlass::sqlite::is_store;
use windlass_server::trouble::Trouble;

/// Number of hexadecimal digits of a folder's digest in its store's name.
const DIGITS: usize = 16;

/// Maximum number of stores searched for a run. The limit is low because each store has to be opened.
const STORES: usize = 100;

/// Name of the configuration file, both in the user's configuration directory and in a folder.
pub const CONFIG_FILE: &str = "windlass.toml";

/// Name of the policy file in a folder.
pub const POLICY_FILE: &str = "windlass.policy.toml";

/// Name of the policy file in the user's configuration directory.
const USER_POLICY_FILE: &str = "policy.toml";

#[derive(Clone, Debug)]
pub struct UserPaths {
    /// The user's configuration file, which may not exist.
    pub config: PathBuf,
    /// Directory of the stores, the trusted digests and the chat's history.
    pub data: PathBuf,
}

impl UserPaths {
    /// Finds the directories by the platform's rules (`XDG_CONFIG_HOME` and `XDG_DATA_HOME` on Unix).
    pub fn find() -> Result<Self, Trouble> {
        let base = etcetera::choose_base_strategy().map_err(|error| {
            Trouble::usage(format!("cannot find the user's directories: {error}")).hint("set HOME")
        })?;
        Ok(Self {
            config: base.config_dir().join("windlass").join(CONFIG_FILE),
            data: base.data_dir().join("windlass"),
        })
    }

    /// Returns the user's policy file, which may not exist.
    pub fn policy(&self) -> PathBuf {
        self.config.with_file_name(USER_POLICY_FILE)
    }

    /// Returns the path of a folder's store, which is outside the folder.
    pub fn store_of(&self, folder: &Path) -> PathBuf {
        let whole = folder.canonicalize().unwrap_or_else(|_| folder.to_owned());
        let digest = Digest::of(whole.as_os_str().as_encoded_bytes()).to_string();
        self.data.join(&digest[..DIGITS])
    }

    /// Returns the existing stores of all folders, most recently modified first, at most [`STORES`].
    pub fn stores(&self) -> Vec<PathBuf> {
        let named = |path: &PathBuf| path.file_name().is_some_and(|name| name.len() == DIGITS);
        let entries = std::fs::read_dir(&self.data).into_iter().flatten().flatten();
        let stores = entries.map(|entry| entry.path()).filter(|path| named(path) && is_store(path));
        let changed = |path: &PathBuf| std::fs::metadata(path).and_then(|found| found.modified()).ok();
        let mut stores: Vec<_> = stores.map(|path| (changed(&path), path)).collect();
        stores.sort_by(|one, other| other.cmp(one));
        stores.into_iter().take(STORES).map(|(_, path)| path).collect()
    }
}

/// Creates a directory with mode 0700, so that only the user has access.
pub fn private_directory(path: &Path) -> Result<(), Trouble> {
    let failed = |error: std::io::Error| {
        Trouble::engine(format!("cannot create the directory `{}`: {error}", path.display()))
            .hint("give this user write access, or set XDG_DATA_HOME")
    };
    std::fs::create_dir_all(path).map_err(failed)?;
    #[cfg(unix)]
    {
        use std::os::unix::fs::PermissionsExt;
        std::fs::set_permissions(path, std::fs::Permissions::from_mode(0o700)).map_err(failed)?;
    }
    Ok(())
}
