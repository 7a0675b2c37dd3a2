//! What a thread has loaded: kept with the thread, with the tools as they were then.
//!
//! The order is that of loading, so that a prompt only grows at its end.

use serde::{Deserialize, Serialize};
use windlass_machine::{ToolName, ToolSpec};

/// What is kept under [`windlass_machine::LOADED_TOOLS`].
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub(crate) struct Loaded {
    /// Toolsets, and whether with the tools that write. (SK-C4)
    pub toolsets: Vec<(String, bool)>,
    /// The tools, as the model is shown them.
    pub specs: Vec<ToolSpec>,
}

impl Loaded {
    /// What was kept; nothing where this build cannot read it.
    pub fn read(kept: Option<&str>) -> Self {
        kept.and_then(|kept| serde_json::from_str(kept).ok()).unwrap_or_default()
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
