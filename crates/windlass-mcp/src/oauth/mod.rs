//! Sign-in at a server: OAuth 2.1 with discovery, PKCE, and a registered, published or configured client.
//! Tokens are refreshed once for all waiting requests.
//!
//! The library implements the protocol. This module determines the order, storage and locking. Tokens never appear in
//! an error or a log.

mod store;
mod wire;

use std::sync::{Arc, Mutex, PoisonError};

use rmcp::transport::CredentialStore;
use rmcp::transport::auth::{AuthError, AuthorizationManager, AuthorizationMetadata, OAuthClientConfig};
use serde::{Deserialize, Serialize};
use tokio::sync::watch;
use windlass_engine::port::clock::Clock;
use windlass_machine::{Digest, Timestamp};
use windlass_outbound::{Outbound, Url};

use self::store::{Credentials, Keys, Pending};
pub use self::store::{MemoryTokens, TokenLock, TokenStore};
use self::wire::{Noticed, OAuthHttp};
use super::client::OAuth;
use super::error::McpError;
use super::mask::Masks;

/// Remaining lifetime in seconds below which a token is refreshed under a lock. The library
/// refreshes a token 30 s before its expiry.
const ABOUT_TO_END_S: u64 = 60;
/// Remaining lifetime in seconds below which a client's secret is too short-lived, and the client is
/// registered again. A sign-in may take an hour.
const SIGN_IN_S: u64 = 3_600;

/// The page of a sign-in.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct SignInPage {
    /// The URL to open in a browser.
    pub url: String,
    /// The `state` parameter of the redirect, which identifies this sign-in.
    pub state: String,
}

/// The query parameters of the browser's redirect.
#[derive(Clone, PartialEq, Eq, Deserialize)]
pub struct SignInReturn {
    /// The authorization code.
    pub code: String,
    /// The `state` parameter, which identifies the sign-in.
    pub state: String,
    /// The issuer that sent the redirect. (RFC 9207)
    #[serde(default)]
    pub iss: Option<String>,
}

/// The library's manager, and the client that its tokens belong to.
struct Manager {
    client: String,
    asks: AuthorizationManager,
    noticed: Arc<Noticed>,
}

/// Excludes concurrent changes of stored tokens. Dropping this value
/// releases the lock of other processes first.
struct Locked<'a> {
    _elsewhere: Option<TokenLock>,
    _here: tokio::sync::MutexGuard<'a, ()>,
}

/// The sign-in at one server.
pub(super) struct SignIn {
    server: String,
    url: String,
    config: OAuth,
    way: Arc<Outbound>,
    tokens: Arc<dyn TokenStore>,
    clock: Arc<dyn Clock>,
    /// Every token, code and client is added here before it is used.
    masks: Arc<Masks>,
    /// Held while a token is read or refreshed, so that one refresh serves all waiting requests.
    manager: tokio::sync::Mutex<Option<Manager>>,
    /// Held while stored values are changed.
    changes: tokio::sync::Mutex<()>,
    /// The last challenge that the server sent.
    challenge: Mutex<Option<String>>,
    /// Counts completed sign-ins.
    finished: watch::Sender<u64>,
}

impl SignIn {
    pub fn new(
        server: &str,
        url: &str,
        config: OAuth,
        way: Arc<Outbound>,
        tokens: Arc<dyn TokenStore>,
        clock: Arc<dyn Clock>,
        masks: Arc<Masks>,
    ) -> Self {
        Self {
            server: server.into(),
            url: url.into(),
            config,
            way,
            tokens,
            clock,
            masks,
            manager: tokio::sync::Mutex::new(None),
            changes: tokio::sync::Mutex::new(()),
            challenge: Mutex::new(None),
            finished: watch::Sender::new(0),
        }
    }

    /// Returns a counter that changes with each completed sign-in.
    pub fn finished(&self) -> watch::Receiver<u64> {
        self.finished.subscribe()
    }

    /// Remembers the server's challenge for the next sign-in.
    pub fn challenged(&self, header: &str) {
        *self.challenge.lock().unwrap_or_else(PoisonError::into_inner) = Some(header.to_owned());
    }

    /// Returns a valid token, refreshed if it is about to expire; `None` if a sign-in is required.
    pub async fn token(&self) -> Result<Option<String>, AuthError> {
        let mut manager = self.manager.lock().await;
        let Some(manager) = self.ready(&mut manager).await? else { return Ok(None) };
        if !self.is_about_to_end().await? {
            return usable(manager.asks.get_access_token().await);
        }
        // One process refreshes the token; waiting processes then read the new one.
        let _lock = self.lock().await?;
        let token = manager.asks.get_access_token().await;
        self.known_still(manager, token).await
    }

