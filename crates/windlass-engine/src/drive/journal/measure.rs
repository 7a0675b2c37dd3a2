//! The measurement of an event: numbers and enumerated values.
//!
//! It is computed before the event is applied, while the state still has the event's call.

use windlass_machine::{Event, Fact, Phase, State};

use crate::port::observe::Measure;

/// Returns the measurement of an event that is about to be applied to a state.
pub(in crate::drive) fn of(state: &State, event: &Event) -> Option<Measure> {
    let run = state.run.as_ref();
    match &event.fact {
        Fact::RunStarted { .. } => Some(Measure::RunStarted),
        Fact::RunFinished { status, totals, .. } => {
            Some(Measure::RunFinished { status: *status, duration_ms: totals.duration_ms })
        }
        Fact::StepReplied { usage, cost, duration_ms, .. } => Some(Measure::StepReplied {
            model: run?.step_model.clone(),
            usage: *usage,
            cost: *cost,
            duration_ms: *duration_ms,
        }),
        Fact::StepFailed { class, .. } => Some(Measure::StepFailed { class: *class }),
        Fact::ToolFinished { call, outcome, error, duration_ms, .. } => {
            let line = match &run?.phase {
                Phase::Calls(line) => line,
                Phase::Ready | Phase::Calling | Phase::Retrying(_) | Phase::Parked(_) => return None,
            };
            Some(Measure::CallFinished {
                tool: line.calls.get(call.index as usize)?.tool.clone(),
                outcome: *outcome,
                error: *error,
                duration_ms: *duration_ms,
            })
        }
        _ => None, // tidy: the others are no figures
    }
}
