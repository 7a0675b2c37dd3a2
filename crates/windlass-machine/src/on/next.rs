//! Continues a run: with the next step, a retry, or the end of the run.
//!
//! Every step and every end of a run passes through this module.

use std::collections::BTreeSet;

use super::record::Recorder;
use crate::agent::Agent;
use crate::context::nudge::{self, LAST_RESORT};
use crate::context::{has_instructions, window};
use crate::event::{
    AtLimit, Fact, InterruptKind, LimitAsked, Next, Output, Place, Queued, RunError, RunOptions, RunStatus,
    StepMode, Totals,
};
use crate::id::{Attempt, InputId, InterruptId};
use crate::policy::{Approver, Quorum, Terms, shorten_failure};
use crate::state::{RUN_TIMEOUT, Run, State, Waiting};

/// The approvers that may raise a limit.
pub(super) type Approvers = BTreeSet<Approver>;

/// The end of a run.
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

    /// Creates an end with a text from the engine instead of an answer.
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

/// Starts the run of a queued message.
pub(super) fn start_queued(r: &mut Recorder<'_>, id: &InputId) {
    let Some(waiting) = r.state().queue.iter().find(|waiting| waiting.id == *id) else { return };
    let Queued { run, agent, options, by, message: _, place: _ } = &waiting.queued;
    let (run, by) = (run.clone(), by.clone());
    let options = in_mode(r.state(), agent, options);
    let agent = r.state().recorded(agent);
    r.begin_run(&run);
    r.record(Fact::RunStarted { agent, options, by });
    r.record(Fact::MessageTaken { id: id.clone() });
    first_step(r);
}

/// Returns the options with the effective mode: the run's mode, else the thread's last mode, else the agent's.
pub(super) fn in_mode(state: &State, agent: &Agent, options: &RunOptions) -> RunOptions {
    RunOptions { mode: options.mode.or(state.mode).or(agent.mode), ..options.clone() }
}

/// Moves the messages that steer the active run into its history.
fn take_steering(r: &mut Recorder<'_>) {
    let steers = |waiting: &&Waiting| waiting.queued.place == Place::AfterStep;
    let steering: Vec<InputId> =
        r.state().queue.iter().filter(steers).map(|waiting| waiting.id.clone()).collect();
    for id in steering {
        r.record(Fact::MessageTaken { id });
    }
}

/// Starts the first step of a run whose message was just recorded.
pub(super) fn first_step(r: &mut Recorder<'_>) {
    move_window(r, StepMode::Plain);
    if let Some((asked, approvers)) = refused(r, Next::Step(StepMode::Plain)) {
        r.record_no_room();
        return at_limit(r, asked, approvers);
    }
    let attempt = Attempt { step: 1, attempt: 1 };
    let model = r.run().model.clone();
    r.record(Fact::StepStarted { attempt, model, mode: StepMode::Plain, nudge: None });
}

/// Returns the budget whose remaining amount is too small for the next action.
fn refused(r: &Recorder<'_>, next: Next) -> Option<(LimitAsked, Approvers)> {
    let (limit, figure, refused) = r.no_room()?;
    let asked = LimitAsked { limit: limit.clone(), figure: *figure, used: refused.taken, next: Some(next) };
    Some((asked, refused.approvers.clone()))
}

/// Parks the run on a limit.
fn park(r: &mut Recorder<'_>, asked: LimitAsked, of: Approvers) {
    let run = r.run();
    // The sequence number makes the id unique if the same limit is reached again.
    let id = format!("{}.{}.limit.{}", run.id, run.attempt.step, r.from().0);
    let terms = Terms { quorums: BTreeSet::from([Quorum { count: 1, of }]), ..Terms::default() };
    let (interrupt, kind) = (InterruptId::from(id), InterruptKind::Limit(Box::new(asked)));
    r.record(Fact::InterruptOpened { interrupt, kind, call: None, terms });
}

