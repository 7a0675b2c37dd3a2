//! API keys: returned once, stored as a digest, limited to scopes, and revocable immediately.

use std::sync::Arc;

use serde::{Deserialize, Serialize};
use windlass::machine::{Principal, Timestamp};
use windlass::port::journal::StoreError;
use windlass::port::records::{Expect, Record, RecordChange, RecordError};

use super::Scope;
use super::audit::Note;
use super::error::AccountError;
use super::record::{put, read};
use super::{Accounts, Credential, Identity, Unknown, secret};
use crate::account::people::user::{LOCAL, PEOPLE};
use crate::account::sessions::session::{Client, SESSION};

/// Record kind. The key is the digest of the secret.
const KEY: &str = "key";

/// Maximum number of keys of a user, who needs one for each program.
const KEYS_MAX: usize = 100;
/// Maximum number of attempts to write a key while the caller's session is refreshed concurrently.
const TRIES: usize = 5;

/// Prefix of all keys, so that people and secret scanners recognize them.
pub const PREFIX: &str = "wls_";

/// The stored form of an API key.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ApiKey {
    /// Public id.
    pub id: String,
    pub user: Principal,
    /// Display name.
    pub name: String,
    /// Scopes. An empty list means all permissions of the user.
    pub scopes: Vec<Scope>,
    /// First characters of the secret, so that users recognize the key.
    pub begins: String,
    pub created_at: Timestamp,
    /// Expiry; `None` means never.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub expires_at: Option<Timestamp>,
}

/// The treatment of an account's API keys after a password change.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ApiKeys {
    Keep,
    Revoke,
}

/// A key to create.
#[derive(Clone, Debug)]
pub struct KeyDraft {
    pub user: Principal,
    /// Display name.
    pub name: String,
    /// Scopes. An empty list means all permissions of the user.
    pub scopes: Vec<Scope>,
    /// Expiry; `None` means never.
    pub expires_at: Option<Timestamp>,
}

impl Accounts {
    /// Creates a key for the user at this machine's terminal. Returns the key and its secret, which cannot be read
    /// later.
    pub async fn add_key(&self, draft: KeyDraft) -> Result<(ApiKey, String), RecordError> {
        let workspace = self.refresh().await?.find(&draft.user).map(|user| user.workspace.clone());
        let note = Note::new(workspace.as_deref().unwrap_or_default(), "key.add");
        self.write_key(draft, note.actor(&Principal::from(LOCAL)), Vec::new()).await
    }

    /// Creates a key for the caller, with at most the scopes of the caller's credential. A session needs the password
    /// or a recent sign-in, because the key outlives the session.
    pub async fn make_key(
        &self,
        identity: &Identity,
        mut draft: KeyDraft,
        password: Option<String>,
        client: &Client,
    ) -> Result<(ApiKey, String), AccountError> {
        if !matches!(identity.credential, Credential::Key { .. }) {
            self.check_current(identity, password, client).await?;
        }
        draft.user = identity.user.clone();
        let keys = self.keys(&identity.user).await?;
        if keys.len() >= KEYS_MAX {
            let detail = format!("the limit of {KEYS_MAX} keys is reached; revoke one first");
            return Err(AccountError::Refused { code: "too_many", detail });
        }
        if let Credential::Key { id, scopes } = &identity.credential {
            let wider = draft.scopes.is_empty() || draft.scopes.iter().any(|scope| !identity.has(*scope));
            if !scopes.is_empty() && wider {
                let why = "an API key cannot create a key with more scopes than its own; choose from its \
                    scopes";
                return Err(AccountError::Forbidden(why.into()));
            }
            let end = keys.iter().find(|key| key.id == *id).and_then(|key| key.expires_at);
            // A key must not outlive the key that created it: otherwise it would circumvent that key's expiry.
            draft.expires_at = [draft.expires_at, end].into_iter().flatten().min();
        }
        if draft.expires_at.is_some_and(|end| end <= self.clock.now()) {
            return Err(AccountError::Invalid("`expires_at` is in the past".into()));
        }
        for _ in 0..TRIES {
            let stands = self.credential_stands(identity).await?;
            match self.write_key(draft.clone(), Note::by(identity, "key.add"), vec![stands]).await {
                // The session was refreshed, or it ended.
                Err(RecordError::Conflict { .. }) => {}
                written => return Ok(written?),
            }
        }
        Err(Unknown::Invalid.into())
    }

