//! A run is to end: nothing new starts, what runs is stopped, and every call gets its result.

use super::line::{Overlay, Place, overlay};
use super::next::{End, finish};
use super::{Decision, model};
use crate::event::{Answer, CancelReason, Fact, InterruptKind, Outcome, Queued, RunError, Totals};
use crate::id::{InputId, Principal, RunId};
use crate::message::Content;
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
    if run.cancel.is_none() {
        d.record(Fact::CancelRequested { by: by.clone(), reason });
    }
    if run.is_busy() {
        return Ok(());
    }
    let ended = Ended { reason, text: None, waiting };
    end(d, run, overlay(run), &run.totals, ended);
    Ok(())
}

/// Ends a run that is being stopped, once nothing is in flight. `text` is what the model has just said.
pub(super) fn settle(
    d: &mut Decision<'_>,
    run: &Run,
    line: Option<Overlay<'_>>,
    text: Option<&str>,
    totals: &Totals,
) -> Result<(), Reject> {
    let Some((_, reason)) = run.cancel else { return Ok(()) };
    if line.as_ref().is_some_and(Overlay::is_busy) {
        return Ok(());
    }
    end(d, run, line, totals, Ended { reason, text, waiting: None });
    Ok(())
}

struct Ended<'a> {
    reason: CancelReason,
    text: Option<&'a str>,
    waiting: Option<(&'a InputId, &'a Queued)>,
}

fn end(d: &mut Decision<'_>, run: &Run, line: Option<Overlay<'_>>, totals: &Totals, ended: Ended<'_>) {
    if let Some(line) = line {
        close_calls(d, run, line);
    }
    let said = format!("{}{}", run.output, ended.text.unwrap_or_default());
    let output =
        Some(Content::Inline(said)).filter(|said| said.size_bytes() > 0).or_else(|| run.partial.clone());
    let timeout = ended.reason == CancelReason::RunTimeout;
    let error = if timeout {
        let ms = run.agent.limits.run_timeout_ms;
        let message = format!("the run took longer than {ms} ms; raise `run_timeout_ms` or split the task");
        RunError { code: "ERR_RUN_TIMEOUT".into(), message, retryable: false }
    } else {
        RunError { code: "CANCELLED".into(), message: "Run was cancelled by client".into(), retryable: false }
    };
    let end = End { status: model::stop_status(timeout), output, error: Some(error), fallback: false };
    match ended.reason {
        CancelReason::RolledBack => {
            let mark = d.events.len();
            finish(d, run, end, totals);
            withdraw(d, run, mark);
        }
        CancelReason::Requested | CancelReason::Replaced | CancelReason::RunTimeout => {
            finish(d, run, end, totals)
        }
    }
    if let Some((id, queued)) = ended.waiting {
        super::message::start_queued(d, id, queued);
    }
}

/// Puts `run.withdrawn` right behind the run's end, before whatever was started after it.
fn withdraw(d: &mut Decision<'_>, run: &Run, mark: usize) {
    let started = d.run.replace(run.id.clone());
    d.record(Fact::RunWithdrawn { effects: run.effects.clone() });
    d.run = started;
    if let Some(event) = d.events.pop() {
        let end = d.events[mark..].iter().position(|event| matches!(event.fact, Fact::RunFinished { .. }));
        d.events.insert(mark + end.map_or(0, |end| end + 1), event);
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
