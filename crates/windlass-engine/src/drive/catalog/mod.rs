//! The tools of a run: the engine's tools, the workspace's tools, and
//! the run's own tools; and the catalogue that the model was shown.
//!
//! This module calls no tools.

pub(crate) mod own;
pub(crate) mod tools;

use std::collections::{BTreeSet, HashSet};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;

use windlass_machine::{
    BlobRef, LOADED_TOOLS, ModelRequest, Run, RunId, State, ThreadId, ToolName, ToolSpec,
};

use crate::drive::cache::Catalogues;
use crate::drive::contents::Contents;
use crate::port::clock::Clock;
use crate::port::journal::{Journal, StoreError};
use crate::port::tool::Tool;
use crate::tool::RegistryError;
use crate::tool::toolset::{Loaded, SHELF_NAMES};
use own::{Given, OwnTools};
use tools::{Offered, Tools};

/// Milliseconds for which a run's own tools are kept if the store
/// does not have the run. The run's message may still be queued.
const KEPT_MS: u64 = 86_400_000;

/// The tools of an engine and of its runs.
pub(crate) struct ToolCatalog {
    journal: Arc<dyn Journal>,
    clock: Arc<dyn Clock>,
    contents: Arc<Contents>,
    tools: Tools,
    pub own: OwnTools,
    kept: Catalogues,
}

impl ToolCatalog {
    pub(crate) fn new(
        journal: &Arc<dyn Journal>,
        clock: &Arc<dyn Clock>,
        contents: &Arc<Contents>,
        tools: Tools,
        own: OwnTools,
    ) -> Self {
        Self {
            journal: journal.clone(),
            clock: clock.clone(),
            contents: contents.clone(),
            tools,
            own,
            kept: Catalogues::default(),
        }
    }

    /// Returns the engine's current tools.
    pub(crate) fn now(&self) -> Arc<Offered> {
        self.tools.now()
    }

    /// Returns the current tools that runs of a workspace are shown.
    pub(crate) fn now_in(&self, workspace: &str) -> Arc<Offered> {
        self.tools.now_in(workspace)
    }

    /// Replaces the engine's tools of these names for a run, and adds further tools. Returns the resulting tools, and
    /// the names of the run's own tools.
    pub(crate) fn give(
        &self,
        workspace: &str,
        run: &RunId,
        names: &[ToolName],
        tools: Vec<Arc<dyn Tool>>,
    ) -> Result<(Arc<Offered>, Vec<ToolName>), RegistryError> {
        let tools: Vec<_> = tools.into_iter().filter(|tool| !takes_a_place(&**tool)).collect();
        let added = tools.iter().map(|tool| tool.spec().name.clone()).filter(|name| !names.contains(name));
        let names: Vec<ToolName> = names.iter().cloned().chain(added).collect();
        let base = self.now_in(workspace);
        let offered = Arc::new(self.tools.with(&base, &names, tools.clone())?);
        let loading = offered.loading_own().iter().filter(|name| !names.contains(name));
        let names: Vec<ToolName> = names.iter().chain(loading).cloned().collect();
        let (base, at_ms) = (base.digest, self.clock.monotonic_ms());
        let given = Given { names: names.clone(), tools, offered: offered.clone(), base, at_ms };
        self.own.runs().insert(run.clone(), given);
        Ok((offered, names))
    }

    /// Returns the tools of a run.
    pub(crate) fn of_run(&self, workspace: &str, thread: &ThreadId, run: &Run) -> Arc<Offered> {
        let (own, base) = (&run.options.own_tools, self.now_in(workspace));
        if own.is_empty() {
            return base;
        }
        if let Some(given) = self.own.runs().get_mut(&run.id) {
            // The engine's tools have changed since. If a new tool conflicts
            // with the run's own tools, the run keeps its previous set.
            if given.base != base.digest
                && let Ok(offered) = self.tools.with(&base, &given.names, given.tools.clone())
            {
                (given.offered, given.base) = (Arc::new(offered), base.digest);
            }
            return given.offered.clone();
        }
        let lost = |why: &str| {
            tracing::warn!(%thread, run = %run.id, why, "the run's own tools are not here");
            self.tools.with(&base, own, Vec::new()).map_or_else(|_| base.clone(), Arc::new)
        };
        let Some(find) = &self.own.find else { return lost("no function of this process finds them") };
        match catch_unwind(AssertUnwindSafe(|| find(thread, &run.id))) {
            Ok(Ok(tools)) if has_all(&tools, own) => match self.give(workspace, &run.id, own, tools) {
                Ok((offered, _)) => offered,
                Err(error) => lost(&error.to_string()),
            },
            Ok(Ok(_)) => lost("some are missing"),
            Ok(Err(why)) => lost(&why),
            Err(_) => lost("finding them crashed"),
        }
    }

