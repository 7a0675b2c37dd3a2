//! The tools and models of an engine, for lists.
//!
//! This module calls no tools; the gate decides whether a call may run.

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

/// A tool in a list.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct OfferedTool {
    /// Description and schema as the model sees them.
    pub spec: ToolSpec,
    /// Effect class of its calls.
    pub class: EffectClass,
    /// Whether its annotations are trusted.
    pub trusted: bool,
    /// The server that provides the tool; `None` for an engine tool.
    pub server: Option<String>,
    /// The toolset of the tool, if any.
    pub group: Option<String>,
    /// The toolset that a model must load before it can call the tool; `None` if every request contains the tool.
    pub toolset: Option<String>,
    /// The reason why calls currently fail; `None` if the tool is available.
    pub unavailable: Option<String>,
    /// Whether the tool can describe a call before it runs.
    pub previews: bool,
    /// Estimated tokens of the tool in a request.
    pub tokens: u64,
}

/// A toolset in a list.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct OfferedToolset {
    /// Name that the model uses for it.
    pub name: String,
    /// Purpose of the toolset.
    pub description: String,
    /// Names of the tools, sorted.
    pub tools: Vec<ToolName>,
}

impl Engine {
    /// Returns the tool server that a call goes to; `None` for an
    /// engine tool, and for a tool that this engine does not offer.
    pub(crate) fn server_of(&self, tool: &str, arguments: &str) -> Option<String> {
        let tool = self.services.catalog.now().registry.get(tool)?;
        let Ok(arguments) = serde_json::from_str::<Value>(arguments) else {
            return tool.traits().server.map(str::to_owned);
        };
        // If the tool panics while it describes the call, the server is unknown.
        catch_unwind(AssertUnwindSafe(|| tool.server_for(&arguments))).ok().flatten()
    }

    /// Describes a model. Returns an error if the model cannot be called as configured.
    pub fn model(&self, name: &ModelName) -> Result<ModelInfo, ModelError> {
        Ok(self.services.models.resolve(name)?.info().clone())
    }
}

impl ToolsHandle<'_> {
    /// Lists the tools that are available to runs, sorted by name.
    pub fn list(self) -> Vec<OfferedTool> {
        let engine = self.engine;
        listed(&engine.services.catalog.now())
    }

    /// Lists the tools that are available to runs of a workspace, sorted by name.
    pub fn list_in(self, workspace: &str) -> Vec<OfferedTool> {
        let engine = self.engine;
        let mut tools = listed(&engine.services.catalog.now_in(workspace));
        let registry = &engine.services.catalog.now().registry;
        tools.retain(|it| registry.get(it.spec.name.as_str()).is_none_or(|tool| tool.is_offered(workspace)));
        tools
    }

    /// Lists the toolsets that contain tools, sorted by name.
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

    /// Makes a trial call. The call runs to its end even if the future is dropped.
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
    /// Evaluates the policy for a hypothetical call; `None` if the tool does not exist. The evaluation calls no tool
    /// and no hook, and uses no grant.
    pub async fn standing(self, call: &Supposed) -> Result<Option<Standing>, EngineError> {
        let engine = self.engine;
        engine.services.trials.standing(&ThreadId::from("trial"), call).await
    }

    /// Evaluates the rules for a request that a server makes in a run, such as a completion, under a name that rules
    /// may use. Without an applicable rule the request is allowed. `row` and `run` describe the run.
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
