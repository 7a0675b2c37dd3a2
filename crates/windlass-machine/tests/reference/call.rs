//! An independent model of the life of a call.

use std::sync::Arc;

use windlass_machine::*;

use super::{Reference, ReferenceAsked, ReferenceRun};

/// A permission to dispatch a call. A dispatch uses it up.
#[derive(Clone, Debug, PartialEq)]
pub enum Leave {
    /// The gate allowed the call.
    Allowed,
    /// People, or the policy on expiry, approved exactly this call.
    Approved(Digest),
    /// The call's own question was answered.
    Replied,
    /// A person said that the call was not done.
    Retry,
}

/// Activity of a call without a result.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Doing {
    Nothing,
    Running,
    /// Deferred until this time.
    Sleeping(Timestamp),
    /// A preview is being made; `again` if the call was already approved.
    Looking {
        again: bool,
    },
    /// A read for the outcome is in flight; the number of the read.
    Reading(u32),
    /// Another read for the outcome will follow.
    Unresolved,
}

#[derive(Clone, Debug)]
pub struct ReferenceCall {
    pub call: ToolCall,
    pub class: EffectClass,
    pub leave: Option<Leave>,
    /// The permission that its newest start has used up, and whether the call was parked.
    spent: (Option<Leave>, bool),
    /// Whether people gave the permission.
    pub by_people: bool,
    pub asked: Option<ReferenceAsked>,
    pub in_doubt: bool,
    pub parked: bool,
    pub doing: Doing,
    pub starts: u32,
    /// Starts since the last deferral.
    pub tries: u32,
    /// Whether its rest may be repeated, whatever its class.
    pub watches: bool,
    pub looks: u32,
    /// Digest that an approval is bound to.
    pub approval: Digest,
    pub previews: bool,
    /// The preview shown last, and the one that was approved.
    pub shown: Option<Digest>,
    pub approved_preview: Option<Digest>,
    pub result: Option<ToolResult>,
    /// Summary that the model sees instead of the result.
    pub summary: Option<Content>,
}

impl ReferenceCall {
    pub(super) fn new(call: &ToolCall) -> Self {
        Self {
            call: call.clone(),
            class: EffectClass::Once,
            leave: None,
            spent: (None, false),
            by_people: false,
            asked: None,
            in_doubt: false,
            parked: false,
            doing: Doing::Nothing,
            starts: 0,
            tries: 0,
            watches: false,
            looks: 0,
            approval: Digest::default(),
            previews: false,
            shown: None,
            approved_preview: None,
            result: None,
            summary: None,
        }
    }

    /// Whether the call occupies its place in the line without having a result.
    pub(super) fn holds_its_place(&self) -> bool {
        matches!(self.doing, Doing::Running | Doing::Sleeping(_) | Doing::Looking { again: true })
    }

    pub(super) fn may_be_repeated(&self) -> bool {
        match self.class {
            EffectClass::Pure | EffectClass::Idempotent | EffectClass::Keyed => true,
            EffectClass::Reconcile { .. } | EffectClass::Once => self.watches,
        }
    }

    /// Whether the call has a permission to be dispatched in its current form.
    pub(super) fn has_leave(&self) -> bool {
        let shown = self.approved_preview.is_some();
        match &self.leave {
            Some(Leave::Approved(approval)) => {
                let seen = !self.previews || shown && self.approved_preview == self.shown;
                *approval == self.approval && seen
            }
            Some(Leave::Replied | Leave::Retry) => !self.is_approved_as_shown() || self.was_looked_up(),
            Some(Leave::Allowed) => true,
            None => false,
        }
    }

    /// Whether the call is deferred and its time has not come.
    fn sleeps(&self, now: Timestamp) -> bool {
        matches!(self.doing, Doing::Sleeping(until) if until > now)
    }

    /// Whether people have approved the call with a preview.
    pub(super) fn is_approved_as_shown(&self) -> bool {
        self.previews && self.approved_preview.is_some()
    }

    /// Whether that preview was made again and is the same.
    fn was_looked_up(&self) -> bool {
        self.doing == (Doing::Looking { again: true }) && self.approved_preview == self.shown
    }
}

