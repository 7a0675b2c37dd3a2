//! All servers together: their tools as one source, their status, and the operations on them.
//!
//! The hub holds no connection; the task of each server holds it.

pub(super) mod known;
pub(super) mod name;
pub(super) mod offer;
pub(super) mod own;
pub(super) mod prompt;
pub(super) mod resource;
pub(super) mod settings;
pub(super) mod tool;

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};

use tokio::sync::watch;
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;
use windlass_engine::port::tool::{Tool, ToolSource};
use windlass_engine::tool::ENGINE_NAMES;

use super::config::{McpServer, Prefix, Transport};
use super::core::{Core, Link, REQUIRED_ATTEMPTS, Relist, Way, supervise};
use super::error::McpError;
use super::health::{ListedTool, ServerStatus};
use super::list::RemoteTool;
use super::mask::Masks;
use super::oauth::{SignIn, SignInPage, SignInReturn};
use crate::core::sampling::{Depths, Sampling};
use crate::hub::known::{KnownServer, KnownTool};
use crate::hub::name::Names;
use crate::hub::offer::HubOffer;
use crate::hub::resource::{ResourceTools, connected};
use crate::hub::settings::HubConfig;
use crate::hub::tool::McpTool;
use crate::wire::http::way_to;

/// The servers and their tools. Dropping the hub stops all servers.
pub struct McpHub {
    shared: Arc<Shared>,
    stop: CancellationToken,
}

pub(super) struct Shared {
    config: HubConfig,
    /// Tools recalled from an earlier process.
    known: Mutex<Vec<KnownServer>>,
    servers: Mutex<BTreeMap<String, Entry>>,
    offer: HubOffer,
    order: AtomicU64,
    /// Whether the wait for the first responses is over. After that, silent
    /// servers no longer delay the names of others.
    is_settled: AtomicBool,
    /// Tasks of replaced or removed servers that may not have ended yet.
    leaving: Mutex<Vec<JoinHandle<()>>>,
    depths: Arc<Depths>,
    /// A handle to this hub, for the tools that query every server.
    me: Weak<Shared>,
}

/// A server and the task that keeps it connected.
struct Entry {
    core: Arc<Core>,
    /// The position in the order of configuration. Earlier servers choose tool names first.
    order: u64,
    task: Option<JoinHandle<()>>,
}

impl McpHub {
    /// Creates a hub without servers.
    pub fn new(mut config: HubConfig) -> Self {
        let ours = ENGINE_NAMES.into_iter().chain(ResourceTools::NAMES).map(str::to_owned);
        let mut names = Names::reserving(std::mem::take(&mut config.reserved).into_iter().chain(ours));
        let known = std::mem::take(&mut config.known);
        restore(&mut names, &known);
        let known = Mutex::new(known);
        let shared = Arc::new_cyclic(|me| Shared {
            config,
            known,
            servers: Mutex::default(),
            offer: HubOffer::new(names, me),
            order: AtomicU64::new(0),
            is_settled: AtomicBool::new(false),
            leaving: Mutex::default(),
            depths: Arc::default(),
            me: me.clone(),
        });
        Self { shared, stop: CancellationToken::new() }
    }

    /// Adds servers and starts to connect. Waits for the required servers: after five attempts,
    /// three seconds apart, startup fails. (SK-A12)
    pub async fn start(&self, servers: Vec<McpServer>) -> Result<(), McpError> {
        for (index, server) in servers.iter().enumerate() {
            server.check()?;
            if servers[..index].iter().any(|other| other.name == server.name) {
                return Err(McpError::Duplicate(server.name.clone()));
            }
        }
        let required: Vec<String> =
            servers.iter().filter(|it| it.required && it.enabled).map(|it| it.name.clone()).collect();
        for server in servers {
            self.put(server)?;
        }
        for name in required {
            self.required(&name).await?;
        }
        Ok(())
    }

