//! The tools at hand: the engine's own and those of sources that come and go, sorted into what every request carries and
//! what is loaded.
//!
//! It is put together again when a source says that it has changed; a tool that has not changed is not checked again.

use std::sync::{Arc, PoisonError, RwLock};

use bytes::Bytes;
use windlass_machine::{Digest, ToolName, ToolSpec};

use crate::port::tool::{Tool, ToolSource};
use crate::tool::toolset::{Shelf, Toolset, shelf_tools};
use crate::tool::{Registry, RegistryError};

/// Where tools come from, and how they are put together.
pub(crate) struct Tools {
    own: Registry,
    sources: Vec<Arc<dyn ToolSource>>,
    toolsets: Vec<Toolset>,
    shown_tokens: u64,
    now: RwLock<Arc<Offered>>,
}

/// The tools of a moment.
#[derive(Default)]
pub(crate) struct Offered {
    /// All of them, also what has to be loaded.
    pub registry: Registry,
    /// Another one says that calls have to be judged again.
    pub digest: Digest,
    /// How they get to a model.
    pub shelf: Arc<Shelf>,
    /// What every request carries, sorted by name.
    shown: Vec<ToolSpec>,
    /// The same as a JSON array; empty without tools.
    pub catalogue: Bytes,
    /// The versions of the sources that these are of.
    versions: Vec<u64>,
}

impl Tools {
    pub fn new(
        own: Registry,
        sources: Vec<Arc<dyn ToolSource>>,
        toolsets: Vec<Toolset>,
        shown_tokens: u64,
    ) -> Self {
        let tools = Self { own, sources, toolsets, shown_tokens, now: RwLock::default() };
        let first = tools.put_together(&Offered::default(), tools.versions());
        *tools.now.write().unwrap_or_else(PoisonError::into_inner) = Arc::new(first);
        tools
    }

    /// The tools as they are now.
    pub fn now(&self) -> Arc<Offered> {
        // A poisoned lock still holds a whole offer.
        let known = self.now.read().unwrap_or_else(PoisonError::into_inner).clone();
        // Read before the tools: a change that comes in between is seen the next time.
        let versions = self.versions();
        if known.versions == versions {
            return known;
        }
        let offered = Arc::new(self.put_together(&known, versions));
        *self.now.write().unwrap_or_else(PoisonError::into_inner) = offered.clone();
        offered
    }

    /// The same tools with others in place of those of some names.
    pub fn with(
        &self,
        base: &Offered,
        names: &[ToolName],
        tools: Vec<Arc<dyn Tool>>,
    ) -> Result<Offered, RegistryError> {
        let mut shown: Vec<_> =
            base.shown.iter().filter(|spec| !names.contains(&spec.name)).cloned().collect();
        shown.extend(tools.iter().map(|tool| tool.spec().clone()));
        let registry = base.registry.without(names).add_all(tools)?;
        // As the registry shows them: without the arguments that the engine fills in.
        shown.retain_mut(|spec| match registry.enabled(spec.name.as_str()) {
            Some(registered) => {
                spec.clone_from(&registered.spec);
                true
            }
            None => false,
        });
        Ok(Offered::of(registry, base.shelf.clone(), shown, base.versions.clone()))
    }

    fn versions(&self) -> Vec<u64> {
        self.sources.iter().map(|source| source.version()).collect()
    }

    fn put_together(&self, before: &Offered, versions: Vec<u64>) -> Offered {
        let mut registry = self.own.clone();
        for tool in self.sources.iter().flat_map(|source| source.tools().to_vec()) {
            add(&mut registry, &before.registry, tool);
        }
        let shelf = Arc::new(Shelf::of(&registry, &self.toolsets, self.shown_tokens));
        let mut shown = shelf.shown.clone();
        for tool in shelf_tools(&shelf) {
            if registry.is_disabled(&tool.spec().name) {
                continue;
            }
            shown.push(tool.spec().clone());
            add(&mut registry, &before.registry, tool);
        }
        Offered::of(registry, shelf, shown, versions)
    }
}

impl Offered {
    fn of(registry: Registry, shelf: Arc<Shelf>, mut shown: Vec<ToolSpec>, versions: Vec<u64>) -> Self {
        shown.sort_by(|one, other| one.name.cmp(&other.name));
        Self { digest: registry.digest(), catalogue: json(&shown), registry, shelf, shown, versions }
    }
}

/// Adds a source's tool. One that cannot be used is left out: a source says of its own what it is about.
fn add(registry: &mut Registry, before: &Registry, tool: Arc<dyn Tool>) {
    let name = tool.spec().name.clone();
    if let Some(known) = before.known(&name).filter(|known| Arc::ptr_eq(&known.tool, &tool))
        && !registry.has(&name)
    {
        registry.add_known(known.clone());
        return;
    }
    let server = tool.server().unwrap_or_default().to_owned();
    match std::mem::take(registry).try_add(tool) {
        (with, Ok(())) => *registry = with,
        (without, Err(error)) => {
            *registry = without;
            let duplicate = matches!(error, RegistryError::Duplicate(_));
            tracing::warn!(%name, server, duplicate, %error, "a tool is left out");
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
