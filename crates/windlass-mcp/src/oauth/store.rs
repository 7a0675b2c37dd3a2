//! Stores tokens, registered clients and begun sign-ins as bytes under a name. The host program encrypts them.
//!
//! Only this module interprets the bytes. The module never prints them.

use std::collections::{BTreeSet, HashMap};
use std::sync::{Arc, Mutex, PoisonError};

use async_trait::async_trait;
use rmcp::transport::auth::AuthError;
use rmcp::transport::{CredentialStore, StateStore, StoredAuthorizationState, StoredCredentials};
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use windlass_machine::Digest;

use super::Client;
use crate::mask::Masks;

/// Stores secrets under names. The host program must encrypt the values before they reach a disk.
#[async_trait]
pub trait TokenStore: Send + Sync {
    /// Reads a value. The error must not contain the value.
    async fn load(&self, name: &str) -> Result<Option<Vec<u8>>, String>;
    /// Writes a value. Replaces an earlier value of the same name.
    async fn save(&self, name: &str, value: Vec<u8>) -> Result<(), String>;
    /// Deletes a value if it exists.
    async fn remove(&self, name: &str) -> Result<(), String>;
    /// Locks a name against refreshes by other processes until the lock is dropped. The default is for a store that
    /// only one process uses.
    async fn lock(&self, _name: &str) -> Result<Option<TokenLock>, String> {
        Ok(None)
    }
}

/// A lock against concurrent refreshes. Dropping it releases the lock.
pub struct TokenLock {
    _held: Box<dyn Send>,
}

impl TokenLock {
    /// Wraps a guard that releases the lock when dropped.
    pub fn holding(held: impl Send + 'static) -> Self {
        Self { _held: Box::new(held) }
    }
}

/// Stores tokens in memory until the process ends.
#[derive(Default)]
pub struct MemoryTokens(Mutex<HashMap<String, Vec<u8>>>);

/// Maximum number of names. It limits the sign-ins that are never completed.
const MAX_NAMES: usize = 4_096;

#[async_trait]
impl TokenStore for MemoryTokens {
    async fn load(&self, name: &str) -> Result<Option<Vec<u8>>, String> {
        Ok(self.0.lock().unwrap_or_else(PoisonError::into_inner).get(name).cloned())
    }

    async fn save(&self, name: &str, value: Vec<u8>) -> Result<(), String> {
        let mut kept = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if kept.len() >= MAX_NAMES && !kept.contains_key(name) {
            return Err(format!("the token store is full ({MAX_NAMES} values)"));
        }
        kept.insert(name.to_owned(), value);
        Ok(())
    }

    async fn remove(&self, name: &str) -> Result<(), String> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).remove(name);
        Ok(())
    }
}

/// The names under which a server's values are stored.
#[derive(Clone)]
pub(super) struct Keys {
    pub server: String,
    pub masks: Arc<Masks>,
}

impl Keys {
    pub fn tokens(&self) -> String {
        format!("mcp/{}/tokens", self.server)
    }

    fn state(&self, state: &str) -> String {
        format!("mcp/{}/sign-in/{state}", self.server)
    }

    /// Returns the name of a sign-in from the browser's `state`. Rejects
    /// values that this client cannot have generated.
    fn brought(&self, state: &str) -> Option<String> {
        let can_be_one =
            (1..=128).contains(&state.len()) && state.bytes().all(|byte| byte.is_ascii_graphic());
        can_be_one.then(|| self.state(state))
    }

    /// Returns the client with which a sign-in began, if it was stored.
    pub async fn begun_with(
        &self,
        tokens: &dyn TokenStore,
        state: &str,
    ) -> Result<Option<String>, AuthError> {
        let Some(name) = self.brought(state) else { return Ok(None) };
        let begun: Option<BegunWith> = read(tokens, &name).await?;
        Ok(begun.and_then(|begun| begun.client))
    }

    /// Returns the name of a client. A client belongs to one issuer and is never sent to another. Each
    /// redirect URI has a separate client.
    fn of_client(&self, issuer: Option<&str>, redirect_uri: &str) -> String {
        let place = format!("{} {redirect_uri}", issuer.unwrap_or("-"));
        format!("mcp/{}/client/{}", self.server, Digest::of(place.as_bytes()))
    }

    /// Returns the name of the client whose tokens are stored.
    fn of_id(&self, id: &str) -> String {
        format!("mcp/{}/client-id/{}", self.server, Digest::of(id.as_bytes()))
    }

    /// Returns the name of the list of stored clients.
    fn clients(&self) -> String {
        format!("mcp/{}/clients", self.server)
    }

    pub async fn client(
        &self,
        tokens: &dyn TokenStore,
        issuer: Option<&str>,
        redirect_uri: &str,
    ) -> Result<Option<Client>, AuthError> {
        self.known(read(tokens, &self.of_client(issuer, redirect_uri)).await)
    }

    pub async fn client_by_id(&self, tokens: &dyn TokenStore, id: &str) -> Result<Option<Client>, AuthError> {
        self.known(read(tokens, &self.of_id(id)).await)
    }

    /// Adds the client's secret to the masks.
    fn known(&self, client: Result<Option<Client>, AuthError>) -> Result<Option<Client>, AuthError> {
        if let Ok(Some(client)) = &client {
            self.masks.remember(client.secret.as_deref());
        }
        client
    }

