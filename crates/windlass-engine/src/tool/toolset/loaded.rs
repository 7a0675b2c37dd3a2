//! The tools that a thread has loaded, stored with the thread in their form at the time of loading.
//!
//! Tools are stored in the order of loading, so that a prompt only grows at its end. A run's own tools apply to that
//! run only. They are stored separately and listed after the others, because a run's own tool may have the same name as
//! another loaded tool.

use std::collections::BTreeSet;

use serde::{Deserialize, Serialize};
use windlass_machine::{RunId, ToolName, ToolSpec};

/// The content of the state under [`windlass_machine::LOADED_TOOLS`].
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub(crate) struct Loaded {
    /// Tools that apply to every run of the thread.
    #[serde(flatten)]
    pub shared: Part,
    /// Own tools of one run.
    #[serde(skip_serializing_if = "Option::is_none")]
    alone: Option<OfRun>,
    /// The marks of own tools in the format of earlier builds, which stored them among the other tools.
    #[serde(skip_serializing)]
    own: Option<Marked>,
}

/// Loaded toolsets and tools.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub(crate) struct Part {
    /// Loaded toolsets, and whether with their writing tools. (SK-C4)
    toolsets: Vec<(String, bool)>,
    /// The tools as the model is shown them.
    specs: Vec<ToolSpec>,
}

/// Own tools of one run.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
struct OfRun {
    run: RunId,
    part: Part,
}

/// Names of one run's own toolsets and tools.
#[derive(Clone, Debug, PartialEq, Deserialize)]
struct Marked {
    run: RunId,
    toolsets: BTreeSet<String>,
    tools: BTreeSet<ToolName>,
}

impl Loaded {
    /// Parses the stored state for a run; empty if this build cannot decode it.
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

    /// Returns the run's own part. Parts of other runs were dropped when the state was read.
    pub fn of_run(&mut self, run: &RunId) -> &mut Part {
        let none = || OfRun { run: run.clone(), part: Part::default() };
        &mut self.alone.get_or_insert_with(none).part
    }

    /// Returns the run's own toolsets and tools, for the run that was passed to `read`.
    pub fn alone(&self) -> Option<&Part> {
        self.alone.as_ref().map(|alone| &alone.part)
    }

    /// Whether a toolset is loaded in any part, and whether with its writing tools.
    pub fn toolset(&self, name: &str) -> Option<bool> {
        self.shared.toolset(name).max(self.alone().and_then(|part| part.toolset(name)))
    }

    /// Returns the tools in the form in which the run's model receives them. For the names in `own`, only tools that
    /// the run itself has loaded are returned, never another tool's description.
    pub fn shown<'a>(&'a self, own: &'a [ToolName]) -> impl Iterator<Item = &'a ToolSpec> {
        let shared = self.shared.specs.iter().filter(move |spec| !own.contains(&spec.name));
        shared.chain(self.alone().into_iter().flat_map(|part| &part.specs))
    }
}

impl Part {
    /// Whether a toolset is loaded, and whether with its writing tools.
    pub fn toolset(&self, name: &str) -> Option<bool> {
        self.toolsets.iter().find(|(loaded, _)| loaded == name).map(|(_, writes)| *writes)
    }

    /// Adds a toolset. A toolset is never unloaded.
    pub fn note(&mut self, name: &str, writes: bool) {
        match self.toolsets.iter_mut().find(|(loaded, _)| loaded == name) {
            Some((_, loaded)) => *loaded |= writes,
            None => self.toolsets.push((name.to_owned(), writes)),
        }
    }

    /// Adds a tool, or replaces it with its newer version.
    pub fn add(&mut self, spec: &ToolSpec) {
        match self.specs.iter_mut().find(|known| known.name == spec.name) {
            Some(known) => known.clone_from(spec),
            None => self.specs.push(spec.clone()),
        }
    }

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