impl Reference {
    pub(super) fn see_call(&mut self, fact: &Fact) {
        let now = self.at;
        let run = self.run.as_mut().expect("a run is active");
        match fact {
            Fact::CallJudged { call, verdict, class, approval, previews, .. } => {
                let call = open(run, *call);
                assert!(call.asked.is_none(), "judged while an interrupt is open");
                // The policy no longer allows a repetition, so the lost call stays lost.
                let lost = call.doing == Doing::Running;
                assert!(!call.sleeps(now), "judged while it sleeps");
                assert!(
                    !lost || *verdict != Verdict::Allow && call.may_be_repeated(),
                    "judged while it runs"
                );
                (call.class, call.approval, call.previews) = (*class, *approval, *previews);
                call.doing = Doing::Nothing;
                call.leave = match verdict {
                    Verdict::Allow => Some(Leave::Allowed),
                    // A call that asks people needs no permission; a call with an open interrupt loses it.
                    Verdict::Ask => call.leave.take().filter(|leave| *leave == Leave::Replied),
                    Verdict::Deny => None,
                };
                call.approved_preview.take_if(|_| *verdict == Verdict::Allow);
            }
            Fact::GrantUsed { call, .. } => assert_eq!(open(run, *call).leave, Some(Leave::Allowed)),
            Fact::CallEdited { call, approval, .. } => {
                let call = open(run, *call);
                assert!(call.asked.is_some(), "edited unasked");
                (call.approval, call.shown, call.approved_preview) = (*approval, None, None);
            }
            Fact::CallPreviewing { call, recheck, .. } => {
                let call = open(run, *call);
                let repeats = call.doing == Doing::Running && call.may_be_repeated() && *recheck;
                let wakes = matches!(call.doing, Doing::Sleeping(_)) && !call.sleeps(now) && *recheck;
                let rests = call.doing == Doing::Nothing || repeats || wakes;
                assert!(rests && call.asked.is_none() && call.previews);
                let approved = matches!(call.leave, Some(Leave::Approved(_))) || call.is_approved_as_shown();
                assert!(!recheck || approved);
                call.leave = recheck.then_some(Leave::Approved(call.approval));
                (call.doing, call.looks) = (Doing::Looking { again: *recheck }, call.looks + 1);
            }
            Fact::CallPreviewed { call, digest, .. } => previewed(open(run, *call), *digest),
            Fact::ToolStarted { call } => {
                self.refused = false;
                let index = call.index as usize;
                assert!(run.may_start(index, now), "{call:?} may not start: {:?}", run.calls);
                let id = effect(&run.id, *call);
                let call = &mut run.calls[index];
                let approved = matches!(call.leave, Some(Leave::Approved(_))) && call.by_people;
                run.approved += u32::from(approved && call.starts == 0);
                // A repetition and a resumed call need no permission of their own.
                let again = matches!(call.doing, Doing::Running | Doing::Sleeping(_));
                let leave = match (again, &call.spent.0) {
                    (true, Some(Leave::Replied)) => Some(Leave::Replied),
                    (true, _) => Some(Leave::Retry),
                    (false, _) => call.leave.take(),
                };
                call.spent = (leave, call.parked);
                call.leave = None;
                if call.parked {
                    *self.replies.entry(id.clone()).or_default() += 1;
                }
                (call.doing, call.starts, call.parked) = (Doing::Running, call.starts + 1, false);
                call.tries += 1;
                run.dispatched += u32::from(call.starts == 1);
                *self.starts.entry(id).or_default() += 1;
            }
            Fact::ToolUndispatched { call } => self.undispatched(*call),
            Fact::ToolParked { .. }
            | Fact::ToolDeferred { .. }
            | Fact::ToolKept { .. }
            | Fact::FileChanging { .. }
            | Fact::ResultOffloaded { .. } => self.see_running(fact),
            Fact::ToolReconciling { call, attempt, .. } => {
                let call = open(run, *call);
                assert!(matches!(call.class, EffectClass::Reconcile { .. }) && call.asked.is_none());
                assert_eq!(call.doing, if *attempt == 1 { Doing::Running } else { Doing::Unresolved });
                call.doing = Doing::Reading(*attempt);
            }
            Fact::ToolUnresolved { call, .. } => {
                let call = open(run, *call);
                assert!(matches!(call.doing, Doing::Reading(_)));
                call.doing = Doing::Unresolved;
            }
            Fact::ToolInDoubt { call, .. } => {
                let call = open(run, *call);
                assert!(matches!(call.doing, Doing::Running | Doing::Reading(_)));
                assert!(call.class != EffectClass::Pure && call.starts > 0);
                (call.doing, call.in_doubt, call.leave) = (Doing::Nothing, true, None);
                self.doubts += 1;
            }
            Fact::ToolFinished { call, outcome, .. } => {
                self.finished(*call, *outcome, fact);
            }
            other => unreachable!("{other:?} is not about a call"),
        }
    }

    /// Reverts a start.
    fn undispatched(&mut self, key: CallKey) {
        let run = self.run.as_mut().expect("a run is active");
        let id = effect(&run.id, key);
        let call = open(run, key);
        assert_eq!(call.doing, Doing::Running, "a start is taken back of a call that does not run");
        (call.doing, call.starts, call.tries) = (Doing::Nothing, call.starts - 1, call.tries - 1);
        // The permission that the start used up is available again.
        (call.leave, call.parked) = call.spent.clone();
        let is_first = call.starts == 0;
        let approved = is_first && matches!(call.leave, Some(Leave::Approved(_))) && call.by_people;
        run.approved -= u32::from(approved);
        run.dispatched -= u32::from(is_first);
        *self.starts.get_mut(&id).expect("it was started") -= 1;
        if run.calls[key.index as usize].parked {
            *self.replies.get_mut(&id).expect("it was replied to") -= 1;
        }
    }