    /// Returns a precondition for a transaction: the caller's credential still exists unchanged.
    async fn credential_stands(&self, identity: &Identity) -> Result<RecordChange, AccountError> {
        let record = match &identity.credential {
            Credential::Session(id) | Credential::Guest(id) => self.records.get(SESSION, id).await?,
            Credential::Key { id, .. } => {
                let keys = self.every(KEY, Some(identity.user.as_str())).await?;
                keys.into_iter().find(|record| record.value["id"] == *id)
            }
        };
        let record = record.ok_or(Unknown::Invalid)?;
        Ok(RecordChange::keep(&record.kind, &record.key, Expect::Version(record.version)))
    }

    async fn write_key(
        &self,
        draft: KeyDraft,
        note: Note,
        mut changes: Vec<RecordChange>,
    ) -> Result<(ApiKey, String), RecordError> {
        let KeyDraft { user, name, scopes, expires_at } = draft;
        let secret = format!("{PREFIX}{}", secret::draw::<32>());
        let key = ApiKey {
            id: format!("key_{}", secret::draw::<9>()),
            user,
            name,
            scopes,
            begins: secret.chars().take(PREFIX.len() + 4).collect(),
            created_at: self.clock.now(),
            expires_at,
        };
        changes.push(put(KEY, &secret::hash(&secret), key.user.as_str(), &key, Expect::Absent));
        let scopes = serde_json::to_value(&key.scopes).unwrap_or_default();
        let note = note.on(&key.id).with("name", key.name.as_str()).with("scopes", scopes);
        self.commit(changes, note.with("user", key.user.as_str())).await?;
        Ok((key, secret))
    }

    /// Returns the keys of a user, newest first, including expired keys.
    pub async fn keys(&self, user: &Principal) -> Result<Vec<ApiKey>, StoreError> {
        let records = self.every(KEY, Some(user.as_str())).await?;
        let mut keys: Vec<ApiKey> = records.into_iter().map(read).collect::<Result<_, _>>()?;
        keys.sort_by(|a, b| b.created_at.cmp(&a.created_at).then_with(|| a.id.cmp(&b.id)));
        Ok(keys)
    }

    /// Returns the number of keys of all users.
    pub async fn count_keys(&self) -> Result<usize, StoreError> {
        Ok(self.every(KEY, None).await?.len())
    }

    /// Revokes a key whose secret could not be delivered to its creator.
    pub async fn take_key_back(&self, key: &ApiKey) -> Result<(), AccountError> {
        let workspace = self.refresh().await?.find(&key.user).map(|user| user.workspace.clone());
        let note = Note::new(workspace.as_deref().unwrap_or_default(), "key.revoke").on(&key.id);
        let note = note.actor(&Principal::from(LOCAL)).with("user", key.user.as_str());
        let records = self.every(KEY, Some(key.user.as_str())).await?;
        let of_key = records.iter().filter(|record| record.value["id"] == *key.id);
        let gone = of_key.map(|record| RecordChange::delete(KEY, &record.key, Expect::Any)).collect();
        self.commit(gone, note).await?;
        Ok(())
    }

    pub async fn revoke_key(
        &self,
        identity: &Identity,
        user: &Principal,
        id: &str,
    ) -> Result<(), AccountError> {
        let records = self.every(KEY, Some(user.as_str())).await?;
        let named = |record: &&Record| record.value["id"] == id;
        let record = records.iter().find(named);
        let record = record.ok_or_else(|| AccountError::Missing(format!("key `{id}`")))?;
        let gone = RecordChange::delete(KEY, &record.key, Expect::Any);
        self.commit(vec![gone], Note::by(identity, "key.revoke").on(id).with("user", user.as_str())).await?;
        Ok(())
    }

    /// Returns the changes that revoke all keys of a user.
    pub(super) async fn key_ends(&self, user: &Principal) -> Result<Vec<RecordChange>, StoreError> {
        let records = self.every(KEY, Some(user.as_str())).await?;
        Ok(records.iter().map(|record| RecordChange::delete(KEY, &record.key, Expect::Any)).collect())
    }

