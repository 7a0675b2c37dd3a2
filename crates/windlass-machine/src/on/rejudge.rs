//! The policy or a tool changed while calls wait: what has not started is judged again.
//!
//! A tightened rule, a revoked grant, a changed schema and a path that leads elsewhere by now count for a call that waits
//! or was approved; a loosened rule releases it.

use super::line::{self, close};
use super::progress::after;
use super::record::{Planned, Recorder, Situation, line_of, nothing};
use super::verdict::{self, Judged};
use crate::event::{Answer, Fact, InterruptKind, Outcome, Verdict};
use crate::id::{InterruptId, Principal};
use crate::input::{Arguments, CallView, KnownCall, View};
use crate::reject::Reject;
use crate::state::{Call, CallStatus, POLICY};

pub(super) fn rejudged<'i>(s: Situation<'_>, view: &'i View) -> Planned<'i> {
    let run = s.active()?;
    if line_of(run).is_none() {
        return Err(Reject::Stale { what: "no calls are open".into() });
    }
    if run.cancel.is_some() {
        return Ok(nothing());
    }
    Ok(Box::new(move |r| {
        for index in 0..r.line().map_or(0, |line| line.calls.len()) {
            // It ends with its last result.
            if r.line().is_some() {
                judge_again(r, index, view);
            }
        }
        after(r);
    }))
}

fn judge_again(r: &mut Recorder<'_>, index: usize, view: &View) {
    let call = r.call(index);
    let waits = match call.status {
        // It came where its tool was not.
        CallStatus::New if index < view.calls.len() => return line::admit(r, index, view),
        CallStatus::Asking(_) | CallStatus::Ready | CallStatus::Previewing { .. } => true,
        // What may have changed by the time to which it was put off counts then, and not before.
        CallStatus::Deferred { .. } => call.status.is_due(r.now()),
        CallStatus::New
        | CallStatus::Started
        | CallStatus::Reconciling { .. }
        | CallStatus::Unresolved { .. }
        | CallStatus::Done => false,
    };
    if !waits || !is_outdated(call, view, index) {
        return;
    }
    match view.calls.get(index) {
        Some(CallView::Known(known)) => rejudge(r, index, known, view),
        Some(CallView::Unknown | CallView::Withheld { .. }) => gone(r, index),
        None => {}
    }
}

/// Whether a call was judged by another policy than the current one, or in another form than its current one.
fn is_outdated(call: &Call, view: &View, index: usize) -> bool {
    let is_another =
        |known: &KnownCall| unfit(known).is_none() && known.approval(&call.tool) != call.approval;
    call.view != view.version
        || matches!(view.calls.get(index), Some(CallView::Known(known)) if is_another(known))
}

fn rejudge(r: &mut Recorder<'_>, index: usize, known: &KnownCall, view: &View) {
    let call = r.call(index);
    let judged = verdict::judge(r, &call.tool, known, view);
    let asked = call.status.asked();
    match asked.map(|asked| &asked.kind) {
        Some(InterruptKind::Approval { .. } | InterruptKind::Hook { .. }) | None => {}
        // What a call itself asks is in vain where a rule denies the call; else it is judged with the reply.
        Some(InterruptKind::Question(_) | InterruptKind::SignIn { .. } | InterruptKind::Handoff { .. })
            if judged.verdict == Verdict::Deny || unfit(known).is_some() => {}
        // No rule has an opinion on other questions about a call.
        Some(_) => return,
    }
    let interrupt = asked.map(|asked| asked.interrupt.clone());
    if let Some(reason) = unfit(known).filter(|_| judged.verdict != Verdict::Deny) {
        if let Some(interrupt) = interrupt {
            take_back(r, interrupt, false);
        }
        return no_longer_fits(r, index, reason);
    }
    if keeps_its_verdict(r, index, &judged, known, view) {
        return;
    }
    if let Some(interrupt) = interrupt {
        take_back(r, interrupt, judged.verdict == Verdict::Allow);
    }
    line::judged(r, index, &judged, known, None, view);
    match judged.verdict {
        Verdict::Allow => {}
        Verdict::Ask => line::ask(r, index, judged),
        Verdict::Deny => line::denied(r, index, &judged),
    }
}