    /// Adds a server, replacing one with the same name, and starts to connect.
    pub fn put(&self, server: McpServer) -> Result<(), McpError> {
        server.check()?;
        let wanted = server.wanted()?;
        let (name, enabled) = (server.name.clone(), server.enabled);
        let shared = &self.shared;
        let masks = Arc::new(Masks::of(&server));
        let way = self.way_to(&server, &masks)?;
        let handler = shared.config.sampling.clone().filter(|_| server.allow_sampling);
        let sampling =
            handler.map(|handler| Sampling { server: name.clone(), handler, depths: shared.depths.clone() });
        let (clock, stop) = (shared.config.clock.clone(), self.stop.child_token());
        let core = Arc::new(Core::new(server, wanted, clock, way, sampling, masks, stop));
        self.remember(&core);
        let task = enabled.then(|| tokio::spawn(supervise(core.clone(), shared.relist())));
        let before = {
            let mut servers = shared.servers();
            let order = match servers.get(&name) {
                Some(entry) => entry.order,
                None => shared.order.fetch_add(1, Ordering::Relaxed),
            };
            servers.insert(name, Entry { core, order, task })
        };
        if let Some(before) = before {
            if !enabled {
                before.core.take_out();
            }
            shared.let_go(before);
        }
        shared.rebuild();
        Ok(())
    }

    /// Creates the outbound client of a server over HTTP, with its sign-in if it has one.
    fn way_to(&self, server: &McpServer, masks: &Arc<Masks>) -> Result<Way, McpError> {
        let (Transport::Http(http) | Transport::Sse(http)) = &server.transport else {
            return Ok(Way::default());
        };
        let config = &self.shared.config;
        let way = way_to(http, &config.reach, config.resolver.clone());
        let invalid = |problem| McpError::Config { server: server.name.clone(), problem };
        let way = Arc::new(way.map_err(invalid)?);
        let sign_in = http.oauth.clone().map(|oauth| {
            Arc::new(SignIn::new(
                &server.name,
                &http.url,
                oauth,
                way.clone(),
                config.tokens.clone(),
                config.clock.clone(),
                masks.clone(),
            ))
        });
        Ok(Way { outbound: Some(way), sign_in })
    }

    /// Restores the tools that an earlier process knew for the server.
    fn remember(&self, core: &Core) {
        let known = self.shared.known.lock().unwrap_or_else(PoisonError::into_inner);
        let parts = known.iter().filter(|known| known.server == core.config.name);
        let tools = parts.flat_map(|known| known.tools.iter().map(|tool| &tool.tool));
        let (tools, mask) = (tools.filter(|tool| core.wanted.takes(&tool.name)), core.masks.results());
        // The tools are redacted again, because other values may have become secret since then.
        core.known().listed.tools = tools.filter_map(|tool| tool.clone().masked(&mask).ok()).collect();
    }

    /// Removes a server and the tools recalled for it. A later server with the same name starts without tools.
    pub fn remove(&self, name: &str) -> Result<(), McpError> {
        // The lock is held so that a concurrent rebuild does not assign names to the server's tools again.
        let made = self.shared.offer.made.lock().unwrap_or_else(PoisonError::into_inner);
        let entry = self.shared.servers().remove(name);
        let entry = entry.ok_or_else(|| McpError::Unknown(name.to_owned()))?;
        self.shared.names().forget(name);
        drop(made);
        let mut known = self.shared.known.lock().unwrap_or_else(PoisonError::into_inner);
        known.retain(|known| known.server != name);
        drop(known);
        entry.core.take_out();
        self.shared.let_go(entry);
        self.shared.rebuild();
        Ok(())
    }

