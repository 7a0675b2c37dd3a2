//! What may become of a call, said a second time.

use std::sync::Arc;

use windlass_machine::*;

use super::{Reference, ReferenceAsked, ReferenceRun};

/// Why a call may be dispatched. A dispatch uses it up.
#[derive(Clone, Debug, PartialEq)]
pub enum Leave {
    /// The gate says so.
    Allowed,
    /// People, or the policy in their place, said so of exactly this.
    Approved(Digest),
    /// What the call asked was replied to.
    Replied,
    /// A person said that it was not done.
    Retry,
}

/// Where a call stands whose outcome is not at hand.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Doing {
    Nothing,
    Running,
    /// Put off until then.
    Sleeping(Timestamp),
    /// Its preview is looked up, the second time after an approval.
    Looking {
        again: bool,
    },
    /// Its outcome is read; the try.
    Reading(u32),
    /// Its outcome will be read again.
    Unresolved,
}

#[derive(Clone, Debug)]
pub struct ReferenceCall {
    pub call: ToolCall,
    pub class: EffectClass,
    pub leave: Option<Leave>,
    /// What its newest start has used up: the leave, and whether it was parked.
    spent: (Option<Leave>, bool),
    /// Whether people said so.
    pub by_people: bool,
    pub asked: Option<ReferenceAsked>,
    pub in_doubt: bool,
    pub parked: bool,
    pub doing: Doing,
    pub starts: u32,
    /// Starts since it was put off.
    pub tries: u32,
    /// Whether what is left of it may be repeated, whatever its class.
    pub watches: bool,
    pub looks: u32,
    /// What an approval is bound to.
    pub approval: Digest,
    pub previews: bool,
    /// The preview that was shown last, and the one that was approved.
    pub shown: Option<Digest>,
    pub approved_preview: Option<Digest>,
    pub result: Option<ToolResult>,
    /// What the model sees of it instead.
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

    /// Whether it stands in its place of the line, and is not over.
    pub(super) fn holds_its_place(&self) -> bool {
        matches!(self.doing, Doing::Running | Doing::Sleeping(_) | Doing::Looking { again: true })
    }

    pub(super) fn may_be_repeated(&self) -> bool {
        match self.class {
            EffectClass::Pure | EffectClass::Idempotent | EffectClass::Keyed => true,
            EffectClass::Reconcile { .. } | EffectClass::Once => self.watches,
        }
    }

    /// Whether somebody or something lets it be dispatched as it stands now.
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

    /// Whether the time to which it was put off is still to come.
    fn sleeps(&self, now: Timestamp) -> bool {
        matches!(self.doing, Doing::Sleeping(until) if until > now)
    }

    /// Whether people have approved it beside a preview.
    pub(super) fn is_approved_as_shown(&self) -> bool {
        self.previews && self.approved_preview.is_some()
    }

    /// Whether that preview was looked up again, and is the same.
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
                assert!(call.asked.is_none(), "judged while somebody is asked");
                // A repeat that the policy does not let through any more: what was lost stays lost.
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
                    // A call that asks people needs no leave; one that is asked about loses it.
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
                // A repeat, and a call whose time had come, needed no leave of their own.
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

    /// A start is taken back.
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

    /// What a call tells while it runs.
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
            other => unreachable!("{other:?} is told by no call that runs"),
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
            // Somebody may tell a result in place of a call that a hook stopped.
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

/// A call asks: what it asks suits where it stands, and no leave outlives the question.
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
        // Whoever lets it go on is shown no preview.
        InterruptKind::Hook { .. } => call.shown = None,
        InterruptKind::InDoubt { .. } | InterruptKind::Limit(_) => {}
    }
    (call.asked, call.leave) = (Some(asked), None);
}

/// A call that has no result yet: a second result for it is a broken rule.
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
