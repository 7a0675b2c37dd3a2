//! The available tools: the engine's own and those of dynamic sources, split into tools that every request contains
//! and tools that a model loads.
//!
//! The set is rebuilt when a source reports a change. Unchanged tools are not validated again.

use std::collections::BTreeSet;
use std::sync::{Arc, Mutex, PoisonError, RwLock};

use bytes::Bytes;
use windlass_machine::{Digest, ToolName, ToolSpec};

use crate::port::tool::{Tool, ToolSource};
use crate::tool::toolset::{SHELF_NAMES, Shelf, Toolset, shelf_tools, tokens_of};
use crate::tool::{Registry, RegistryError};

/// The sources of tools, with the current set.
pub(crate) struct Tools {
    own: Registry,
    sources: Vec<Arc<dyn ToolSource>>,
    toolsets: Vec<Toolset>,
    shown_tokens: u64,
    now: RwLock<Arc<Offered>>,
    /// Tool sets for workspaces with hidden tools, by the names of the hidden tools.
    less: Mutex<Vec<(BTreeSet<ToolName>, Arc<Offered>)>>,
}

/// A snapshot of the available tools.
pub(crate) struct Offered {
    /// All tools, including tools that a model must load.
    pub registry: Registry,
    /// Digest of the set. If it changes, waiting calls are judged again.
    pub digest: Digest,
    /// The toolsets from which a model loads tools that a request does not contain.
    pub shelf: Arc<Shelf>,
    /// Names of the tools that load other tools.
    loading: Vec<ToolName>,
    /// Names of tools that can be called but are not shown.
    unshown: BTreeSet<ToolName>,
    /// The tools that every request contains, sorted by name.
    shown: Vec<ToolSpec>,
    /// `shown` as a JSON array; empty without tools.
    pub catalogue: Bytes,
    /// Estimated tokens of the catalogue in a request.
    pub tokens: u64,
    /// The sources' versions that this set was built from.
    versions: Vec<u64>,
}

/// Tools of a registry that need special treatment.
#[derive(Default)]
struct Apart<'a> {
    /// Hidden from the model.
    unshown: BTreeSet<ToolName>,
    /// Own tools of one run.
    own: BTreeSet<ToolName>,
    /// Names of loading tools that are not available.
    withheld: &'a [ToolName],
}

/// Maximum number of cached sets. Each combination of connected systems has one set, and few combinations exist.
const MAX_LESS: usize = 64;

impl Tools {
    pub fn new(
        own: Registry,
        sources: Vec<Arc<dyn ToolSource>>,
        toolsets: Vec<Toolset>,
        shown_tokens: u64,
    ) -> Self {
        let nothing = Arc::new(Offered::of(own.emptied(), Arc::default(), Vec::new(), Vec::new()));
        let now = RwLock::new(nothing.clone());
        let mut tools = Self { own, sources, toolsets, shown_tokens, now, less: Mutex::default() };
        tools.now = RwLock::new(Arc::new(tools.put_together(&nothing, tools.versions(), BTreeSet::new())));
        tools
    }

    /// Returns the current tools.
    pub fn now(&self) -> Arc<Offered> {
        // A poisoned lock still contains a complete set.
        let known = self.now.read().unwrap_or_else(PoisonError::into_inner).clone();
        // Read the versions before the tools, so that the next call detects a change in between.
        let versions = self.versions();
        if known.versions == versions {
            return known;
        }
        let offered = Arc::new(self.put_together(&known, versions, BTreeSet::new()));
        *self.now.write().unwrap_or_else(PoisonError::into_inner) = offered.clone();
        offered
    }

    /// Returns the current tools for a workspace. A hidden tool can
    /// still be called and then reports why the call has no effect.
    pub fn now_in(&self, workspace: &str) -> Arc<Offered> {
        let base = self.now();
        let unshown = base.registry.all().filter(|registered| !registered.tool.is_offered(workspace));
        let unshown: BTreeSet<_> = unshown.map(|registered| registered.spec.name.clone()).collect();
        if unshown.is_empty() {
            return base;
        }
        // No code panics while the lock is held.
        let mut less = self.less.lock().unwrap_or_else(PoisonError::into_inner);
        less.retain(|(_, offered)| offered.versions == base.versions);
        if let Some((_, offered)) = less.iter().find(|(names, _)| *names == unshown) {
            return offered.clone();
        }
        let offered = Arc::new(self.put_together(&base, base.versions.clone(), unshown.clone()));
        if less.len() >= MAX_LESS {
            less.clear();
        }
        less.push((unshown, offered.clone()));
        offered
    }