/// Whether what was decided about a call that waits holds by a new verdict, too.
fn keeps_its_verdict(
    r: &Recorder<'_>,
    index: usize,
    judged: &Judged,
    known: &KnownCall,
    view: &View,
) -> bool {
    let call = r.call(index);
    let same = judged.approval == call.approval;
    let stands = || still_stands(r, index, judged, known, view);
    match (judged.verdict, &call.status) {
        (Verdict::Deny, _) => false,
        // Another grant than the one that let it through has its use counted.
        (Verdict::Allow, CallStatus::Ready | CallStatus::Deferred { .. }) => {
            same && (judged.grant.is_none() || stands())
        }
        // People approved it, and what they approved is looked at once more: a grant that came with their
        // answer is for the next ones.
        (Verdict::Allow, CallStatus::Previewing { recheck: true }) => {
            same && judged.grant.is_some() && stands()
        }
        (
            Verdict::Allow,
            CallStatus::New
            | CallStatus::Asking(_)
            | CallStatus::Previewing { recheck: false }
            | CallStatus::Started
            | CallStatus::Reconciling { .. }
            | CallStatus::Unresolved { .. }
            | CallStatus::Done,
        ) => false,
        (Verdict::Ask, CallStatus::Asking(asked)) => same && asked.terms == judged.terms,
        (Verdict::Ask, CallStatus::Previewing { recheck: false }) => same && judged.terms == call.terms,
        (
            Verdict::Ask,
            CallStatus::New
            | CallStatus::Previewing { recheck: true }
            | CallStatus::Ready
            | CallStatus::Started
            | CallStatus::Deferred { .. }
            | CallStatus::Reconciling { .. }
            | CallStatus::Unresolved { .. }
            | CallStatus::Done,
        ) => stands(),
    }
}

/// A call whose own question was replied to may continue, where the policy still lets it.
pub(super) fn replied(r: &mut Recorder<'_>, index: usize, view: &View) {
    let tool = r.call(index).tool.clone();
    let Some(CallView::Known(known)) = view.calls.get(index) else {
        if !r.lacks(&tool) {
            unavailable(r, index);
        }
        return;
    };
    if let Some(reason) = unfit(known) {
        return no_longer_fits(r, index, reason);
    }
    let judged = verdict::judge(r, &tool, known, view);
    match judged.verdict {
        Verdict::Allow => {}
        Verdict::Ask if known.asks.is_some() || still_stands(r, index, &judged, known, view) => {}
        Verdict::Ask => {
            line::judged(r, index, &judged, known, None, view);
            line::ask(r, index, judged);
        }
        Verdict::Deny => {
            line::judged(r, index, &judged, known, None, view);
            line::denied(r, index, &judged);
        }
    }
}

/// A tool that is gone cannot be run; one that is the run's own is somewhere else.
fn gone(r: &mut Recorder<'_>, index: usize) {
    let call = r.call(index);
    // Another process may have the tool: the interrupt stays open, and an approval of it is refused here.
    if call.status.asked().is_some() || r.lacks(&call.tool) {
        return;
    }
    unavailable(r, index);
}

pub(super) fn unavailable(r: &mut Recorder<'_>, index: usize) {
    let call = r.call(index);
    let text = format!("The tool `{}` is no longer available", call.tool);
    let doubtful = call.may_have_changed_something();
    close(r, index, if doubtful { Outcome::InDoubt } else { Outcome::Unavailable }, text);
}

/// Why the arguments of a call that was judged before do not fit its tool any more, where they do not.
pub(super) fn unfit(known: &KnownCall) -> Option<&str> {
    match &known.arguments {
        Arguments::Invalid { reason } => Some(reason),
        Arguments::AsAsked { .. } | Arguments::Repaired { .. } => None,
    }
}

/// A call whose arguments do not fit its tool any more is not started.
pub(super) fn no_longer_fits(r: &mut Recorder<'_>, index: usize, reason: &str) {
    if r.call(index).may_have_changed_something() {
        let text =
            format!("Outcome unknown: the tool has changed, and the call cannot be repeated: {reason}");
        return close(r, index, Outcome::InDoubt, text);
    }
    line::refuse(r, index, &format!("Invalid arguments: {reason}"));
}

/// Closes an interrupt that is no longer needed, or is opened again with other terms.
fn take_back(r: &mut Recorder<'_>, interrupt: InterruptId, allowed: bool) {
    let answer = if allowed { Answer::Approve } else { Answer::Withdrawn };
    r.record(Fact::InterruptClosed { interrupt, answer, by: Principal::from(POLICY), roles: Vec::new() });
}

/// Whether what once let a call through, a grant, people or time, still lets it through where the policy asks now. A
/// call that asks people, once they have replied, needs no further leave. A grant is weaker than a rule that asks.
pub(super) fn still_stands(
    r: &Recorder<'_>,
    index: usize,
    judged: &Judged,
    known: &KnownCall,
    view: &View,
) -> bool {
    let call = r.call(index);
    let replied = known.asks.is_some() && call.reply.is_some();
    let holds = |grant: &String| judged.is_grantable && view.policy.holds(grant, r.now());
    let granted = call.grant.as_ref().is_some_and(holds);
    // What only the policy has approved, it has approved on these terms alone.
    let by_time = call.approvals.is_empty() && judged.terms == call.terms;
    let approved = call.approved && (by_time || judged.terms.are_met_by(&call.approvals));
    replied || judged.approval == call.approval && (granted || approved)
}
