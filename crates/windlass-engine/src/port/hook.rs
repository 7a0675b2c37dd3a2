//! The hook port: a check by the host program, in addition to the policy.
//!
//! A hook can deny a call or require approval. It cannot allow a call that the policy stops.

use async_trait::async_trait;
use serde_json::Value;
use windlass_machine::{CallKey, HookVerdict, RunId, ThreadId, ToolName, ToolSpec};

/// A check by the host program. (LM-H6)
#[async_trait]
pub trait Hook: Send + Sync {
    /// Checks a call before the gate judges it, and again before each later verdict. The
    /// check must have no effects and be deterministic: the same call in the same state
    /// gets the same verdict. On failure or uncertainty, return [`HookVerdict::Ask`].
    async fn before_tool(&self, call: HookCall<'_>) -> HookVerdict;
}

/// The call that a hook checks.
#[derive(Clone, Copy, Debug)]
pub struct HookCall<'a> {
    /// Thread of the call.
    pub thread: &'a ThreadId,
    /// Run of the call.
    pub run: &'a RunId,
    /// Step and index of the call.
    pub call: CallKey,
    /// Name of the tool.
    pub tool: &'a ToolName,
    /// Description, schema and annotations of the tool.
    pub spec: &'a ToolSpec,
    /// The arguments that will be sent to the tool.
    pub arguments: &'a Value,
}
