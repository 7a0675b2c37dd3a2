//! Servers of a single run. Their tools hold the hub, so the servers stop when the last tool is dropped.
//!
//! The servers are available only to this run.

use std::sync::Arc;

use async_trait::async_trait;
use serde_json::Value;
use windlass_engine::port::background::Background;
use windlass_engine::port::tool::{Ask, CallContext, Conduct, Tool, ToolOutcome, ToolSource, ToolTraits};
use windlass_machine::ToolSpec;

use crate::hub::McpHub;

impl McpHub {
    /// Returns the current tools, for a run that owns these servers. Tools that a
    /// server adds later are not added to the run.
    pub fn into_tools(self) -> Vec<Arc<dyn Tool>> {
        let hub = Arc::new(self);
        let tools = hub.tools();
        tools
            .iter()
            .map(|tool| Arc::new(OwnTool { tool: tool.clone(), _hub: hub.clone() }) as Arc<dyn Tool>)
            .collect()
    }
}

/// A tool that keeps its hub alive.
struct OwnTool {
    tool: Arc<dyn Tool>,
    _hub: Arc<McpHub>,
}

#[async_trait]
impl Tool for OwnTool {
    fn spec(&self) -> &ToolSpec {
        self.tool.spec()
    }

    fn traits(&self) -> ToolTraits<'_> {
        self.tool.traits()
    }

    fn conduct(&self, arguments: &Value) -> Conduct {
        self.tool.conduct(arguments)
    }

    fn unavailable(&self) -> Option<String> {
        self.tool.unavailable()
    }

    fn server_for(&self, arguments: &Value) -> Option<String> {
        self.tool.server_for(arguments)
    }

    fn is_offered(&self, workspace: &str) -> bool {
        self.tool.is_offered(workspace)
    }

    fn background(&self) -> Option<Arc<dyn Background>> {
        self.tool.background()
    }

    fn asks(&self, arguments: &Value) -> Option<Ask> {
        self.tool.asks(arguments)
    }

    fn outlives(&self, arguments: &Value) -> bool {
        self.tool.outlives(arguments)
    }

    async fn preview(&self, context: CallContext, arguments: Value) -> Result<String, String> {
        self.tool.preview(context, arguments).await
    }

    async fn call(&self, context: CallContext, arguments: Value) -> ToolOutcome {
        self.tool.call(context, arguments).await
    }

    async fn let_go(&self, state: &str) {
        self.tool.let_go(state).await;
    }
}
