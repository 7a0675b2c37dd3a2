//! Tools that a single run has beside the engine's: those of a tenant, with the tenant's credentials. (LM-I7)
//!
//! They live in this process, because what they hold must not be recorded; the journal knows their names. A process
//! that takes a run up without them asks the host program for them. Where that has none, their calls wait for a process
//! that has: they are never made with tools of the engine that happen to have the same names.

use std::collections::{BTreeSet, HashMap};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use windlass_machine::{Digest, LOADED_TOOLS, Run, RunId, State, ThreadId, ToolName};

use super::tools::Offered;
use super::{Decided, Deps};
use crate::error::{EngineError, TryAgain};
use crate::port::journal::{Accepted, StoreError};
use crate::port::tool::Tool;
use crate::tool::RegistryError;
use crate::tool::toolset::{Loaded, SHELF_NAMES};

/// Finds the tools of a run that another process has started.
pub(crate) type ToolsOf = dyn Fn(&ThreadId, &RunId) -> Result<Vec<Arc<dyn Tool>>, String> + Send + Sync;

/// How long tools of a run that the store does not know are kept: its message may still wait for another run's end.
const KEPT_MS: u64 = 86_400_000;

/// How long a thread whose calls wait for tools is left to other processes, before this one looks again whether it has
/// them by now.
const PUT_BY_MS: u64 = 60_000;

/// The tools of runs that have some of their own.
#[derive(Default)]
pub(crate) struct OwnTools {
    find: Option<Arc<ToolsOf>>,
    runs: Mutex<HashMap<RunId, Given>>,
    /// Threads whose calls wait for tools that are not here, and when that was seen last.
    put_by: Mutex<HashMap<ThreadId, u64>>,
}

struct Given {
    /// Names that are the run's own, and its tools.
    names: Vec<ToolName>,
    tools: Vec<Arc<dyn Tool>>,
    /// The engine's tools with them, and which those were.
    offered: Arc<Offered>,
    base: Digest,
    at_ms: u64,
}

impl OwnTools {
    pub(crate) fn new(find: Option<Arc<ToolsOf>>) -> Self {
        Self { find, ..Self::default() }
    }

    /// Leaves a thread to processes that have the tools which its calls wait for.
    pub(super) fn put_by(&self, thread: &ThreadId, now_ms: u64) {
        // Nothing panics while the lock is held.
        let mut put_by = self.put_by.lock().unwrap_or_else(PoisonError::into_inner);
        put_by.retain(|_, at_ms| now_ms.saturating_sub(*at_ms) < PUT_BY_MS);
        put_by.insert(thread.clone(), now_ms);
    }

    /// Whether a thread was left to others just now.
    pub(crate) fn is_put_by(&self, thread: &ThreadId, now_ms: u64) -> bool {
        let put_by = self.put_by.lock().unwrap_or_else(PoisonError::into_inner);
        put_by.get(thread).is_some_and(|at_ms| now_ms.saturating_sub(*at_ms) < PUT_BY_MS)
    }

    /// The threads that were left to others just now.
    pub(super) fn all_put_by(&self, now_ms: u64) -> Vec<ThreadId> {
        let put_by = self.put_by.lock().unwrap_or_else(PoisonError::into_inner);
        let left = put_by.iter().filter(|(_, at_ms)| now_ms.saturating_sub(**at_ms) < PUT_BY_MS);
        left.map(|(thread, _)| thread.clone()).collect()
    }

    fn runs(&self) -> MutexGuard<'_, HashMap<RunId, Given>> {
        // Nothing panics while the lock is held.
        self.runs.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn forget(&self, run: &RunId) {
        self.runs().remove(run);
    }

    /// Forgets what a run is given unless its message is sent.
    pub(crate) fn unsent(&self, run: &RunId) -> Unsent<'_> {
        Unsent { own: self, run: Some(run.clone()) }
    }

    /// Forgets a run's tools if its message was certainly not accepted.
    pub(crate) fn settled(
        &self,
        run: &RunId,
        sent: Result<Decided, EngineError>,
    ) -> Result<Accepted, EngineError> {
        let settled = sent.and_then(|accepted| accepted.map_err(EngineError::from));
        // What may succeed later may have succeeded: a driver that is slow, a store that did not answer.
        let is_over = settled.as_ref().is_err_and(|error| {
            matches!(error, EngineError::Rejected(_)) || error.judge().1 == TryAgain::Never
        });
        if is_over {
            self.forget(run);
        }
        settled
    }
}

/// A run whose message is not sent yet: dropped as such, it leaves nothing behind.
pub(crate) struct Unsent<'a> {
    own: &'a OwnTools,
    run: Option<RunId>,
}

impl Unsent<'_> {
    /// Keeps what the run was given: its message goes out.
    pub(crate) fn keep(mut self) {
        self.run = None;
    }
}

impl Drop for Unsent<'_> {
    fn drop(&mut self) {
        if let Some(run) = &self.run {
            self.own.forget(run);
        }
    }
}