    /// Returns the names of the run's own tools that this process does not
    /// have. Only includes tools that the model is shown or has loaded.
    pub(crate) async fn lacking(&self, state: &State) -> BTreeSet<ToolName> {
        let (Some(run), Some(thread)) = (&state.run, &state.thread) else { return BTreeSet::new() };
        if run.options.own_tools.is_empty() {
            return BTreeSet::new();
        }
        let registry = &self.of_run(&state.workspace, thread, run).registry;
        // This process was given the run's tools, so a missing tool exists in no process.
        if self.own.runs().contains_key(&run.id) {
            return BTreeSet::new();
        }
        // A disabled tool is unavailable in every process.
        let is_gone = |name: &&ToolName| registry.get(name.as_str()).is_none() && !registry.is_disabled(name);
        let mut gone: BTreeSet<ToolName> = run.options.own_tools.iter().filter(is_gone).cloned().collect();
        if !gone.is_empty()
            && let Ok(shown) = self.catalogue(run.agent.tools.as_ref()).await
        {
            let loaded = match state.kept.get(LOADED_TOOLS) {
                Some(loaded) => self.contents.text_of(loaded).await.ok(),
                None => None,
            };
            let loaded = Loaded::read(loaded.as_deref(), &run.id);
            let has_loaded = |name: &ToolName| loaded.alone().is_some_and(|part| part.has(name));
            // A tool that the run excluded from its start exists in no process. A name that is neither shown nor
            // loaded may be such a tool.
            gone.retain(|name| shown.iter().any(|spec| spec.name == *name) || has_loaded(name));
        }
        gone
    }

    /// Drops the tools of runs that have ended in any process.
    pub(in crate::drive) async fn prune(&self) -> Result<(), StoreError> {
        let now_ms = self.clock.monotonic_ms();
        let given: Vec<(RunId, u64)> =
            self.own.runs().iter().map(|(run, given)| (run.clone(), given.at_ms)).collect();
        for (run, at_ms) in given {
            let has_ended = match self.journal.run(&run).await? {
                Some(row) => row.view.status.is_some(),
                None => now_ms.saturating_sub(at_ms) >= KEPT_MS,
            };
            if has_ended {
                self.own.forget(&run);
            }
        }
        Ok(())
    }

    /// Returns the tool catalogue that a run is pinned to.
    pub(crate) async fn catalogue(&self, blob: Option<&BlobRef>) -> Result<Arc<[ToolSpec]>, StoreError> {
        let Some(blob) = blob else { return Ok(Arc::from([])) };
        if let Some(known) = self.kept.get(&blob.digest) {
            return Ok(known);
        }
        let bytes = self.contents.blob(&blob.digest).await?;
        let specs: Vec<ToolSpec> = serde_json::from_slice(&bytes).map_err(|error| StoreError::Corrupt {
            why: format!("tool catalogue {}: {error}", blob.digest),
        })?;
        let specs: Arc<[ToolSpec]> = specs.into();
        self.kept.put(blob.digest, specs.clone());
        Ok(specs)
    }

    /// Returns the tools for a request to the run's model. `own` are the names of the run's own tools.
    pub(crate) async fn shown(
        &self,
        request: &ModelRequest,
        run: &RunId,
        own: &[ToolName],
    ) -> Result<Arc<[ToolSpec]>, StoreError> {
        let mut tools = self.catalogue(request.tools.as_ref()).await?;
        if let Some(loaded) = &request.loaded {
            let loaded = Loaded::read(Some(&self.contents.text_of(loaded).await?), run);
            let pinned: HashSet<_> = tools.iter().map(|spec| &spec.name).collect();
            let more = loaded.shown(own).filter(|spec| !pinned.contains(&spec.name));
            tools = tools.iter().chain(more).cloned().collect();
        }
        // Hides tools that an administrator has disabled since the run started.
        let offered = self.now();
        let is_disabled = |spec: &ToolSpec| offered.registry.is_disabled(&spec.name);
        if tools.iter().any(is_disabled) {
            tools = tools.iter().filter(|spec| !is_disabled(spec)).cloned().collect();
        }
        if tools.iter().any(|spec| spec.withheld.contains(&request.mode)) {
            tools = tools.iter().map(|spec| spec.in_mode(request.mode).into_owned()).collect();
        }
        Ok(tools)
    }
}

/// Whether `tools` contains all of a run's own tools, except those that load other tools.
fn has_all(tools: &[Arc<dyn Tool>], own: &[ToolName]) -> bool {
    let is_there = |name: &ToolName| tools.iter().any(|tool| tool.spec().name == *name);
    own.iter().all(|name| SHELF_NAMES.contains(&name.as_str()) || is_there(name))
}

/// Whether a server's tool has a reserved name: only the engine provides tools that load other tools.
fn takes_a_place(tool: &dyn Tool) -> bool {
    let name = tool.spec().name.as_str();
    let takes = tool.traits().server.is_some() && SHELF_NAMES.contains(&name);
    if takes {
        tracing::warn!(
            name,
            server = tool.traits().server,
            "a run's tool is left out: its name is the engine's"
        );
    }
    takes
}
