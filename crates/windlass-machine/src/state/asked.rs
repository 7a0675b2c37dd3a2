//! An open interrupt in the state, and when the clock has something to say about it.
//!
//! What happens to it is folded in by the run.

use serde::{Deserialize, Serialize};

use crate::event::InterruptKind;
use crate::id::{InterruptId, Principal, Timestamp};
use crate::policy::Terms;

/// Who approved, and the roles that they had.
pub type Approval = (Principal, Vec<String>);

/// An open interrupt.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Asked {
    /// Its id.
    pub interrupt: InterruptId,
    /// What is asked.
    pub kind: InterruptKind,
    /// Whose reply counts, how many are needed, and what silence means.
    pub terms: Terms,
    /// Since when.
    pub since: Timestamp,
    /// Who has approved so far.
    pub votes: Vec<Approval>,
    /// Whether somebody was reminded.
    pub reminded: bool,
    /// Whether others were told.
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

    /// When silence is taken for an answer.
    pub fn expires_at(&self) -> Option<Timestamp> {
        self.terms.expires_in_ms.map(|ms| self.since.plus_ms(ms))
    }

    /// When somebody is to be reminded.
    pub fn remind_at(&self) -> Option<Timestamp> {
        self.terms.remind_in_ms.filter(|_| !self.reminded).map(|ms| self.since.plus_ms(ms))
    }

    /// When others are to be told.
    pub fn escalate_at(&self) -> Option<Timestamp> {
        self.terms.escalate_in_ms.filter(|_| !self.escalated).map(|ms| self.since.plus_ms(ms))
    }

    /// When the clock has something to say about it.
    pub fn deadline(&self) -> Option<Timestamp> {
        [self.expires_at(), self.remind_at(), self.escalate_at()].into_iter().flatten().min()
    }
}
