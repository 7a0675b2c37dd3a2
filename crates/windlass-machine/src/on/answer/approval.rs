//! People let a call run, as it is or with other arguments, or keep it from running.
//!
//! What the rules say by now counts as well as what they said when the question was opened.

use super::{close, known, named, not_here, one_of};
use crate::event::{Answer, Fact, InterruptKind, Outcome, Verdict};
use crate::id::InterruptId;
use crate::input::{Arguments, Party, View};
use crate::message::Content;
use crate::on::decision::Decision;
use crate::on::line::{Overlay, Place};
use crate::on::verdict;
use crate::reject::Reject;
use crate::state::{Asked, Run};

/// Whether somebody's approval counts for what is asked.
pub(super) fn may_approve(asked: &Asked, by: &Party) -> Result<(), Reject> {
    if asked.terms.may_approve(&by.principal, &by.roles) {
        return Ok(());
    }
    let (who, interrupt) = (&by.principal, &asked.interrupt);
    let others = one_of(named(asked).into_iter().collect());
    Err(Reject::Forbidden { what: format!("`{who}` may not approve interrupt `{interrupt}`; {others} may") })
}

/// The verdict on a call that is about to be approved: a rule that denies it by now counts.
pub(super) fn judged(
    d: &Decision<'_>,
    run: &Run,
    overlay: &Overlay<'_>,
    index: usize,
    view: &View,
) -> Result<verdict::Judged, Reject> {
    let Some(known) = known(view, index) else {
        let tool = overlay.seats[index].tool;
        if d.lacks(tool) {
            return Err(not_here(tool));
        }
        return Err(Reject::Closed { what: "the tool is not available by now; the call's approval".into() });
    };
    let judged = verdict::judge(d, run, overlay.seats[index].tool, known, view);
    if judged.verdict == Verdict::Deny {
        return Err(Reject::Closed { what: "a rule denies the call by now; its approval".into() });
    }
    Ok(judged)
}

pub(super) fn approve(
    d: &mut Decision<'_>,
    run: &Run,
    overlay: &mut Overlay<'_>,
    (index, asked): (usize, &Asked),
    (by, view): (&Party, &View),
) -> Result<(), Reject> {
    let judged = judged(d, run, overlay, index, view)?;
    if judged.approval != overlay.seats[index].approval {
        let what = format!("the tool has changed since interrupt `{}` was opened; the call", asked.interrupt);
        return Err(Reject::Stale { what });
    }
    may_approve(asked, by)?;
    if asked.votes.iter().any(|(voter, _)| *voter == by.principal) {
        let (interrupt, who) = (&asked.interrupt, &by.principal);
        let what = format!("interrupt `{interrupt}` has `{who}`'s approval already and needs another's; it");
        return Err(Reject::Closed { what });
    }
    let mut votes = asked.votes.clone();
    votes.push((by.principal.clone(), by.roles.clone()));
    // What the rules ask by now counts as well as what they asked when the interrupt was opened.
    let enough = judged.verdict == Verdict::Allow || judged.terms.are_met_by(&votes);
    if !enough || !asked.terms.are_met_by(&votes) {
        vote(d, &asked.interrupt, by);
        return Ok(());
    }
    close(d, asked, &Answer::Approve, by);
    (overlay.seats[index].place, overlay.seats[index].approved) = (Place::Ready, true);
    if matches!(asked.kind, InterruptKind::Hook { .. }) && overlay.seats[index].previews {
        // Whoever answers a hook has not seen what the call would do.
        overlay.look(d, index, false);
    }
    Ok(())
}

fn vote(d: &mut Decision<'_>, interrupt: &InterruptId, by: &Party) {
    let (interrupt, by, roles) = (interrupt.clone(), by.principal.clone(), by.roles.clone());
    d.record(Fact::InterruptVoted { interrupt, by, roles });
}

/// Other arguments are another call: where several or others have to approve it, or it can be shown what it would do, it
/// is asked anew. An editor who may approve it has approved what they wrote.
pub(super) fn edit(
    d: &mut Decision<'_>,
    run: &Run,
    overlay: &mut Overlay<'_>,
    (index, asked, arguments): (usize, &Asked, &Content),
    (by, view): (&Party, &View),
) -> Result<(), Reject> {
    if overlay.may_have_changed_something(index) {
        let what = "the call was dispatched with its arguments; approve that it is repeated, or deny it";
        return Err(Reject::Invalid { what: what.into() });
    }
    match known(view, index).map(|known| &known.arguments) {
        Some(Arguments::AsAsked { digest }) if *digest == arguments.digest() => {}
        Some(Arguments::Invalid { reason }) => {
            return Err(Reject::Invalid { what: format!("the edited arguments do not fit: {reason}") });
        }
        Some(Arguments::AsAsked { .. } | Arguments::Repaired { .. }) => {
            return Err(Reject::Invalid {
                what: "the edited arguments are not valid JSON as they stand".into(),
            });
        }
        None => {}
    }
    let judged = judged(d, run, overlay, index, view)?;
    may_approve(asked, by)?;
    d.record(Fact::CallEdited {
        call: overlay.key(index),
        arguments: arguments.clone(),
        approval: judged.approval,
        by: by.principal.clone(),
    });
    close(d, asked, &Answer::Edit { arguments: arguments.clone() }, by);
    let seat = &mut overlay.seats[index];
    seat.arguments = std::borrow::Cow::Owned(arguments.clone());
    (seat.approval, seat.preview) = (judged.approval, None);
    (seat.place, seat.approved) = (Place::Ready, true);
    let terms = if judged.verdict == Verdict::Ask { judged.terms } else { asked.terms.clone() };
    if terms.are_met_by(&[(by.principal.clone(), by.roles.clone())]) && !seat.previews {
        return Ok(());
    }
    let approves = terms.may_approve(&by.principal, &by.roles);
    seat.terms = terms;
    if seat.previews {
        // Nobody has seen yet what the other arguments would do.
        overlay.look(d, index, false);
        return Ok(());
    }
    let interrupt = overlay.ask_for_approval(d, index, None);
    if approves {
        vote(d, &interrupt, by);
    }
    Ok(())
}

/// Closes a call that a person does not let through.
pub(super) fn deny(d: &mut Decision<'_>, overlay: &mut Overlay<'_>, index: usize, reason: Option<&str>) {
    let why = reason.map(|reason| format!(" Their reason: {reason}")).unwrap_or_default();
    if overlay.may_have_changed_something(index) {
        // What was denied is the repeat.
        let text = format!("Outcome unknown: repeating the call was denied by the user.{why}");
        return overlay.close(d, index, Outcome::InDoubt, text);
    }
    let text = format!("Tool call was denied by the user. Do not retry it; find another way or ask.{why}");
    overlay.close(d, index, Outcome::Denied, text);
}