    /// Returns the token. If the authorization server no longer knows the client, deletes the
    /// client and its tokens, and returns `None`.
    async fn known_still(
        &self,
        manager: &Manager,
        token: Result<String, AuthError>,
    ) -> Result<Option<String>, AuthError> {
        if token.is_err() && self.forgets_unknown(&manager.noticed, &manager.client).await? {
            // Another client may have signed in since then.
            let kept = self.credentials().load().await?;
            if kept.is_some_and(|kept| kept.client_id == manager.client) {
                self.credentials().clear().await?;
            }
            return Ok(None);
        }
        usable(token)
    }

    /// Deletes a client that the authorization server does not know, unless the client is configured. Returns
    /// whether the client was deleted. The caller must hold the lock.
    async fn forgets_unknown(&self, noticed: &Noticed, client: &str) -> Result<bool, AuthError> {
        let is_named = self.config.client_id.as_deref() == Some(client);
        if !noticed.was_unknown() || is_named {
            return Ok(false);
        }
        tracing::info!(
            server = self.server,
            "the authorization server no longer knows a client; deleted its registration"
        );
        self.keys().forget_clients(&*self.tokens, Some(client)).await?;
        Ok(true)
    }

    /// Acquires the locks against changes by other tasks and processes. Not reentrant.
    async fn lock(&self) -> Result<Locked<'_>, AuthError> {
        let here = self.changes.lock().await;
        let elsewhere = self.tokens.lock(&self.keys().tokens()).await;
        Ok(Locked { _elsewhere: elsewhere.map_err(AuthError::CredentialStoreError)?, _here: here })
    }

    /// Whether the library would refresh the token before its next use. This check is slightly earlier than
    /// the library's, because an unneeded lock costs little.
    async fn is_about_to_end(&self) -> Result<bool, AuthError> {
        let Some(stored) = self.credentials().load().await? else { return Ok(false) };
        // The library does not expose the token's lifetime.
        let token = stored.token_response.and_then(|token| serde_json::to_value(token).ok());
        let lasts_s = token.and_then(|token| token.get("expires_in")?.as_u64());
        let (Some(lasts_s), Some(since_s)) = (lasts_s, stored.token_received_at) else { return Ok(false) };
        let now_s = self.clock.now().0 / 1_000;
        Ok(now_s.saturating_add(ABOUT_TO_END_S) >= since_s.saturating_add(lasts_s))
    }

    /// Returns a digest of the stored tokens. The digest changes if another
    /// process signs in or refreshes the tokens.
    pub async fn kept(&self) -> Option<Digest> {
        let kept = self.tokens.load(&self.keys().tokens()).await.ok().flatten();
        kept.map(|kept| Digest::of(&kept))
    }

    /// Returns the scopes that the last sign-in granted.
    pub async fn granted(&self) -> Vec<String> {
        let stored = self.credentials().load().await.ok().flatten();
        stored.map(|stored| stored.granted_scopes).unwrap_or_default()
    }

    /// Returns a token other than the one that the server rejected; `None` if a sign-in is required.
    pub async fn fresh_token(&self, refused: &str) -> Result<Option<String>, AuthError> {
        let mut manager = self.manager.lock().await;
        let Some(manager) = self.ready(&mut manager).await? else { return Ok(None) };
        let _lock = self.lock().await?;
        // Somebody else may have refreshed it while this waited.
        let token = manager.asks.get_access_token().await;
        if let Some(token) = self.known_still(manager, token).await?
            && token != refused
        {
            return Ok(Some(token));
        }
        let token = match manager.asks.refresh_token().await {
            Ok(_) => manager.asks.get_access_token().await,
            Err(error) => Err(error),
        };
        self.known_still(manager, token).await
    }

    /// Returns the manager with its tokens; `None` if no tokens are stored.
    async fn ready<'a>(&self, manager: &'a mut Option<Manager>) -> Result<Option<&'a Manager>, AuthError> {
        let stored = self.credentials().load().await?;
        let Some(stored) = stored.filter(|stored| stored.token_response.is_some()) else {
            return Ok(None);
        };
        // Another process may have signed in with a newly registered client.
        if manager.as_ref().is_none_or(|known| known.client != stored.client_id) {
            let (mut fresh, _, noticed) = self.manager(None).await?;
            // Tokens of another issuer are not sent to this issuer; the library drops them.
            if !fresh.initialize_from_store().await? {
                return Ok(None);
            }
            let client = self.keys().client_by_id(&*self.tokens, &stored.client_id).await?;
            if let Some(client) = client.or_else(|| self.known_client()) {
                fresh.configure_client(client.into())?;
            }
            *manager = Some(Manager { client: stored.client_id, asks: fresh, noticed });
        }
        Ok(manager.as_ref())
    }

    /// Begins a sign-in with these additional scopes. Returns the URL to open in a browser.
    pub async fn begin(&self, wanted: &[String]) -> Result<SignInPage, McpError> {
        self.begun(wanted).await.map_err(|error| self.failed(&error))
    }

    async fn begun(&self, wanted: &[String]) -> Result<SignInPage, AuthError> {
        let challenge = self.challenge.lock().unwrap_or_else(PoisonError::into_inner).clone();
        let (mut manager, metadata, noticed) = self.manager(challenge.as_deref()).await?;
        let mut scopes = self.config.scopes.clone();
        if scopes.is_empty() {
            scopes = manager.select_initial_scopes(&[]).await;
        }
        // The earlier scopes are requested again, so that a new sign-in never reduces them. (SEP-2350)
        if let Some(stored) = self.credentials().load().await? {
            let missing = stored.granted_scopes.into_iter().filter(|scope| !scopes.contains(scope));
            scopes.extend(missing.collect::<Vec<_>>());
        }
        let missing: Vec<String> = wanted.iter().filter(|scope| !scopes.contains(scope)).cloned().collect();
        scopes.extend(missing);
        let scopes: Vec<&str> = scopes.iter().map(String::as_str).collect();
        let client = {
            // One of several concurrent sign-ins registers a client, and the others reuse it.
            let _lock = self.lock().await?;
            self.client(&mut manager, &metadata, &noticed, &scopes).await?
        };
        manager.set_state_store(self.pending(Some(client.id.clone())));
        manager.configure_client(client.into())?;
        let url = manager.get_authorization_url(&scopes).await?;
        let parsed = Url::parse(&url)?;
        let state = parsed.query_pairs().find(|(name, _)| name == "state");
        let state = state.map(|(_, value)| value.into_owned());
        let state =
            state.ok_or_else(|| AuthError::InternalError("the authorization URL has no `state`".into()))?;
        Ok(SignInPage { url, state })
    }

    /// Completes a sign-in with the redirect's parameters. Later calls send the token.
    pub async fn finish(&self, back: &SignInReturn) -> Result<(), McpError> {
        self.ended(back).await.map_err(|error| self.failed(&error))
    }

    async fn ended(&self, back: &SignInReturn) -> Result<(), AuthError> {
        self.masks.remember([back.code.as_str()]);
        let challenge = self.challenge.lock().unwrap_or_else(PoisonError::into_inner).clone();
        let (mut fresh, metadata, noticed) = self.manager(challenge.as_deref()).await?;
        let client = self.begun_with(&back.state, metadata.issuer.as_deref()).await?;
        let client = client.ok_or(AuthError::AuthorizationRequired)?;
        let id = client.id.clone();
        fresh.configure_client(client.into())?;
        // The lock keeps a concurrent refresh from overwriting the new token.
        let lock = self.lock().await?;
        let got =
            fresh.exchange_code_for_token_with_issuer(&back.code, &back.state, back.iss.as_deref()).await;
        if let Err(error) = got {
            // The caller receives the sign-in's error, even if deleting the client fails too.
            if let Err(error) = self.forgets_unknown(&noticed, &id).await {
                tracing::warn!(server = self.server, %error, "deleting a client registration failed");
            }
            return Err(error);
        }
        drop(lock);
        *self.manager.lock().await = Some(Manager { client: id, asks: fresh, noticed });
        *self.challenge.lock().unwrap_or_else(PoisonError::into_inner) = None;
        self.finished.send_modify(|count| *count += 1);
        Ok(())
    }

    /// Returns the client with which a sign-in began. Another client may have been registered since then.
    async fn begun_with(&self, state: &str, issuer: Option<&str>) -> Result<Option<Client>, AuthError> {
        let (keys, known) = (self.keys(), self.known_client());
        match keys.begun_with(&*self.tokens, state).await? {
            Some(id) if known.as_ref().is_some_and(|known| known.id == id) => Ok(known),
            Some(id) => {
                let client = keys.client_by_id(&*self.tokens, &id).await?;
                let redirect_uri = self.config.redirect_uri.clone();
                Ok(client.map(|client| Client { redirect_uri, ..client }))
            }
            // An earlier version of the program began this sign-in.
            None if known.is_some() => Ok(known),
            None => keys.client(&*self.tokens, issuer, &self.config.redirect_uri).await,
        }
    }

    /// Deletes the tokens and the registered clients.
    pub async fn sign_out(&self) -> Result<(), McpError> {
        self.signed_out().await.map_err(|error| self.failed(&error))
    }

    async fn signed_out(&self) -> Result<(), AuthError> {
        *self.manager.lock().await = None;
        let _lock = self.lock().await?;
        self.credentials().clear().await?;
        self.keys().forget_clients(&*self.tokens, None).await
    }

    /// Creates a manager with the metadata of the authorization server, and the
    /// record of facts from the server's responses.
    async fn manager(
        &self,
        challenge: Option<&str>,
    ) -> Result<(AuthorizationManager, AuthorizationMetadata, Arc<Noticed>), AuthError> {
        let noticed = Arc::new(Noticed::default());
        let (way, own) = (self.way.clone(), Url::parse(&self.url)?);
        let http = Arc::new(OAuthHttp { way, own, noticed: noticed.clone() });
        let mut manager = AuthorizationManager::new_with_oauth_http_client(&self.url, http).await?;
        manager.set_credential_store(self.credentials());
        manager.set_state_store(self.pending(None));
        let found = manager.resolve_metadata_from_challenge(challenge).await?;
        manager.set_metadata(found.metadata.clone());
        Ok((manager, found.metadata, noticed))
    }

    /// Returns the client for the authorization server: configured,
    /// published, registered earlier, or registered now.
    async fn client(
        &self,
        manager: &mut AuthorizationManager,
        metadata: &AuthorizationMetadata,
        noticed: &Noticed,
        scopes: &[&str],
    ) -> Result<Client, AuthError> {
        if let Some(client) = self.known_client() {
            return Ok(client);
        }
        let issuer = metadata.issuer.as_deref();
        let published = metadata.additional_fields.get("client_id_metadata_document_supported");
        let takes_published = published.and_then(serde_json::Value::as_bool) == Some(true);
        let client = match &self.config.client_metadata_url {
            Some(url) if takes_published => Client { id: url.clone(), secret: None, ..self.bare_client() },
            Some(_) | None => {
                let known = self.keys().client(&*self.tokens, issuer, &self.config.redirect_uri).await?;
                match known.filter(|client| !client.is_about_to_end(self.clock.now())) {
                    Some(client) => client,
                    None => {
                        let name = &self.config.client_name;
                        let client = manager.register_client(name, &self.config.redirect_uri, scopes).await?;
                        let (id, secret) = (client.client_id, client.client_secret);
                        Client { id, secret, secret_ends_s: noticed.secret_ends_s(), ..self.bare_client() }
                    }
                }
            }
        };
        self.keys().save_client(&*self.tokens, issuer, &client).await?;
        Ok(client)
    }

    fn known_client(&self) -> Option<Client> {
        let id = self.config.client_id.clone()?;
        Some(Client { id, secret: self.config.client_secret.clone(), ..self.bare_client() })
    }

    fn bare_client(&self) -> Client {
        Client {
            id: String::new(),
            secret: None,
            secret_ends_s: None,
            redirect_uri: self.config.redirect_uri.clone(),
            application_type: self.config.application_type.clone(),
        }
    }

    fn keys(&self) -> Keys {
        Keys { server: self.server.clone(), masks: self.masks.clone() }
    }

    /// Creates the store of a sign-in that begins with this client.
    fn pending(&self, client: Option<String>) -> Pending {
        Pending { keys: self.keys(), tokens: self.tokens.clone(), client }
    }

    fn credentials(&self) -> Credentials {
        Credentials { keys: self.keys(), tokens: self.tokens.clone() }
    }

    fn failed(&self, error: &AuthError) -> McpError {
        McpError::SignInFailed {
            server: self.server.clone(),
            why: self.masks.reasons().text(&error.to_string()),
        }
    }
}

