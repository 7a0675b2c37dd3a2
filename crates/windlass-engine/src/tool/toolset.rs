//! Toolsets: groups of tools. Requests contain a toolset from the start, or the model loads it.
//!
//! A [`Shelf`] splits a registry's tools into tools that every request contains, and tools that the model loads with
//! one of two loading tools. The loaded tools are stored with the thread. This module calls no tools.

mod loaded;
mod search;
mod tools;

use std::collections::{BTreeMap, BTreeSet};

use windlass_machine::{Glob, RunId, ToolName, ToolSpec, estimate_tokens};

pub(crate) use self::loaded::Loaded;
use self::loaded::Part;
use self::search::Index;
pub(crate) use self::tools::{NAMES as SHELF_NAMES, shelf_tools};
use super::Registry;
use super::registry::Registered;

/// Default token budget for server tools in every request: about a twentieth of the smallest common context window,
/// and half of the number that a reference system found to be too high. (SK-C1)
pub const SHOWN_TOKENS: u64 = 4_000;

/// A group of tools. A tool belongs to the first toolset that names it. A server's tool that no toolset names belongs
/// to the toolset that its tag names, or to a toolset with its server's name.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Toolset {
    /// Name that the model uses for the toolset.
    pub name: String,
    /// Purpose of the toolset, for the model; may be empty.
    pub description: String,
    /// Names of the toolset's tools.
    pub tools: Vec<Glob>,
    /// Servers whose tools belong to the toolset.
    pub servers: Vec<String>,
    /// Tags whose tools belong to the toolset.
    pub tags: Vec<String>,
    /// The tools of the toolset that every request contains.
    pub shown: Shown,
}

/// The tools of a toolset that every request contains.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Shown {
    /// No tools: the model loads the toolset when it needs a tool.
    #[default]
    Nothing,
    /// The tools that only read.
    Reads,
    /// All tools.
    All,
}

/// A tool that a model has to load.
#[derive(Clone, Debug)]
pub(crate) struct Shelved {
    pub spec: ToolSpec,
    pub toolset: String,
    /// Whether the tool only reads, by a trusted annotation.
    pub reads: bool,
}

/// The tools of a registry, split into shown tools and tools to load.
#[derive(Default)]
pub(crate) struct Shelf {
    /// The tools that every request contains, sorted by name.
    pub shown: Vec<ToolSpec>,
    /// The tools to load, by name.
    tools: BTreeMap<ToolName, Shelved>,
    /// The description of every toolset, including those that are shown completely.
    sets: BTreeMap<String, String>,
    /// The toolset of each tool that has one, including shown tools.
    members: BTreeMap<ToolName, String>,
    /// Own tools of one run.
    own: BTreeSet<ToolName>,
    index: Index,
}

impl Toolset {
    fn names(&self, registered: &Registered) -> bool {
        let tool = &registered.tool;
        self.tools.iter().any(|glob| glob.matches(registered.spec.name.as_str()))
            || tool.traits().server.is_some_and(|server| self.servers.iter().any(|named| named == server))
            || tool.traits().toolset.is_some_and(|tag| self.tags.iter().any(|named| named == tag))
    }
}

impl Shelf {
    /// Splits a registry's tools. Server tools that no toolset names are shown if they
    /// take at most `shown_tokens` in total. `own` are the own tools of one run. Own tools
    /// without a server are shown, because the host program gave them to that run.
    pub fn of(
        registry: &Registry,
        toolsets: &[Toolset],
        shown_tokens: u64,
        own: &BTreeSet<ToolName>,
    ) -> Self {
        let unnamed = |registered: &&Registered| {
            registered.tool.traits().server.is_some() && !toolsets.iter().any(|set| set.names(registered))
        };
        let all = registry.all().map(|registered| &**registered);
        let tokens = all.clone().filter(unnamed).map(|registered| tokens_of(&registered.spec));
        let fits = tokens.fold(0, u64::saturating_add) <= shown_tokens;
        let mut shelf = Self::default();
        for set in toolsets {
            shelf.sets.insert(set.name.clone(), set.description.clone());
        }
        for registered in all {
            let reads = registry.is_trusted(registered) && registered.spec.annotations.read_only_hint;
            let (name, shown) = match toolsets.iter().find(|set| set.names(registered)) {
                Some(set) => (Some(set.name.clone()), set.shown),
                None => (implied(registered), if fits { Shown::All } else { Shown::Nothing }),
            };
            let is_own = own.contains(&registered.spec.name);
            let shown = if is_own && registered.tool.traits().server.is_none() { Shown::All } else { shown };
            if let Some(name) = &name {
                shelf.members.insert(registered.spec.name.clone(), name.clone());
            }
            let on_shelf = match shown {
                Shown::All => false,
                Shown::Reads => !reads,
                Shown::Nothing => true,
            };
            match name.filter(|_| on_shelf) {
                Some(toolset) => {
                    shelf.sets.entry(toolset.clone()).or_default();
                    let shelved = Shelved { spec: registry.shown(registered), toolset, reads };
                    shelf.tools.insert(registered.spec.name.clone(), shelved);
                    shelf.own.extend(is_own.then(|| registered.spec.name.clone()));
                }
                None => shelf.shown.push(registry.shown(registered)),
            }
        }
        shelf.index = Index::of(shelf.tools.values().map(|shelved| &shelved.spec));
        shelf
    }

