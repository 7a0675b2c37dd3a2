//! Encrypts credentials that users store on the server. The key is a file next to the database, and backups of the
//! records do not contain the key. The server decrypts credentials only when it is about to send a request.
//!
//! The cipher is AES-256-GCM. The encryption also authenticates a credential's name, so that one credential cannot
//! replace another.

use std::fmt;
use std::io::{self, Write};
use std::path::Path;

use aws_lc_rs::aead::{AES_256_GCM, Aad, LessSafeKey, NONCE_LEN, Nonce, UnboundKey};
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;

use crate::trouble::Trouble;

/// Name of the key file in the store's folder.
const KEY_FILE: &str = "vault.key";
/// Length of the key, in bytes.
const KEY_BYTES: usize = 32;

/// The key with which credentials are sealed and unsealed.
pub struct Vault(LessSafeKey);

/// An unsealed credential. The type cannot be serialized, and its `Debug` output does not contain the value.
pub struct Credential(String);

impl Credential {
    /// Returns the credential, for use in a request.
    pub fn expose(&self) -> &str {
        &self.0
    }
}

impl fmt::Debug for Credential {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Credential(…)")
    }
}

/// The value cannot be unsealed: the key or the name differs, or the value was changed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the credential cannot be decrypted: it was modified, or the store's `vault.key` was replaced")]
pub struct Closed;

impl Vault {
    /// Opens the vault of a store. Creates the key if the store has none.
    pub fn open(store: &Path) -> Result<Self, Trouble> {
        match Self::find(store)? {
            Some(vault) => Ok(vault),
            None => {
                let path = store.join(KEY_FILE);
                Self::with(&path, make(&path).map_err(|error| unusable(&path, &error))?)
            }
        }
    }

    /// Creates a vault with a key that is not stored, for values that are never unsealed.
    pub fn unsaved() -> Result<Self, Trouble> {
        let path = Path::new(KEY_FILE);
        Self::with(path, draw().map_err(|error| unusable(path, &error))?.to_vec())
    }

    /// Restores a backed-up key to a store that has none.
    pub fn put(store: &Path, key: &[u8]) -> Result<Self, Trouble> {
        let path = store.join(KEY_FILE);
        Self::with(&path, place(&path, key).map_err(|error| unusable(&path, &error))?)
    }

    /// Reads a file with a vault key.
    pub fn read_key(path: &Path) -> Result<Vec<u8>, Trouble> {
        let key = std::fs::read(path)
            .map_err(|error| Trouble::usage(format!("cannot read `{}`: {error}", path.display())))?;
        Self::with(path, key.clone()).map(|_| key)
    }

    /// Opens the vault of a store. Returns `None` if the store has none.
    pub fn find(store: &Path) -> Result<Option<Self>, Trouble> {
        let path = store.join(KEY_FILE);
        match std::fs::read(&path) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
            Err(error) => Err(unusable(&path, &error)),
            Ok(key) => Self::with(&path, key).map(Some),
        }
    }

    fn with(path: &Path, key: Vec<u8>) -> Result<Self, Trouble> {
        let key = UnboundKey::new(&AES_256_GCM, &key).map_err(|_| {
            Trouble::engine(format!("`{}` has {} bytes instead of {KEY_BYTES}", path.display(), key.len()))
                .hint("restore the file from a backup; without it, stored credentials are lost")
        })?;
        Ok(Self(LessSafeKey::new(key)))
    }

    /// Seals a credential under its name.
    pub fn seal(&self, name: &str, credential: &str) -> String {
        let mut nonce = [0_u8; NONCE_LEN];
        // The operating system's generator fails only if the system has none. The process cannot continue without
        // random numbers.
        aws_lc_rs::rand::fill(&mut nonce).expect("the operating system gives random bytes");
        let mut bytes = credential.as_bytes().to_vec();
        let aad = Aad::from(name.as_bytes());
        // Sealing fails only for texts of many gigabytes, which the limit on request bodies excludes.
        self.0
            .seal_in_place_append_tag(Nonce::assume_unique_for_key(nonce), aad, &mut bytes)
            .expect("a credential is short enough to be sealed");
        STANDARD.encode([&nonce[..], &bytes].concat())
    }

    /// Unseals a value that was sealed under this name.
    pub fn unseal(&self, name: &str, sealed: &str) -> Result<Credential, Closed> {
        let bytes = STANDARD.decode(sealed).map_err(|_| Closed)?;
        let (nonce, rest) = bytes.split_at_checked(NONCE_LEN).ok_or(Closed)?;
        let nonce = Nonce::try_assume_unique_for_key(nonce).map_err(|_| Closed)?;
        let mut rest = rest.to_vec();
        let opened =
            self.0.open_in_place(nonce, Aad::from(name.as_bytes()), &mut rest).map_err(|_| Closed)?;
        String::from_utf8(opened.to_vec()).map(Credential).map_err(|_| Closed)
    }
}