    async fn required(&self, name: &str) -> Result<(), McpError> {
        let core = self.shared.core(name)?;
        let mut link = core.link();
        let settled = link.wait_for(|link| match link {
            Link::Starting => false,
            Link::Down { attempts, .. } => *attempts >= REQUIRED_ATTEMPTS,
            Link::Up { .. } | Link::SignIn { .. } | Link::Disabled => true,
        });
        match settled.await.as_deref() {
            Ok(Link::Down { why, attempts, .. }) => {
                Err(McpError::Required { server: name.to_owned(), attempts: *attempts, why: why.clone() })
            }
            Ok(Link::SignIn { .. }) if core.sign_in.is_some() => {
                Err(McpError::SignIn { server: name.to_owned() })
            }
            // A retry does not help: the credentials stay the same.
            Ok(Link::SignIn { .. }) => {
                let why = "it rejects the configured credentials".to_owned();
                Err(McpError::Required { server: name.to_owned(), attempts: 1, why })
            }
            Ok(Link::Starting | Link::Up { .. } | Link::Disabled) | Err(_) => Ok(()),
        }
    }

    /// Waits until every server has connected or failed once, but at most `within_ms`.
    pub async fn settled(&self, within_ms: u64) {
        let links: Vec<_> = self.shared.servers().values().map(|entry| entry.core.link()).collect();
        let all = async {
            for mut link in links {
                // An error means that the server was removed.
                let _ = link.wait_for(|link| !matches!(link, Link::Starting)).await;
            }
        };
        tokio::select! {
            () = all => {}
            () = self.shared.config.clock.sleep_ms(within_ms) => {}
        }
        // Servers that have responded now get their names, even if other servers are still silent.
        self.shared.is_settled.store(true, Ordering::Relaxed);
        self.shared.rebuild();
    }

    /// Returns the status of every server, by name.
    pub fn status(&self) -> Vec<ServerStatus> {
        let cores: Vec<_> = self.shared.servers().values().map(|entry| entry.core.clone()).collect();
        cores.iter().map(|core| self.shared.status_of(core)).collect()
    }

    /// Returns the status of one server.
    pub fn server(&self, name: &str) -> Result<ServerStatus, McpError> {
        let core = self.shared.core(name)?;
        Ok(self.shared.status_of(&core))
    }

    /// Returns the server's last log lines, redacted.
    pub fn logs(&self, name: &str) -> Result<Vec<String>, McpError> {
        Ok(self.shared.core(name)?.log.lines())
    }

    /// Reconnects to a server at once; a process is restarted.
    pub fn restart(&self, name: &str) -> Result<(), McpError> {
        self.shared.core(name)?.restart();
        Ok(())
    }

    /// Begins a sign-in. Returns the page to open in a browser.
    pub async fn begin_sign_in(&self, name: &str) -> Result<SignInPage, McpError> {
        self.begin_sign_in_for(name, &[]).await
    }

    /// Begins a sign-in with scopes in addition to those of the configuration and of the earlier sign-in.
    pub async fn begin_sign_in_for(&self, name: &str, scopes: &[String]) -> Result<SignInPage, McpError> {
        self.sign_in(name)?.begin(scopes).await
    }
    /// Completes a sign-in with the parameters of the browser's redirect. The server is then connected immediately.
    pub async fn finish_sign_in(&self, name: &str, back: &SignInReturn) -> Result<(), McpError> {
        self.sign_in(name)?.finish(back).await?;
        self.shared.core(name)?.comes_back();
        Ok(())
    }

    /// Waits until a server is connected, at most for its connection timeout. The
    /// error states why the server is not connected.
    pub async fn ready(&self, name: &str) -> Result<(), McpError> {
        connected(&*self.shared.core(name)?).await.map(drop)
    }

    /// Whether tokens of a sign-in are stored for the server.
    pub async fn is_signed_in(&self, name: &str) -> bool {
        match self.sign_in(name) {
            Ok(sign_in) => sign_in.kept().await.is_some(),
            Err(_) => false,
        }
    }

    /// Returns the scopes granted by the last sign-in.
    pub async fn granted_scopes(&self, name: &str) -> Vec<String> {
        let Ok(sign_in) = self.sign_in(name) else { return Vec::new() };
        sign_in.granted().await
    }

