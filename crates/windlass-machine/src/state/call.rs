//! The calls of a step in the state: what is known of each, and where it stands.
//!
//! It decides nothing.

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
    /// The calls.
    pub calls: Vec<Call>,
    /// Results so far, each at its call's place.
    pub results: Vec<Option<ToolResult>>,
    /// What the model sees in place of the first part of a result, by the call's place.
    pub summaries: BTreeMap<u32, Content>,
}

/// A call of the step.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Call {
    /// The provider's id of the call.
    pub id: String,
    /// The tool.
    pub tool: ToolName,
    /// The arguments that are sent.
    pub arguments: Content,
    /// Where it stands.
    pub status: CallStatus,
    /// What may be done again.
    pub class: EffectClass,
    /// The version of the policy that it was judged by; 0 where it was not.
    pub view: u64,
    /// How often it was started.
    pub starts: u32,
    /// When it was started last.
    pub started_at: Option<Timestamp>,
    /// What is known of an outcome that is not.
    pub doubt: Option<Doubt>,
    /// How often it was started since it was last put off: what crashes and hangs have cost it.
    pub tries: u32,
    /// Starts that were taken back before their dispatch.
    pub undispatched: u32,
    /// How often an outside reply was asked for.
    pub asks: u32,
    /// How often it was put off.
    pub deferrals: u32,
    /// How the arguments came to differ from what the model asked.
    pub changed: Option<Changed>,
    /// What an approval of it is bound to.
    pub approval: Digest,
    /// The approval digest of the first verdict; absent before it.
    pub first_approval: Option<Digest>,
    /// The approval digest that people were last asked about; absent if they were not asked.
    pub asked_approval: Option<Digest>,
    /// Whether a person has approved it as it stands.
    pub approved: bool,
    /// Who did; nobody, where the policy did in time.
    pub approvals: Vec<Approval>,
    /// The terms on which it is asked about.
    pub terms: Terms,
    /// The grant that let it through.
    pub grant: Option<String>,
    /// Whether what it would do is looked up for people.
    pub previews: bool,
    /// How often that was done.
    pub looks: u32,
    /// What it would do, as people were shown it.
    pub preview: Option<Digest>,
    /// What was said to what it asked, for the tool; one that was put off since has had it.
    pub reply: Option<Answer>,
    /// What the tool wants back with that, or when a time has come.
    pub parked: Option<Content>,
    /// Whether its next start, or the one at hand, is that of a call that was put off.
    pub resumes: bool,
    /// What may be done again of what is left of it.
    pub rest: Rest,
}

/// What is known of a dispatched call whose outcome is unknown.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Doubt {
    /// The effect's stable id.
    pub effect: EffectId,
    /// Why it is unknown.
    pub reason: String,
}

/// How a call's arguments came to differ from what the model asked.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Changed {
    /// Near-JSON was repaired. (SK-L11)
    Repaired,
    /// A person edited them.
    Edited,
}

/// Where a call stands.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum CallStatus {
    /// Not judged yet; only between two events of one batch.
    New,
    /// What it would do is being looked up. The flag says that it was approved already.
    Previewing {
        /// Whether the same preview as before starts it.
        recheck: bool,
    },
    /// Waits for an outside reply.
    Asking(Box<Asked>),
    /// May start once its place in the line comes.
    Ready,
    /// Dispatched.
    Started,
    /// Dispatched before, and nothing of it is in flight: it goes on at a time.
    Deferred {
        /// When.
        until: Timestamp,
    },
    /// Dispatched, its outcome lost, and a read that may tell it is on its way.
    Reconciling {
        /// Which try.
        attempt: u32,
        /// When it is in doubt.
        until: Timestamp,
    },
    /// As before; the next read comes at a time.
    Unresolved {
        /// Tries so far.
        attempts: u32,
        /// When it is in doubt.
        until: Timestamp,
        /// When the next read comes.
        retry_at: Timestamp,
    },
    /// Has its result.
    Done,
}

impl CallStatus {
    /// Whether the time has come to which the call was put off.
    pub fn is_due(&self, now: Timestamp) -> bool {
        matches!(self, Self::Deferred { until } if *until <= now)
    }

    /// The interrupt that is open about the call.
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
    /// How many calls wait for an outside reply.
    pub fn asking(&self) -> usize {
        self.calls.iter().filter(|call| call.status.asked().is_some()).count()
    }

    /// Whether something of it is in flight, or is looked after by the clock until it ends.
    pub(super) fn goes_on(&self) -> bool {
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

    /// How many calls wait for a time.
    pub fn deferred(&self) -> usize {
        self.calls.iter().filter(|call| matches!(call.status, CallStatus::Deferred { .. })).count()
    }

    /// Whether every call has its result.
    pub fn is_done(&self) -> bool {
        self.calls.iter().all(|call| call.status == CallStatus::Done)
    }
}

impl Call {
    /// Whether it may be started again without anybody's word when its outcome was lost.
    pub(crate) fn is_repeatable(&self) -> bool {
        match self.class {
            EffectClass::Pure | EffectClass::Idempotent | EffectClass::Keyed => true,
            EffectClass::Reconcile { .. } | EffectClass::Once => self.rest == Rest::Repeatable,
        }
    }

    /// Whether it was dispatched before, is not running, and may have done what it does.
    pub(crate) fn may_have_changed_something(&self) -> bool {
        self.starts > 0 && self.class != EffectClass::Pure
    }

    /// Whether people, and not the policy in their place, have approved it as it stands.
    pub(crate) fn is_approved_by_people(&self) -> bool {
        self.approved && !self.approvals.is_empty()
    }

    /// Takes back the start at hand.
    pub(super) fn undispatched(&mut self) {
        self.status = CallStatus::Ready;
        (self.starts, self.tries) = (self.starts.saturating_sub(1), self.tries.saturating_sub(1));
        self.undispatched += 1;
    }

    pub(super) fn deferred(&mut self, until: Timestamp, state: &Option<Content>, rest: Rest) {
        self.status = CallStatus::Deferred { until };
        // What people have said before stays said; the tool has had it.
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
                // What the gate lets through nobody has approved, even where somebody was asked before.
                (self.status, self.grant, self.approved) = (CallStatus::Ready, None, false);
                self.preview = None;
            }
            // What is asked or said follows in the same batch.
            Verdict::Ask | Verdict::Deny => {}
        }
    }
}
