//! What comes next: the next step, another try, or the end of the run.
//!
//! Every step and every end of a run passes through here, and nowhere else.

use super::{Decision, cancel, message};
use crate::agent::Agent;
use crate::context::nudge::{self, LAST_RESORT};
use crate::context::window;
use crate::event::{
    CancelReason, Fact, Output, Place, Queued, RunError, RunStatus, StepMode, Surface, Totals,
};
use crate::id::{Attempt, InputId, ModelName, Principal};
use crate::policy::shorten_failure;
use crate::reject::Reject;
use crate::state::{Phase, Run};

/// How a run ends.
pub(super) struct End {
    pub status: RunStatus,
    pub output: Output,
    pub error: Option<RunError>,
    pub fallback: bool,
}

impl End {
    pub(super) fn done(output: Output) -> Self {
        Self { status: RunStatus::Done, output, error: None, fallback: false }
    }

    /// The engine's own words in place of an answer.
    pub(super) fn in_place(words: &str) -> Self {
        Self { fallback: true, ..Self::done(Output::words(words)) }
    }

    pub(super) fn failed(code: &str, message: String, retryable: bool) -> Self {
        let message = shorten_failure(&message).into_owned();
        let error = RunError { code: code.into(), message, retryable };
        Self { status: RunStatus::Failed, output: Output::default(), error: Some(error), fallback: false }
    }

    pub(super) fn with_output(mut self, output: Output) -> Self {
        self.output = output;
        self
    }
}

/// Starts the first step of a run whose message was just recorded.
pub(super) fn first_step(d: &mut Decision<'_>, agent: &Agent) {
    move_window(d, agent, message::PLAIN);
    let model = d.state.model.clone().or_else(|| agent.models.first().cloned());
    // A message without a model is refused before it gets here.
    let model = model.unwrap_or_else(|| ModelName::from(""));
    let attempt = Attempt { step: 1, attempt: 1 };
    d.record(Fact::StepStarted { attempt, model, mode: message::PLAIN });
}

/// Goes on after a step: its calls have their results, or its reply asks for more.
pub(super) fn next_step(d: &mut Decision<'_>, run: &Run, mode: StepMode, totals: &Totals) {
    if has_steps_left(run) {
        start_step(d, run, mode);
    } else {
        out_of_steps(d, run, totals);
    }
}

/// Whether the run may start another step.
pub(super) fn has_steps_left(run: &Run) -> bool {
    run.attempt.step < run.agent.limits.max_steps
}

fn start_step(d: &mut Decision<'_>, run: &Run, mode: StepMode) {
    message::take_steering(d);
    move_window(d, &run.agent, mode);
    let attempt = Attempt { step: run.attempt.step + 1, attempt: 1 };
    d.record(Fact::StepStarted { attempt, model: run.model.clone(), mode });
}

/// What waits to steer the run is left for the next one, unless the model is asked once more.
fn out_of_steps(d: &mut Decision<'_>, run: &Run, totals: &Totals) {
    let limit = run.agent.limits.max_steps;
    if run.mode != StepMode::Fallback {
        d.record(Fact::LimitReached { limit: "max_steps".into(), figure: u64::from(limit) });
    }
    match run.options.surface {
        Surface::Chat if run.mode == StepMode::Fallback => {
            let said = d.said(run);
            let end = if said.is_empty() {
                End::in_place(LAST_RESORT)
            } else {
                End { fallback: true, ..End::done(said) }
            };
            finish(d, run, end, totals);
        }
        Surface::Chat => start_step(d, run, StepMode::Fallback),
        Surface::Headless => {
            let message = format!("the run used its {limit} steps; raise `max_steps` or split the task");
            let end = End::failed("ERR_MAX_TURNS", message, false).with_output(d.said(run));
            finish(d, run, end, totals);
        }
    }
}

/// Ends the run because the model cannot be called. A person whose run is out of steps is answered in fixed words even
/// then; what failed stands in the journal. (WT-L12)
pub(super) fn give_up(d: &mut Decision<'_>, run: &Run, failed: End, totals: &Totals) {
    // Only a run that a person reads asks for the plain answer.
    let end = if run.mode == StepMode::Fallback { End::in_place(LAST_RESORT) } else { failed };
    finish(d, run, end, totals);
}

/// Tries the step again at once.
pub(super) fn try_again(d: &mut Decision<'_>, run: &Run, model: &ModelName) {
    let attempt = Attempt { step: run.attempt.step, attempt: run.attempt.attempt + 1 };
    d.record(Fact::StepStarted { attempt, model: model.clone(), mode: run.mode });
}

fn move_window(d: &mut Decision<'_>, agent: &Agent, mode: StepMode) {
    let system = !agent.instructions.is_empty();
    let nudges = u64::from(nudge::text(mode).is_some() || mode == StepMode::Fallback);
    if let Some(start) = window::moved(&d.ahead(), nudges, system, agent.limits.window_messages) {
        d.record(Fact::WindowMoved { start });
    }
}

/// Ends the run, and starts what waits for that. `totals` include what this decision has recorded.
pub(super) fn finish(d: &mut Decision<'_>, run: &Run, end: End, totals: &Totals) {
    let done = end.status == RunStatus::Done;
    finish_only(d, run, end, totals);
    start_waiting(d, done, None);
}

/// Ends the run and starts nothing.
pub(super) fn finish_only(d: &mut Decision<'_>, run: &Run, end: End, totals: &Totals) {
    let totals = Totals { duration_ms: d.now.since(run.started_at), ..*totals };
    let End { status, output, error, fallback } = end;
    d.record(Fact::RunFinished { status, output, error, fallback, totals });
}

/// After a run that is done the first waiting message starts the next; after another one only a message that was
/// sent in its place does. (ZE-P7) `newest` is such a message that this very decision has queued; where an older one
/// waits, it goes first.
pub(super) fn start_waiting(d: &mut Decision<'_>, done: bool, newest: Option<(&InputId, &Queued)>) {
    let state = d.state;
    let next = state.queue.iter().find(|(id, queued)| {
        let taken = d
            .events
            .iter()
            .any(|event| matches!(&event.fact, Fact::MessageTaken { id: taken } if taken == id));
        !taken && (done || queued.place == Place::AfterCancel)
    });
    if let Some((id, queued)) = next.map(|(id, queued)| (id, queued)).or(newest) {
        message::start_queued(d, id, queued);
    }
}

/// A time has come: a retry is due, or the run's time is up.
pub(super) fn ticked(d: &mut Decision<'_>) -> Result<(), Reject> {
    let Some(run) = &d.state.run else { return Ok(()) };
    if run.deadline().is_some_and(|deadline| deadline <= d.now) && run.cancel.is_none() {
        let figure = run.agent.limits.run_timeout_ms;
        d.record(Fact::LimitReached { limit: "run_timeout_ms".into(), figure });
        return cancel::begin(d, &Principal::from("engine"), CancelReason::RunTimeout, None);
    }
    match run.phase {
        Phase::Retrying(at) if at <= d.now => {
            try_again(d, run, &run.model);
            Ok(())
        }
        Phase::Retrying(_) | Phase::Ready | Phase::Calling | Phase::Calls(_) => Ok(()),
    }
}