    /// Whether a run's own tool has to be loaded.
    pub fn has_own(&self) -> bool {
        !self.own.is_empty()
    }

    /// Returns the part of the loaded state that a tool belongs to: the run's own part for a run's own tool.
    fn part<'a>(&self, loaded: &'a mut Loaded, name: &ToolName, run: &RunId) -> &'a mut Part {
        if self.own.contains(name) { loaded.of_run(run) } else { &mut loaded.shared }
    }

    /// Whether a tool is loaded.
    fn has_loaded(&self, loaded: &Loaded, name: &ToolName) -> bool {
        match self.own.contains(name) {
            true => loaded.alone().is_some_and(|part| part.has(name)),
            false => loaded.shared.has(name),
        }
    }

    /// Whether a toolset is loaded, and whether with its writing tools. If the toolset contains a run's own tools,
    /// only the run's own part of the state is considered.
    fn has_loaded_set(&self, loaded: &Loaded, name: &str) -> Option<bool> {
        let has_own = self.of_toolset(name, true).any(|spec| self.own.contains(&spec.name));
        let part = if has_own { loaded.alone() } else { Some(&loaded.shared) };
        part.and_then(|part| part.toolset(name))
    }

    /// Loads a toolset.
    fn load(&self, loaded: &mut Loaded, name: &str, writes: bool, run: &RunId) {
        for spec in self.of_toolset(name, true) {
            self.part(loaded, &spec.name, run).note(name, writes);
        }
        for spec in self.of_toolset(name, writes) {
            self.part(loaded, &spec.name, run).add(spec);
        }
    }

    /// Whether no tool has to be loaded.
    pub fn is_empty(&self) -> bool {
        self.tools.is_empty()
    }

    /// Returns a tool that has to be loaded.
    pub fn get(&self, name: &str) -> Option<&Shelved> {
        self.tools.get(&ToolName::from(name))
    }

    /// Returns the toolset of a tool.
    pub fn group(&self, name: &str) -> Option<&str> {
        self.members.get(&ToolName::from(name)).map(String::as_str)
    }

    /// Returns all toolsets that contain tools, with their descriptions and tool names.
    pub fn groups(&self) -> BTreeMap<&str, (&str, Vec<&ToolName>)> {
        let mut groups: BTreeMap<&str, (&str, Vec<&ToolName>)> = BTreeMap::new();
        for (tool, name) in &self.members {
            let description = self.sets.get(name).map_or("", String::as_str);
            groups.entry(name).or_insert_with(|| (description, Vec::new())).1.push(tool);
        }
        groups
    }

    /// Returns the toolsets with tools to load, with their descriptions.
    fn toolsets(&self) -> impl Iterator<Item = (&str, &str)> {
        let loadable: BTreeSet<&str> = self.tools.values().map(|shelved| &*shelved.toolset).collect();
        self.sets
            .iter()
            .filter(move |(name, _)| loadable.contains(&***name))
            .map(|(name, text)| (&**name, &**text))
    }

    /// Returns the tools of a toolset. Tools that write are only included if `writes` is set.
    fn of_toolset(&self, name: &str, writes: bool) -> impl Iterator<Item = &ToolSpec> {
        let of = self.tools.values().filter(move |shelved| shelved.toolset == name);
        of.filter(move |shelved| writes || shelved.reads).map(|shelved| &shelved.spec)
    }

    /// Explains why a tool that is not shown cannot be called yet, and how to load it.
    pub fn missing(&self, name: &str) -> Option<String> {
        let Shelved { toolset, reads, .. } = self.get(name)?;
        let writes = if *reads { "false" } else { "true" };
        Some(format!(
            "`{name}` belongs to the toolset `{toolset}`, which is not loaded that far. Call load_toolset with toolset \
             `{toolset}` and include_write_tools `{writes}`; it can be called in the next step"
        ))
    }
}

/// Returns the toolset of a tool that no toolset names; `None` for an engine tool.
fn implied(registered: &Registered) -> Option<String> {
    let server = registered.tool.traits().server?;
    Some(registered.tool.traits().toolset.unwrap_or(server).to_owned())
}

/// Estimates the tokens of a tool in a request.
pub(crate) fn tokens_of(spec: &ToolSpec) -> u64 {
    let schema = spec.input_schema.to_string().len();
    estimate_tokens((spec.name.as_str().len() + spec.description.len() + schema) as u64)
}
