//! The input of a policy evaluation: a call with its tool, principal and context.
//!
//! The gate and the rules evaluate it.

use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::rule::PathArgument;
use crate::agent::{Annotations, EffectClass};
use crate::event::Surface;
use crate::id::{Digest, Principal, Timestamp, ToolName};

/// A call, as the gate and the rules see it.
#[derive(Clone, Copy, Debug)]
pub struct Subject<'a> {
    /// The tool.
    pub tool: &'a ToolName,
    /// The server that the tool comes from; `None` for a tool of the engine.
    pub server: Option<&'a str>,
    /// Digest of its schema; `None` where that is not known.
    pub schema: Option<Digest>,
    /// Hints about what the call does.
    pub annotations: Annotations,
    /// Whether the annotations count.
    pub trust: Trust,
    /// The arguments; `None` if they cannot be parsed. Only conditions on arguments need them.
    pub arguments: Option<&'a Value>,
    /// The paths among them, as the working folder of the tool resolves them.
    pub paths: &'a [PathArgument],
    /// The user of the run.
    pub principal: &'a Principal,
    /// That principal's roles.
    pub roles: &'a [String],
    /// The agent's name.
    pub agent: &'a str,
    /// Who reads the run's answer.
    pub surface: Surface,
    /// The workspace.
    pub workspace: &'a str,
    /// The time.
    pub now: Timestamp,
}

/// Whether a tool's annotations are believed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Trust {
    /// The tool is built in, or an administrator trusts its server.
    Trusted,
    /// They may say anything.
    Untrusted,
}

/// Whether a call changes nothing outside its thread: its tool is trusted and declares that it only reads, and its effect
/// class allows a repeat. Returns `false` if any of these is unknown.
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
