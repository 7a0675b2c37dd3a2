//! The hook port: the host program's own check of a call, on top of the policy.
//!
//! It can stop a call or have people look at it; it cannot let through what the policy stops.

use async_trait::async_trait;
use serde_json::Value;
use windlass_machine::{CallKey, HookVerdict, RunId, ThreadId, ToolName, ToolSpec};

/// The host program's own check. (LM-H6)
#[async_trait]
pub trait Hook: Send + Sync {
    /// Looks at a call before it is judged, and again whenever it is judged anew: it changes nothing, and the same call
    /// in the same world gets the same verdict. One that fails or cannot tell says [`HookVerdict::Ask`].
    async fn before_tool(&self, call: HookCall<'_>) -> HookVerdict;
}

/// A call as the hook sees it.
#[derive(Clone, Copy, Debug)]
pub struct HookCall<'a> {
    /// The thread.
    pub thread: &'a ThreadId,
    /// The run.
    pub run: &'a RunId,
    /// The call.
    pub call: CallKey,
    /// The tool.
    pub tool: &'a ToolName,
    /// Its shape.
    pub spec: &'a ToolSpec,
    /// The arguments that will be sent.
    pub arguments: &'a Value,
}
