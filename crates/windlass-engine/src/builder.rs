//! Builds an engine from ports and options. Every option has a default.
//!
//! This module only wires ports together; it makes no other decision.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use windlass_machine::{AutoRun, ModelAccess, Offload, Policy, Principal, Rule, RunId, ThreadId};

use crate::bus::LocalBus;
use crate::clock::SystemClock;
use crate::drive::catalog::own::{OwnTools, ToolsOf};
use crate::drive::policy::service::Roles;
use crate::drive::{CreditOf, DRIVEN_MAX, FolderOf, FolderSource, Parts, Reaches, Services, Tools};
use crate::engine::Engine;
use crate::error::EngineError;
use crate::limits::Budget;
use crate::memory::MemoryStore;
use crate::port::blob::Blobs;
use crate::port::bus::Bus;
use crate::port::clock::Clock;
use crate::port::hook::Hook;
use crate::port::journal::{Journal, StoreError};
use crate::port::model::Models;
use crate::port::observe::Observer;
use crate::port::offload::Summarizer;
use crate::port::records::Records;
use crate::port::store::{OpenStore, StoreParts};
use crate::port::tool::{Tool, ToolSource};
use crate::tool::{Registry, SHOWN_TOKENS, Toolset, WorkingFolder};

/// The threads that an engine drives.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Attend {
    /// Only threads that this engine starts or opens explicitly: for a command line.
    #[default]
    Own,
    /// Also threads that need a driver and have none: for a server.
    All,
}

/// Options of an [`Engine`], with defaults for everything except the tools and models given to [`Builder::new`].
pub struct Builder {
    // tidy: fields one for each option of a program
    store: Option<Box<dyn OpenStore>>,
    parts: Option<StoreParts>,
    bus: Option<Arc<dyn Bus>>,
    clock: Option<Arc<dyn Clock>>,
    models: Option<Arc<dyn Models>>,
    default_models: fn() -> Result<Arc<dyn Models>, EngineError>,
    registry: Registry,
    sources: Vec<Arc<dyn ToolSource>>,
    toolsets: Vec<Toolset>,
    shown_tokens: Option<u64>,
    folder: Option<Arc<WorkingFolder>>,
    folders: Option<Arc<FolderOf>>,
    policy: Policy,
    budgets: Vec<Budget>,
    hook: Option<Arc<dyn Hook>>,
    observer: Option<Arc<dyn Observer>>,
    roles: Roles,
    credit_of: Option<Arc<CreditOf>>,
    offload: Option<Offload>,
    summarizer: Option<Arc<Summarizer>>,
    attend: Attend,
    driven_max: Option<usize>,
    reaches: Option<Arc<Reaches>>,
    tools_of: Option<Arc<ToolsOf>>,
}

impl Builder {
    /// Begins to build an engine with the tools of `registry`. [`Builder::build`] calls `default_models` unless
    /// [`Builder::models`] was called. Without further options, threads are stored in memory.
    pub fn new(registry: Registry, default_models: fn() -> Result<Arc<dyn Models>, EngineError>) -> Self {
        Self {
            store: None,
            parts: None,
            bus: None,
            clock: None,
            models: None,
            default_models,
            registry,
            sources: Vec::new(),
            toolsets: Vec::new(),
            shown_tokens: None,
            folder: None,
            folders: None,
            policy: Policy::default(),
            budgets: Vec::new(),
            hook: None,
            observer: None,
            roles: Roles::default(),
            credit_of: None,
            offload: None,
            summarizer: None,
            attend: Attend::default(),
            driven_max: None,
            reaches: None,
            tools_of: None,
        }
    }

    /// Stores threads in this store. The store's folder must not be inside a working folder.
    pub fn store(mut self, store: impl OpenStore + 'static) -> Self {
        self.store = Some(Box::new(store));
        self
    }

    /// Stores threads through individual ports instead of an [`OpenStore`].
    pub fn ports(
        mut self,
        journal: Arc<dyn Journal>,
        blobs: Arc<dyn Blobs>,
        records: Arc<dyn Records>,
    ) -> Self {
        self.parts = Some(StoreParts { journal, blobs, records, bus: None });
        self
    }

