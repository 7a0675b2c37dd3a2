//! Credentials that people give the server to keep: sealed with a key that lies beside the store and in no backup of
//! its records, and opened only where a request leaves.
//!
//! AES-256-GCM; the credential's own name is bound to what is sealed, so that one cannot be put in another's place.

use std::fmt;
use std::io::{self, Write};
use std::path::Path;

use aws_lc_rs::aead::{AES_256_GCM, Aad, LessSafeKey, NONCE_LEN, Nonce, UnboundKey};
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;

use crate::trouble::Trouble;

/// The key's file in the store's folder.
const KEY_FILE: &str = "vault.key";
/// Bytes of the key.
const KEY_BYTES: usize = 32;

/// What seals and opens.
pub struct Vault(LessSafeKey);

/// An opened credential. It is neither shown nor serialised.
pub struct Credential(String);

impl Credential {
    /// The credential, for the request that it is for.
    pub fn expose(&self) -> &str {
        &self.0
    }
}

impl fmt::Debug for Credential {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Credential(…)")
    }
}

/// What was sealed cannot be opened: by another key, under another name, or it was changed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the credential cannot be opened: the store's `vault.key` is another one, or it was changed")]
pub struct Closed;

impl Vault {
    /// Opens the vault of a store; its key is made where there is none.
    pub fn open(store: &Path) -> Result<Self, Trouble> {
        match Self::find(store)? {
            Some(vault) => Ok(vault),
            None => {
                let path = store.join(KEY_FILE);
                Self::with(&path, make(&path).map_err(|error| unusable(&path, &error))?)
            }
        }
    }

    /// A vault whose key is kept nowhere: it seals what is never opened again.
    pub fn unsaved() -> Result<Self, Trouble> {
        let path = Path::new(KEY_FILE);
        Self::with(path, draw().map_err(|error| unusable(path, &error))?.to_vec())
    }

    /// Puts a key that was kept elsewhere into a store that has none.
    pub fn put(store: &Path, key: &[u8]) -> Result<Self, Trouble> {
        let path = store.join(KEY_FILE);
        Self::with(&path, place(&path, key).map_err(|error| unusable(&path, &error))?)
    }

    /// Reads a file that holds the key of a vault.
    pub fn read_key(path: &Path) -> Result<Vec<u8>, Trouble> {
        let key = std::fs::read(path)
            .map_err(|error| Trouble::usage(format!("cannot read `{}`: {error}", path.display())))?;
        Self::with(path, key.clone()).map(|_| key)
    }

    /// Opens the vault of a store that has one.
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
            Trouble::engine(format!("`{}` has {} bytes and not {KEY_BYTES}", path.display(), key.len()))
                .hint("put the file back from where it was kept; without it, stored credentials are lost")
        })?;
        Ok(Self(LessSafeKey::new(key)))
    }

    /// Seals a credential under its name.
    pub fn seal(&self, name: &str, credential: &str) -> String {
        let mut nonce = [0_u8; NONCE_LEN];
        // The operating system's generator fails only where it does not exist, and then nothing may go on.
        aws_lc_rs::rand::fill(&mut nonce).expect("the operating system gives random bytes");
        let mut bytes = credential.as_bytes().to_vec();
        let aad = Aad::from(name.as_bytes());
        // Fails only for texts of many gigabytes, which no body brings.
        self.0
            .seal_in_place_append_tag(Nonce::assume_unique_for_key(nonce), aad, &mut bytes)
            .expect("a credential is short enough to be sealed");
        STANDARD.encode([&nonce[..], &bytes].concat())
    }

    /// Opens what was sealed under a name.
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
    Trouble::engine(format!("cannot read or make `{}`: {error}", path.display()))
        .hint("the file holds the key of stored credentials; give this user access to it")
}

/// Makes a key. Where another process makes one at the same time, the first one counts.
fn make(path: &Path) -> io::Result<Vec<u8>> {
    place(path, &draw()?)
}

fn draw() -> io::Result<[u8; KEY_BYTES]> {
    let mut key = [0_u8; KEY_BYTES];
    aws_lc_rs::rand::fill(&mut key).map_err(|_| io::Error::other("no random bytes"))?;
    Ok(key)
}

/// Writes a key unless there is one; returns the one that counts.
fn place(path: &Path, key: &[u8]) -> io::Result<Vec<u8>> {
    let draft = path.with_extension(format!("key.{}", std::process::id()));
    let mut options = std::fs::OpenOptions::new();
    options.write(true).create(true).truncate(true);
    #[cfg(unix)]
    std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
    let mut file = options.open(&draft)?;
    file.write_all(key)?;
    file.sync_all()?;
    // A link never replaces what is there.
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
    fn nobody_else_reads_the_key() {
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