    /// Adds tokens to the masks.
    fn known_tokens(&self, credentials: &StoredCredentials) {
        // The library does not expose all values that it stores.
        let kept = credentials.token_response.as_ref().and_then(|tokens| serde_json::to_value(tokens).ok());
        let named = ["access_token", "refresh_token", "id_token"];
        self.masks.remember(named.iter().filter_map(|name| kept.as_ref()?.get(name)?.as_str()));
    }

    /// Stores a client. The caller must hold the sign-in's lock, because the list of names is shared.
    pub async fn save_client(
        &self,
        tokens: &dyn TokenStore,
        issuer: Option<&str>,
        client: &Client,
    ) -> Result<(), AuthError> {
        self.masks.remember(client.secret.as_deref());
        let names = [self.of_client(issuer, &client.redirect_uri), self.of_id(&client.id)];
        let mut all = self.listed(tokens).await?;
        // The list is written first: a client that is not listed could never be deleted.
        all.extend(names.iter().cloned());
        write(tokens, &self.clients(), &all).await?;
        for name in names {
            write(tokens, &name, client).await?;
        }
        Ok(())
    }

    /// Deletes one client, or all clients, with unreadable entries. The caller must hold the sign-in's lock.
    pub async fn forget_clients(&self, tokens: &dyn TokenStore, only: Option<&str>) -> Result<(), AuthError> {
        let mut all = self.listed(tokens).await?;
        for name in std::mem::take(&mut all) {
            let stays = match only {
                Some(only) => {
                    let kept = tokens.load(&name).await.map_err(AuthError::CredentialStoreError)?;
                    let client = kept.and_then(|kept| serde_json::from_slice::<Client>(&kept).ok());
                    client.is_some_and(|client| client.id != only)
                }
                None => false,
            };
            if stays {
                all.insert(name);
            } else {
                tokens.remove(&name).await.map_err(AuthError::CredentialStoreError)?;
            }
        }
        write(tokens, &self.clients(), &all).await
    }

    /// Returns the names of the stored clients. An unreadable list is treated as empty and is overwritten.
    async fn listed(&self, tokens: &dyn TokenStore) -> Result<BTreeSet<String>, AuthError> {
        let kept = tokens.load(&self.clients()).await.map_err(AuthError::CredentialStoreError)?;
        Ok(kept.and_then(|kept| serde_json::from_slice(&kept).ok()).unwrap_or_default())
    }
}

async fn read<T: DeserializeOwned>(tokens: &dyn TokenStore, name: &str) -> Result<Option<T>, AuthError> {
    let value = tokens.load(name).await.map_err(AuthError::CredentialStoreError)?;
    let unreadable = |_| AuthError::CredentialStoreError(format!("cannot read the stored value `{name}`"));
    value.map(|value| serde_json::from_slice(&value).map_err(unreadable)).transpose()
}

async fn write<T: Serialize>(tokens: &dyn TokenStore, name: &str, value: &T) -> Result<(), AuthError> {
    let unwritable = |_| AuthError::CredentialStoreError(format!("cannot serialize `{name}`"));
    let value = serde_json::to_vec(value).map_err(unwritable)?;
    tokens.save(name, value).await.map_err(AuthError::CredentialStoreError)
}

/// A server's tokens in the form that the library stores.
pub(super) struct Credentials {
    pub keys: Keys,
    pub tokens: Arc<dyn TokenStore>,
}

#[async_trait]
impl CredentialStore for Credentials {
    async fn load(&self) -> Result<Option<StoredCredentials>, AuthError> {
        let kept = read(&*self.tokens, &self.keys.tokens()).await?;
        kept.iter().for_each(|kept| self.keys.known_tokens(kept));
        Ok(kept)
    }

    async fn save(&self, credentials: StoredCredentials) -> Result<(), AuthError> {
        self.keys.known_tokens(&credentials);
        write(&*self.tokens, &self.keys.tokens(), &credentials).await
    }

    async fn clear(&self) -> Result<(), AuthError> {
        self.tokens.remove(&self.keys.tokens()).await.map_err(AuthError::CredentialStoreError)
    }
}

/// Begun sign-ins in the form that the library stores. Another process may complete them.
pub(super) struct Pending {
    pub keys: Keys,
    pub tokens: Arc<dyn TokenStore>,
    /// The client of the new sign-in.
    pub client: Option<String>,
}

/// The library's state of a sign-in, with the client, which the library does not store.
#[derive(Serialize)]
struct Begun<'a> {
    #[serde(flatten)]
    state: StoredAuthorizationState,
    client: Option<&'a str>,
}

#[derive(Deserialize)]
struct BegunWith {
    client: Option<String>,
}

#[async_trait]
impl StateStore for Pending {
    async fn save(&self, state: &str, begun: StoredAuthorizationState) -> Result<(), AuthError> {
        let begun = Begun { state: begun, client: self.client.as_deref() };
        write(&*self.tokens, &self.keys.state(state), &begun).await
    }

    async fn load(&self, state: &str) -> Result<Option<StoredAuthorizationState>, AuthError> {
        match self.keys.brought(state) {
            Some(name) => read(&*self.tokens, &name).await,
            None => Ok(None),
        }
    }

    async fn delete(&self, state: &str) -> Result<(), AuthError> {
        self.tokens.remove(&self.keys.state(state)).await.map_err(AuthError::CredentialStoreError)
    }
}