    /// Handles what a running call reports.
    fn see_running(&mut self, fact: &Fact) {
        let run = self.run.as_mut().expect("a run is active");
        match fact {
            Fact::ToolParked { call, .. } => {
                let call = open(run, *call);
                assert_eq!(call.doing, Doing::Running);
                (call.doing, call.parked, call.watches) = (Doing::Nothing, true, false);
            }
            Fact::ToolDeferred { call: key, until, rest, .. } => {
                let id = effect(&run.id, *key);
                assert!(run.cancel.is_none(), "put off while the run is being stopped");
                let call = open(run, *key);
                assert_eq!(call.doing, Doing::Running);
                (call.doing, call.parked, call.tries) = (Doing::Sleeping(*until), true, 0);
                call.watches = *rest == Rest::Repeatable;
                if call.watches {
                    self.watched.insert(id);
                }
            }
            Fact::ResultOffloaded { call, summary, .. } => {
                let call = open(run, *call);
                assert_eq!(call.doing, Doing::Running);
                call.summary = Some(summary.clone());
            }
            Fact::FileChanging { call: key, .. } => {
                assert_eq!(
                    open(run, *key).doing,
                    Doing::Running,
                    "a file is changed by a call that does not run"
                );
            }
            Fact::ToolKept { call: key, name, value } => {
                assert_eq!(open(run, *key).doing, Doing::Running, "kept by a call that does not run");
                self.kept.insert(name.clone(), value.clone());
            }
            other => unreachable!("{other:?} is reported by no running call"),
        }
    }

    fn finished(&mut self, call: CallKey, outcome: Outcome, fact: &Fact) {
        let Fact::ToolFinished { content, error, .. } = fact else { unreachable!("{fact:?} is no result") };
        let run = self.run.as_mut().expect("a run is active");
        let call = open(run, call);
        let dispatched = call.starts > 0;
        match outcome {
            Outcome::Returned => assert_eq!(call.doing, Doing::Running),
            Outcome::Unavailable => assert!(!dispatched || call.class == EffectClass::Pure),
            Outcome::Refused | Outcome::Denied | Outcome::Cancelled => {
                assert!(!dispatched || call.class == EffectClass::Pure, "{outcome:?} of a dispatched call");
            }
            Outcome::InDoubt => assert!(dispatched && call.doing != Doing::Running),
            // A person may provide a result for a call that a hook stopped.
            Outcome::Told => assert_eq!(call.doing, Doing::Nothing),
            Outcome::Reconciled => assert!(matches!(call.doing, Doing::Reading(_))),
        }
        assert!(call.asked.is_none(), "a result while it is asked");
        (call.doing, call.leave) = (Doing::Nothing, None);
        call.result = Some(ToolResult {
            call_id: call.call.id.clone(),
            name: call.call.name.clone(),
            content: content.clone(),
            error: *error,
        });
        if !run.has_open_calls() {
            let seen = |call: &ReferenceCall| {
                let mut result = call.result.clone()?;
                if let Some(summary) = &call.summary {
                    result.content[0] = Block::Text { text: summary.clone(), native: None };
                }
                Some(result)
            };
            let results = run.calls.iter().filter_map(seen);
            let blocks = results.map(Block::ToolResult).collect();
            self.history.push(Arc::new(Message { role: Role::Tool, blocks }));
        }
    }
}

/// A call opens an interrupt that fits its status; earlier permissions end.
pub(super) fn opened(call: &mut ReferenceCall, asked: ReferenceAsked) {
    assert!(call.doing == Doing::Nothing && call.asked.is_none());
    assert_eq!(call.in_doubt, matches!(asked.kind, InterruptKind::InDoubt { .. }));
    match &asked.kind {
        InterruptKind::Approval { approval, preview, .. } => {
            assert_eq!(*approval, call.approval, "asked about another call");
            assert_eq!(preview.is_some(), call.previews, "asked without what it would do");
        }
        InterruptKind::Question(_) | InterruptKind::SignIn { .. } | InterruptKind::Handoff { .. } => {
            assert!(call.parked || call.starts == 0);
        }
        // A person who answers a hook sees no preview.
        InterruptKind::Hook { .. } => call.shown = None,
        InterruptKind::InDoubt { .. } | InterruptKind::Limit(_) => {}
    }
    (call.asked, call.leave) = (Some(asked), None);
}

/// Returns a call without a result; a second result for it is an error.
pub(super) fn open(run: &mut ReferenceRun, key: CallKey) -> &mut ReferenceCall {
    assert_eq!(key.step, run.attempt.step);
    let call = &mut run.calls[key.index as usize];
    assert!(call.result.is_none(), "{key:?} has a result already");
    call
}

pub(super) fn effect(run: &RunId, key: CallKey) -> EffectId {
    EffectId::from(format!("t/{run}/{}/{}", key.step, key.index))
}

fn previewed(call: &mut ReferenceCall, digest: Digest) {
    assert!(matches!(call.doing, Doing::Looking { .. }));
    call.shown = Some(digest);
    let same = call.approved_preview == call.shown;
    if call.doing == (Doing::Looking { again: false }) || !same {
        (call.doing, call.leave) = (Doing::Nothing, None);
    }
}
