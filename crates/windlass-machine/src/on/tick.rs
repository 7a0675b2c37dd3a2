//! Handles deadlines: of retries, reconciliation reads, deferred calls, the run's time limit and unanswered
//! interrupts.
//!
//! This module reads no clock: the caller passes the thread's time.

use super::next::{Approvers, at_limit, out_of_time, try_again};
use super::record::{Plan, Recorder, Situation, nothing};
use super::{answer, cancel, lost, tool};
use crate::event::{AtLimit, CancelReason, Fact, Next};
use crate::id::{InterruptId, Principal};
use crate::state::{ENGINE, Phase, RUN_TIMEOUT};

pub(super) fn ticked<'i>(s: Situation<'_>, confirmed: &'i [InterruptId]) -> Plan<'i> {
    let Some(run) = s.state.run.as_ref().filter(|run| run.cancel.is_none()) else { return nothing() };
    if run.deadline().is_some_and(|deadline| deadline <= s.now) {
        return Box::new(time_is_up);
    }
    match run.phase {
        Phase::Retrying(at) if at <= s.now => Box::new(try_again),
        Phase::Calls(_) => Box::new(move |r| {
            lost::look_again(r);
            tool::resume_due(r);
            answer::overdue(r, confirmed);
        }),
        Phase::Retrying(_) | Phase::Ready | Phase::Calling | Phase::Parked(_) => nothing(),
    }
}

/// Handles the run's time limit. `Fail` and `Answer` cancel the run. `Ask` lets calls in flight finish, so that no
/// paid work is lost, and asks people before the next step.
fn time_is_up(r: &mut Recorder<'_>) {
    let (limit, figure) = (RUN_TIMEOUT.to_owned(), r.run().timeout_ms());
    r.record(Fact::LimitReached { limit, figure, refused: None });
    let run = r.run();
    match (run.options.at_limit(), &run.phase) {
        (AtLimit::Fail | AtLimit::Answer, _) => {
            cancel::begin(r, &Principal::from(ENGINE), CancelReason::RunTimeout);
        }
        (AtLimit::Ask, Phase::Retrying(_)) => {
            let asked = out_of_time(r, Next::Retry);
            at_limit(r, asked, Approvers::new());
        }
        (AtLimit::Ask, Phase::Ready | Phase::Calling | Phase::Calls(_) | Phase::Parked(_)) => {}
    }
}
