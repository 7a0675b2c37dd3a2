//! What a decision needs to know about the world outside the thread: the policy, and each call's tool and arguments.
//!
//! The driver looks it up just before the decision. The machine never does.

use std::sync::Arc;

use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::agent::{Annotations, EffectClass};
use crate::event::InterruptKind;
use crate::id::Digest;
use crate::message::Content;
use crate::mode::Area;
use crate::policy::{PathArgument, Policy, Terms, Trust};

/// What the gate needs to know from outside the thread, read just before.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct View {
    /// The version of policy and tools; another one sends [`crate::Input::Rejudge`] before a call starts.
    pub version: u64,
    /// The policy.
    pub policy: Arc<Policy>,
    /// Roles of whom the run works for.
    pub roles: Vec<String>,
    /// A view of each call, in the order of the reply; for a rejudgement, of the step's calls.
    pub calls: Vec<CallView>,
}

/// One call as seen from outside the thread.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "tool", rename_all = "snake_case")]
pub enum CallView {
    /// No such tool.
    Unknown,
    /// The model was not shown the tool.
    Withheld {
        /// Why, and how it can be had: for the model.
        reason: String,
    },
    /// The tool exists.
    Known(Box<KnownCall>),
}

/// A call to a tool that exists.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct KnownCall {
    /// What may be done again.
    pub class: EffectClass,
    /// Hints about what it does.
    pub annotations: Annotations,
    /// Whether the hints are believed.
    pub trust: Trust,
    /// What the tool is about.
    #[serde(default)]
    pub area: Area,
    /// The server that the tool belongs to.
    pub server: Option<String>,
    /// Digest of the tool's schema.
    pub schema: Digest,
    /// Whether the arguments satisfy it.
    pub arguments: Arguments,
    /// The arguments as they will be sent, read; `None` where they cannot be.
    pub value: Option<Arc<Value>>,
    /// The paths among them, as the working folder of the tool resolves them.
    pub paths: Vec<PathArgument>,
    /// Names and digests of what the engine will add to them.
    pub added: Vec<(String, Digest)>,
    /// Whether the tool can tell beforehand what the call would do.
    pub previews: bool,
    /// What the call asks people, where that is what the tool is for.
    pub asks: Option<(InterruptKind, Terms)>,
    /// What the host program's hook says of the call.
    pub hook: Option<HookVerdict>,
}

/// What the host program's hook says of a call. (LM-H6)
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum HookVerdict {
    /// Nothing against it; the gate decides.
    Allow,
    /// A person must look at it.
    Ask {
        /// Why.
        reason: String,
    },
    /// It may not run.
    Deny {
        /// Why; told to the model.
        reason: String,
    },
}

/// The arguments of a call after parsing, repair and validation.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Arguments {
    /// As the model wrote them.
    AsAsked {
        /// Their digest.
        digest: Digest,
    },
    /// Near-JSON that was repaired. (SK-L11)
    Repaired {
        /// What will be sent.
        arguments: Content,
        /// Their digest.
        digest: Digest,
    },
    /// Not usable.
    Invalid {
        /// Why, for the model.
        reason: String,
    },
}
