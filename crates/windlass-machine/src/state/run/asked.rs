//! Folds interrupts into the run: opened, voted on, reminded, escalated and closed.
//!
//! This module folds recorded facts and makes no decisions.

use super::{POLICY, Phase, Run};
use crate::event::{Answer, Fact, InterruptKind};
use crate::id::{CallKey, InterruptId};
use crate::state::asked::{Approval, Asked};
use crate::state::call::CallStatus;

impl Run {
    pub(in crate::state) fn asked(&mut self, key: Option<CallKey>, asked: Asked) {
        let Some(key) = key else {
            self.phase = Phase::Parked(Box::new(asked));
            return;
        };
        let Some(call) = self.call_mut(key) else { return };
        if asked.kind.is_about_leave() {
            (call.terms, call.approved) = (asked.terms.clone(), false);
            call.asked_approval = Some(call.approval);
        }
        if matches!(asked.kind, InterruptKind::Hook { .. }) {
            // A person who answers a hook's question sees no preview.
            call.preview = None;
        }
        call.status = CallStatus::Asking(Box::new(asked));
        call.asks += 1;
    }

    /// Folds a change of an open interrupt.
    pub(in crate::state) fn asked_changed(&mut self, interrupt: &InterruptId, fact: &Fact) {
        let asked = match &mut self.phase {
            Phase::Parked(asked) => Some(&mut **asked),
            Phase::Calls(line) => line.calls.iter_mut().find_map(|call| {
                if let CallStatus::Asking(asked) = &mut call.status
                    && asked.interrupt == *interrupt
                {
                    return Some(&mut **asked);
                }
                None
            }),
            Phase::Ready | Phase::Calling | Phase::Retrying(_) => None,
        };
        let Some(asked) = asked.filter(|asked| asked.interrupt == *interrupt) else { return };
        if let Fact::InterruptVoted { by, roles, .. } = fact {
            asked.votes.push((by.clone(), roles.clone()));
        }
        asked.reminded |= matches!(fact, Fact::InterruptReminded { .. });
        asked.escalated |= matches!(fact, Fact::InterruptEscalated { .. });
    }

    pub(in crate::state) fn asked_closed(&mut self, index: Option<usize>, answer: &Answer, by: Approval) {
        let Some(index) = index else {
            self.phase = Phase::Ready;
            return;
        };
        let key = CallKey { step: self.attempt.step, index: index as u32 };
        let Some(call) = self.call_mut(key) else { return };
        let CallStatus::Asking(asked) = std::mem::replace(&mut call.status, CallStatus::New) else { return };
        match (&asked.kind, answer) {
            (_, Answer::Withdrawn) | (InterruptKind::Limit(_), _) => {}
            (InterruptKind::Approval { .. } | InterruptKind::Hook { .. }, Answer::Approve) => {
                (call.status, call.approved) = (CallStatus::Ready, true);
                // On expiry, the policy approves instead of a person. The
                // earlier votes did not suffice, so they are dropped.
                let by_time = by.0.as_str() == POLICY;
                call.approvals =
                    if by_time { Vec::new() } else { asked.votes.into_iter().chain([by]).collect() };
            }
            (InterruptKind::Approval { .. } | InterruptKind::Hook { .. }, Answer::Edit { .. }) => {
                // The other votes were for other arguments.
                (call.status, call.approved, call.approvals) = (CallStatus::Ready, true, vec![by]);
            }
            (InterruptKind::InDoubt { .. }, Answer::Retry) => {
                // Earlier approvals of the call in its current form still count. The rules decide whether they
                // suffice.
                let by_time = call.approved && call.approvals.is_empty();
                if !call.approved {
                    call.approvals.clear();
                }
                if !by_time {
                    call.approvals.push(by);
                }
                (call.status, call.approved) = (CallStatus::Ready, true);
            }
            (
                InterruptKind::Question(_) | InterruptKind::SignIn { .. } | InterruptKind::Handoff { .. },
                answer,
            ) => {
                (call.status, call.reply) = (CallStatus::Ready, Some(answer.clone()));
                call.resumes = false;
            }
            (InterruptKind::Approval { .. } | InterruptKind::Hook { .. }, Answer::Deny { .. }) => {
                // The call's result follows in the same batch.
                self.totals.denied += u32::from(by.0.as_str() != POLICY);
            }
            // The call's result follows in the same batch.
            (
                InterruptKind::Approval { .. } | InterruptKind::Hook { .. } | InterruptKind::InDoubt { .. },
                _,
            ) => {}
        }
    }
}
