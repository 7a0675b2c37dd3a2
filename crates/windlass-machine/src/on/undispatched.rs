//! Handles a recorded start that the process did not dispatch.
//!
//! The start is reverted: the call is judged in its current form, or closed with the run. The call is in doubt only
//! if an earlier start may have had effects.

use super::line::{self, close};
use super::lost::check_start;
use super::record::{Planned, Recorder, Situation};
use super::{cancel, progress, rejudge, verdict};
use crate::event::{Fact, Outcome, Verdict};
use crate::id::CallKey;
use crate::input::{CallView, View};

/// Maximum number of reverted starts of one call. After them the call is closed, because its tool changes too often.
const UNDISPATCHED_MAX: u32 = 8;

pub(super) fn not_dispatched<'i>(s: Situation<'_>, key: CallKey, start: u32, view: &'i View) -> Planned<'i> {
    check_start(s, key, start)?;
    Ok(Box::new(move |r| {
        r.record(Fact::ToolUndispatched { call: key });
        if r.run().cancel.is_some() {
            return cancel::settle(r);
        }
        judge_again(r, key.index as usize, view);
        progress::advance(r);
    }))
}

fn judge_again(r: &mut Recorder<'_>, index: usize, view: &View) {
    let tool = r.call(index).tool.clone();
    let known = match view.calls.get(index) {
        Some(CallView::Known(known)) => known,
        // The call waits for a process that has its tool.
        Some(CallView::Unknown | CallView::Withheld { .. }) | None if r.lacks(&tool) => return,
        Some(CallView::Unknown | CallView::Withheld { .. }) | None => {
            return rejudge::unavailable(r, index);
        }
    };
    if r.call(index).undispatched >= UNDISPATCHED_MAX {
        let why = format!("the tool `{tool}` has changed {UNDISPATCHED_MAX} times before it was called");
        return match r.call(index).may_have_changed_something() {
            true => close(r, index, Outcome::InDoubt, format!("Outcome unknown: {why}")),
            false => close(r, index, Outcome::Unavailable, format!("Not run: {why}")),
        };
    }
    if let Some(reason) = rejudge::unfit(known) {
        return rejudge::no_longer_fits(r, index, reason);
    }
    let judged = verdict::judge(r, &tool, known, view);
    let stands = || rejudge::still_stands(r, index, &judged, known, view);
    let keeps = match judged.verdict {
        Verdict::Allow => judged.grant.is_none() || stands(),
        Verdict::Ask => stands(),
        Verdict::Deny => false,
    };
    // The tool is again the one that was judged.
    if keeps && judged.approval == r.call(index).approval {
        return;
    }
    let is_answered = known.asks.is_some() && r.call(index).reply.is_some();
    line::judged(r, index, &judged, known, None, view);
    match judged.verdict {
        Verdict::Allow => {}
        // A call that asked people needs no permission after their reply.
        Verdict::Ask if is_answered => {}
        Verdict::Ask => line::ask(r, index, judged),
        Verdict::Deny => line::denied(r, index, &judged),
    }
}
