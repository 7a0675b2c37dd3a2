//! Handles deadlines: of retries, reconciling reads, deferred calls, the run's time limit and unanswered interrupts.
//!
//! It reads no clock: the decision carries the thread's time.

use super::decision::Decision;
use super::line::Overlay;
use super::next::{Approvers, at_limit, out_of_time, try_again};
use super::{answer, cancel, lost, tool};
use crate::event::{AtLimit, CancelReason, Fact, Next};
use crate::id::{InterruptId, Principal};
use crate::reject::Reject;
use crate::state::{ENGINE, Phase, RUN_TIMEOUT, Run};

pub(super) fn ticked(d: &mut Decision<'_>, confirmed: &[InterruptId]) -> Result<(), Reject> {
    let Some(run) = d.state.run.as_ref().filter(|run| run.cancel.is_none()) else { return Ok(()) };
    if run.deadline().is_some_and(|deadline| deadline <= d.now) {
        return time_is_up(d, run);
    }
    match run.phase {
        Phase::Retrying(at) if at <= d.now => {
            try_again(d, run, &run.model);
            Ok(())
        }
        Phase::Calls(ref line) => {
            let mut overlay = Overlay::of(run, line);
            lost::look_again(d, run);
            tool::resume_due(d, line, &mut overlay);
            answer::overdue(d, overlay, confirmed)
        }
        Phase::Retrying(_) | Phase::Ready | Phase::Calling | Phase::Parked(_) => Ok(()),
    }
}

/// Handles the run's time limit. `Fail` and `Answer` cancel the run. `Ask` lets calls in flight finish, so that no paid work
/// is lost, and the next step asks first.
fn time_is_up(d: &mut Decision<'_>, run: &Run) -> Result<(), Reject> {
    let (limit, figure) = (RUN_TIMEOUT.to_owned(), run.timeout_ms());
    d.record(Fact::LimitReached { limit, figure, refused: None });
    match (run.options.at_limit(), &run.phase) {
        (AtLimit::Fail | AtLimit::Answer, _) => {
            cancel::begin(d, &Principal::from(ENGINE), CancelReason::RunTimeout, None)
        }
        (AtLimit::Ask, Phase::Retrying(_)) => {
            let asked = out_of_time(d, run, Next::Retry);
            at_limit(d, run, (asked, Approvers::new()), &run.totals);
            Ok(())
        }
        (AtLimit::Ask, Phase::Ready | Phase::Calling | Phase::Calls(_) | Phase::Parked(_)) => Ok(()),
    }
}
