//! The tool servers that runs may use: those of the settings and those that administrators have added, with what they
//! leave behind in the store.
//!
//! What a server is, is the library's. A sign-in is the server's and not a person's: one connection serves everybody on
//! the store, so that whoever signs in lends it to all of them, and only administrators may.

mod added;
mod known;
mod page;
mod sampling;
mod sign_in;
mod tokens;

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::{Arc, Mutex, OnceLock, PoisonError, Weak};

use windlass::Engine;
use windlass::adapter::mcp::{Health, HubConfig, McpError, McpHub, McpServer};
use windlass::machine::Digest;
use windlass::port::clock::Clock;
use windlass::port::records::{RecordError, Records};
use windlass::port::tool::ToolSource;
use windlass::tool::Registry;

use self::added::Added;
pub use self::added::Draft;
pub use self::page::Page;
use self::sampling::EngineSampling;
pub use self::sign_in::SignInError;
use self::tokens::SealedTokens;
use crate::config::Settings;
use crate::trouble::Trouble;
use crate::vault::Vault;

/// How long a test of servers waits: longer than any of them may take to answer.
pub const TEST_MS: u64 = 60_000;
/// How long a start waits for servers that it does not require. Their tools come when they answer.
const START_MS: u64 = 5_000;
/// How often it is looked whether another process has changed anything, or a server has come back.
const LOOK_EVERY_MS: u64 = 1_000;

/// Where browsers come back to from signing in.
#[derive(Clone, Debug)]
pub enum Back {
    /// To a page of this process, on this machine, where any server needs one.
    Page,
    /// To this address of the server.
    At(String),
}

/// Which servers are started.
#[derive(Clone, Copy, Debug)]
pub enum Which<'a> {
    /// All of them; those that are required are waited for.
    All,
    /// All of them, whatever becomes of each.
    Each,
    /// One, whatever becomes of it.
    One(&'a str),
}

/// The servers of a place.
pub struct Servers {
    /// The servers themselves.
    pub hub: Arc<McpHub>,
    /// The page that browsers come back to, where this process has one.
    pub page: Option<Arc<Page>>,
    back: String,
    settings: Settings,
    clock: Arc<dyn Clock>,
    records: Arc<dyn Records>,
    vault: Vault,
    tokens: Arc<SealedTokens>,
    sampling: Arc<EngineSampling>,
    engine: OnceLock<Engine>,
    /// The added servers that are in the hub, by what they were read as.
    added: Mutex<BTreeMap<String, Digest>>,
}

/// The servers that are configured, with their secrets read.
pub fn configured(settings: &Settings, back: &str) -> Result<Vec<McpServer>, Trouble> {
    settings.mcp.iter().map(|(name, server)| server.server(name, back)).collect()
}

/// A hub without servers, for whoever only looks.
pub fn none() -> Arc<McpHub> {
    Arc::new(McpHub::new(HubConfig::default()))
}

/// Why a server is not added or taken out.
#[derive(Debug, thiserror::Error)]
pub enum ChangeError {
    /// What is asked for cannot be a server.
    #[error("the server cannot be added: {0}")]
    Invalid(String),
    /// A program would run on this machine.
    #[error(
        "the server is a program, and `[server] mcp_commands` does not let programs be started from here"
    )]
    Command,
    /// There are too many.
    #[error("there are {} added servers, which is as many as there may be", added::MAX)]
    Full,
    /// The name is taken.
    #[error("there is a server named `{0}`")]
    Duplicate(String),
    /// There is no such server.
    #[error("server `{0}` does not exist")]
    Missing(String),
    /// The settings have it.
    #[error("the server `{0}` stands in the settings; take it out there")]
    Settings(String),
    /// The records.
    #[error(transparent)]
    Record(#[from] RecordError),
}

