//! The view of a decision: the policy, and each call's tool and arguments.
//!
//! The driver reads policy and tools just before the decision. The machine itself performs no reads.

use std::sync::Arc;

use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::agent::{Annotations, EffectClass};
use crate::event::InterruptKind;
use crate::id::Digest;
use crate::message::Content;
use crate::mode::Area;
use crate::policy::{PathArgument, Policy, Terms, Trust};

/// The gate's input from outside the thread.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct View {
    /// Version of policy and tools. If it changes, the driver sends [`crate::Input::Rejudge`] before a call starts.
    pub version: u64,
    /// The current policy.
    pub policy: Arc<Policy>,
    /// Roles of the user that the run works for.
    pub roles: Vec<String>,
    /// View of each call, in the order of the reply; for a rejudgement, of the step's calls.
    pub calls: Vec<CallView>,
}

/// The view of one call.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "tool", rename_all = "snake_case")]
pub enum CallView {
    /// The tool does not exist.
    Unknown,
    /// The model was not shown the tool.
    Withheld {
        /// The reason, and how to load the tool, for the model.
        reason: String,
    },
    /// The tool exists.
    Known(Box<KnownCall>),
}

/// The view of a call whose tool exists.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct KnownCall {
    /// Determines whether the call may be repeated after a lost outcome.
    pub class: EffectClass,
    /// Hints about the call's effects.
    pub annotations: Annotations,
    /// Whether the hints are trusted.
    pub trust: Trust,
    /// Subject area of the tool.
    #[serde(default)]
    pub area: Area,
    /// Server that provides the tool; `None` for an engine tool.
    pub server: Option<String>,
    /// Digest of the tool's schema.
    pub schema: Digest,
    /// Whether the arguments match the schema.
    pub arguments: Arguments,
    /// The arguments to send, parsed; `None` if they cannot be parsed.
    pub value: Option<Arc<Value>>,
    /// The paths among the arguments, as the tool's working folder resolves them.
    pub paths: Vec<PathArgument>,
    /// Names and digests of the values that the engine adds to the arguments.
    pub added: Vec<(String, Digest)>,
    /// Whether the tool can preview the call.
    pub previews: bool,
    /// The question of the call, for a tool whose purpose is to ask people.
    pub asks: Option<(InterruptKind, Terms)>,
    /// The verdict of the host program's hook.
    pub hook: Option<HookVerdict>,
}

/// The verdict of the host program's hook. (LM-H6)
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum HookVerdict {
    /// No objection; the gate decides.
    Allow,
    /// A person must review the call.
    Ask {
        /// The hook's reason.
        reason: String,
    },
    /// The call may not run.
    Deny {
        /// The hook's reason, which the model receives.
        reason: String,
    },
}

/// The arguments of a call after parsing, repair and validation.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Arguments {
    /// Arguments as the model wrote them.
    AsAsked {
        /// Digest of the arguments.
        digest: Digest,
    },
    /// Almost valid JSON that was repaired. (SK-L11)
    Repaired {
        /// The arguments to send.
        arguments: Content,
        /// Digest of the repaired arguments.
        digest: Digest,
    },
    /// Unusable arguments.
    Invalid {
        /// The reason, for the model.
        reason: String,
    },
}
