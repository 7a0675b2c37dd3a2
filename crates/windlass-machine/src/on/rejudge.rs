//! The policy or a tool changed while calls wait: what has not started is judged again.
//!
//! A tightened rule, a revoked grant, a changed schema and a path that leads elsewhere by now count for a call that waits
//! or was approved; a loosened rule releases it.

use super::decision::Decision;
use super::line::{Overlay, Place, overlay};
use super::progress::after;
use super::verdict::{self, Judged};

use crate::event::{Answer, Fact, InterruptKind, Outcome, Verdict};
use crate::id::Principal;
use crate::input::{Arguments, CallView, KnownCall, View};
use crate::reject::Reject;
use crate::state::{Asked, Call, POLICY, Phase};

pub(super) fn rejudged(d: &mut Decision<'_>, view: &View) -> Result<(), Reject> {
    let run = d.active()?;
    let Phase::Calls(line) = &run.phase else {
        return Err(Reject::Stale { what: "no calls are open".into() });
    };
    let Some(mut overlay) = overlay(run).filter(|_| run.cancel.is_none()) else { return Ok(()) };
    for (index, call) in line.calls.iter().enumerate() {
        let waits = match overlay.seats[index].place {
            Place::Asking | Place::Ready | Place::Previewing { .. } => is_outdated(call, view, index),
            // What may have changed by the time to which it was put off counts then, and not before.
            Place::Deferred => call.status.is_due(d.now) && is_outdated(call, view, index),
            Place::New | Place::Started | Place::Reconciling | Place::Done => false,
        };
        // It came where its tool was not.
        if overlay.seats[index].place == Place::New && index < view.calls.len() {
            overlay.admit(d, index, view);
            continue;
        }
        match view.calls.get(index) {
            Some(CallView::Known(known)) if waits => rejudge(d, &mut overlay, (index, call), (known, view)),
            Some(CallView::Unknown | CallView::Withheld { .. }) if waits => {
                gone(d, &mut overlay, (index, call))
            }
            Some(_) | None => {}
        }
    }
    after(d, run, overlay)
}

/// Whether a call was judged by another policy than the current one, or in another form than its current one.
fn is_outdated(call: &Call, view: &View, index: usize) -> bool {
    let is_another =
        |known: &KnownCall| unfit(known).is_none() && known.approval(&call.tool) != call.approval;
    call.view != view.version
        || matches!(view.calls.get(index), Some(CallView::Known(known)) if is_another(known))
}