    /// Replaces the tools of some names by a run's own. Own tools of servers are split together with the engine's
    /// tools, so that the limit on their share of a prompt applies to both. Other own tools are always shown.
    pub fn with(
        &self,
        base: &Offered,
        names: &[ToolName],
        tools: Vec<Arc<dyn Tool>>,
    ) -> Result<Offered, RegistryError> {
        let of_servers = tools.iter().any(|tool| tool.traits().server.is_some());
        if of_servers || names.iter().any(|name| base.shelf.group(name.as_str()).is_some()) {
            let own: BTreeSet<_> = tools.iter().map(|tool| tool.spec().name.clone()).collect();
            // The engine's loading tools cover only the engine's tools, and this run has further tools.
            let gone: Vec<_> = names.iter().chain(&base.loading).cloned().collect();
            let registry = base.registry.without(&gone).add_all(tools)?;
            let unshown = base.unshown.difference(&own).cloned().collect();
            // If the run's own tools are missing in this process, no tool can load them.
            let withheld = if own.is_empty() { names } else { &[] };
            let apart = Apart { unshown, own, withheld };
            return Ok(self.sorted(registry, &base.registry, apart, base.versions.clone()));
        }
        let mut shown: Vec<_> =
            base.shown.iter().filter(|spec| !names.contains(&spec.name)).cloned().collect();
        shown.extend(tools.iter().map(|tool| tool.spec().clone()));
        let registry = base.registry.without(names).add_all(tools)?;
        // Use the registry's form of each tool: without the arguments that the engine fills in.
        shown.retain_mut(|spec| match registry.enabled(spec.name.as_str()) {
            Some(registered) => {
                *spec = registry.shown(registered);
                true
            }
            None => false,
        });
        let loading = base.loading.iter().filter(|name| !names.contains(name)).cloned().collect();
        let unshown = base.unshown.clone();
        let offered = Offered::of(registry, base.shelf.clone(), shown, base.versions.clone());
        Ok(Offered { loading, unshown, ..offered })
    }

    fn versions(&self) -> Vec<u64> {
        self.sources.iter().map(|source| source.version()).collect()
    }

    fn put_together(&self, before: &Offered, versions: Vec<u64>, unshown: BTreeSet<ToolName>) -> Offered {
        let mut registry = self.own.clone();
        for tool in self.sources.iter().flat_map(|source| source.tools().to_vec()) {
            let name = tool.spec().name.as_str();
            if SHELF_NAMES.contains(&name) {
                tracing::warn!(
                    name,
                    server = tool.traits().server,
                    "a tool is left out: its name is the engine's"
                );
                continue;
            }
            add(&mut registry, &before.registry, tool, Registry::insert);
        }
        self.sorted(registry, &before.registry, Apart { unshown, ..Apart::default() }, versions)
    }

    /// Splits tools into tools that every request contains and tools that a model loads, and adds the loading tools.
    fn sorted(
        &self,
        mut registry: Registry,
        before: &Registry,
        Apart { unshown, own, withheld }: Apart<'_>,
        versions: Vec<u64>,
    ) -> Offered {
        let hidden: Vec<_> = unshown.iter().cloned().collect();
        let shelf = Shelf::of(&registry.without(&hidden), &self.toolsets, self.shown_tokens, &own);
        let shelf = Arc::new(shelf);
        let (mut shown, mut loading) = (shelf.shown.clone(), Vec::new());
        for tool in shelf_tools(&shelf) {
            let spec = tool.spec().clone();
            if registry.is_disabled(&spec.name) || withheld.contains(&spec.name) {
                continue;
            }
            // The registry may already have a tool of this name, which is shown already.
            if add(&mut registry, before, tool, Registry::insert_built_in) {
                loading.push(spec.name.clone());
                shown.push(spec);
            }
        }
        Offered { loading, unshown, ..Offered::of(registry, shelf, shown, versions) }
    }
}

impl Offered {
    fn of(registry: Registry, shelf: Arc<Shelf>, mut shown: Vec<ToolSpec>, versions: Vec<u64>) -> Self {
        shown.sort_by(|one, other| one.name.cmp(&other.name));
        let tokens = shown.iter().map(tokens_of).fold(0, u64::saturating_add);
        let (digest, catalogue) = (registry.digest(), json(&shown));
        let (loading, unshown) = (Vec::new(), BTreeSet::new());
        Self { digest, catalogue, tokens, registry, shelf, loading, unshown, shown, versions }
    }

    /// Returns the loading tools if they load a run's own tools. In that case they are own tools of the run as well.
    pub fn loading_own(&self) -> &[ToolName] {
        if self.shelf.has_own() { &self.loading } else { &[] }
    }
}

/// Function that adds a tool to a registry.
type Insert = fn(&mut Registry, Arc<dyn Tool>) -> Result<(), RegistryError>;

/// Adds a source's tool. Returns whether it was added: an unusable tool is skipped, because the source reports the
/// problem itself.
fn add(registry: &mut Registry, before: &Registry, tool: Arc<dyn Tool>, insert: Insert) -> bool {
    let name = tool.spec().name.clone();
    if let Some(known) = before.known(&name).filter(|known| Arc::ptr_eq(&known.tool, &tool))
        && !registry.has(&name)
    {
        registry.add_known(known.clone());
        return true;
    }
    let server = tool.traits().server.unwrap_or_default().to_owned();
    match insert(registry, tool) {
        Ok(()) => true,
        Err(error) => {
            let duplicate = matches!(error, RegistryError::Duplicate(_));
            tracing::warn!(%name, server, duplicate, %error, "a tool is left out");
            false
        }
    }
}

fn json(specs: &[ToolSpec]) -> Bytes {
    if specs.is_empty() {
        return Bytes::new();
    }
    // Invariant: a `ToolSpec` holds only strings, booleans and JSON, which always serialise.
    serde_json::to_vec(specs).expect("a catalogue serialises").into()
}
