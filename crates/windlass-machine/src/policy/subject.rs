//! The subject of a policy evaluation: a call with its tool, user and context.
//!
//! The gate and the rules evaluate it.

use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::rule::PathArgument;
use crate::agent::{Annotations, EffectClass};
use crate::event::Surface;
use crate::id::{Digest, Principal, Timestamp, ToolName};

/// A call to judge.
#[derive(Clone, Copy, Debug)]
pub struct Subject<'a> {
    /// Name of the tool.
    pub tool: &'a ToolName,
    /// Server that provides the tool; `None` for an engine tool.
    pub server: Option<&'a str>,
    /// Digest of the tool's schema; `None` if unknown.
    pub schema: Option<Digest>,
    /// Hints about the effects of the call.
    pub annotations: Annotations,
    /// Whether the hints are trusted.
    pub trust: Trust,
    /// The arguments; `None` if they cannot be parsed. Only conditions on arguments need them.
    pub arguments: Option<&'a Value>,
    /// The paths among the arguments, as the tool's working folder resolves them.
    pub paths: &'a [PathArgument],
    /// The user that the run works for.
    pub principal: &'a Principal,
    /// Roles of that user.
    pub roles: &'a [String],
    /// Name of the agent.
    pub agent: &'a str,
    /// Audience of the run's answer.
    pub surface: Surface,
    /// Name of the workspace.
    pub workspace: &'a str,
    /// Time of the verdict.
    pub now: Timestamp,
}

/// Whether a tool's annotations are trusted.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Trust {
    /// The tool is built in, or an administrator trusts its server.
    Trusted,
    /// The annotations may be wrong.
    Untrusted,
}

/// Whether a call has no effects outside its thread: its tool is trusted and declares that it only reads, and its
/// effect class allows a repeat. Returns `false` if any of these is unknown.
pub fn only_reads(class: EffectClass, hints: Annotations, trust: Trust) -> bool {
    let repeats = match class {
        EffectClass::Pure | EffectClass::Idempotent => true,
        EffectClass::Keyed | EffectClass::Reconcile { .. } | EffectClass::Once => false,
    };
    trust == Trust::Trusted && hints.read_only_hint && !hints.destructive_hint && repeats
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_call_reads_where_class_and_believed_hints_agree() {
        let read = Annotations { read_only_hint: true, ..Annotations::default() };
        let destroys = Annotations { destructive_hint: true, ..read };
        let open = Annotations { open_world_hint: true, ..read };
        let reads = |class, hints, trust| only_reads(class, hints, trust);
        assert!(reads(EffectClass::Pure, read, Trust::Trusted));
        assert!(reads(EffectClass::Idempotent, open, Trust::Trusted));
        assert!(!reads(EffectClass::Pure, read, Trust::Untrusted), "a server may say anything");
        assert!(!reads(EffectClass::Pure, destroys, Trust::Trusted));
        assert!(!reads(EffectClass::Pure, Annotations::default(), Trust::Trusted));
        for class in [EffectClass::Keyed, EffectClass::Once, EffectClass::Reconcile { wait_ms: 1 }] {
            assert!(!reads(class, read, Trust::Trusted), "{class:?}");
        }
    }
}
