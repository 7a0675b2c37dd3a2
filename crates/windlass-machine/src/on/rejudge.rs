//! Judges calls again that have not started, after the policy or a tool changed.
//!
//! A tightened rule, a revoked grant, a changed schema or another path target affects a waiting or approved call. A
//! loosened rule releases a waiting call.

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
            // The step ends with its last result.
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
        // A process without the call's tool decided the reply.
        CallStatus::New if index < view.calls.len() => return line::admit(r, index, view),
        CallStatus::Asking(_) | CallStatus::Ready | CallStatus::Previewing { .. } => true,
        // A deferred call is not judged before it is due.
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

/// Whether a call was judged by an earlier policy, or in another form.
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
        // If a rule now denies the call, its own question is no longer
        // needed. Otherwise the call is judged with the reply.
        Some(InterruptKind::Question(_) | InterruptKind::SignIn { .. } | InterruptKind::Handoff { .. })
            if judged.verdict == Verdict::Deny || unfit(known).is_some() => {}
        // No rule applies to other questions about a call.
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

/// Whether the earlier decision about a waiting call also holds under a new verdict.
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
        // If a different grant now allows the call, the use of that grant must be counted.
        (Verdict::Allow, CallStatus::Ready | CallStatus::Deferred { .. }) => {
            same && (judged.grant.is_none() || stands())
        }
        // People approved the call, and another preview is in progress. A
        // grant that accompanied their answer is for later calls.
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

/// Continues a call whose own question was answered, if the policy still allows the call.
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

/// Closes a call whose tool no longer exists, unless another process may have the tool.
fn gone(r: &mut Recorder<'_>, index: usize) {
    let call = r.call(index);
    // Another process may have the tool, so the interrupt stays open. This process rejects an approval of the call.
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

/// Returns why the arguments of a previously judged call no longer match its tool; `None` if they match.
pub(super) fn unfit(known: &KnownCall) -> Option<&str> {
    match &known.arguments {
        Arguments::Invalid { reason } => Some(reason),
        Arguments::AsAsked { .. } | Arguments::Repaired { .. } => None,
    }
}

/// Closes a call whose arguments no longer match its tool.
pub(super) fn no_longer_fits(r: &mut Recorder<'_>, index: usize, reason: &str) {
    if r.call(index).may_have_changed_something() {
        let text =
            format!("Outcome unknown: the tool has changed, and the call cannot be repeated: {reason}");
        return close(r, index, Outcome::InDoubt, text);
    }
    line::refuse(r, index, &format!("Invalid arguments: {reason}"));
}

/// Closes an interrupt that is no longer needed, or that will be reopened with other terms.
fn take_back(r: &mut Recorder<'_>, interrupt: InterruptId, allowed: bool) {
    let answer = if allowed { Answer::Approve } else { Answer::Withdrawn };
    r.record(Fact::InterruptClosed { interrupt, answer, by: Principal::from(POLICY), roles: Vec::new() });
}

/// Whether an earlier permission (a grant, people, or expiry) still allows a call that the policy now asks about. A
/// call that asked people needs no further permission after their reply. A grant is weaker than a rule that asks.
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
    // An approval by the policy on expiry only holds on the same terms.
    let by_time = call.approvals.is_empty() && judged.terms == call.terms;
    let approved = call.approved && (by_time || judged.terms.are_met_by(&call.approvals));
    replied || judged.approval == call.approval && (granted || approved)
}
