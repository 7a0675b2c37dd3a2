//! Cancels a run: no command starts, commands in flight are stopped, and every call gets a result.
//!
//! A call that may have had effects gets the outcome `InDoubt`, never `Cancelled`.

use super::line::{self, close};
use super::next::{End, finish_only, start_waiting};
use super::record::{Planned, Recorder, Situation};
use crate::event::{Answer, CancelReason, Fact, Outcome, RunError, RunStatus};
use crate::id::{Principal, RunId};
use crate::reject::Reject;
use crate::state::{CallStatus, ENGINE, Phase};

pub(super) fn asked<'i>(s: Situation<'_>, run: Option<&RunId>, by: &'i Principal) -> Planned<'i> {
    let active = match (&s.state.run, run) {
        (Some(active), None) => active,
        (Some(active), Some(wanted)) if active.id == *wanted => active,
        (_, Some(wanted)) if s.state.last.as_ref().is_some_and(|last| last.run == *wanted) => {
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
    Ok(Box::new(move |r| begin(r, by, CancelReason::Requested)))
}

/// Records that the active run is being cancelled, and ends the run if no command is in flight.
pub(super) fn begin(r: &mut Recorder<'_>, by: &Principal, reason: CancelReason) {
    // A run that is being cancelled can still be rolled back.
    let rolls_back = reason == CancelReason::RolledBack;
    if r.run().cancel.as_ref().is_none_or(|(_, now)| rolls_back && *now != reason) {
        r.record(Fact::CancelRequested { by: by.clone(), reason });
    }
    end_if_idle(r, reason);
}

/// Ends a run that is being cancelled when no command is in flight.
pub(super) fn settle(r: &mut Recorder<'_>) {
    if let Some((_, reason)) = r.run().cancel {
        end_if_idle(r, reason);
    }
}

/// Ends the run because of a limit on its calls: no command starts, and calls in flight finish.
pub(super) fn by_limit(r: &mut Recorder<'_>) {
    let reason = CancelReason::Limit;
    r.record(Fact::CancelRequested { by: Principal::from(ENGINE), reason });
    end_if_idle(r, reason);
}

fn end_if_idle(r: &mut Recorder<'_>, reason: CancelReason) {
    if !r.run().is_busy() {
        end(r, reason);
        start_waiting(r, false);
    }
}

fn end(r: &mut Recorder<'_>, reason: CancelReason) {
    close_calls(r, reason);
    if let (
        Phase::Parked(asked),
        CancelReason::Requested | CancelReason::Replaced | CancelReason::RolledBack,
    ) = (&r.run().phase, reason)
    {
        let (interrupt, by) = (asked.interrupt.clone(), Principal::from(ENGINE));
        r.record(Fact::InterruptClosed { interrupt, answer: Answer::Withdrawn, by, roles: Vec::new() });
    }
    let (status, code, message) = match reason {
        CancelReason::RunTimeout => {
            let ms = r.run().agent.limits.run_timeout_ms;
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
    let output = r.run().said();
    finish_only(r, End { status, output, error: Some(error), fallback: false });
    if reason == CancelReason::RolledBack {
        let effects = r.effects_of_last();
        r.record(Fact::RunWithdrawn { effects });
    }
}

/// Gives every open call a result.
fn close_calls(r: &mut Recorder<'_>, reason: CancelReason) {
    for index in 0..r.line().map_or(0, |line| line.calls.len()) {
        if r.line().is_none() {
            return;
        }
        let is_deferred = match r.call(index).status {
            CallStatus::Done | CallStatus::Started => continue,
            CallStatus::Asking(_) => {
                line::withdraw(r, index);
                false
            }
            CallStatus::Deferred { .. } => true,
            CallStatus::New
            | CallStatus::Ready
            | CallStatus::Previewing { .. }
            | CallStatus::Reconciling { .. }
            | CallStatus::Unresolved { .. } => false,
        };
        if r.call(index).may_have_changed_something() {
            let text = "Outcome unknown: the run ended before anyone said whether it was done";
            close(r, index, Outcome::InDoubt, text);
        } else if is_deferred {
            close(r, index, Outcome::Cancelled, "Stopped while it waited: the run ended");
        } else {
            close(r, index, Outcome::Cancelled, not_run(reason));
        }
    }
}

/// Returns the model's text for a call that did not run before the run's end.
fn not_run(reason: CancelReason) -> &'static str {
    match reason {
        CancelReason::Requested | CancelReason::Replaced | CancelReason::RolledBack => {
            "Not run: the run was cancelled"
        }
        CancelReason::RunTimeout | CancelReason::Limit => "Not run: a limit of the run was reached",
    }
}
