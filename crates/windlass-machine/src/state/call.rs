//! The calls of a step in the state, each with its status.
//!
//! This module makes no decisions.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use super::asked::{Approval, Asked};
use crate::agent::EffectClass;
use crate::event::{Answer, Fact, Rest, Verdict};
use crate::id::{Digest, EffectId, Timestamp, ToolName};
use crate::message::{Content, ToolResult};
use crate::policy::Terms;

/// The calls of a step, in the reply's order.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Line {
    /// The calls of the step.
    pub calls: Vec<Call>,
    /// Available results, at the indexes of their calls.
    pub results: Vec<Option<ToolResult>>,
    /// Summaries that replace the first part of a result for the model, by call index.
    pub summaries: BTreeMap<u32, Content>,
}

/// A call of the step.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Call {
    /// The provider's id of the call.
    pub id: String,
    /// Name of the tool.
    pub tool: ToolName,
    /// The arguments to send.
    pub arguments: Content,
    /// Current status.
    pub status: CallStatus,
    /// Determines whether the call may be repeated after a lost outcome.
    pub class: EffectClass,
    /// Version of the policy that judged the call; 0 before the verdict.
    pub view: u64,
    /// Number of starts.
    pub starts: u32,
    /// Time of the last start.
    pub started_at: Option<Timestamp>,
    /// Evidence about an unknown outcome.
    pub doubt: Option<Doubt>,
    /// Number of starts since the last deferral: each crash or hang adds one.
    pub tries: u32,
    /// Number of starts that were recorded but not dispatched.
    pub undispatched: u32,
    /// Number of interrupts about the call.
    pub asks: u32,
    /// Number of deferrals.
    pub deferrals: u32,
    /// The reason why the arguments differ from those that the model wrote.
    pub changed: Option<Changed>,
    /// Digest that an approval is bound to.
    pub approval: Digest,
    /// Approval digest of the first verdict; absent before it.
    pub first_approval: Option<Digest>,
    /// Approval digest of the last interrupt; absent if people were not asked.
    pub asked_approval: Option<Digest>,
    /// Whether the call is approved in its current form.
    pub approved: bool,
    /// The approvers; empty if the policy approved on expiry.
    pub approvals: Vec<Approval>,
    /// Terms of the call's approval.
    pub terms: Terms,
    /// The grant that allowed the call.
    pub grant: Option<String>,
    /// Whether approvers see a preview.
    pub previews: bool,
    /// Number of previews.
    pub looks: u32,
    /// Digest of the preview that people saw.
    pub preview: Option<Digest>,
    /// The answer to the tool's question. If the call was deferred
    /// after the answer, the tool has already received it.
    pub reply: Option<Answer>,
    /// Data that the tool gets back with the answer, or when it resumes.
    pub parked: Option<Content>,
    /// Whether the next or current start resumes a deferred call.
    pub resumes: bool,
    /// Determines whether the rest of a deferred call may be repeated.
    pub rest: Rest,
}

/// Evidence about a dispatched call with an unknown outcome.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Doubt {
    /// Stable id of the effect.
    pub effect: EffectId,
    /// The reason why the outcome is unknown.
    pub reason: String,
}

/// The reason why a call's arguments differ from those that the model wrote.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Changed {
    /// Almost valid JSON was repaired. (SK-L11)
    Repaired,
    /// A person edited the arguments.
    Edited,
}

/// Status of a call.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum CallStatus {
    /// Not judged yet. Exists only between two events of a batch, or while the tool is missing in this process.
    New,
    /// A preview is in progress.
    Previewing {
        /// Whether the call is already approved: an equal preview starts it.
        recheck: bool,
    },
    /// Waits for an outside answer.
    Asking(Box<Asked>),
    /// May start when it is next in the line.
    Ready,
    /// Dispatched.
    Started,
    /// Dispatched before; not in flight until it resumes.
    Deferred {
        /// Time at which the call resumes.
        until: Timestamp,
    },
    /// Dispatched with a lost outcome; a read that may reveal the outcome is in flight.
    Reconciling {
        /// Number of the read.
        attempt: u32,
        /// Time at which the call becomes in doubt.
        until: Timestamp,
    },
    /// Like `Reconciling`, between two reads.
    Unresolved {
        /// Number of finished reads.
        attempts: u32,
        /// Time at which the call becomes in doubt.
        until: Timestamp,
        /// Time of the next read.
        retry_at: Timestamp,
    },
    /// The call has its result.
    Done,
}

impl CallStatus {
    /// Whether the call is deferred and due.
    pub fn is_due(&self, now: Timestamp) -> bool {
        matches!(self, Self::Deferred { until } if *until <= now)
    }