    /// Authenticates the secret of an API key.
    pub async fn by_key(&self, secret: &str) -> Result<Result<Identity, Unknown>, StoreError> {
        let [keys, people] = self.changes([KEY, PEOPLE]).await?;
        let Some(key) = self.key_at(keys, &secret::hash(secret)).await? else {
            return Ok(Err(Unknown::Invalid));
        };
        if key.expires_at.is_some_and(|end| end <= self.clock.now()) {
            return Ok(Err(Unknown::Expired));
        }
        let Some(user) = self.refresh_to(people).await?.find(&key.user) else {
            return Ok(Err(Unknown::Invalid));
        };
        if !user.active {
            return Ok(Err(Unknown::Deactivated));
        }
        Ok(Ok(Identity {
            user: user.id.clone(),
            workspace: user.workspace.clone(),
            role: user.role,
            credential: Credential::Key { id: key.id.clone(), scopes: key.scopes.clone() },
            settled_at: user.settled_at,
            from: None,
        }))
    }

    /// Loads the key with a digest, from the cache if possible. `changes` is the newest change of the record kind.
    async fn key_at(&self, changes: u64, digest: &str) -> Result<Option<Arc<ApiKey>>, StoreError> {
        if let Some(found) = self.memory.keys.find(changes, digest) {
            return Ok(found);
        }
        let Some(record) = self.records.get(KEY, digest).await? else { return Ok(None) };
        let key = Arc::new(read::<ApiKey>(record)?);
        // Cache only hits: an unauthenticated client could fill the cache with misses.
        self.memory.keys.keep(changes, digest, Some(key.clone()));
        Ok(Some(key))
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicUsize, Ordering};

    use async_trait::async_trait;
    use windlass::clock::ManualClock;
    use windlass::memory::MemoryStore;
    use windlass::port::records::Records;

    use super::*;
    use crate::account::people::user::People;
    use crate::vault::Vault;

    /// A store that counts reads of single records.
    struct Counting(MemoryStore, AtomicUsize);

    #[async_trait]
    impl Records for Counting {
        async fn get(&self, kind: &str, key: &str) -> Result<Option<Record>, StoreError> {
            self.1.fetch_add(1, Ordering::Relaxed);
            self.0.get(kind, key).await
        }
        async fn list(
            &self,
            kind: &str,
            owner: Option<&str>,
            after: Option<&str>,
            limit: usize,
        ) -> Result<Vec<Record>, StoreError> {
            self.0.list(kind, owner, after, limit).await
        }
        async fn apply(&self, changes: Vec<RecordChange>) -> Result<Vec<Option<u64>>, RecordError> {
            self.0.apply(changes).await
        }
        async fn changes(&self, kinds: &[&str]) -> Result<Vec<u64>, StoreError> {
            self.0.changes(kinds).await
        }
    }

    #[tokio::test]
    async fn a_key_is_read_once_and_counts_no_longer_than_its_record_and_its_time() {
        let clock = Arc::new(ManualClock::new(Timestamp(1_800_000_000_000), 1));
        let store = Arc::new(Counting(MemoryStore::new(clock.clone()), AtomicUsize::new(0)));
        let folder = tempfile::tempdir().unwrap();
        let process = || {
            let vault = Vault::open(folder.path()).unwrap();
            Accounts::new(store.clone(), clock.clone(), Arc::new(People::default()), vault)
        };
        let (accounts, other) = (process(), process());
        let user = accounts.local().await.unwrap().id.clone();
        let draft =
            |expires_at| KeyDraft { user: user.clone(), name: "k".into(), scopes: Vec::new(), expires_at };
        let (key, secret) = accounts.add_key(draft(None)).await.unwrap();
        let (_, short) = accounts.add_key(draft(Some(Timestamp(1_800_000_001_000)))).await.unwrap();
        for secret in [&secret, &short] {
            assert!(accounts.by_key(secret).await.unwrap().is_ok());
        }
        let reads = || store.1.load(Ordering::Relaxed);
        let before = reads();
        let first = accounts.by_key(&secret).await.unwrap().unwrap();
        assert_eq!(
            (first.user, first.credential),
            (user.clone(), Credential::Key { id: key.id.clone(), scopes: Vec::new() })
        );
        assert_eq!(reads(), before, "the key is in memory");
        assert!(accounts.by_key("wls_unknown").await.unwrap().is_err());
        clock.advance_ms(1_000);
        assert!(matches!(accounts.by_key(&short).await.unwrap(), Err(Unknown::Expired)));
        // Another process revokes the key.
        other.take_key_back(&key).await.unwrap();
        assert!(matches!(accounts.by_key(&secret).await.unwrap(), Err(Unknown::Invalid)));
    }
}
