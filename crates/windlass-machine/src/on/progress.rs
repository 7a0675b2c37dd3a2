//! Continues a step after one of its calls has changed: starts calls, starts the next step, or ends the run.
//!
//! It judges no call and gives none its result.

use super::cancel;
use super::decision::Decision;
use super::line::{Overlay, Place};
use super::next::next_step;
use crate::event::{StepMode, Totals};
use crate::reject::Reject;
use crate::state::Run;

/// Starts every call that may start. If every call has its result, starts the next step.
pub(super) fn go_on(d: &mut Decision<'_>, mut line: Overlay<'_>, totals: &Totals) {
    if line.is_over {
        return cancel::by_limit(d, line, totals);
    }
    if line.seats.iter().all(|seat| seat.place == Place::Done) {
        return next_step(d, line.run, StepMode::Plain, totals);
    }
    line.start_next(d);
}

/// Continues the step. If the run is being cancelled, ends it once no call is in flight.
pub(super) fn after(d: &mut Decision<'_>, run: &Run, line: Overlay<'_>) -> Result<(), Reject> {
    if run.cancel.is_some() {
        return cancel::settle(d, run, Some(line), &run.totals);
    }
    go_on(d, line, &run.totals);
    Ok(())
}
