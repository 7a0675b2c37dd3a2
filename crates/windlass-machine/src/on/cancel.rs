//! A run is to end: nothing new starts, what runs is stopped, and every call gets its result.

use super::line::{Overlay, Place, overlay};
use super::next::{End, finish_only, start_waiting};
use super::{Decision, model};
use crate::event::{Answer, CancelReason, Fact, InterruptKind, Outcome, Queued, RunError, Totals};
use crate::id::{InputId, Principal, RunId};
use crate::reject::Reject;
use crate::state::{Call, CallStatus, Phase, Run};

pub(super) fn asked(d: &mut Decision<'_>, run: Option<&RunId>, by: &Principal) -> Result<(), Reject> {
    let active = match (&d.state.run, run) {
        (Some(active), None) => active,
        (Some(active), Some(wanted)) if active.id == *wanted => active,
        (_, Some(wanted)) if d.state.last.as_ref().is_some_and(|last| last.run == *wanted) => {
            return Err(Reject::Closed { what: format!("run `{wanted}`") });
        }
        (Some(_) | None, Some(wanted)) => {
            return Err(Reject::NotFound { what: format!("an active run `{wanted}`") });
        }
        (None, None) => return Err(Reject::NotFound { what: "an active run".into() }),
    };
    if active.cancel.is_some() {
        return Err(Reject::Closed { what: format!("run `{}` is already being stopped; it", active.id) });
    }
    begin(d, by, CancelReason::Requested, None)
}

/// Records that the active run is to end, and ends it where nothing is in flight. `waiting` is a message that this
/// decision has just queued to be sent in its place.
pub(super) fn begin(
    d: &mut Decision<'_>,
    by: &Principal,
    reason: CancelReason,
    waiting: Option<(&InputId, &Queued)>,
) -> Result<(), Reject> {
    let run = d.active()?;
    // A run that is being stopped can still be taken back as a whole.
    let rolls_back = reason == CancelReason::RolledBack;
    if run.cancel.as_ref().is_none_or(|(_, now)| rolls_back && *now != reason) {
        d.record(Fact::CancelRequested { by: by.clone(), reason });
    }
    if run.is_busy() {
        return Ok(());
    }
    end(d, run, overlay(run), &run.totals, reason);
    start_waiting(d, false, waiting);
    Ok(())
}

/// Ends a run that is being stopped, once nothing is in flight.
pub(super) fn settle(
    d: &mut Decision<'_>,
    run: &Run,
    line: Option<Overlay<'_>>,
    totals: &Totals,
) -> Result<(), Reject> {
    let Some((_, reason)) = run.cancel else { return Ok(()) };
    if line.as_ref().is_some_and(Overlay::is_busy) {
        return Ok(());
    }
    end(d, run, line, totals, reason);
    start_waiting(d, false, None);
    Ok(())
}

fn end(d: &mut Decision<'_>, run: &Run, line: Option<Overlay<'_>>, totals: &Totals, reason: CancelReason) {
    if let Some(line) = line {
        close_calls(d, run, line);
    }
    let timeout = reason == CancelReason::RunTimeout;
    let error = if timeout {
        let ms = run.agent.limits.run_timeout_ms;
        let message = format!("the run took longer than {ms} ms; raise `run_timeout_ms` or split the task");
        RunError { code: "ERR_RUN_TIMEOUT".into(), message, retryable: false }
    } else {
        RunError { code: "CANCELLED".into(), message: "Run was cancelled by client".into(), retryable: false }
    };
    let status = model::stop_status(timeout);
    let end = End { status, output: d.said(run), error: Some(error), fallback: false };
    finish_only(d, run, end, totals);
    if reason == CancelReason::RolledBack {
        d.record(Fact::RunWithdrawn { effects: run.effects.clone() });
    }
}

/// Gives every open call its result.
fn close_calls(d: &mut Decision<'_>, run: &Run, mut line: Overlay<'_>) {
    for index in 0..line.seats.len() {
        let asking = match &run.phase {
            Phase::Calls(now) => now.calls.get(index).and_then(asks),
            Phase::Ready | Phase::Calling | Phase::Retrying(_) => None,
        };
        match line.seats[index].place {
            Place::Done | Place::Started => {}
            Place::Asking => {
                let in_doubt = close_interrupt(d, asking);
                if in_doubt {
                    let text = "Outcome unknown: the run ended before anyone said whether it was done";
                    line.close(d, index, Outcome::InDoubt, text.into());
                } else {
                    line.close(d, index, Outcome::Cancelled, NOT_RUN.into());
                }
            }
            Place::New | Place::Ready { .. } => line.close(d, index, Outcome::Cancelled, NOT_RUN.into()),
        }
    }
}

/// What the model reads of a call that the run's end overtook.
const NOT_RUN: &str = "Not run: the run was cancelled";

fn asks(call: &Call) -> Option<(&crate::id::InterruptId, &InterruptKind)> {
    match &call.status {
        CallStatus::Asking(interrupt, kind) => Some((interrupt, kind)),
        CallStatus::New | CallStatus::Ready { .. } | CallStatus::Started | CallStatus::Done => None,
    }
}

/// Closes an open interrupt; says whether it was about a doubt.
fn close_interrupt(d: &mut Decision<'_>, asking: Option<(&crate::id::InterruptId, &InterruptKind)>) -> bool {
    let Some((interrupt, kind)) = asking else { return false };
    d.record(Fact::InterruptClosed {
        interrupt: interrupt.clone(),
        answer: Answer::Withdrawn,
        by: Principal::from("engine"),
    });
    matches!(kind, InterruptKind::InDoubt { .. })
}