    /// Sends live signals over this bus. Default: the store's bus, or an in-process bus if the store has none.
    pub fn bus(mut self, bus: Arc<dyn Bus>) -> Self {
        self.bus = Some(bus);
        self
    }

    /// Takes times and random numbers from this clock instead of the system's.
    pub fn clock(mut self, clock: Arc<dyn Clock>) -> Self {
        self.clock = Some(clock);
        self
    }

    /// Replaces the default models.
    pub fn models(mut self, models: Arc<dyn Models>) -> Self {
        self.models = Some(models);
        self
    }

    /// Replaces the registry of tools that was given to [`Builder::new`].
    pub fn tools(mut self, registry: Registry) -> Self {
        self.registry = registry;
        self
    }

    /// Adds a source of further tools, such as tool servers. The source's tools may change while the engine runs; an
    /// active run keeps the tool list that it started with.
    pub fn tool_source(mut self, source: Arc<dyn ToolSource>) -> Self {
        self.sources.push(source);
        self
    }

    /// Groups tools into toolsets. The model loads a toolset that is not shown from the start when it needs it.
    pub fn toolsets(mut self, toolsets: Vec<Toolset>) -> Self {
        self.toolsets = toolsets;
        self
    }

    /// Sets the token budget for showing server tools that belong to no toolset in every request. If these tools
    /// together exceed the budget, the model loads them by server instead. Default
    /// [`SHOWN_TOKENS`](crate::tool::SHOWN_TOKENS).
    pub fn shown_tokens(mut self, tokens: u64) -> Self {
        self.shown_tokens = Some(tokens);
        self
    }

    /// Sets the working folder for the tools of all threads. If [`Builder::folders`] is also set, this must be one of
    /// its folders; the engine then checks it against the store before it opens the store.
    pub fn folder(mut self, folder: Arc<WorkingFolder>) -> Self {
        self.folder = Some(folder);
        self
    }

    /// Sets the function that finds a thread's working folder, from the thread's id and the folder recorded by its
    /// task ([`Task::folder`](crate::Task::folder)).
    ///
    /// The driver calls it at the first tool call after it opens a thread; the function may block. If it fails or
    /// panics, the model receives the error, and the next call tries again. Calls of threads that receive the same
    /// [`Arc`] are serialized within the folder.
    pub fn folders(
        mut self,
        find: impl Fn(&ThreadId, Option<&str>) -> Result<Option<Arc<WorkingFolder>>, String>
        + Send
        + Sync
        + 'static,
    ) -> Self {
        self.folders = Some(Arc::new(find));
        self
    }

    /// Sets which calls run without asking, unless the store has a choice for the user or the thread.
    pub fn auto_run(mut self, auto_run: AutoRun) -> Self {
        self.policy.auto_run = auto_run;
        self
    }

    /// Adds the administrators' policy rules.
    pub fn rules(mut self, rules: Vec<Rule>) -> Self {
        self.policy.rules = rules;
        self
    }

    /// Sets the budgets that limit the combined usage of runs.
    pub fn budgets(mut self, budgets: Vec<Budget>) -> Self {
        self.budgets = budgets;
        self
    }

