//! What a thread has loaded: kept with the thread, with the tools as they were then.
//!
//! The order is that of loading, so that a prompt only grows at its end. What is one run's alone counts for that run, and
//! is kept apart, behind the rest, also where it was loaded before some of that: a tool of its own may have the name of another that the thread has loaded.

use std::collections::BTreeSet;

use serde::{Deserialize, Serialize};
use windlass_machine::{RunId, ToolName, ToolSpec};

/// What is kept under [`windlass_machine::LOADED_TOOLS`].
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub(crate) struct Loaded {
    /// What counts for every run of the thread.
    #[serde(flatten)]
    pub shared: Part,
    /// What is one run's alone.
    #[serde(skip_serializing_if = "Option::is_none")]
    alone: Option<OfRun>,
    /// How earlier builds kept that: among the rest, and marked.
    #[serde(skip_serializing)]
    own: Option<Marked>,
}

/// Toolsets and tools.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub(crate) struct Part {
    /// Toolsets, and whether with the tools that write. (SK-C4)
    toolsets: Vec<(String, bool)>,
    /// The tools, as the model is shown them.
    specs: Vec<ToolSpec>,
}

/// What is one run's alone.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
struct OfRun {
    run: RunId,
    part: Part,
}

/// What is one run's alone, by its names.
#[derive(Clone, Debug, PartialEq, Deserialize)]
struct Marked {
    run: RunId,
    toolsets: BTreeSet<String>,
    tools: BTreeSet<ToolName>,
}

impl Loaded {
    /// What was kept, as it counts for a run; nothing where this build cannot read it.
    pub fn read(kept: Option<&str>, run: &RunId) -> Self {
        let mut loaded: Self = kept.and_then(|kept| serde_json::from_str(kept).ok()).unwrap_or_default();
        if let Some(marked) = loaded.own.take() {
            loaded.set_apart(&marked);
        }
        loaded.alone = loaded.alone.filter(|alone| alone.run == *run);
        loaded
    }

    fn set_apart(&mut self, marked: &Marked) {
        let Part { toolsets, specs } = &mut self.shared;
        let part = Part {
            toolsets: toolsets.extract_if(.., |set| marked.toolsets.contains(&set.0)).collect(),
            specs: specs.extract_if(.., |spec| marked.tools.contains(&spec.name)).collect(),
        };
        self.alone = Some(OfRun { run: marked.run.clone(), part });
    }

    /// What is this run's alone; what was another's is gone since it was read.
    pub fn of_run(&mut self, run: &RunId) -> &mut Part {
        let none = || OfRun { run: run.clone(), part: Part::default() };
        &mut self.alone.get_or_insert_with(none).part
    }

    /// What is alone the run's for which it was read.
    pub fn alone(&self) -> Option<&Part> {
        self.alone.as_ref().map(|alone| &alone.part)
    }

    /// Whether a toolset is loaded in any part, and whether with the tools that write.
    pub fn toolset(&self, name: &str) -> Option<bool> {
        self.shared.toolset(name).max(self.alone().and_then(|part| part.toolset(name)))
    }

    /// The tools as the model of the run is shown them. What the run has of its own, by name, is shown as it loaded that
    /// itself, and never with the words of another tool.
    pub fn shown<'a>(&'a self, own: &'a [ToolName]) -> impl Iterator<Item = &'a ToolSpec> {
        let shared = self.shared.specs.iter().filter(move |spec| !own.contains(&spec.name));
        shared.chain(self.alone().into_iter().flat_map(|part| &part.specs))
    }
}

impl Part {
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

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn what_an_earlier_build_has_kept_counts_as_it_did() {
        let spec = |name: &str| json!({"name": name, "description": "d", "input_schema": {"type": "object"}});
        let kept = json!({
            "toolsets": [["k8s", true], ["crm", false]],
            "specs": [spec("k8s_get"), spec("crm_find")],
            "own": {"run": "r1", "toolsets": ["crm"], "tools": ["crm_find"]},
        });
        let kept = kept.to_string();
        let names = |loaded: &Loaded| {
            let own = [ToolName::from("crm_find")];
            loaded.shown(&own).map(|spec| spec.name.to_string()).collect::<Vec<_>>().join(" ")
        };
        let its = Loaded::read(Some(&kept), &"r1".into());
        assert_eq!((names(&its).as_str(), its.toolset("crm")), ("k8s_get crm_find", Some(false)));
        let anothers = Loaded::read(Some(&kept), &"r2".into());
        assert_eq!((names(&anothers).as_str(), anothers.toolset("crm")), ("k8s_get", None));
        assert_eq!(anothers.toolset("k8s"), Some(true));
        let again = serde_json::to_string(&its).unwrap();
        assert_eq!(Loaded::read(Some(&again), &"r1".into()), its);
    }
}