/// Returns the end of a run whose limit was not raised.
fn limit_end(asked: &LimitAsked) -> End {
    let LimitAsked { limit, figure, used, next: _ } = asked;
    match limit.as_str() {
        MAX_STEPS => {
            let message = format!("the run used its {figure} steps; raise `max_steps` or split the task");
            End::failed("ERR_MAX_TURNS", message, false)
        }
        MAX_SAME_CALLS => {
            let message = format!(
                "the same calls brought the same results {used} times in a row; raise `max_same_calls` where that is meant"
            );
            End::failed("ERR_STALLED", message, false)
        }
        RUN_TIMEOUT => {
            let message =
                format!("the run took longer than {figure} ms; raise `run_timeout_ms` or split the task");
            End::failed("ERR_RUN_TIMEOUT", message, false)
        }
        limit => {
            let message =
                format!("the limit `{limit}` of {figure} has no room left ({used} are used or reserved)");
            End::failed("ERR_LIMIT", message, true)
        }
    }
}

/// Ends the run, because a person keeps the limit.
pub(super) fn limit_ends(r: &mut Recorder<'_>, asked: &LimitAsked) {
    let end = limit_end(asked).with_output(r.run().said());
    finish(r, end);
}

/// Continues a run with the action that the limit prevented.
pub(super) fn resume(r: &mut Recorder<'_>, next: Next) {
    match next {
        Next::Step(mode) => start_step(r, mode),
        Next::Retry => start_again(r),
    }
}

/// Whether the machine itself counts the limit. Such a limit cannot be raised outside the thread.
pub(super) fn is_own(asked: &LimitAsked) -> bool {
    [MAX_STEPS, MAX_SAME_CALLS, RUN_TIMEOUT].contains(&asked.limit.as_str())
}

/// Names of limits that the machine itself counts.
const MAX_STEPS: &str = "max_steps";
const MAX_SAME_CALLS: &str = "max_same_calls";

/// Continues after a step: its calls have their results, or its reply requires another step.
pub(super) fn next_step(r: &mut Recorder<'_>, mode: StepMode) {
    let run = r.run();
    if !has_steps_left(run) {
        return out_of_steps(r, mode);
    }
    if let Some(asked) = stalled(run, mode) {
        r.record(Fact::LimitReached { limit: asked.limit.clone(), figure: asked.figure, refused: None });
        return at_limit(r, asked, Approvers::new());
    }
    if run.is_overtime {
        let asked = out_of_time(r, Next::Step(mode));
        return at_limit(r, asked, Approvers::new());
    }
    start_step(r, mode);
}

/// Returns the question about the run's time limit.
pub(super) fn out_of_time(r: &Recorder<'_>, next: Next) -> LimitAsked {
    let run = r.run();
    let used = r.now().since(run.started_at).saturating_sub(run.waited_ms);
    LimitAsked { limit: RUN_TIMEOUT.to_owned(), figure: run.timeout_ms(), used, next: Some(next) }
}

/// Whether the same calls have had the same results too many times in a row.
fn stalled(run: &Run, mode: StepMode) -> Option<LimitAsked> {
    let usual = u64::from(run.agent.limits.max_same_calls);
    let figure = run.figure(MAX_SAME_CALLS, usual);
    let times = u64::from(run.streak.times);
    let (limit, next) = (MAX_SAME_CALLS.to_owned(), Some(Next::Step(mode)));
    (usual > 0 && times >= figure).then_some(LimitAsked { limit, figure, used: times, next })
}

/// Whether the run may start another step.
pub(super) fn has_steps_left(run: &Run) -> bool {
    u64::from(run.attempt.step) < run.figure(MAX_STEPS, u64::from(run.agent.limits.max_steps))
}

fn start_step(r: &mut Recorder<'_>, mode: StepMode) {
    if let Some((asked, approvers)) = refused(r, Next::Step(mode)) {
        return at_limit(r, asked, approvers);
    }
    take_steering(r);
    move_window(r, mode);
    let run = r.run();
    let attempt = Attempt { step: run.attempt.step + 1, attempt: 1 };
    let model = run.model.clone();
    // The text is recorded, so that the fold of an old journal does not depend on a later build's texts.
    let nudge = nudge::text(mode).map(str::to_owned);
    r.record(Fact::StepStarted { attempt, model, mode, nudge });
}