impl Servers {
    /// Starts the servers over a store's records, beside the engine's own tools.
    pub async fn start(
        settings: &Settings,
        own: &Registry,
        (store, records): (&Path, Arc<dyn Records>),
        back: Back,
        which: Which<'_>,
    ) -> anyhow::Result<Arc<Self>> {
        let clock = crate::place::clock();
        let vault = Vault::open(store)?;
        let tokens = Arc::new(SealedTokens::new(clock.clone(), records.clone(), Vault::open(store)?, store));
        let sampling = Arc::new(EngineSampling::default());
        let added = added::list(&*records, &vault).await?;
        let mut known = known::recalled(&*records).await?;
        // A server that is there no more keeps no names from others.
        let is_there =
            |name: &str| settings.mcp.contains_key(name) || added.iter().any(|it| it.draft.name == name);
        known.retain(|known| is_there(&known.server));
        let signs_in =
            settings.mcp.values().any(|it| it.signs_in()) || added.iter().any(|it| it.draft.url.is_some());
        let (back, page) = match back {
            Back::At(address) => (address, None),
            Back::Page if signs_in => {
                let page = Arc::new(Page::listen().await?);
                (page.address.clone(), Some(page))
            }
            Back::Page => (Page::USUAL.to_owned(), None),
        };
        let hub = McpHub::new(HubConfig {
            clock: clock.clone(),
            reach: settings.outbound.reach(),
            tokens: tokens.clone(),
            sampling: Some(sampling.clone()),
            reserved: own.catalogue().iter().map(|tool| tool.name.to_string()).collect(),
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
            added: Mutex::default(),
        });
        servers.begin(which, added).await?;
        Ok(servers)
    }

    async fn begin(self: &Arc<Self>, which: Which<'_>, added: Vec<Added>) -> anyhow::Result<()> {
        let mut settings = self.settings.clone();
        match which {
            Which::All => {}
            Which::Each => settings.mcp.values_mut().for_each(|server| server.required = Some(false)),
            Which::One(wanted) => {
                // Before their secrets are read: nobody needs those of the others.
                settings.mcp.retain(|name, _| name == wanted);
                settings.mcp.values_mut().for_each(|server| {
                    (server.required, server.enabled) = (Some(false), Some(true));
                });
            }
        }
        let configured = configured(&settings, &self.back)?;
        self.hub.start(configured).await.map_err(|error| {
            Trouble::usage(error.to_string())
                .hint("`windlass mcp test` says more; `required = false` starts without it")
        })?;
        let wanted = |it: &Added| match which {
            Which::All | Which::Each => true,
            Which::One(name) => it.draft.name == name,
        };
        self.take_in(added.into_iter().filter(wanted).collect());
        if self.hub.status().is_empty() {
            self.look_after();
            return Ok(());
        }
        self.hub.settled(START_MS).await;
        if let Err(error) = known::keep(&self.records, &self.hub).await {
            tracing::warn!(%error, "what is known of tool servers is not kept");
        }
        self.look_after();
        Ok(())
    }

    /// Has the engine's models answer servers that may ask for that, and its runs go on when somebody has signed in.
    pub fn attach(&self, engine: &Engine) {
        // A place has one engine.
        let _ = self.engine.set(engine.clone());
        if self.settings.mcp.values().any(|server| server.sampling == Some(true)) {
            self.sampling.attach(engine);
        }
    }

    /// Whether the settings have a server, and not an administrator's request.
    pub fn is_configured(&self, name: &str) -> bool {
        self.settings.mcp.contains_key(name)
    }

    /// Adds a server, for good.
    pub async fn add(&self, draft: Draft) -> Result<(), ChangeError> {
        if draft.command.is_some() && self.settings.server.mcp_commands != Some(true) {
            return Err(ChangeError::Command);
        }
        draft.server(&self.back, &self.settings.outbound.reach()).map_err(ChangeError::Invalid)?;
        let name = draft.name.clone();
        if self.is_configured(&name) {
            return Err(ChangeError::Duplicate(name));
        }
        let before = added::list(&*self.records, &self.vault).await.map_err(RecordError::from)?;
        if before.len() >= added::MAX {
            return Err(ChangeError::Full);
        }
        let added = Added { draft, at: self.clock.now() };
        match added::put(&*self.records, &self.vault, &added).await {
            Err(RecordError::Conflict { .. }) => return Err(ChangeError::Duplicate(name)),
            put => put?,
        };
        self.take_in(before.into_iter().chain([added]).collect());
        Ok(())
    }