    /// Deletes a server's tokens and reconnects without them.
    pub async fn sign_out(&self, name: &str) -> Result<(), McpError> {
        self.sign_in(name)?.sign_out().await?;
        self.restart(name)
    }

    fn sign_in(&self, name: &str) -> Result<Arc<SignIn>, McpError> {
        let core = self.shared.core(name)?;
        let problem = || "sign-in is not enabled: set `oauth`".to_owned();
        core.sign_in.clone().ok_or_else(|| McpError::Config { server: name.to_owned(), problem: problem() })
    }

    /// Returns the servers' tools, to be passed to [`recall`](Self::recall) in the next process.
    pub fn known(&self) -> Vec<KnownServer> {
        let cores: Vec<_> = self.shared.servers().values().map(|entry| entry.core.clone()).collect();
        let known = cores.iter().map(|core| {
            let tools = core.known().listed.tools.clone();
            let named = |tool: RemoteTool| {
                let given = self.shared.names().given(&core.config.name, &tool.name)?;
                Some(KnownTool { given, tool })
            };
            let tools = tools.into_iter().filter_map(named).collect();
            KnownServer { server: core.config.name.clone(), tools }
        });
        known.collect()
    }

    /// Restores tools of an earlier process, for servers that are added later.
    pub fn recall(&self, known: Vec<KnownServer>) {
        restore(&mut self.shared.names(), &known);
        self.shared.known.lock().unwrap_or_else(PoisonError::into_inner).extend(known);
    }

    /// Returns a counter that changes with the tools.
    pub fn changed(&self) -> watch::Receiver<u64> {
        self.shared.offer.version.subscribe()
    }

    pub(super) fn shared(&self) -> &Arc<Shared> {
        &self.shared
    }

    /// Stops every server and waits until their processes have ended.
    pub async fn stop(&self) {
        self.stop.cancel();
        let mut tasks: Vec<_> =
            self.shared.servers().values_mut().filter_map(|entry| entry.task.take()).collect();
        tasks.append(&mut self.shared.leaving());
        for task in tasks {
            // An aborted task has ended as well.
            let _ = task.await;
        }
    }
}

/// Whether a server has listed no tools yet, because its first connection is being established.
fn is_unknown(core: &Core) -> bool {
    matches!(*core.link().borrow(), Link::Starting) && core.known().listed.tools.is_empty()
}

/// Reserves the names that tools had in an earlier process.
fn restore(names: &mut Names, known: &[KnownServer]) {
    for KnownServer { server, tools } in known {
        for tool in tools {
            names.restore(server, &tool.tool.name, &tool.given);
        }
    }
}

impl Drop for McpHub {
    fn drop(&mut self) {
        self.stop.cancel();
    }
}

impl ToolSource for McpHub {
    fn tools(&self) -> Arc<[Arc<dyn Tool>]> {
        self.shared.offer.tools.read().unwrap_or_else(PoisonError::into_inner).clone()
    }

    fn version(&self) -> u64 {
        *self.shared.offer.version.borrow()
    }
}

impl Shared {
    fn servers(&self) -> MutexGuard<'_, BTreeMap<String, Entry>> {
        // A panic cannot leave the map invalid: each change is one insertion or removal.
        self.servers.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn leaving(&self) -> MutexGuard<'_, Vec<JoinHandle<()>>> {
        // A panic cannot leave the list invalid: each change is one operation.
        self.leaving.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Stops a server. Keeps the server's task until it has ended, so that stopping the hub can wait for the task.
    fn let_go(&self, entry: Entry) {
        entry.core.signals.stop.cancel();
        let mut leaving = self.leaving();
        leaving.retain(|task| !task.is_finished());
        leaving.extend(entry.task);
    }

