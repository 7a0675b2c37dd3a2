//! What an engine has to offer: its tools and models, as people and programs list them.
//!
//! It calls nothing; whether a call may run is the gate's to say.

use std::panic::{AssertUnwindSafe, catch_unwind};

use serde_json::Value;
use windlass_machine::{EffectClass, ModelName, Run, ThreadId, ToolName, ToolSpec};

use crate::drive::catalog::tools::Offered;
use crate::engine::Engine;
use crate::engine::handle::{PolicyHandle, ToolsHandle};
use crate::error::EngineError;
use crate::port::journal::RunRow;
use crate::port::model::{ModelError, ModelInfo};
use crate::tool::toolset::tokens_of;
use crate::trial::{Standing, Supposed, Trial, Tried};

/// A tool as it is listed.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct OfferedTool {
    /// Its shape as the model sees it.
    pub spec: ToolSpec,
    /// What may be done again when a call's outcome was lost.
    pub class: EffectClass,
    /// Whether its hints are believed.
    pub trusted: bool,
    /// The server that it belongs to, where it is not the engine's own.
    pub server: Option<String>,
    /// The toolset that it belongs to, where it belongs to one.
    pub group: Option<String>,
    /// The toolset that has to be loaded before a model can call it; none for one that every request carries.
    pub toolset: Option<String>,
    /// Why its calls can do nothing at the moment, where they cannot.
    pub unavailable: Option<String>,
    /// Whether it can tell beforehand what a call would do.
    pub previews: bool,
    /// Estimated tokens that its shape takes in a request.
    pub tokens: u64,
}

/// A group of tools as it is listed.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct OfferedToolset {
    /// What the model calls it.
    pub name: String,
    /// What it is for.
    pub description: String,
    /// Its tools, by name.
    pub tools: Vec<ToolName>,
}

impl Engine {
    /// The tool server that a call goes to; `None` for a tool of the engine, and for one that is not offered here.
    pub(crate) fn server_of(&self, tool: &str, arguments: &str) -> Option<String> {
        let tool = self.services.catalog.now().registry.get(tool)?;
        let Ok(arguments) = serde_json::from_str::<Value>(arguments) else {
            return tool.traits().server.map(str::to_owned);
        };
        // A tool that panics when it is asked about a call says nothing of it.
        catch_unwind(AssertUnwindSafe(|| tool.server_for(&arguments))).ok().flatten()
    }

    /// Describes a model. Returns an error if the configuration does not allow calls of it.
    pub fn model(&self, name: &ModelName) -> Result<ModelInfo, ModelError> {
        Ok(self.services.models.resolve(name)?.info().clone())
    }
}

impl ToolsHandle<'_> {
    /// The tools that runs are given, sorted by name.
    pub fn list(self) -> Vec<OfferedTool> {
        let engine = self.engine;
        listed(&engine.services.catalog.now())
    }

    /// The same for the runs of a workspace.
    pub fn list_in(self, workspace: &str) -> Vec<OfferedTool> {
        let engine = self.engine;
        let mut tools = listed(&engine.services.catalog.now_in(workspace));
        let registry = &engine.services.catalog.now().registry;
        tools.retain(|it| registry.get(it.spec.name.as_str()).is_none_or(|tool| tool.is_offered(workspace)));
        tools
    }

    /// The toolsets that have tools, sorted by name.
    pub fn toolsets(self) -> Vec<OfferedToolset> {
        let engine = self.engine;
        let tools = engine.services.catalog.now();
        let of = |(name, (description, tools)): (&str, (&str, Vec<&ToolName>))| OfferedToolset {
            name: name.to_owned(),
            description: description.to_owned(),
            tools: tools.into_iter().cloned().collect(),
        };
        tools.shelf.groups().into_iter().map(of).collect()
    }

    /// Makes a trial call, which runs to its end even if its caller stops waiting.
    pub async fn try_tool(self, trial: Trial) -> Result<Tried, EngineError> {
        let engine = self.engine;
        let (trials, thread) = (engine.services.trials.clone(), ThreadId::from(engine.fresh("trial")));
        let ends = tokio::spawn(async move { trials.try_tool(&thread, trial).await });
        match ends.await {
            Ok(tried) => tried,
            Err(error) => Err(EngineError::Config(format!("the call could not be made: {error}"))),
        }
    }
}

impl PolicyHandle<'_> {
    /// What the gate would say of a call; `None` where there is no such tool. Nothing is called, no hook is asked and no
    /// grant is used up.
    pub async fn standing(self, call: &Supposed) -> Result<Option<Standing>, EngineError> {
        let engine = self.engine;
        engine.services.trials.standing(&ThreadId::from("trial"), call).await
    }

    /// What the rules say of something that a server wants for a run, such as a completion, under a name that rules may
    /// use. If no rule applies, it is allowed. The run comes as its row and its fold have it.
    pub async fn wish(
        self,
        wanted: &ToolName,
        server: &str,
        row: &RunRow,
        run: &Run,
    ) -> Result<Standing, EngineError> {
        let engine = self.engine;
        engine.services.trials.wish(wanted, server, row, run).await
    }
}

fn listed(tools: &Offered) -> Vec<OfferedTool> {
    let registry = &tools.registry;
    let specs = registry.catalogue();
    let offered = specs.iter().filter_map(|spec| {
        let registered = registry.enabled(spec.name.as_str())?;
        Some(OfferedTool {
            spec: registry.shown(registered),
            class: registry.effect_class(registered),
            trusted: registry.is_trusted(registered),
            server: registered.tool.traits().server.map(str::to_owned),
            group: tools.shelf.group(spec.name.as_str()).map(str::to_owned),
            tokens: tokens_of(spec),
            toolset: tools.shelf.get(spec.name.as_str()).map(|shelved| shelved.toolset.clone()),
            unavailable: registered.tool.unavailable(),
            previews: registered.tool.traits().previews,
        })
    });
    offered.collect()
}