    /// Takes an added server out, and forgets what its sign-in has left behind.
    pub async fn remove(&self, name: &str) -> Result<(), ChangeError> {
        if self.is_configured(name) {
            return Err(ChangeError::Settings(name.to_owned()));
        }
        if !added::remove(&*self.records, name).await? {
            return Err(ChangeError::Missing(name.to_owned()));
        }
        // A server without a sign-in has nothing to be signed out of.
        let _ = self.hub.sign_out(name).await;
        let left = added::list(&*self.records, &self.vault).await.map_err(RecordError::from)?;
        self.take_in(left);
        Ok(known::forget(&*self.records, name).await?)
    }

    /// Makes the hub's added servers those that are kept.
    fn take_in(&self, kept: Vec<Added>) {
        let mut here = self.added.lock().unwrap_or_else(PoisonError::into_inner);
        let mut before = std::mem::take(&mut *here);
        for Added { draft, .. } in kept {
            let name = draft.name.clone();
            let is_allowed = draft.command.is_none() || self.settings.server.mcp_commands == Some(true);
            if self.is_configured(&name) || !is_allowed {
                tracing::warn!(server = name, "an added tool server is left out: the settings say otherwise");
                continue;
            }
            let digest = Digest::of(&serde_json::to_vec(&draft).unwrap_or_default());
            if before.remove(&name) == Some(digest) {
                here.insert(name, digest);
                continue;
            }
            let server = draft.server(&self.back, &self.settings.outbound.reach());
            let put = server.and_then(|server| self.hub.put(server).map_err(|error| error.to_string()));
            match put {
                Ok(()) => drop(here.insert(name, digest)),
                Err(why) => tracing::warn!(server = name, why, "an added tool server is left out"),
            }
        }
        for name in before.into_keys() {
            // One that is out already is out.
            let _ = self.hub.remove(&name);
        }
    }

    /// Looks after what others change, until nobody holds the servers any more.
    fn look_after(self: &Arc<Self>) {
        let (servers, clock, mut changed) = (Arc::downgrade(self), self.clock.clone(), self.hub.changed());
        tokio::spawn(async move {
            let mut seen = Seen::default();
            while let Some(servers) = Weak::upgrade(&servers) {
                if let Err(error) = servers.look(&mut seen).await {
                    tracing::debug!(%error, "the tool servers could not be looked after");
                }
                drop(servers);
                tokio::select! {
                    // What is known of tools is kept at once. An error says that the servers are gone, as is then seen.
                    _ = changed.changed() => {}
                    () = clock.sleep_ms(LOOK_EVERY_MS) => {}
                }
            }
        });
        if let Some(page) = &self.page {
            page.serve(self);
        }
    }

    async fn look(&self, seen: &mut Seen) -> anyhow::Result<()> {
        let changes = self.records.changes().await?;
        if seen.changes.replace(changes).is_some_and(|before| before != changes) {
            self.take_in(added::list(&*self.records, &self.vault).await?);
        }
        let version = self.hub.version();
        if seen.version.replace(version) != Some(version) {
            known::keep(&self.records, &self.hub).await?;
        }
        for status in self.hub.status() {
            let needs = matches!(status.health, Health::NeedsSignIn { .. });
            let needed = seen.needed.insert(status.name.clone(), needs);
            if needed == Some(true) && !needs {
                self.go_on(&status.name, &crate::place::local()).await;
            }
        }
        Ok(())
    }
}

/// What was found when it was last looked.
#[derive(Default)]
struct Seen {
    changes: Option<u64>,
    version: Option<u64>,
    /// Whether somebody had to sign in, by server.
    needed: BTreeMap<String, bool>,
}

/// Whether there is anything that servers are started for.
pub async fn are_any(settings: &Settings, records: &dyn Records) -> anyhow::Result<bool> {
    Ok(!settings.mcp.is_empty() || added::is_any(records).await?)
}

impl From<McpError> for Trouble {
    fn from(error: McpError) -> Self {
        Self::usage(error.to_string())
    }
}