    /// Sets the function that returns the roles of the user that a run works for; rules can name roles. By default
    /// users have no roles. The engine calls it again after each change of a record kind in
    /// [`Builder::roles_change_with`], so that a revoked role also affects waiting calls.
    pub fn roles_of<F>(mut self, roles_of: impl Fn(Principal) -> F + Send + Sync + 'static) -> Self
    where
        F: Future<Output = Result<Vec<String>, StoreError>> + Send + 'static,
    {
        self.roles.of = Some(Arc::new(move |user| Box::pin(roles_of(user))));
        self
    }

    /// Sets the kinds of records in the store that roles depend on. Other processes may change these records.
    pub fn roles_change_with(mut self, kinds: impl IntoIterator<Item = &'static str>) -> Self {
        self.roles.kinds.extend(kinds);
        self
    }

    /// Sets the function that returns a user's total credit in a workspace, in millionths of a US dollar; `None` is
    /// unlimited. The driver calls it before each step, so that added credit applies immediately. (ZE-O1)
    pub fn credit_of(
        mut self,
        credit_of: impl Fn(&str, &Principal) -> Option<u64> + Send + Sync + 'static,
    ) -> Self {
        self.credit_of = Some(Arc::new(credit_of));
        self
    }

    /// Adds a hook of the host program that checks every call before the gate judges it.
    pub fn hook(mut self, hook: Arc<dyn Hook>) -> Self {
        self.hook = Some(hook);
        self
    }

    /// Adds an observer that receives measurements for the host program's metrics.
    pub fn observer(mut self, observer: Arc<dyn Observer>) -> Self {
        self.observer = Some(observer);
        self
    }

    /// Finds the tools of a single run ([`Task::tools`](crate::Task::tools)) if this process does not have them.
    /// Another process may have started the run, or this process may have restarted. `find` returns all of the run's
    /// tools; if one is missing, the engine uses none of them.
    pub fn tools_of(
        mut self,
        find: impl Fn(&ThreadId, &RunId) -> Result<Vec<Arc<dyn Tool>>, String> + Send + Sync + 'static,
    ) -> Self {
        self.tools_of = Some(Arc::new(find));
        self
    }

    /// Replaces long results by summaries for the model, unless a run has its own setting. Summaries require a tool
    /// that reads whole results ([`ToolTraits::fetches`](crate::port::tool::ToolTraits::fetches)), such as the
    /// built-in `FetchData`; without one, no result is summarized.
    pub fn offload(mut self, offload: Offload) -> Self {
        self.offload = Some(offload);
        self
    }

    /// Summarizes long results with a function of the host program instead of the engine's default text.
    pub fn summarizer(mut self, summarizer: Arc<Summarizer>) -> Self {
        self.summarizer = Some(summarizer);
        self
    }

    /// Sets the threads that the engine drives.
    pub fn attend(mut self, attend: Attend) -> Self {
        self.attend = attend;
        self
    }

    /// Sets the number of driven threads at which an engine with [`Attend::All`] stops
    /// opening interrupted and due threads. Default 1,000. These threads stay in the
    /// store until driven threads end. New messages and answers are never delayed.
    pub fn driven_max(mut self, threads: usize) -> Self {
        self.driven_max = Some(threads);
        self
    }

    /// Decides whether this process can resume a run that recorded a model address or
    /// key in [`RunOptions::access`](windlass_machine::RunOptions::access). If
    /// `reaches` returns `false`, the engine does not drive the run and rejects every
    /// input to its thread except a cancel. By default, the engine drives all runs.
    pub fn reaches(mut self, reaches: impl Fn(&ModelAccess) -> bool + Send + Sync + 'static) -> Self {
        self.reaches = Some(Arc::new(reaches));
        self
    }

    /// Opens the store before the engine is built, for callers that need its records before the engine drives threads.
    pub async fn open_store(mut self) -> Result<(Self, Arc<dyn Records>), EngineError> {
        let clock = self.clock.get_or_insert_with(|| Arc::new(SystemClock::new())).clone();
        let parts = self.open(&clock).await?;
        let records = parts.records.clone();
        self.parts = Some(parts);
        Ok((self, records))
    }

    /// Opens the store and starts to drive its threads.
    pub async fn build(self) -> Result<Engine, EngineError> {
        let clock = self.clock.clone().unwrap_or_else(|| Arc::new(SystemClock::new()));
        let StoreParts { journal, blobs, records, bus } = self.open(&clock).await?;
        if let Some(folder) = self.folder.clone() {
            // Runs in the background, because no code depends on the result.
            tokio::task::spawn_blocking(move || folder.clear_leftovers());
        }
        let bus = self.bus.or(bus).unwrap_or_else(|| Arc::new(LocalBus::new()));
        let folders = match self.folders {
            Some(find) => {
                let store = self.store.as_ref().and_then(|store| store.folder()).map(Path::to_owned);
                FolderSource::Each(checked(find, store))
            }
            None => FolderSource::Shared(self.folder),
        };
        let models = self.models.map_or_else(self.default_models, Ok)?;
        let background = self.registry.background();
        let services = Services::start(Parts {
            journal,
            blobs,
            records,
            bus,
            clock,
            models,
            tools: Tools::new(
                self.registry,
                self.sources,
                self.toolsets,
                self.shown_tokens.unwrap_or(SHOWN_TOKENS),
            ),
            own_tools: OwnTools::new(self.tools_of),
            background,
            folders,
            policy: self.policy,
            budgets: self.budgets,
            hook: self.hook,
            observer: self.observer,
            roles: self.roles,
            credit_of: self.credit_of,
            offload: self.offload,
            summarizer: self.summarizer,
            reaches: self.reaches,
            attends: self.attend == Attend::All,
            driven_max: self.driven_max.unwrap_or(DRIVEN_MAX),
        });
        Ok(Engine { services })
    }

    async fn open(&self, clock: &Arc<dyn Clock>) -> Result<StoreParts, EngineError> {
        let folder = self.store.as_ref().and_then(|store| store.folder());
        if let (Some(store), Some(folder)) = (folder, &self.folder) {
            keep_apart(store, folder)?;
        }
        if let Some(parts) = &self.parts {
            return Ok(parts.clone());
        }
        if let Some(store) = &self.store {
            return Ok(store.open(clock.clone()).await?);
        }
        let memory = Arc::new(MemoryStore::new(clock.clone()));
        Ok(StoreParts { journal: memory.clone(), blobs: memory.clone(), records: memory, bus: None })
    }
}

/// Wraps `find` so that it rejects folders that contain the store.
fn checked(find: Arc<FolderOf>, store: Option<PathBuf>) -> Arc<FolderOf> {
    Arc::new(move |thread, recorded| {
        let Some(folder) = find(thread, recorded)? else { return Ok(None) };
        if let Some(store) = &store {
            keep_apart(store, &folder).map_err(|error| error.to_string())?;
        }
        folder.clear_leftovers();
        Ok(Some(folder))
    })
}

/// Returns an error if the store is inside the working folder. An
/// agent that can write to its own store could forge approvals.
fn keep_apart(store: &Path, folder: &WorkingFolder) -> Result<(), EngineError> {
    if folder.offers(store) {
        return Err(EngineError::Config(format!(
            "the store `{}` lies inside the working folder `{}`, where the agent's tools could change it; \
             choose a place outside",
            store.display(),
            folder.path().display()
        )));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_store_inside_the_folder_is_found_however_it_is_written() {
        let base = tempfile::tempdir().unwrap();
        let path = base.path().join("folder");
        std::fs::create_dir(&path).unwrap();
        let folder = WorkingFolder::open(&path).unwrap();
        let inside = |store: &str| keep_apart(&base.path().join(store), &folder).is_err();
        assert!(inside("folder") && inside("folder/kept") && inside("missing/../folder/kept"));
        assert!(!inside("kept") && !inside("folder-2") && !inside("folder/../kept"));
        // The store has a relative path that does not exist yet.
        let here = WorkingFolder::open(".").unwrap();
        assert!(keep_apart(Path::new("not-there-yet"), &here).is_err());
    }

    #[cfg(unix)]
    #[test]
    fn a_store_may_lie_where_the_folder_refuses_its_tools() {
        let base = tempfile::tempdir().unwrap();
        let home = base.path().join("home");
        std::fs::create_dir_all(home.join("real")).unwrap();
        std::os::unix::fs::symlink("real", home.join("link")).unwrap();
        // Neither path exists yet, and the parent path contains a link.
        let folder = WorkingFolder::open(&home).unwrap().with_store(home.join("link/data/windlass"));
        assert!(keep_apart(&home.join("real/data/windlass/1"), &folder).is_ok());
        assert!(keep_apart(&home.join("link/data/windlass/1"), &folder).is_ok());
        assert!(keep_apart(&home.join("link/data/other"), &folder).is_err());
        for path in ["link/data/windlass/1/windlass.db", "real/data/windlass/1/windlass.db"] {
            assert!(folder.resolve(path).is_err(), "{path}");
        }
    }
}
