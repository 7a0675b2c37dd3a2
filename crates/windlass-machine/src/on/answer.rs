//! A reply to an interrupt came, or the policy changed while calls wait.
//!
//! Who may answer is checked before an input gets here.

use super::line::{Overlay, Place, overlay};
use super::{Decision, fits, tool};
use crate::event::{Answer, Fact, InterruptKind, Outcome, Verdict};
use crate::id::{InterruptId, Principal, RunId};
use crate::input::{CallView, View};
use crate::policy::judge;
use crate::reject::Reject;
use crate::state::{CallStatus, Line, Phase, Run};

pub(super) fn answered(
    d: &mut Decision<'_>,
    interrupt: &InterruptId,
    answer: &Answer,
    by: &Principal,
    view: &View,
) -> Result<(), Reject> {
    check(answer)?;
    let (run, line, index, kind) = find(d, interrupt)?;
    if run.cancel.is_some() {
        return Err(Reject::Closed { what: "the run is being stopped; its interrupt".into() });
    }
    let mut overlay = Overlay::of(run, line);
    let outcome = match (kind, answer) {
        (InterruptKind::Approval { .. }, Answer::Approve) => {
            if verdict(view, index).is_some_and(|(verdict, _)| verdict == Verdict::Deny) {
                return Err(Reject::Closed { what: "a rule denies the call by now; its approval".into() });
            }
            None
        }
        (InterruptKind::InDoubt { .. }, Answer::Retry) => None,
        (InterruptKind::Approval { .. }, Answer::Deny { reason }) => {
            let why = reason.as_ref().map(|reason| format!(" Their reason: {reason}")).unwrap_or_default();
            let text =
                format!("Tool call was denied by the user. Do not retry it; find another way or ask.{why}");
            Some((Outcome::Denied, text))
        }
        (InterruptKind::InDoubt { .. }, Answer::Done { result }) => Some((Outcome::Told, result.clone())),
        (InterruptKind::InDoubt { .. }, Answer::Fail { reason }) => {
            let why = reason.as_deref().unwrap_or("a person checked and said that it failed");
            Some((Outcome::InDoubt, format!("The call failed: {why}")))
        }
        (InterruptKind::Approval { .. }, _) => {
            return Err(Reject::Invalid { what: "an approval takes `approve` or `deny`".into() });
        }
        (InterruptKind::InDoubt { .. }, _) => {
            return Err(Reject::Invalid { what: "a call in doubt takes `done`, `retry` or `fail`".into() });
        }
    };
    d.record(Fact::InterruptClosed { interrupt: interrupt.clone(), answer: answer.clone(), by: by.clone() });
    match outcome {
        None => overlay.seats[index].place = Place::Ready { approved: true },
        Some((outcome, text)) => overlay.close(d, index, outcome, text),
    }
    tool::after(d, run, overlay)
}

/// What a person says is recorded in one piece; it is for them to shorten it.
fn check(answer: &Answer) -> Result<(), Reject> {
    match answer {
        Answer::Deny { reason: Some(reason) } | Answer::Fail { reason: Some(reason) } => {
            fits("the reason", reason.len())
        }
        Answer::Done { result } => fits("the result", result.len()),
        Answer::Deny { reason: None } | Answer::Fail { reason: None } => Ok(()),
        Answer::Approve | Answer::Retry | Answer::Withdrawn => Ok(()),
    }
}

fn find<'a>(
    d: &Decision<'a>,
    interrupt: &InterruptId,
) -> Result<(&'a Run, &'a Line, usize, &'a InterruptKind), Reject> {
    let missing = || Reject::NotFound { what: format!("an open interrupt `{interrupt}`") };
    let run = d.state.run.as_ref().ok_or_else(|| closed(d, interrupt).unwrap_or_else(missing))?;
    if let (Some((index, kind)), Phase::Calls(line)) = (run.asking(interrupt), &run.phase) {
        return Ok((run, line, index, kind));
    }
    Err(closed(d, interrupt).unwrap_or_else(missing))
}

/// An interrupt of the active run or the last one that is not open is closed.
fn closed(d: &Decision<'_>, interrupt: &InterruptId) -> Option<Reject> {
    let active = d.state.run.as_ref().map(|run| &run.id);
    let last = d.state.last.as_ref().map(|last| &last.run);
    let of = |run: &RunId| interrupt.as_str().strip_prefix(run.as_str()).is_some_and(|n| n.starts_with('.'));
    let known = active.into_iter().chain(last).any(of);
    known.then(|| Reject::Closed { what: format!("interrupt `{interrupt}`") })
}

/// The verdict of a view on the call at an index, where the view knows it.
fn verdict(view: &View, index: usize) -> Option<(Verdict, &'static str)> {
    match view.calls.get(index)? {
        CallView::Known { annotations, .. } => Some(judge(view.auto_run, *annotations)),
        // A tool that is gone cannot be run.
        CallView::Unknown => Some((Verdict::Deny, "unavailable")),
    }
}

/// Judges open calls again: a tightened rule counts for a waiting call, and a loosened one releases it.
pub(super) fn rejudged(d: &mut Decision<'_>, view: &View) -> Result<(), Reject> {
    let run = d.active()?;
    let Phase::Calls(line) = &run.phase else {
        return Err(Reject::Stale { what: "no calls are open".into() });
    };
    let Some(mut overlay) = overlay(run).filter(|_| run.cancel.is_none()) else { return Ok(()) };
    for index in 0..line.calls.len() {
        if let Some((verdict, rule)) = verdict(view, index) {
            rejudge(d, line, &mut overlay, (index, verdict, rule), view);
        }
    }
    tool::after(d, run, overlay)
}

fn rejudge(
    d: &mut Decision<'_>,
    line: &Line,
    overlay: &mut Overlay<'_>,
    (index, verdict, rule): (usize, Verdict, &str),
    view: &View,
) {
    let call = &line.calls[index];
    let open = match &call.status {
        CallStatus::Asking(interrupt, kind @ InterruptKind::Approval { .. }) => Some((interrupt, kind)),
        CallStatus::Ready { .. } => None,
        CallStatus::Asking(_, InterruptKind::InDoubt { .. })
        | CallStatus::New
        | CallStatus::Started
        | CallStatus::Done => return,
    };
    let approved = call.status == CallStatus::Ready { approved: true };
    let keep = match verdict {
        Verdict::Allow => open.is_none(),
        Verdict::Ask => open.is_some() || approved,
        Verdict::Deny => false,
    };
    if keep {
        return;
    }
    if let Some((interrupt, _)) = open {
        let answer = if verdict == Verdict::Allow { Answer::Approve } else { Answer::Withdrawn };
        d.record(Fact::InterruptClosed {
            interrupt: interrupt.clone(),
            answer,
            by: Principal::from("policy"),
        });
    }
    let key = overlay.key(index);
    d.record(Fact::CallJudged {
        call: key,
        verdict,
        rule: rule.into(),
        class: call.class,
        arguments: None,
        view: view.version,
    });
    match verdict {
        Verdict::Allow => overlay.seats[index].place = Place::Ready { approved: false },
        Verdict::Ask => overlay.ask_again(d, index),
        Verdict::Deny => {
            let text =
                format!("Tool call was denied by policy (`{rule}`). Do not retry it; find another way.");
            overlay.close(d, index, Outcome::Denied, text);
        }
    }
}