    /// Returns the open interrupt about the call.
    pub fn asked(&self) -> Option<&Asked> {
        match self {
            Self::Asking(asked) => Some(asked),
            Self::New
            | Self::Previewing { .. }
            | Self::Ready
            | Self::Started
            | Self::Deferred { .. }
            | Self::Reconciling { .. }
            | Self::Unresolved { .. }
            | Self::Done => None,
        }
    }
}

impl Line {
    /// Returns the number of calls that wait for an outside answer.
    pub fn asking(&self) -> usize {
        self.calls.iter().filter(|call| call.status.asked().is_some()).count()
    }

    /// Whether a call is in flight, or has a read scheduled for its outcome.
    pub(super) fn has_calls_in_flight(&self) -> bool {
        self.calls.iter().any(|call| match call.status {
            CallStatus::Previewing { .. }
            | CallStatus::Started
            | CallStatus::Reconciling { .. }
            | CallStatus::Unresolved { .. } => true,
            CallStatus::New
            | CallStatus::Asking(_)
            | CallStatus::Ready
            | CallStatus::Deferred { .. }
            | CallStatus::Done => false,
        })
    }

    /// Returns the number of deferred calls.
    pub fn deferred(&self) -> usize {
        self.calls.iter().filter(|call| matches!(call.status, CallStatus::Deferred { .. })).count()
    }

    /// Whether every call has its result.
    pub fn is_done(&self) -> bool {
        self.calls.iter().all(|call| call.status == CallStatus::Done)
    }
}

impl Call {
    /// Whether the call may be started again automatically after its outcome was lost.
    pub(crate) fn is_repeatable(&self) -> bool {
        match self.class {
            EffectClass::Pure | EffectClass::Idempotent | EffectClass::Keyed => true,
            EffectClass::Reconcile { .. } | EffectClass::Once => self.rest == Rest::Repeatable,
        }
    }

    /// Whether the call was dispatched before and may have had effects.
    pub(crate) fn may_have_changed_something(&self) -> bool {
        self.starts > 0 && self.class != EffectClass::Pure
    }

    /// Whether people, rather than the policy on expiry, approved the call in its current form.
    pub(crate) fn is_approved_by_people(&self) -> bool {
        self.approved && !self.approvals.is_empty()
    }

    /// Reverts the current start.
    pub(super) fn undispatched(&mut self) {
        self.status = CallStatus::Ready;
        (self.starts, self.tries) = (self.starts.saturating_sub(1), self.tries.saturating_sub(1));
        self.undispatched += 1;
    }

    pub(super) fn deferred(&mut self, until: Timestamp, state: &Option<Content>, rest: Rest) {
        self.status = CallStatus::Deferred { until };
        // Earlier answers remain recorded; the tool has received them.
        self.parked = state.clone();
        (self.resumes, self.rest) = (true, rest);
        (self.deferrals, self.tries) = (self.deferrals + 1, 0);
    }

    pub(super) fn new(call: &crate::message::ToolCall) -> Self {
        Self {
            id: call.id.clone(),
            tool: call.name.clone(),
            arguments: call.asked.clone(),
            status: CallStatus::New,
            class: EffectClass::Once,
            view: 0,
            starts: 0,
            started_at: None,
            doubt: None,
            tries: 0,
            undispatched: 0,
            asks: 0,
            deferrals: 0,
            changed: None,
            approval: Digest::default(),
            first_approval: None,
            asked_approval: None,
            approved: false,
            approvals: Vec::new(),
            terms: Terms::default(),
            grant: None,
            previews: false,
            looks: 0,
            preview: None,
            reply: None,
            parked: None,
            resumes: false,
            rest: Rest::default(),
        }
    }

    pub(super) fn judged(&mut self, fact: &Fact) {
        let Fact::CallJudged { verdict, class, arguments, approval, previews, view, .. } = fact else {
            return;
        };
        (self.class, self.previews, self.view) = (*class, *previews, *view);
        self.first_approval.get_or_insert(*approval);
        if self.approval != *approval {
            (self.approval, self.approved, self.preview) = (*approval, false, None);
        }
        if let Some(arguments) = arguments {
            (self.arguments, self.changed) = (arguments.clone(), Some(Changed::Repaired));
        }
        match verdict {
            Verdict::Allow => {
                // The gate's verdict allows the call, so earlier approvals no longer matter.
                (self.status, self.grant, self.approved) = (CallStatus::Ready, None, false);
                self.preview = None;
            }
            // An interrupt or a result follows in the same batch.
            Verdict::Ask | Verdict::Deny => {}
        }
    }
}
