//! What a thread has loaded: kept with the thread, with the tools as they were then.
//!
//! The order is that of loading, so that a prompt only grows at its end. What is one run's alone counts for that run.

use std::collections::BTreeSet;

use serde::{Deserialize, Serialize};
use windlass_machine::{RunId, ToolName, ToolSpec};

/// What is kept under [`windlass_machine::LOADED_TOOLS`].
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub(crate) struct Loaded {
    /// Toolsets, and whether with the tools that write. (SK-C4)
    pub toolsets: Vec<(String, bool)>,
    /// The tools, as the model is shown them.
    pub specs: Vec<ToolSpec>,
    /// What of both is one run's alone.
    #[serde(skip_serializing_if = "Option::is_none")]
    own: Option<OfRun>,
}

/// What is one run's alone.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct OfRun {
    run: RunId,
    /// Toolsets that have such tools.
    pub toolsets: BTreeSet<String>,
    pub tools: BTreeSet<ToolName>,
}

impl Loaded {
    /// What was kept, as it counts for a run; nothing where this build cannot read it.
    pub fn read(kept: Option<&str>, run: &RunId) -> Self {
        let mut loaded: Self = kept.and_then(|kept| serde_json::from_str(kept).ok()).unwrap_or_default();
        if let Some(own) = loaded.own.take_if(|own| own.run != *run) {
            loaded.toolsets.retain(|(name, _)| !own.toolsets.contains(name));
            loaded.specs.retain(|spec| !own.tools.contains(&spec.name));
        }
        loaded
    }

    /// What of it is this run's alone; what was another's is gone since it was read.
    pub fn of_run(&mut self, run: &RunId) -> &mut OfRun {
        let none = || OfRun { run: run.clone(), toolsets: BTreeSet::new(), tools: BTreeSet::new() };
        self.own.get_or_insert_with(none)
    }

    /// Whether a toolset is loaded, and whether with the tools that write.
    pub fn toolset(&self, name: &str) -> Option<bool> {
        self.toolsets.iter().find(|(loaded, _)| loaded == name).map(|(_, writes)| *writes)
    }

    /// Notes a toolset; what was loaded is never taken back.
    pub fn note(&mut self, name: &str, writes: bool) {
        match self.toolsets.iter_mut().find(|(loaded, _)| loaded == name) {
            Some((_, loaded)) => *loaded |= writes,
            None => self.toolsets.push((name.to_owned(), writes)),
        }
    }

    /// Adds a tool, or takes its newer shape.
    pub fn add(&mut self, spec: &ToolSpec) {
        match self.specs.iter_mut().find(|known| known.name == spec.name) {
            Some(known) => known.clone_from(spec),
            None => self.specs.push(spec.clone()),
        }
    }

    /// Whether a tool is loaded.
    pub fn has(&self, name: &ToolName) -> bool {
        self.specs.iter().any(|known| known.name == *name)
    }
}
