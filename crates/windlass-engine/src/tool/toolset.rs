//! Toolsets: tools in groups, shown to the model from the start or loaded when it asks for them.
//!
//! A [`Shelf`] is what a registry's tools come to: a few that every request carries, and the others, which two tools
//! bring. What a thread has loaded is kept with the thread; nothing here calls a tool.

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

/// Tokens of schemas that servers' tools may take in every request, unless something else is said: about a twentieth of
/// the smallest window in use, and half of what a reference system found too many. (SK-C1)
pub const SHOWN_TOKENS: u64 = 4_000;

/// A group of tools. A tool belongs to the first that names it; one of a server that no group names belongs to the group
/// of its own tag, or to one named after its server.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Toolset {
    /// What the model calls it.
    pub name: String,
    /// What it is for, for the model; may be empty.
    pub description: String,
    /// Names of its tools.
    pub tools: Vec<Glob>,
    /// Servers whose tools belong to it.
    pub servers: Vec<String>,
    /// Tags whose tools belong to it.
    pub tags: Vec<String>,
    /// What of it every request carries.
    pub shown: Shown,
}

/// What of a toolset every request carries.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Shown {
    /// Nothing: it is loaded when the model asks.
    #[default]
    Nothing,
    /// The tools that only read.
    Reads,
    /// All of it.
    All,
}

/// A tool on the shelf.
#[derive(Clone, Debug)]
pub(crate) struct Shelved {
    pub spec: ToolSpec,
    pub toolset: String,
    /// Whether it only reads, by a hint that is believed.
    pub reads: bool,
}

/// The tools of a registry, by how they get to a model.
#[derive(Default)]
pub(crate) struct Shelf {
    /// What every request carries, sorted by name.
    pub shown: Vec<ToolSpec>,
    /// What is loaded, sorted by name.
    tools: BTreeMap<ToolName, Shelved>,
    /// Every toolset with its description, those that are shown whole too.
    sets: BTreeMap<String, String>,
    /// The toolset of each tool that has one, those that are shown too.
    members: BTreeMap<ToolName, String>,
    /// What of it is one run's alone.
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
    /// Sorts a registry's tools. Those of servers that no toolset names are shown while they take no more than so many
    /// tokens together. `own` are one run's alone: what of them is of no server is shown, for the host program gave them
    /// to that run.
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

    /// Whether something that has to be loaded is one run's alone.
    pub fn has_own(&self) -> bool {
        !self.own.is_empty()
    }

    /// The part of what a thread has loaded that a tool belongs to: this run's alone if the tool is one run's alone.
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

    /// Whether all of a toolset is loaded, and whether with the tools that write: where something of it is one run's
    /// alone, as far as that run has loaded it.
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

    /// Whether nothing has to be loaded.
    pub fn is_empty(&self) -> bool {
        self.tools.is_empty()
    }

    /// A tool that has to be loaded.
    pub fn get(&self, name: &str) -> Option<&Shelved> {
        self.tools.get(&ToolName::from(name))
    }

    /// The toolset of a tool.
    pub fn group(&self, name: &str) -> Option<&str> {
        self.members.get(&ToolName::from(name)).map(String::as_str)
    }

    /// All toolsets that have any tool, with their descriptions and the names of their tools.
    pub fn groups(&self) -> BTreeMap<&str, (&str, Vec<&ToolName>)> {
        let mut groups: BTreeMap<&str, (&str, Vec<&ToolName>)> = BTreeMap::new();
        for (tool, name) in &self.members {
            let description = self.sets.get(name).map_or("", String::as_str);
            groups.entry(name).or_insert_with(|| (description, Vec::new())).1.push(tool);
        }
        groups
    }

    /// The toolsets that have something to load, with their descriptions.
    fn toolsets(&self) -> impl Iterator<Item = (&str, &str)> {
        let loadable: BTreeSet<&str> = self.tools.values().map(|shelved| &*shelved.toolset).collect();
        self.sets
            .iter()
            .filter(move |(name, _)| loadable.contains(&***name))
            .map(|(name, text)| (&**name, &**text))
    }

    /// The tools of a toolset; without those that write, unless they are wanted.
    fn of_toolset(&self, name: &str, writes: bool) -> impl Iterator<Item = &ToolSpec> {
        let of = self.tools.values().filter(move |shelved| shelved.toolset == name);
        of.filter(move |shelved| writes || shelved.reads).map(|shelved| &shelved.spec)
    }

    /// Says why a tool that is not shown to the model cannot be called yet, and how it can.
    pub fn missing(&self, name: &str) -> Option<String> {
        let Shelved { toolset, reads, .. } = self.get(name)?;
        let writes = if *reads { "false" } else { "true" };
        Some(format!(
            "`{name}` belongs to the toolset `{toolset}`, which is not loaded that far. Call load_toolset with toolset \
             `{toolset}` and include_write_tools `{writes}`; it can be called in the next step"
        ))
    }
}

/// The group of a tool that no toolset names; none for the engine's own.
fn implied(registered: &Registered) -> Option<String> {
    let server = registered.tool.traits().server?;
    Some(registered.tool.traits().toolset.unwrap_or(server).to_owned())
}

/// Estimated tokens that a tool's shape takes in a request.
pub(crate) fn tokens_of(spec: &ToolSpec) -> u64 {
    let schema = spec.input_schema.to_string().len();
    estimate_tokens((spec.name.as_str().len() + spec.description.len() + schema) as u64)
}