fn unusable(path: &Path, error: &io::Error) -> Trouble {
    Trouble::engine(format!("cannot read or create `{}`: {error}", path.display()))
        .hint("the file holds the key that encrypts stored credentials; give this user access to it")
}

/// Creates a key. If another process creates a key concurrently, returns the first key.
fn make(path: &Path) -> io::Result<Vec<u8>> {
    place(path, &draw()?)
}

fn draw() -> io::Result<[u8; KEY_BYTES]> {
    let mut key = [0_u8; KEY_BYTES];
    aws_lc_rs::rand::fill(&mut key).map_err(|_| io::Error::other("no random bytes"))?;
    Ok(key)
}

/// Writes a key unless the file exists. Returns the key in the file.
fn place(path: &Path, key: &[u8]) -> io::Result<Vec<u8>> {
    let draft = path.with_extension(format!("key.{}", std::process::id()));
    let mut options = std::fs::OpenOptions::new();
    options.write(true).create(true).truncate(true);
    #[cfg(unix)]
    std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
    let mut file = options.open(&draft)?;
    file.write_all(key)?;
    file.sync_all()?;
    // A hard link never replaces an existing file.
    let linked = std::fs::hard_link(&draft, path);
    std::fs::remove_file(&draft)?;
    match linked {
        Err(error) if error.kind() != io::ErrorKind::AlreadyExists => Err(error),
        _ => std::fs::read(path),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_same_key_and_name_open_it() {
        let store = tempfile::tempdir().unwrap();
        let vault = Vault::open(store.path()).unwrap();
        let sealed = vault.seal("jenkins-cred-1", "hunter2");
        assert!(!sealed.contains("hunter2"));
        assert_ne!(sealed, vault.seal("jenkins-cred-1", "hunter2"));
        let again = Vault::open(store.path()).unwrap();
        assert_eq!(again.unseal("jenkins-cred-1", &sealed).unwrap().expose(), "hunter2");
        assert_eq!(vault.unseal("jenkins-cred-2", &sealed).unwrap_err(), Closed);
        for damaged in ["", "!", "AAAA", &sealed[..sealed.len() - 4]] {
            assert_eq!(vault.unseal("jenkins-cred-1", damaged).unwrap_err(), Closed);
        }
        let elsewhere = tempfile::tempdir().unwrap();
        let other = Vault::open(elsewhere.path()).unwrap();
        assert_eq!(other.unseal("jenkins-cred-1", &sealed).unwrap_err(), Closed);
        assert_eq!(format!("{:?}", vault.unseal("jenkins-cred-1", &sealed)), "Ok(Credential(…))");
    }

    #[cfg(unix)]
    #[test]
    fn the_key_file_is_readable_by_its_owner_only() {
        use std::os::unix::fs::PermissionsExt;
        let store = tempfile::tempdir().unwrap();
        Vault::open(store.path()).unwrap();
        let mode = std::fs::metadata(store.path().join(KEY_FILE)).unwrap().permissions().mode();
        assert_eq!(mode & 0o777, 0o600);
        assert_eq!(std::fs::read_dir(store.path()).unwrap().count(), 1);
    }

    #[test]
    fn a_key_of_another_length_is_refused() {
        let store = tempfile::tempdir().unwrap();
        std::fs::write(store.path().join(KEY_FILE), "short").unwrap();
        assert!(Vault::open(store.path()).is_err());
    }
}
