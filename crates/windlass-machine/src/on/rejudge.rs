//! The policy or a tool changed while calls wait: what has not started is judged again.
//!
//! A tightened rule, a revoked grant and a changed schema count for a call that waits or was approved;
//! a loosened rule releases it.

use super::line::{Overlay, Place, overlay};
use super::verdict::{self, Judged};
use super::{Decision, tool};
use crate::event::{Answer, Fact, InterruptKind, Outcome, Verdict};
use crate::id::Principal;
use crate::input::{CallView, KnownCall, View};
use crate::reject::Reject;
use crate::state::{Asked, Call, Phase};

pub(super) fn rejudged(d: &mut Decision<'_>, view: &View) -> Result<(), Reject> {
    let run = d.active()?;
    let Phase::Calls(line) = &run.phase else {
        return Err(Reject::Stale { what: "no calls are open".into() });
    };
    let Some(mut overlay) = overlay(run).filter(|_| run.cancel.is_none()) else { return Ok(()) };
    for (index, call) in line.calls.iter().enumerate() {
        let waits = match overlay.seats[index].place {
            Place::Asking | Place::Ready | Place::Previewing { .. } => true,
            Place::New | Place::Started | Place::Reconciling | Place::Done => false,
        };
        match view.calls.get(index) {
            Some(CallView::Known(known)) if waits => rejudge(d, &mut overlay, (index, call), (known, view)),
            Some(CallView::Unknown) if waits => gone(d, &mut overlay, (index, call)),
            Some(_) | None => {}
        }
    }
    tool::after(d, run, overlay)
}

fn rejudge(
    d: &mut Decision<'_>,
    overlay: &mut Overlay<'_>,
    (index, call): (usize, &Call),
    (known, view): (&KnownCall, &View),
) {
    let asked = call.status.asked();
    if !asked.is_none_or(is_approval) {
        // What else is asked about a call, no rule has an opinion on.
        return;
    }
    let judged = verdict::judge(d, overlay.run, overlay.seats[index].tool, known, view);
    let same = judged.approval == call.approval;
    let keep = match (judged.verdict, overlay.seats[index].place) {
        (Verdict::Deny, _) => false,
        (Verdict::Allow, place) => same && place == Place::Ready,
        (Verdict::Ask, Place::Asking) => same && asked.is_some_and(|asked| asked.terms == judged.terms),
        (Verdict::Ask, Place::Previewing { recheck: false }) => same && judged.terms == call.terms,
        (Verdict::Ask, _) => still_stands(d, call, &judged, (known, view)),
    };
    if keep {
        return;
    }
    if let Some(asked) = asked {
        take_back(d, asked, judged.verdict == Verdict::Allow);
    }
    overlay.judged(d, index, &judged, known, (None, view.version));
    match judged.verdict {
        Verdict::Allow => overlay.seats[index].place = Place::Ready,
        Verdict::Ask => overlay.ask(d, index, judged),
        Verdict::Deny => overlay.denied(d, index, &judged),
    }
}

/// A tool that is gone cannot be run.
fn gone(d: &mut Decision<'_>, overlay: &mut Overlay<'_>, (index, call): (usize, &Call)) {
    if let Some(asked) = call.status.asked() {
        if matches!(asked.kind, InterruptKind::InDoubt { .. }) {
            return;
        }
        take_back(d, asked, false);
    }
    let text = format!("The tool `{}` is no longer available", call.tool);
    let doubtful = overlay.may_have_changed_something(index);
    let outcome = if doubtful { Outcome::InDoubt } else { Outcome::Refused };
    overlay.close(d, index, outcome, text);
}

fn is_approval(asked: &Asked) -> bool {
    matches!(asked.kind, InterruptKind::Approval { .. } | InterruptKind::Hook { .. })
}

/// Closes an interrupt that is no longer needed, or is opened anew.
fn take_back(d: &mut Decision<'_>, asked: &Asked, allowed: bool) {
    let answer = if allowed { Answer::Approve } else { Answer::Withdrawn };
    let interrupt = asked.interrupt.clone();
    d.record(Fact::InterruptClosed { interrupt, answer, by: Principal::from("policy"), roles: Vec::new() });
}

/// Whether what once let a call through, a grant or people, still lets it through where the policy asks by now. A call
/// that asks people, once they have replied, needs nobody's leave.
pub(super) fn still_stands(
    d: &Decision<'_>,
    call: &Call,
    judged: &Judged,
    (known, view): (&KnownCall, &View),
) -> bool {
    let replied = known.asks.is_some() && call.reply.is_some();
    let granted = call.grant.as_ref().is_some_and(|grant| view.policy.holds(grant, d.now));
    let approved = call.approved && judged.terms.are_met_by(&call.approvals);
    replied || judged.approval == call.approval && (granted || approved)
}
