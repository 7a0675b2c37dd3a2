//! An independent model of interrupts: whose approval counts, how many are needed, and the effect of an answer.
//!
//! It does not decide when a call may start.

use windlass_machine::*;

use super::Reference;
use super::call::{Leave, ReferenceCall, effect, open, opened};
use crate::fixture;

/// An open interrupt.
#[derive(Clone, Debug)]
pub struct ReferenceAsked {
    pub interrupt: InterruptId,
    pub kind: InterruptKind,
    pub terms: Terms,
    pub since: Timestamp,
    pub votes: Vec<Principal>,
    pub escalated: bool,
}

impl ReferenceAsked {
    /// Counts an approval by a permitted approver.
    fn approved(&self, by: &Principal) {
        let counts = fixture::may_approve(by.as_str(), fixture::roles_of(by.as_str()), &self.terms);
        assert!(counts, "{by} approved {self:?}");
        let edits_again = self.votes.contains(by);
        assert!(!edits_again || !self.has_enough(), "{by} approved twice");
    }

    fn has_enough(&self) -> bool {
        let mut votes: Vec<&str> = self.votes.iter().map(Principal::as_str).collect();
        votes.sort_unstable();
        votes.dedup();
        fixture::are_enough(&votes, &self.terms)
    }
}

impl Reference {
    pub(super) fn see_interrupt(&mut self, fact: &Fact) {
        match fact {
            Fact::InterruptOpened { interrupt, kind, call, terms } => {
                assert!(self.interrupts.insert(interrupt.clone()), "interrupt {interrupt} twice");
                let asked = ReferenceAsked {
                    interrupt: interrupt.clone(),
                    kind: kind.clone(),
                    terms: terms.clone(),
                    since: self.at,
                    votes: Vec::new(),
                    escalated: false,
                };
                let run = self.run();
                assert!(run.cancel.is_none(), "asked while it is being stopped");
                match call {
                    Some(call) => opened(open(run, *call), asked),
                    None => {
                        assert!(!run.calling && !run.has_open_calls() && run.parked.is_none());
                        (run.parked, run.retry_at) = (Some(asked), None);
                        self.refused = false;
                    }
                }
            }
            Fact::InterruptVoted { interrupt, by, roles } => {
                self.check_voter(interrupt, by, roles);
                let asked = self.asked(interrupt);
                asked.approved(by);
                asked.votes.push(by.clone());
                assert!(!asked.has_enough(), "one vote too many");
            }
            Fact::InterruptReminded { interrupt } => {
                let now = self.at;
                let asked = self.asked(interrupt);
                assert!(now >= asked.since.plus_ms(asked.terms.remind_in_ms.expect("a reminder")));
            }
            Fact::InterruptEscalated { interrupt, to } => {
                let now = self.at;
                let asked = self.asked(interrupt);
                assert_eq!(*to, asked.terms.escalate_to);
                assert!(now >= asked.since.plus_ms(asked.terms.escalate_in_ms.expect("an escalation")));
                assert!(!std::mem::replace(&mut asked.escalated, true), "escalated twice");
            }
            Fact::InterruptClosed { interrupt, answer, by, roles } => {
                self.closed(interrupt, answer, (by, roles));
            }
            other => unreachable!("{other:?} is not about an interrupt"),
        }
    }

    fn asked(&mut self, interrupt: &InterruptId) -> &mut ReferenceAsked {
        let run = self.run();
        let calls = run.calls.iter_mut().filter_map(|call| call.asked.as_mut());
        let mut all = run.parked.iter_mut().chain(calls);
        all.find(|asked| asked.interrupt == *interrupt).expect("an open interrupt")
    }

    /// Checks that the person may answer, and that the recorded roles are correct.
    fn check_voter(&mut self, interrupt: &InterruptId, by: &Principal, roles: &[String]) {
        let owner = self.owner.clone();
        let for_whom = self.run().by.clone();
        let owners: Vec<&str> = owner.iter().chain([&for_whom]).map(Principal::as_str).collect();
        let asked = self.asked(interrupt);
        let own = fixture::roles_of(by.as_str());
        assert_eq!(roles, own, "other roles of {by} were recorded");
        assert!(fixture::may_answer(&owners, by.as_str(), own, &asked.terms), "{by} replied to {asked:?}");
    }

    fn closed(&mut self, interrupt: &InterruptId, answer: &Answer, (by, roles): (&Principal, &[String])) {
        let asked = self.asked(interrupt).clone();
        let the_policys = by.as_str() == "policy";
        if !the_policys && by.as_str() != "engine" {
            self.check_voter(interrupt, by, roles);
            if matches!(answer, Answer::Approve | Answer::Edit { .. } | Answer::Raise { .. }) {
                asked.approved(by);
            }
        }
        let late = asked.terms.expires_in_ms.is_some_and(|ms| self.at >= asked.since.plus_ms(ms));
        // The policy withdraws interrupts and allows calls; it only denies on expiry.
        assert!(!the_policys || late || matches!(answer, Answer::Approve | Answer::Withdrawn));
        if let (InterruptKind::Limit(limit), Answer::Raise { to }) = (&asked.kind, answer) {
            assert!(*to > limit.figure && *to > limit.used, "raised to what is no more");
            let figure = self.run().raised.entry(limit.limit.clone()).or_default();
            *figure = (*figure).max(*to);
        }
        let run = self.run();
        if run.parked.take_if(|parked| parked.interrupt == *interrupt).is_some() {
            return;
        }
        let is_about = |call: &ReferenceCall| call.asked.as_ref().is_some_and(|a| a.interrupt == *interrupt);
        let index = run.calls.iter().position(is_about).expect("an open interrupt");
        let id = effect(&run.id, CallKey { step: run.attempt.step, index: index as u32 });
        let call = &mut run.calls[index];
        call.asked = None;
        call.by_people = !the_policys;
        let is_leave = matches!(asked.kind, InterruptKind::Approval { .. } | InterruptKind::Hook { .. });
        run.denied += u32::from(is_leave && !the_policys && matches!(answer, Answer::Deny { .. }));
        call.leave = match (&asked.kind, answer) {
            (InterruptKind::Approval { .. } | InterruptKind::Hook { .. }, Answer::Approve) => {
                let mut asked = asked.clone();
                asked.votes.push(by.clone());
                assert!(the_policys || asked.has_enough(), "not enough for {asked:?}");
                call.approved_preview = call.shown;
                // If the policy now allows the call, a verdict follows.
                let released = the_policys && !(late && asked.terms.on_expiry == Expiry::Approve);
                (!released).then_some(Leave::Approved(call.approval))
            }
            (InterruptKind::Approval { .. } | InterruptKind::Hook { .. }, Answer::Edit { .. }) => {
                Some(Leave::Approved(call.approval))
            }
            (
                InterruptKind::Question(_) | InterruptKind::SignIn { .. } | InterruptKind::Handoff { .. },
                Answer::Reply(_) | Answer::Deny { .. },
            ) => Some(Leave::Replied),
            (InterruptKind::InDoubt { .. }, Answer::Retry) => Some(Leave::Retry),
            _ => None, // tidy: the others let nothing be dispatched
        };
        call.in_doubt = false;
        if call.leave == Some(Leave::Retry) {
            *self.retries.entry(id).or_default() += 1;
        }
    }
}
