//! The MCP servers that runs may use: servers in the settings and servers that operators have added, with their data in
//! the store.
//!
//! The MCP client is in the library. A sign-in belongs to the MCP server and not to a user, because one connection
//! serves all users of the store. So only operators may sign in, on behalf of all users.

mod added;
mod known;
mod look;
mod page;
mod prompt;
mod sampling;
mod sign_in;
#[cfg(test)]
mod tests;
mod tokens;

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::{Arc, OnceLock};

use tokio::sync::Mutex;
use windlass::Engine;
use windlass::mcp::{HubConfig, McpError, McpHub, McpServer};
use windlass::port::clock::Clock;
use windlass::port::journal::StoreError;
use windlass::port::records::{Expect, RecordChange, RecordError, Records};
use windlass::tool::Registry;
use windlass::tool::api::API_CALL;

pub use self::added::Draft;
use self::added::{Added, Kept};
pub use self::known::servers_of;
pub use self::page::{Ended, Page, question};
pub use self::prompt::{Message as PromptMessage, PromptError, Role as PromptRole};
use self::sampling::EngineSampling;
pub use self::sign_in::{BegunBy, SignInCall, SignInError, waiting, wanted_scopes};
use self::tokens::SealedTokens;
use crate::account::Accounts;
use crate::account::audit::Note;
use crate::config::Settings;
use crate::trouble::Trouble;
use crate::vault::Vault;

/// Returns the servers that operators have added to a store, by name. The draft is `None` if the vault cannot open it.
pub async fn added_to(store: &Path, records: &dyn Records) -> anyhow::Result<Vec<(String, Option<Draft>)>> {
    let vault = Vault::find(store)?;
    let kept = added::list(records, vault.as_ref()).await?;
    Ok(kept.into_iter().map(|kept| (kept.name, kept.draft)).collect())
}

/// Maximum time that a test of servers waits, in milliseconds; longer than the maximum response time of a server.
pub const TEST_MS: u64 = 60_000;
/// Maximum time that the start waits for servers that are not required, in milliseconds. The tools of such a server
/// become available when it connects.
const START_MS: u64 = 5_000;

/// The redirect target of browsers after an OAuth sign-in.
#[derive(Clone, Debug)]
pub enum Back {
    /// A page of this process on this machine. The process starts the page only if a server needs it.
    Page,
    /// This address of the HTTP server.
    At(String),
}

