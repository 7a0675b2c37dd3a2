//! A run is to end: nothing new starts, what runs is stopped, and every call gets its result.
//!
//! What cannot be undone is said to be in doubt, never to be cancelled.

use super::decision::{Decision, line_of};
use super::line::{Overlay, Place, overlay};
use super::next::{End, finish_only, start_waiting};
use crate::agent::EffectClass;
use crate::event::{Answer, CancelReason, Fact, Outcome, Queued, RunError, RunStatus, Totals};
use crate::id::{EffectId, InputId, Principal, RunId};
use crate::reject::Reject;
use crate::state::{ENGINE, Phase, Run};

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
        close_calls(d, line, reason);
    }
    if let (
        Phase::Parked(asked),
        CancelReason::Requested | CancelReason::Replaced | CancelReason::RolledBack,
    ) = (&run.phase, reason)
    {
        let (answer, by) = (Answer::Withdrawn, Principal::from(ENGINE));
        d.record(Fact::InterruptClosed { interrupt: asked.interrupt.clone(), answer, by, roles: Vec::new() });
    }
    let (status, code, message) = match reason {
        CancelReason::RunTimeout => {
            let ms = run.agent.limits.run_timeout_ms;
            let message =
                format!("the run took longer than {ms} ms; raise `run_timeout_ms` or split the task");
            (RunStatus::Failed, "ERR_RUN_TIMEOUT", message)
        }
        CancelReason::Limit => {
            let message = "the run has used up the calls of a tool; raise `max_calls` or split the task";
            (RunStatus::Failed, "ERR_LIMIT", message.to_owned())
        }
        CancelReason::Requested | CancelReason::Replaced | CancelReason::RolledBack => {
            (RunStatus::Cancelled, "CANCELLED", "Run was cancelled by client".to_owned())
        }
    };
    let error = RunError { code: code.into(), message, retryable: false };
    let end = End { status, output: d.said(run), error: Some(error), fallback: false };
    finish_only(d, run, end, totals);
    if reason == CancelReason::RolledBack {
        d.record(Fact::RunWithdrawn { effects: effects(d, run) });
    }
}

/// Gives every open call its result.
fn close_calls(d: &mut Decision<'_>, mut line: Overlay<'_>, reason: CancelReason) {
    for index in 0..line.seats.len() {
        match line.seats[index].place {
            Place::Done | Place::Started => continue,
            Place::Asking => line.take_back(d, index),
            Place::New | Place::Ready | Place::Previewing { .. } | Place::Deferred | Place::Reconciling => {}
        }
        let seat = &line.seats[index];
        if seat.starts > 0 && seat.class != EffectClass::Pure {
            let text = "Outcome unknown: the run ended before anyone said whether it was done";
            line.close(d, index, Outcome::InDoubt, text.into());
        } else if seat.place == Place::Deferred {
            line.close(d, index, Outcome::Cancelled, "Stopped while it waited: the run ended".into());
        } else {
            line.close(d, index, Outcome::Cancelled, not_run(reason).into());
        }
    }
}

/// What the model reads of a call that the run's end overtook.
fn not_run(reason: CancelReason) -> &'static str {
    match reason {
        CancelReason::Requested | CancelReason::Replaced | CancelReason::RolledBack => {
            "Not run: the run was cancelled"
        }
        CancelReason::RunTimeout | CancelReason::Limit => "Not run: a limit of the run was reached",
    }
}

/// The run ends by a limit on its calls: nothing new starts, and what runs comes to its end.
pub(super) fn by_limit(d: &mut Decision<'_>, line: Overlay<'_>, totals: &Totals) {
    let reason = CancelReason::Limit;
    d.record(Fact::CancelRequested { by: Principal::from(ENGINE), reason });
    if line.is_busy() {
        return;
    }
    let run = line.run;
    end(d, run, Some(line), totals, reason);
    start_waiting(d, false, None);
}

/// The effects of a run's calls, without those whose only start this decision takes back.
fn effects(d: &Decision<'_>, run: &Run) -> Vec<EffectId> {
    let mut effects = run.effects.clone();
    for event in &d.events {
        if let Fact::ToolUndispatched { call: key } = &event.fact
            && let Ok(line) = line_of(run, *key)
            && line.calls[key.index as usize].starts == 1
            && line.calls[key.index as usize].class != EffectClass::Pure
        {
            let effect = d.effect(run, *key);
            effects.retain(|known| *known != effect);
        }
    }
    effects
}