/// Converts an error that requires a sign-in to `None`. Errors that a retry may resolve are returned.
fn usable(token: Result<String, AuthError>) -> Result<Option<String>, AuthError> {
    match token {
        Ok(token) => Ok(Some(token)),
        Err(AuthError::AuthorizationRequired | AuthError::TokenRefreshRejected(_)) => Ok(None),
        Err(error) => Err(error),
    }
}

/// A client as registered with an authorization server.
#[derive(Clone, Serialize, Deserialize)]
pub(super) struct Client {
    id: String,
    secret: Option<String>,
    /// When the secret expires, in seconds since 1970; `None` if it never expires.
    #[serde(default)]
    secret_ends_s: Option<u64>,
    redirect_uri: String,
    application_type: String,
}

impl Client {
    /// Whether the client's secret may expire before a sign-in completes.
    fn is_about_to_end(&self, now: Timestamp) -> bool {
        self.secret_ends_s.is_some_and(|ends_s| ends_s <= now.0 / 1_000 + SIGN_IN_S)
    }
}

impl From<Client> for OAuthClientConfig {
    fn from(client: Client) -> Self {
        let config = Self::new(client.id, client.redirect_uri).with_application_type(client.application_type);
        match client.secret {
            Some(secret) => config.with_client_secret(secret),
            None => config,
        }
    }
}