/// The servers to start.
#[derive(Clone, Copy, Debug)]
pub enum Which<'a> {
    /// All servers. Waits for required servers, and returns an error if a required server fails.
    All,
    /// All servers. A failure of a server is not an error.
    Each,
    /// One server, even if the settings disable it. A failure is not an error.
    One(&'a str),
    /// The server that provided a tool in an earlier process; a failure is not an error. If that server is unknown,
    /// equivalent to `All`.
    ServerOf(&'a str),
}

/// The MCP servers of a store.
pub struct Servers {
    /// The MCP client with all connections.
    pub hub: Arc<McpHub>,
    /// The OAuth callback page, if this process has one.
    pub page: Option<Arc<Page>>,
    back: String,
    settings: Settings,
    clock: Arc<dyn Clock>,
    records: Arc<dyn Records>,
    vault: Vault,
    tokens: Arc<SealedTokens>,
    sampling: Arc<EngineSampling>,
    engine: OnceLock<Engine>,
    role: Role,
    /// The added servers in the hub. The lock is held while the records are read, so that the hub matches the records.
    added: Mutex<BTreeMap<String, TakenIn>>,
}

/// The purpose for which the process uses servers.
struct Role {
    /// Whether the process keeps running, so that it can finish sign-ins and resume calls.
    stays: bool,
    /// The only server to use; `None` means all.
    only: Option<String>,
}

/// An added server, as registered in the hub.
#[derive(Clone, Copy, Debug)]
struct TakenIn {
    /// Version of its record.
    version: u64,
    /// Whether the server is in the hub. An unusable server is not in the hub, and has been logged once.
    is_in: bool,
}

/// Returns the configured servers, with their secrets.
pub fn configured(settings: &Settings, back: &str) -> Result<Vec<McpServer>, Trouble> {
    settings.mcp.iter().map(|(name, server)| server.server(name, back)).collect()
}

/// Creates a hub without servers, for read-only commands.
pub fn none() -> Arc<McpHub> {
    Arc::new(McpHub::new(HubConfig::default()))
}

/// The reason why a server cannot be added or removed.
#[derive(Debug, thiserror::Error)]
pub enum ChangeError {
    /// The draft is invalid.
    #[error("the server cannot be added: {0}")]
    Invalid(String),
    /// The server is a local program, which the settings do not allow.
    #[error("the server is a program, which `[server] mcp_commands` does not allow")]
    Command,
    /// The maximum number of servers is reached.
    #[error("the limit of {} added servers is reached", added::MAX)]
    Full,
    /// The name is in use.
    #[error("a server named `{0}` already exists")]
    Duplicate(String),
    /// The server does not exist.
    #[error("server `{0}` does not exist")]
    Missing(String),
    /// The server is configured in the settings.
    #[error("the server `{0}` is defined in the configuration; remove it there")]
    Settings(String),
    #[error(transparent)]
    Record(#[from] RecordError),
}

impl Servers {
    /// Starts the servers of a store. Names of the engine's own tools are reserved.
    pub async fn start(
        settings: &Settings,
        own: &Registry,
        store: &Path,
        records: Arc<dyn Records>,
        back: Back,
        which: Which<'_>,
    ) -> anyhow::Result<Arc<Self>> {
        let clock = crate::clock::clock();
        let only = match which {
            Which::All | Which::Each => None,
            Which::One(name) => Some(name.to_owned()),
            Which::ServerOf(tool) => known::server_of(&*records, tool).await?,
        };
        let vault = Vault::open(store)?;
        let tokens = Arc::new(SealedTokens::new(clock.clone(), records.clone(), Vault::open(store)?, store));
        let sampling = Arc::new(EngineSampling::default());
        let added = added::list(&*records, Some(&vault)).await?;
        let mut known = known::recalled(&*records).await?;
        // Release the tool names of servers that no longer exist.
        let is_there = |name: &str| settings.mcp.contains_key(name) || added.iter().any(|it| it.name == name);
        known.retain(|known| is_there(&known.server));
        let has_url = |it: &Kept| it.draft.as_ref().is_some_and(|draft| draft.url.is_some());
        let signs_in = settings.mcp.values().any(|it| it.signs_in()) || added.iter().any(has_url);
        let stays = matches!(back, Back::At(_));
        let (back, page) = match back {
            Back::At(address) => (address, None),
            Back::Page if signs_in => {
                let page = Arc::new(Page::listen().await?);
                (page.address.clone(), Some(page))
            }
            Back::Page => (Page::USUAL.to_owned(), None),
        };
        // A run may include the tool `ApiCall` even if this process has no configured API.
        let mut reserved = vec![API_CALL.to_owned()];
        reserved.extend(own.catalogue().iter().map(|tool| tool.name.to_string()));
        let hub = McpHub::new(HubConfig {
            clock: clock.clone(),
            reach: settings.outbound.reach(),
            tokens: tokens.clone(),
            sampling: Some(sampling.clone()),
            reserved,
            known,
            ..HubConfig::default()
        });
        let servers = Arc::new(Self {
            hub: Arc::new(hub),
            page,
            back,
            settings: settings.clone(),
            clock,
            records,
            vault,
            tokens,
            sampling,
            engine: OnceLock::new(),
            role: Role { stays, only },
            added: Mutex::default(),
        });
        servers.begin(which).await?;
        Ok(servers)
    }

    async fn begin(self: &Arc<Self>, which: Which<'_>) -> anyhow::Result<()> {
        let mut settings = self.settings.clone();
        if let Some(only) = &self.role.only {
            // Filter before reading secrets: the secrets of other servers are not needed.
            settings.mcp.retain(|name, _| name == only);
        }
        let servers = settings.mcp.values_mut();
        match which {
            Which::All => {}
            Which::ServerOf(_) if self.role.only.is_none() => {}
            Which::Each | Which::ServerOf(_) => servers.for_each(|server| server.required = Some(false)),
            Which::One(_) => servers.for_each(|server| {
                server.required = Some(false);
                server.enabled = Some(true);
            }),
        }
        let configured = configured(&settings, &self.back)?;
        self.hub.start(configured).await.map_err(|error| {
            let hint = match &error {
                McpError::SignIn { server } => {
                    format!(
                        "run `windlass mcp login {server}`, or set `required = false` to start without it"
                    )
                }
                _ => "run `windlass mcp test` for details, or set `required = false` to start without it"
                    .to_owned(),
            };
            Trouble::usage(error.to_string()).hint(hint)
        })?;
        self.take_in(&mut *self.added.lock().await).await?;
        self.hub.settled(START_MS).await;
        known::keep(&*self.records, &self.hub).await;
        self.look_after();
        if let Some(page) = &self.page {
            page.serve(self);
        }
        Ok(())
    }

    /// Connects the engine, which answers sampling requests of servers and resumes calls after a sign-in.
    pub fn attach(&self, engine: &Engine) {
        // Invariant: there is one engine per store.
        let _ = self.engine.set(engine.clone());
        if self.settings.mcp.values().any(|server| server.sampling == Some(true)) {
            self.sampling.attach(engine);
        }
    }

    /// Returns whether a server is configured in the settings. Otherwise, an operator has added it over the API.
    pub fn is_configured(&self, name: &str) -> bool {
        self.settings.mcp.contains_key(name)
    }

    /// Adds a server permanently and writes the audit entry.
    pub async fn add(&self, draft: Draft, accounts: &Accounts, note: Note) -> Result<(), ChangeError> {
        if draft.command.is_some() && self.settings.server.mcp_commands != Some(true) {
            return Err(ChangeError::Command);
        }
        draft.server(&self.back, &self.settings.outbound.reach()).map_err(ChangeError::Invalid)?;
        let name = draft.name.clone();
        if self.is_configured(&name) {
            return Err(ChangeError::Duplicate(name));
        }
        let mut added = self.added.lock().await;
        let before = added::list(&*self.records, Some(&self.vault)).await.map_err(RecordError::from)?;
        if before.iter().any(|it| it.name == name) {
            return Err(ChangeError::Duplicate(name));
        }
        if before.len() >= added::MAX {
            return Err(ChangeError::Full);
        }
        // Delete data of an earlier server with this name, such as tokens that a concurrent token refresh has written.
        self.forget(&name).await?;
        let new = Added { draft, at: self.clock.now() };
        let change = added::change(&self.vault, &new).map_err(RecordError::from)?;
        let version = match accounts.commit(vec![change], note).await {
            Err(RecordError::Conflict { kind, .. }) if kind == added::SERVER => {
                return Err(ChangeError::Duplicate(name));
            }
            versions => versions?.into_iter().flatten().next().unwrap_or_default(),
        };
        let taken_in = self.taken_in(Kept { name: name.clone(), version, draft: Some(new.draft) }, None);
        added.insert(name, taken_in);
        Ok(())
    }

    /// Removes an added server with all of its data, and writes the audit entry.
    pub async fn remove(&self, name: &str, accounts: &Accounts, note: Note) -> Result<(), ChangeError> {
        if self.is_configured(name) {
            return Err(ChangeError::Settings(name.to_owned()));
        }
        let mut added = self.added.lock().await;
        if self.records.get(added::SERVER, name).await.map_err(RecordError::from)?.is_none() {
            return Err(ChangeError::Missing(name.to_owned()));
        }
        // Disconnect before the tokens are deleted, so that this process no longer refreshes them.
        if added.remove(name).is_some_and(|it| it.is_in) {
            // The hub may no longer contain the server.
            let _ = self.hub.remove(name);
        }
        let removed = self.removed(name, accounts, note).await;
        if removed.is_err()
            && let Err(error) = self.take_in(&mut added).await
        {
            tracing::warn!(server = name, %error, "a tool server could not be removed and is unavailable \
                for now");
        }
        Ok(removed?)
    }

    /// Deletes the server's record last. While the record exists, the user can repeat a failed removal.
    async fn removed(&self, name: &str, accounts: &Accounts, note: Note) -> Result<(), RecordError> {
        self.forget(name).await?;
        let change = RecordChange::delete(added::SERVER, name, Expect::Any);
        accounts.commit(vec![change], note).await.map(drop)
    }

    /// Deletes all stored data of a server with this name.
    async fn forget(&self, name: &str) -> Result<(), RecordError> {
        self.tokens.forget(name).await?;
        known::forget(&*self.records, name).await
    }

    /// Updates the hub to contain exactly the added servers in the records.
    async fn take_in(&self, added: &mut BTreeMap<String, TakenIn>) -> Result<(), StoreError> {
        let kept = added::list(&*self.records, Some(&self.vault)).await?;
        let mut before = std::mem::take(added);
        for kept in
            kept.into_iter().filter(|kept| self.role.only.as_ref().is_none_or(|only| *only == kept.name))
        {
            let (name, known) = (kept.name.clone(), before.remove(&kept.name));
            let taken_in = match known {
                Some(known) if known.version == kept.version => known,
                Some(_) | None => self.taken_in(kept, known),
            };
            added.insert(name, taken_in);
        }
        for (name, _) in before.into_iter().filter(|(_, it)| it.is_in) {
            // The hub may no longer contain the server.
            let _ = self.hub.remove(&name);
        }
        Ok(())
    }

    /// Registers an added server in the hub, and replaces its earlier version.
    fn taken_in(&self, Kept { name, version, draft }: Kept, before: Option<TakenIn>) -> TakenIn {
        let put = || {
            let draft = draft.ok_or("its record cannot be read; remove the server and add it again")?;
            if self.is_configured(&name) {
                return Err("the configuration has a server with this name".to_owned());
            }
            if draft.command.is_some() && self.settings.server.mcp_commands != Some(true) {
                return Err("it is a program, which `[server] mcp_commands` does not allow".to_owned());
            }
            let server = draft.server(&self.back, &self.settings.outbound.reach())?;
            self.hub.put(server).map_err(|error| error.to_string())
        };
        let put = put();
        if let Err(why) = &put {
            tracing::warn!(server = name, why, "skipping an added tool server");
            if before.is_some_and(|before| before.is_in) {
                // The hub may no longer contain the server.
                let _ = self.hub.remove(&name);
            }
        }
        TakenIn { version, is_in: put.is_ok() }
    }
}

/// Returns whether any server is configured or added.
pub async fn are_any(settings: &Settings, records: &dyn Records) -> anyhow::Result<bool> {
    Ok(!settings.mcp.is_empty() || added::is_any(records).await?)
}

impl From<McpError> for Trouble {
    fn from(error: McpError) -> Self {
        Self::usage(error.to_string())
    }
}
