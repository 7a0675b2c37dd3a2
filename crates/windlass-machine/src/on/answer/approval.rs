//! People approve a call, with its own or with edited arguments, or deny it.
//!
//! Both the current rules and the rules at the opening of the interrupt apply.

use super::{close_interrupt, known, named, not_here, one_of, open_call};
use crate::event::{Answer, Fact, InterruptKind, Outcome, Verdict};
use crate::id::InterruptId;
use crate::input::{Arguments, Party, View};
use crate::message::Content;
use crate::on::line::{self, close};
use crate::on::record::{Recorder, Situation};
use crate::on::verdict::{self, Judged};
use crate::reject::Reject;
use crate::state::Asked;

/// Checks that a person's approval is valid for this interrupt.
pub(super) fn may_approve(asked: &Asked, by: &Party) -> Result<(), Reject> {
    if asked.terms.may_approve(&by.principal, &by.roles) {
        return Ok(());
    }
    let (who, interrupt) = (&by.principal, &asked.interrupt);
    let others = one_of(named(asked).into_iter().collect());
    Err(Reject::Forbidden { what: format!("`{who}` may not approve interrupt `{interrupt}`; {others} may") })
}

/// Returns the current verdict on a call that is about to be approved. A
/// rule that was added after the interrupt may deny the call.
pub(super) fn check_verdict(s: Situation<'_>, index: usize, view: &View) -> Result<Judged, Reject> {
    let (run, tool) = (s.active()?, &open_call(s, index)?.tool);
    let Some(known) = known(view, index) else {
        if s.lacks(tool) {
            return Err(not_here(tool));
        }
        return Err(Reject::Closed { what: "the tool is not available by now; the call's approval".into() });
    };
    let judged = verdict::judge_after(s, run, tool, known, view, &[]);
    if judged.verdict == Verdict::Deny {
        return Err(Reject::Closed { what: "a rule denies the call by now; its approval".into() });
    }
    Ok(judged)
}

pub(super) fn check_approve(
    s: Situation<'_>,
    index: usize,
    asked: &Asked,
    by: &Party,
    view: &View,
) -> Result<(), Reject> {
    let judged = check_verdict(s, index, view)?;
    if judged.approval != open_call(s, index)?.approval {
        let what = format!("the tool has changed since interrupt `{}` was opened; the call", asked.interrupt);
        return Err(Reject::Stale { what });
    }
    may_approve(asked, by)?;
    if asked.votes.iter().any(|(voter, _)| *voter == by.principal) {
        let (interrupt, who) = (&asked.interrupt, &by.principal);
        let what = format!("interrupt `{interrupt}` has `{who}`'s approval already and needs another's; it");
        return Err(Reject::Closed { what });
    }
    Ok(())
}

pub(super) fn approve(r: &mut Recorder<'_>, index: usize, interrupt: &InterruptId, by: &Party, view: &View) {
    let call = r.call(index);
    let (Some(asked), Some(known)) = (call.status.asked(), known(view, index)) else { return };
    let judged = verdict::judge(r, &call.tool, known, view);
    let mut votes = asked.votes.clone();
    votes.push((by.principal.clone(), by.roles.clone()));
    // Both the current terms and the terms at the opening of the interrupt must be met.
    let enough = judged.verdict == Verdict::Allow || judged.terms.are_met_by(&votes);
    if !enough || !asked.terms.are_met_by(&votes) {
        return vote(r, interrupt.clone(), by);
    }
    // A person who answers a hook has not seen a preview.
    let looks = matches!(asked.kind, InterruptKind::Hook { .. }) && call.previews;
    let terms = call.terms.clone();
    close_interrupt(r, interrupt, &Answer::Approve, by);
    if looks {
        line::look(r, index, false, terms);
    }
}

fn vote(r: &mut Recorder<'_>, interrupt: InterruptId, by: &Party) {
    let (by, roles) = (by.principal.clone(), by.roles.clone());
    r.record(Fact::InterruptVoted { interrupt, by, roles });
}

pub(super) fn check_edit(
    s: Situation<'_>,
    index: usize,
    asked: &Asked,
    arguments: &Content,
    by: &Party,
    view: &View,
) -> Result<(), Reject> {
    if open_call(s, index)?.may_have_changed_something() {
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
    check_verdict(s, index, view)?;
    may_approve(asked, by)
}

/// Replaces a call's arguments, which makes it another call. The edited call needs
/// another approval if other or several approvers are required, or if it can be
/// previewed. An editor who may approve the call has approved the edited arguments.
pub(super) fn edit(
    r: &mut Recorder<'_>,
    index: usize,
    interrupt: &InterruptId,
    arguments: &Content,
    by: &Party,
    view: &View,
) {
    let call = r.call(index);
    let (Some(asked), Some(known)) = (call.status.asked(), known(view, index)) else { return };
    let judged = verdict::judge(r, &call.tool, known, view);
    let terms = if judged.verdict == Verdict::Ask { judged.terms } else { asked.terms.clone() };
    let previews = call.previews;
    r.record(Fact::CallEdited {
        call: r.key(index),
        arguments: arguments.clone(),
        approval: judged.approval,
        by: by.principal.clone(),
    });
    close_interrupt(r, interrupt, &Answer::Edit { arguments: arguments.clone() }, by);
    if previews {
        // No person has seen a preview of the edited arguments yet.
        return line::look(r, index, false, terms);
    }
    if terms.are_met_by(&[(by.principal.clone(), by.roles.clone())]) {
        return;
    }
    let approves = terms.may_approve(&by.principal, &by.roles);
    let interrupt = line::ask_for_approval(r, index, None, terms);
    if approves {
        vote(r, interrupt, by);
    }
}

/// Closes a call that a person denied.
pub(super) fn deny(r: &mut Recorder<'_>, index: usize, reason: Option<&str>) {
    let why = reason.map(|reason| format!(" Their reason: {reason}")).unwrap_or_default();
    if r.call(index).may_have_changed_something() {
        // The person denied the repetition.
        let text = format!("Outcome unknown: repeating the call was denied by the user.{why}");
        return close(r, index, Outcome::InDoubt, text);
    }
    let text = format!("Tool call was denied by the user. Do not retry it; find another way or ask.{why}");
    close(r, index, Outcome::Denied, text);
}
