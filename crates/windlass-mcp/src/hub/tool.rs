//! A server's tool as a tool of the engine.
//!
//! The tool stays registered while its server is unreachable; a call then returns the server's state. The
//! gate decides whether a call may run or be repeated, and considers hints only if the server is trusted.

use std::sync::Arc;

use async_trait::async_trait;
use rmcp::model::{CallToolRequest, CallToolRequestParams, ClientRequest, ServerResult};
use serde_json::Value;
use windlass_engine::port::tool::{CallContext, Tool, ToolOutcome, ToolTraits};
use windlass_engine::tool::crashing_masked;
use windlass_machine::{EffectClass, ToolSpec};

use crate::call::exchange::Exchange;
use crate::call::resume;
use crate::core::Core;
use crate::health::Health;
use crate::list::RemoteTool;
use crate::result;

/// A tool of a server.
pub(crate) struct McpTool {
    core: Arc<Core>,
    spec: ToolSpec,
    /// The server's own name of the tool.
    remote: String,
    output_schema: Option<Value>,
    /// The tool's group.
    tag: Option<String>,
}

impl McpTool {
    /// Whether the server still describes the tool in the same way.
    pub fn is(&self, core: &Arc<Core>, tool: &RemoteTool) -> bool {
        let spec = &self.spec;
        Arc::ptr_eq(&self.core, core)
            && self.remote == tool.name
            && spec.description == tool.description
            && spec.input_schema == tool.input_schema
            && spec.annotations == tool.annotations
            && self.output_schema == tool.output_schema
            && self.tag == tool.tag
    }

    pub fn new(core: Arc<Core>, name: &str, tool: &RemoteTool) -> Self {
        let spec = ToolSpec {
            name: name.into(),
            description: tool.description.clone(),
            input_schema: tool.input_schema.clone(),
            annotations: tool.annotations,
            withheld: Vec::new(),
        };
        Self {
            core,
            spec,
            remote: tool.name.clone(),
            output_schema: tool.output_schema.clone(),
            tag: tool.tag.clone(),
        }
    }
}

#[async_trait]
impl Tool for McpTool {
    fn spec(&self) -> &ToolSpec {
        &self.spec
    }

    fn traits(&self) -> ToolTraits<'_> {
        let (name, trusted) = (&self.core.config.name, self.core.config.trusted);
        ToolTraits {
            class: (!trusted).then_some(EffectClass::Once),
            is_untrusted: !trusted,
            server: Some(name),
            remote_name: Some(&self.remote),
            toolset: self.tag.as_deref(),
            ..ToolTraits::default()
        }
    }

    fn unavailable(&self) -> Option<String> {
        let name = &self.core.config.name;
        let why = match self.core.health() {
            Health::Ready { .. } => return None,
            Health::Starting => "has not responded yet",
            // The reason may contain host names and stderr, so only `Health` contains it.
            Health::Unavailable { .. } => "is unavailable",
            Health::NeedsSignIn { .. } => "requires a sign-in",
            Health::Disabled => "is disabled",
        };
        Some(format!("its server `{name}` {why}"))
    }

    async fn call(&self, context: CallContext, arguments: Value) -> ToolOutcome {
        crashing_masked(Box::pin(self.called(context, arguments)), || self.core.masks.reasons()).await
    }

    async fn let_go(&self, state: &str) {
        resume::let_go(&self.core, state).await;
    }
}

impl McpTool {
    async fn called(&self, context: CallContext, arguments: Value) -> ToolOutcome {
        let arguments = arguments.as_object().cloned().unwrap_or_default();
        let request = |responses, state| {
            let mut params =
                CallToolRequestParams::new(self.remote.clone()).with_arguments(arguments.clone());
            (params.input_responses, params.request_state) = (responses, state);
            ClientRequest::CallToolRequest(CallToolRequest::new(params))
        };
        // The recorded class is used instead of the server's current hints, because
        // an administrator may have overridden it.
        let class = context.class.unwrap_or_else(|| self.traits().effect_class(&self.spec));
        let repeats = matches!(class, EffectClass::Pure | EffectClass::Idempotent);
        let exchange = Exchange { core: &self.core, context: &context, request: &request, repeats };
        let answer = match exchange.made().await {
            Ok(ServerResult::CallToolResult(answer)) => serde_json::to_value(answer).ok(),
            // The library returns a result that it cannot parse in this form, for
            // example one with a block of an unknown kind.
            Ok(ServerResult::CustomResult(answer)) => Some(answer.0).filter(Value::is_object),
            Ok(_) => None,
            Err(output) => return exchange.masked(output).await,
        };
        match answer {
            Some(answer) => {
                self.core.masks.output(result::output(&answer, self.output_schema.as_ref())).into()
            }
            None => ToolOutcome::error(
                "Tool error: the server's response is not a tool result. The call may have taken effect",
            ),
        }
    }
}