    fn names(&self) -> MutexGuard<'_, Names> {
        self.offer.names()
    }

    /// Returns the name of a tool; `None` while an earlier server that has not responded may claim the name. The first
    /// configured server has the first choice, even if it takes long to respond.
    fn name_of(&self, core: &Core, tool: &str) -> Option<String> {
        let given = self.names().given(&core.config.name, tool);
        if given.is_some() || core.config.prefix == Prefix::OnClash && self.has_unknown_before(core) {
            return given;
        }
        Some(self.names().of(&core.config.name, tool, core.config.prefix))
    }

    fn has_unknown_before(&self, core: &Core) -> bool {
        if self.is_settled.load(Ordering::Relaxed) {
            return false;
        }
        let servers = self.servers();
        let own = servers.get(&core.config.name).map_or(u64::MAX, |entry| entry.order);
        let mut before = servers.values().filter(|entry| entry.order < own && entry.core.config.enabled);
        before.any(|entry| is_unknown(&entry.core))
    }

    pub fn core(&self, name: &str) -> Result<Arc<Core>, McpError> {
        let core = self.servers().get(name).map(|entry| entry.core.clone());
        core.ok_or_else(|| McpError::Unknown(name.to_owned()))
    }

    /// Returns every server, by name.
    pub fn cores(&self) -> Vec<Arc<Core>> {
        self.servers().values().map(|entry| entry.core.clone()).collect()
    }

    fn relist(&self) -> Relist {
        let me = self.me.clone();
        Arc::new(move |_| {
            if let Some(shared) = me.upgrade() {
                shared.rebuild();
            }
        })
    }

    /// Builds the list of tools again.
    fn rebuild(&self) {
        // The list is locked before the servers are read, so that the last list built reflects the last state read.
        let mut made = self.offer.made.lock().unwrap_or_else(PoisonError::into_inner);
        let mut cores: Vec<_> =
            self.servers().values().map(|entry| (entry.order, entry.core.clone())).collect();
        cores.sort_by_key(|(order, _)| *order);
        let mut tools: BTreeMap<String, Arc<dyn Tool>> = BTreeMap::new();
        let mut has_resources = false;
        let before = std::mem::take(&mut *made);
        for (_, core) in cores.iter().filter(|(_, core)| core.config.enabled) {
            let listed = core.known().listed.tools.clone();
            for tool in &listed {
                let Some(name) = self.name_of(core, &tool.name) else { continue };
                let same = before.get(&name).filter(|made| made.is(core, tool)).cloned();
                let made_tool = same.unwrap_or_else(|| Arc::new(McpTool::new(core.clone(), &name, tool)));
                made.insert(name.clone(), made_tool.clone());
                tools.insert(name, made_tool);
            }
            self.names().tidy(&core.config.name, listed.iter().map(|tool| tool.name.as_str()));
            has_resources |= core.has_resources();
        }
        if has_resources {
            tools.extend(self.offer.resource_tools.iter().cloned());
        }
        *self.offer.tools.write().unwrap_or_else(PoisonError::into_inner) = tools.into_values().collect();
        self.offer.version.send_modify(|version| *version += 1);
    }

    fn status_of(&self, core: &Core) -> ServerStatus {
        let (tools, left_out) = {
            let known = core.known();
            (known.listed.tools.clone(), known.listed.left_out.clone())
        };
        let tools = tools.into_iter().map(|tool| ListedTool {
            name: self.names().given(&core.config.name, &tool.name).unwrap_or_else(|| tool.name.clone()),
            remote: tool.name,
            title: tool.title,
            tag: tool.tag,
        });
        let info = core.info();
        let mask = core.masks.results();
        let software = info.as_ref().and_then(|info| info.server_info.as_ref());
        ServerStatus {
            name: core.config.name.clone(),
            health: core.health(),
            protocol: info.as_ref().map(|info| mask.text(&info.protocol_version.to_string())),
            software: software.map(|it| mask.text(&format!("{} {}", it.name, it.version))),
            instructions: info.as_ref().and_then(|info| info.instructions.as_ref()).map(|it| mask.text(it)),
            trusted: core.config.trusted,
            required: core.config.required,
            tools: tools.collect(),
            left_out,
        }
    }
}