impl Deps {
    /// Gives a run tools in place of the engine's of these names; returns all that it then has, and the names of what is
    /// its own.
    pub(crate) fn give_tools(
        &self,
        (workspace, run): (&str, &RunId),
        names: &[ToolName],
        tools: Vec<Arc<dyn Tool>>,
    ) -> Result<(Arc<Offered>, Vec<ToolName>), RegistryError> {
        let tools: Vec<_> = tools.into_iter().filter(|tool| !takes_a_place(&**tool)).collect();
        let added = tools.iter().map(|tool| tool.spec().name.clone()).filter(|name| !names.contains(name));
        let names: Vec<ToolName> = names.iter().cloned().chain(added).collect();
        let base = self.tools.now_in(workspace);
        let offered = Arc::new(self.tools.with(&base, &names, tools.clone())?);
        let loading = offered.loading_own().iter().filter(|name| !names.contains(name));
        let names: Vec<ToolName> = names.iter().chain(loading).cloned().collect();
        let (base, at_ms) = (base.digest, self.clock.monotonic_ms());
        let given = Given { names: names.clone(), tools, offered: offered.clone(), base, at_ms };
        self.own_tools.runs().insert(run.clone(), given);
        Ok((offered, names))
    }

    /// The tools of a run.
    pub(crate) fn tools_of(&self, (workspace, thread): (&str, &ThreadId), run: &Run) -> Arc<Offered> {
        let (own, base) = (&run.options.own_tools, self.tools.now_in(workspace));
        if own.is_empty() {
            return base;
        }
        if let Some(given) = self.own_tools.runs().get_mut(&run.id) {
            // The engine's have changed meanwhile; one that now clashes with the run's own leaves things as they were.
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
        let Some(find) = &self.own_tools.find else { return lost("nobody knows them in this process") };
        match catch_unwind(AssertUnwindSafe(|| find(thread, &run.id))) {
            Ok(Ok(tools)) if has_all(&tools, own) => {
                match self.give_tools((workspace, &run.id), own, tools) {
                    Ok((offered, _)) => offered,
                    Err(error) => lost(&error.to_string()),
                }
            }
            Ok(Ok(_)) => lost("some are missing"),
            Ok(Err(why)) => lost(&why),
            Err(_) => lost("finding them crashed"),
        }
    }

    /// The tools of the active run alone that this process does not have, of those that its model is shown or has loaded.
    pub(crate) async fn lacking(&self, state: &State) -> BTreeSet<ToolName> {
        let (Some(run), Some(thread)) = (&state.run, &state.thread) else { return BTreeSet::new() };
        if run.options.own_tools.is_empty() {
            return BTreeSet::new();
        }
        let registry = &self.tools_of((&state.workspace, thread), run).registry;
        // Where a run was given its tools, what is not there is nowhere.
        if self.own_tools.runs().contains_key(&run.id) {
            return BTreeSet::new();
        }
        // A disabled tool is nowhere.
        let is_gone = |name: &&ToolName| registry.get(name.as_str()).is_none() && !registry.is_disabled(name);
        let mut gone: BTreeSet<ToolName> = run.options.own_tools.iter().filter(is_gone).cloned().collect();
        if !gone.is_empty()
            && let Ok(shown) = self.catalogue(run.agent.tools.as_ref()).await
        {
            let loaded = match state.kept.get(LOADED_TOOLS) {
                Some(loaded) => self.text_of(loaded).await.ok(),
                None => None,
            };
            let loaded = Loaded::read(loaded.as_deref(), &run.id);
            let has_loaded = |name: &ToolName| loaded.alone().is_some_and(|part| part.has(name));
            // What the run was to do without from its start, no process has: it may be what others have loaded.
            gone.retain(|name| shown.iter().any(|spec| spec.name == *name) || has_loaded(name));
        }
        gone
    }

    /// Forgets the tools of runs that have ended, wherever they did.
    pub(super) async fn prune_own_tools(&self) -> Result<(), StoreError> {
        let now_ms = self.clock.monotonic_ms();
        let given: Vec<(RunId, u64)> =
            self.own_tools.runs().iter().map(|(run, given)| (run.clone(), given.at_ms)).collect();
        for (run, at_ms) in given {
            let has_ended = match self.journal.run(&run).await? {
                Some(row) => row.view.status.is_some(),
                None => now_ms.saturating_sub(at_ms) >= KEPT_MS,
            };
            if has_ended {
                self.own_tools.forget(&run);
            }
        }
        Ok(())
    }
}

/// Whether these are all of a run's own tools, beside those that load them.
fn has_all(tools: &[Arc<dyn Tool>], own: &[ToolName]) -> bool {
    let is_there = |name: &ToolName| tools.iter().any(|tool| tool.spec().name == *name);
    own.iter().all(|name| SHELF_NAMES.contains(&name.as_str()) || is_there(name))
}

/// Whether a server's tool has a name that is the engine's: what loads tools is not the server's to say.
fn takes_a_place(tool: &dyn Tool) -> bool {
    let name = tool.spec().name.as_str();
    let takes = tool.server().is_some() && SHELF_NAMES.contains(&name);
    if takes {
        tracing::warn!(name, server = tool.server(), "a run's tool is left out: its name is the engine's");
    }
    takes
}
