//! Continues a step after one of its calls has changed: starts calls, starts the next step, or ends the run.
//!
//! This module judges no calls and records no results.

use super::record::Recorder;
use super::{cancel, line, next};
use crate::event::StepMode;

/// Starts every call that may start. If every call has its result, starts the next step.
pub(super) fn advance(r: &mut Recorder<'_>) {
    if r.is_over {
        return cancel::by_limit(r);
    }
    match r.line() {
        Some(_) => line::start_next(r),
        None => next::next_step(r, StepMode::Plain),
    }
}

/// Continues the step. If the run is being cancelled, ends the run when no call is in flight.
pub(super) fn after(r: &mut Recorder<'_>) {
    match r.run().cancel {
        Some(_) => cancel::settle(r),
        None => advance(r),
    }
}
