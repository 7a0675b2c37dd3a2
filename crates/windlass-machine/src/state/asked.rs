//! An open interrupt in the state, with its deadlines.
//!
//! `Run` folds answers, votes and reminders into the interrupt.

use serde::{Deserialize, Serialize};

use crate::event::InterruptKind;
use crate::id::{InterruptId, Principal, Timestamp};
use crate::policy::Terms;

/// An approver with the roles at the time of the approval.
pub type Approval = (Principal, Vec<String>);

/// An open interrupt.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Asked {
    /// Id that an answer names.
    pub interrupt: InterruptId,
    /// The input that the interrupt waits for.
    pub kind: InterruptKind,
    /// The approvers, the quorum, and the outcome on expiry.
    pub terms: Terms,
    /// Time at which the interrupt was opened.
    pub since: Timestamp,
    /// Given approvals, if several are needed.
    pub votes: Vec<Approval>,
    /// Whether the reminder was sent.
    pub reminded: bool,
    /// Whether the interrupt was escalated.
    pub escalated: bool,
}

impl Asked {
    pub(in crate::state) fn new(
        interrupt: &InterruptId,
        kind: &InterruptKind,
        terms: &Terms,
        since: Timestamp,
    ) -> Self {
        Self {
            interrupt: interrupt.clone(),
            kind: kind.clone(),
            terms: terms.clone(),
            since,
            votes: Vec::new(),
            reminded: false,
            escalated: false,
        }
    }

    /// Returns when the interrupt expires.
    pub fn expires_at(&self) -> Option<Timestamp> {
        self.terms.expires_in_ms.map(|ms| self.since.plus_ms(ms))
    }

    /// Returns when the reminder is due; `None` after it was sent.
    pub fn remind_at(&self) -> Option<Timestamp> {
        self.terms.remind_in_ms.filter(|_| !self.reminded).map(|ms| self.since.plus_ms(ms))
    }

    /// Returns when the escalation is due; `None` after it was sent.
    pub fn escalate_at(&self) -> Option<Timestamp> {
        self.terms.escalate_in_ms.filter(|_| !self.escalated).map(|ms| self.since.plus_ms(ms))
    }

    /// Returns the earliest deadline of the interrupt.
    pub fn deadline(&self) -> Option<Timestamp> {
        [self.expires_at(), self.remind_at(), self.escalate_at()].into_iter().flatten().min()
    }
}
