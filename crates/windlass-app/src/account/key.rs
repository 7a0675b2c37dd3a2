//! API keys: shown once, kept as a digest, limited to scopes, revocable at once.

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;
use windlass::machine::{Principal, Timestamp};
use windlass::port::journal::StoreError;
use windlass::port::records::{Expect, RecordError};

use super::{Accounts, Credential, Identity, Unknown, secret};

/// The kind of the records, whose key is the secret's digest.
const KEY: &str = "key";

/// What every key begins with, so that people and scanners recognise one.
pub const PREFIX: &str = "wls_";

/// What a key may be limited to.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum Scope {
    /// Look.
    Read,
    /// Start runs, send messages, upload files.
    Run,
    /// Answer what runs ask, and write grants.
    Approve,
    /// Manage people, keys and settings.
    Admin,
}

/// A key as it is kept.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ApiKey {
    /// Its id, which is no secret.
    pub id: String,
    /// Whose it is.
    pub user: Principal,
    /// What people call it.
    pub name: String,
    /// What it is limited to; none named means all that its user may.
    pub scopes: Vec<Scope>,
    /// The secret's first letters, by which people recognise it.
    pub begins: String,
    /// When it was made.
    pub created_at: Timestamp,
    /// The moment from which it no longer counts.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub expires_at: Option<Timestamp>,
}

/// A key that is to be made.
#[derive(Clone, Debug)]
pub struct KeyDraft {
    /// Whose it is.
    pub user: Principal,
    /// What people call it.
    pub name: String,
    /// What it is limited to.
    pub scopes: Vec<Scope>,
    /// The moment from which it no longer counts.
    pub expires_at: Option<Timestamp>,
}

impl Accounts {
    /// Makes a key. The second value is its secret, which is shown now and never again.
    pub async fn add_key(&self, draft: KeyDraft) -> Result<(ApiKey, String), RecordError> {
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
        let value = serde_json::to_value(&key)
            .map_err(|error| RecordError::Store(StoreError::Refused { why: error.to_string() }))?;
        self.records.put(KEY, &secret::hash(&secret), key.user.as_str(), value, Expect::Absent).await?;
        Ok((key, secret))
    }

    /// Who comes with a key.
    pub async fn by_key(&self, secret: &str) -> Result<Result<Identity, Unknown>, StoreError> {
        let Some(record) = self.records.get(KEY, &secret::hash(secret)).await? else {
            return Ok(Err(Unknown::Invalid));
        };
        let key: ApiKey = serde_json::from_value(record.value)
            .map_err(|error| StoreError::Corrupt { why: format!("an API key cannot be read: {error}") })?;
        if key.expires_at.is_some_and(|end| end <= self.clock.now()) {
            return Ok(Err(Unknown::Expired));
        }
        let Some(user) = self.refresh().await?.find(&key.user) else { return Ok(Err(Unknown::Invalid)) };
        if !user.active {
            return Ok(Err(Unknown::Deactivated));
        }
        Ok(Ok(Identity {
            user: user.id.clone(),
            workspace: user.workspace.clone(),
            role: user.role,
            credential: Credential::Key { id: key.id, scopes: key.scopes },
        }))
    }
}