/// Handles a reached limit: the run asks people or ends.
pub(super) fn at_limit(r: &mut Recorder<'_>, asked: LimitAsked, approvers: Approvers) {
    match r.run().options.at_limit() {
        AtLimit::Ask => park(r, asked, approvers),
        AtLimit::Fail | AtLimit::Answer => limit_ends(r, &asked),
    }
}

/// Keeps queued steering messages for the next run, unless the model is called once more.
fn out_of_steps(r: &mut Recorder<'_>, mode: StepMode) {
    let run = r.run();
    let figure = run.figure(MAX_STEPS, u64::from(run.agent.limits.max_steps));
    let limit = MAX_STEPS.to_owned();
    if run.mode == StepMode::Fallback {
        let said = run.said();
        let end = if said.is_empty() {
            End::in_place(LAST_RESORT)
        } else {
            End { fallback: true, ..End::done(said) }
        };
        return finish(r, end);
    }
    let (used, at) = (u64::from(run.attempt.step), run.options.at_limit());
    r.record(Fact::LimitReached { limit: limit.clone(), figure, refused: None });
    match at {
        AtLimit::Answer => start_step(r, StepMode::Fallback),
        AtLimit::Ask | AtLimit::Fail => {
            let asked = LimitAsked { limit, figure, used, next: Some(Next::Step(mode)) };
            at_limit(r, asked, Approvers::new());
        }
    }
}

/// Ends the run because the model cannot be called. If the run is out of steps and has a person as audience, the
/// output is still a fixed text; the journal has the failure. (WT-L12)
pub(super) fn give_up(r: &mut Recorder<'_>, failed: End) {
    // Only a run with a person as audience uses the plain answer.
    let end = if r.run().mode == StepMode::Fallback { End::in_place(LAST_RESORT) } else { failed };
    finish(r, end);
}

/// Retries the step immediately, unless the run's time limit was reached.
pub(super) fn try_again(r: &mut Recorder<'_>) {
    if r.run().is_overtime {
        let asked = out_of_time(r, Next::Retry);
        return at_limit(r, asked, Approvers::new());
    }
    start_again(r);
}

fn start_again(r: &mut Recorder<'_>) {
    if let Some((asked, approvers)) = refused(r, Next::Retry) {
        return at_limit(r, asked, approvers);
    }
    let run = r.run();
    let attempt = Attempt { step: run.attempt.step, attempt: run.attempt.attempt + 1 };
    let (model, mode) = (run.model.clone(), run.mode);
    // The step's first attempt has added its nudge.
    r.record(Fact::StepStarted { attempt, model, mode, nudge: None });
}

fn move_window(r: &mut Recorder<'_>, mode: StepMode) {
    let Run { agent, options, .. } = r.run();
    let system = has_instructions(agent, options);
    let nudges = u64::from(nudge::text(mode).is_some() || mode == StepMode::Fallback);
    if let Some(start) = window::moved(&r.state().history, nudges, system, agent.limits.window_messages) {
        r.record(Fact::WindowMoved { start });
    }
}

/// Ends the run, and starts the next queued run.
pub(super) fn finish(r: &mut Recorder<'_>, end: End) {
    let done = end.status == RunStatus::Done;
    finish_only(r, end);
    start_waiting(r, done);
}

/// Ends the run and does not start a queued run.
pub(super) fn finish_only(r: &mut Recorder<'_>, end: End) {
    let run = r.run();
    let totals = Totals { duration_ms: r.now().since(run.started_at), ..run.totals };
    let End { status, output, error, fallback } = end;
    r.record(Fact::RunFinished { status, output, error, fallback, totals });
}

/// Starts the run of a queued message. After a run that ended `done`, starts the first queued message; otherwise only
/// a message that replaces the run. (ZE-P7)
pub(super) fn start_waiting(r: &mut Recorder<'_>, done: bool) {
    let in_turn = |waiting: &&Waiting| done || waiting.queued.place == Place::AfterCancel;
    if let Some(id) = r.state().queue.iter().find(in_turn).map(|waiting| waiting.id.clone()) {
        start_queued(r, &id);
    }
}
