//! What the gate judges by, and what it says.

use std::collections::BTreeSet;

use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::agent::Annotations;
use crate::event::{Surface, Verdict};
use crate::id::{Digest, Principal, Timestamp, ToolName};
use crate::policy::AutoRun;

/// Everything that the gate judges by.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Policy {
    /// Which calls run without asking.
    pub auto_run: AutoRun,
    /// Tools that run without asking in the mode `allowlist`.
    pub allowlist: BTreeSet<ToolName>,
}

/// A call as the gate sees it.
pub struct Subject<'a> {
    pub tool: &'a ToolName,
    pub server: Option<&'a str>,
    pub annotations: Annotations,
    pub trusted: bool,
    pub arguments: Option<&'a Value>,
    pub principal: &'a Principal,
    pub roles: &'a [String],
    pub agent: &'a str,
    pub surface: Surface,
    pub workspace: &'a str,
    pub now: Timestamp,
}

/// What the gate says of a call.
#[derive(Clone, Debug, PartialEq)]
pub struct Judgement {
    pub verdict: Verdict,
    pub by: String,
    pub grant: Option<String>,
    pub terms: Terms,
}

/// What an approval needs, and what happens while nobody gives it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Terms {
    pub quorum: u32,
    pub approvers: Vec<String>,
    pub expires_in_ms: Option<u64>,
    pub on_expiry: Expiry,
    pub remind_in_ms: Option<u64>,
    pub escalate_in_ms: Option<u64>,
    pub escalate_to: Vec<String>,
}

impl Terms {
    pub(crate) fn is_default(&self) -> bool {
        *self == Self::default()
    }
}

impl Default for Terms {
    fn default() -> Self {
        Self {
            quorum: 1,
            approvers: Vec::new(),
            expires_in_ms: None,
            on_expiry: Expiry::Deny,
            remind_in_ms: None,
            escalate_in_ms: None,
            escalate_to: Vec::new(),
        }
    }
}

/// What silence means.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Expiry {
    #[default]
    Deny,
    Approve,
}

impl Policy {
    pub fn digest(&self) -> Digest {
        Digest::default().chain(self)
    }
    pub fn holds(&self, _grant: &str, _now: Timestamp) -> bool {
        false
    }
    pub fn judge(&self, subject: &Subject<'_>) -> Judgement {
        let (verdict, by) = super::judge(self.auto_run, subject.annotations);
        Judgement { verdict, by: by.into(), grant: None, terms: Terms::default() }
    }
}