fn rejudge(
    d: &mut Decision<'_>,
    overlay: &mut Overlay<'_>,
    (index, call): (usize, &Call),
    (known, view): (&KnownCall, &View),
) {
    let asked = call.status.asked();
    let judged = verdict::judge(d, overlay.run, overlay.seats[index].tool, known, view);
    match asked.map(|asked| &asked.kind) {
        Some(InterruptKind::Approval { .. } | InterruptKind::Hook { .. }) | None => {}
        // What a call itself asks is in vain where a rule denies the call; else it is judged with the reply.
        Some(InterruptKind::Question(_) | InterruptKind::SignIn { .. } | InterruptKind::Handoff { .. })
            if judged.verdict == Verdict::Deny || unfit(known).is_some() => {}
        // What else is asked about a call, no rule has an opinion on.
        Some(_) => return,
    }
    if let Some(reason) = unfit(known).filter(|_| judged.verdict != Verdict::Deny) {
        if let Some(asked) = asked {
            take_back(d, asked, false);
        }
        return no_longer_fits(d, overlay, index, reason);
    }
    let same = judged.approval == call.approval;
    let keep = match (judged.verdict, overlay.seats[index].place) {
        (Verdict::Deny, _) => false,
        // Another grant than the one that let it through has its use counted.
        (Verdict::Allow, place) => {
            let stands = || still_stands(d, call, &judged, (known, view));
            match place {
                Place::Ready | Place::Deferred => same && (judged.grant.is_none() || stands()),
                // People approved it, and what they approved is looked at once more: a grant that came with their
                // answer is for the next ones.
                Place::Previewing { recheck: true } => same && judged.grant.is_some() && stands(),
                Place::New
                | Place::Asking
                | Place::Previewing { recheck: false }
                | Place::Started
                | Place::Reconciling
                | Place::Done => false,
            }
        }
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

/// A call whose own question was replied to may go on, where the policy still lets it.
pub(super) fn replied(
    d: &mut Decision<'_>,
    overlay: &mut Overlay<'_>,
    (index, call): (usize, &Call),
    view: &View,
) {
    let Some(CallView::Known(known)) = view.calls.get(index) else {
        if d.lacks(&call.tool) {
            overlay.seats[index].place = Place::Ready;
            return;
        }
        return unavailable(d, overlay, (index, call));
    };
    if let Some(reason) = unfit(known) {
        return no_longer_fits(d, overlay, index, reason);
    }
    let judged = verdict::judge(d, overlay.run, overlay.seats[index].tool, known, view);
    let asks_people = known.asks.is_some();
    match judged.verdict {
        Verdict::Allow => overlay.seats[index].place = Place::Ready,
        Verdict::Ask if asks_people || still_stands(d, call, &judged, (known, view)) => {
            overlay.seats[index].place = Place::Ready;
        }
        Verdict::Ask => {
            overlay.judged(d, index, &judged, known, (None, view.version));
            overlay.ask(d, index, judged);
        }
        Verdict::Deny => {
            overlay.judged(d, index, &judged, known, (None, view.version));
            overlay.denied(d, index, &judged);
        }
    }
}

/// A tool that is gone cannot be run; one that is the run's own is somewhere else.
fn gone(d: &mut Decision<'_>, overlay: &mut Overlay<'_>, (index, call): (usize, &Call)) {
    // Another process may have the tool: what is asked stays asked, and nobody can approve it meanwhile.
    if call.status.asked().is_some() || d.lacks(&call.tool) {
        return;
    }
    unavailable(d, overlay, (index, call));
}

pub(super) fn unavailable(d: &mut Decision<'_>, overlay: &mut Overlay<'_>, (index, call): (usize, &Call)) {
    let text = format!("The tool `{}` is no longer available", call.tool);
    let doubtful = overlay.may_have_changed_something(index);
    let outcome = if doubtful { Outcome::InDoubt } else { Outcome::Unavailable };
    overlay.close(d, index, outcome, text);
}

/// Why the arguments of a call that was judged before do not fit its tool any more, where they do not.
pub(super) fn unfit(known: &KnownCall) -> Option<&str> {
    match &known.arguments {
        Arguments::Invalid { reason } => Some(reason),
        Arguments::AsAsked { .. } | Arguments::Repaired { .. } => None,
    }
}

/// A call whose arguments do not fit its tool any more is not started.
pub(super) fn no_longer_fits(d: &mut Decision<'_>, overlay: &mut Overlay<'_>, index: usize, reason: &str) {
    if overlay.may_have_changed_something(index) {
        let text =
            format!("Outcome unknown: the tool has changed, and the call cannot be repeated: {reason}");
        return overlay.close(d, index, Outcome::InDoubt, text);
    }
    let error = serde_json::json!({ "error": format!("Invalid arguments: {reason}") });
    overlay.close(d, index, Outcome::Refused, error.to_string());
}

/// Closes an interrupt that is no longer needed, or is opened anew.
fn take_back(d: &mut Decision<'_>, asked: &Asked, allowed: bool) {
    let answer = if allowed { Answer::Approve } else { Answer::Withdrawn };
    let interrupt = asked.interrupt.clone();
    d.record(Fact::InterruptClosed { interrupt, answer, by: Principal::from(POLICY), roles: Vec::new() });
}

/// Whether what once let a call through, a grant, people or time, still lets it through where the policy asks by now. A
/// call that asks people, once they have replied, needs nobody's leave. A grant is weaker than a rule that asks.
pub(super) fn still_stands(
    d: &Decision<'_>,
    call: &Call,
    judged: &Judged,
    (known, view): (&KnownCall, &View),
) -> bool {
    let replied = known.asks.is_some() && call.reply.is_some();
    let holds = |grant: &String| judged.is_grantable && view.policy.holds(grant, d.now);
    let granted = call.grant.as_ref().is_some_and(holds);
    // What nobody but the policy has approved, it has approved on these terms alone.
    let by_time = call.approvals.is_empty() && judged.terms == call.terms;
    let approved = call.approved && (by_time || judged.terms.are_met_by(&call.approvals));
    replied || judged.approval == call.approval && (granted || approved)
}
