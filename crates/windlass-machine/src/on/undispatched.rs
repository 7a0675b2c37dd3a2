//! A start was recorded, and the process that recorded it knows that nothing of it was dispatched.
//!
//! The start is taken back: the call is judged in its current form, or is closed with the run. It is in doubt only if an
//! earlier start may have done something.

use super::decision::Decision;
use super::line::{Overlay, Place};
use super::lost::find_start;
use super::{cancel, progress, rejudge, verdict};
use crate::event::{Fact, Outcome, Totals, Verdict};
use crate::id::CallKey;
use crate::input::{CallView, View};
use crate::reject::Reject;
use crate::state::Call;

/// Starts of one call that may be taken back. After that many changes the call is closed.
const UNDISPATCHED_MAX: u32 = 8;

pub(super) fn not_dispatched(
    d: &mut Decision<'_>,
    (key, start): (CallKey, u32),
    view: &View,
) -> Result<(), Reject> {
    let (run, line, call) = find_start(d, key, start)?;
    let index = key.index as usize;
    d.record(Fact::ToolUndispatched { call: key });
    let mut overlay = Overlay::of(run, line);
    (overlay.seats[index].place, overlay.seats[index].starts) = (Place::Ready, start.saturating_sub(1));
    let totals = without_start(&run.totals, call);
    if run.cancel.is_some() {
        return cancel::settle(d, run, Some(overlay), &totals);
    }
    judge_again(d, &mut overlay, (index, call), view);
    progress::go_on(d, overlay, &totals);
    Ok(())
}

/// The totals of the run without a start that is taken back.
fn without_start(totals: &Totals, call: &Call) -> Totals {
    let is_first = call.starts == 1;
    let by_people = call.is_approved_by_people();
    Totals {
        calls: totals.calls.saturating_sub(u32::from(is_first)),
        approved: totals.approved.saturating_sub(u32::from(is_first && by_people)),
        ..*totals
    }
}

fn judge_again(d: &mut Decision<'_>, overlay: &mut Overlay<'_>, (index, call): (usize, &Call), view: &View) {
    let tool = overlay.seats[index].tool;
    let known = match view.calls.get(index) {
        Some(CallView::Known(known)) => known,
        // The call waits for a process that has its tool.
        Some(CallView::Unknown | CallView::Withheld { .. }) | None if d.lacks(tool) => return,
        Some(CallView::Unknown | CallView::Withheld { .. }) | None => {
            return rejudge::unavailable(d, overlay, (index, call));
        }
    };
    if call.undispatched + 1 >= UNDISPATCHED_MAX {
        let why = format!("the tool `{tool}` has changed {UNDISPATCHED_MAX} times before it was called");
        return match overlay.may_have_changed_something(index) {
            true => overlay.close(d, index, Outcome::InDoubt, format!("Outcome unknown: {why}")),
            false => overlay.close(d, index, Outcome::Unavailable, format!("Not run: {why}")),
        };
    }
    if let Some(reason) = rejudge::unfit(known) {
        return rejudge::no_longer_fits(d, overlay, index, reason);
    }
    let judged = verdict::judge(d, overlay.run, tool, known, view);
    let stands = || rejudge::still_stands(d, call, &judged, (known, view));
    let keeps = match judged.verdict {
        Verdict::Allow => judged.grant.is_none() || stands(),
        Verdict::Ask => stands(),
        Verdict::Deny => false,
    };
    // The tool is the judged one again.
    if keeps && judged.approval == call.approval {
        return;
    }
    overlay.judged(d, index, &judged, known, (None, view.version));
    match judged.verdict {
        Verdict::Allow => {}
        // A call that asks people needs no leave once they have replied.
        Verdict::Ask if known.asks.is_some() && call.reply.is_some() => {}
        Verdict::Ask => overlay.ask(d, index, judged),
        Verdict::Deny => overlay.denied(d, index, &judged),
    }
}
