//! What an engine has to offer: its tools and models, as people and programs list them.
//!
//! It calls nothing; whether a call may run is the gate's to say.

use windlass_machine::{EffectClass, ModelName, ToolSpec};

use crate::engine::Engine;
use crate::port::model::{ModelError, ModelInfo};

/// A tool as it is listed.
#[derive(Clone, Debug, PartialEq)]
pub struct OfferedTool {
    /// Its shape as the model sees it.
    pub spec: ToolSpec,
    /// What may be done again when a call's outcome was lost.
    pub class: EffectClass,
    /// Whether its hints are believed.
    pub trusted: bool,
    /// The server that it belongs to, where it is not the engine's own.
    pub server: Option<String>,
    /// The toolset that has to be loaded before a model can call it; none for one that every request carries.
    pub toolset: Option<String>,
    /// Whether it can tell beforehand what a call would do.
    pub previews: bool,
}

impl Engine {
    /// The tools that runs are given, sorted by name.
    pub fn tools(&self) -> Vec<OfferedTool> {
        let tools = self.deps.tools.now();
        let registry = &tools.registry;
        let specs = registry.catalogue();
        let offered = specs.iter().filter_map(|spec| {
            let registered = registry.enabled(spec.name.as_str())?;
            Some(OfferedTool {
                spec: spec.clone(),
                class: registry.effect_class(registered),
                trusted: registry.is_trusted(registered),
                server: registered.tool.server().map(str::to_owned),
                toolset: tools.shelf.get(spec.name.as_str()).map(|shelved| shelved.toolset.clone()),
                previews: registered.tool.previews(),
            })
        });
        offered.collect()
    }

    /// What is known of a model; an error where it cannot be called as things are configured.
    pub fn model(&self, name: &ModelName) -> Result<ModelInfo, ModelError> {
        Ok(self.deps.models.resolve(name)?.info().clone())
    }
}
