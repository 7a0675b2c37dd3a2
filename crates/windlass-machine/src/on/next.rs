//! What comes next: the next step, another try, or the end of the run.
//!
//! Every step and every end of a run passes through here, and nowhere else.

use std::collections::BTreeSet;

use super::decision::Decision;
use crate::agent::Agent;
use crate::context::nudge::{self, LAST_RESORT};
use crate::context::{has_instructions, window};
use crate::event::{
    AtLimit, Fact, InterruptKind, LimitAsked, Next, Output, Place, Queued, RunError, RunOptions, RunStatus,
    StepMode, Totals,
};
use crate::id::{Attempt, InputId, InterruptId, ModelName, RunId};
use crate::message::MicroUsd;
use crate::policy::{Approver, Quorum, Terms, shorten_failure};
use crate::state::{RUN_TIMEOUT, Run, Waiting};

/// Who may raise a limit.
pub(super) type Approvers = BTreeSet<Approver>;

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

/// Starts the run of a queued message.
pub(super) fn start_queued(d: &mut Decision<'_>, id: &InputId, queued: &Queued) {
    d.run = Some(queued.run.clone());
    let options = in_mode(d, &queued.agent, &queued.options);
    d.record(Fact::RunStarted {
        agent: queued.agent.clone(),
        options: options.clone(),
        by: queued.by.clone(),
    });
    d.record(Fact::MessageTaken { id: id.clone() });
    first_step(d, &queued.agent, &options);
}

/// The options with the effective mode: the run's, else the thread's last one, else the agent's.
pub(super) fn in_mode(d: &Decision<'_>, agent: &Agent, options: &RunOptions) -> RunOptions {
    RunOptions { mode: options.mode.or(d.state.mode).or(agent.mode), ..options.clone() }
}

/// Takes the messages that steer the active run into its history.
fn take_steering(d: &mut Decision<'_>) {
    let state = d.state;
    for Waiting { id, queued, .. } in &state.queue {
        if queued.place == Place::AfterStep {
            d.record(Fact::MessageTaken { id: id.clone() });
        }
    }
}

/// Starts the first step of a run whose message was just recorded.
pub(super) fn first_step(d: &mut Decision<'_>, agent: &Agent, options: &RunOptions) {
    move_window(d, agent, options, StepMode::Plain);
    let model = d.state.model.clone().or_else(|| agent.models.first().cloned());
    // A message without a model is refused before it gets here.
    let model = model.unwrap_or_else(|| ModelName::from(""));
    if let Some(asked) = refused(d, Next::Step(StepMode::Plain)) {
        d.tell_refused();
        return first_refused(d, options, asked);
    }
    let attempt = Attempt { step: 1, attempt: 1 };
    d.record(Fact::StepStarted { attempt, model, mode: StepMode::Plain, nudge: None });
}

/// A budget has no room for the very first step.
fn first_refused(d: &mut Decision<'_>, options: &RunOptions, (asked, approvers): (LimitAsked, Approvers)) {
    if options.at_limit() == AtLimit::Ask {
        return park(d, asked, approvers, 0);
    }
    let End { status, output, error, fallback } = limit_end(&asked);
    let totals = Totals { cost: Some(MicroUsd(0)), ..Totals::default() };
    d.record(Fact::RunFinished { status, output, error, fallback, totals });
    start_waiting(d, false, None);
}

/// The budget that has no room for what comes next.
fn refused(d: &Decision<'_>, next: Next) -> Option<(LimitAsked, Approvers)> {
    let (limit, figure, refused) = d.refused.as_ref().or(d.state.refused.as_ref())?;
    let asked = LimitAsked { limit: limit.clone(), figure: *figure, used: refused.taken, next: Some(next) };
    Some((asked, refused.approvers.clone()))
}

/// Parks the run on a limit.
fn park(d: &mut Decision<'_>, asked: LimitAsked, of: Approvers, step: u32) {
    let run = d.run.as_ref().map(RunId::as_str).unwrap_or_default();
    // Events count up: the same limit reached again is another interrupt.
    let id = format!("{run}.{step}.limit.{}", d.state.seq.0);
    let terms = Terms { quorums: BTreeSet::from([Quorum { count: 1, of }]), ..Terms::default() };
    let (interrupt, kind) = (InterruptId::from(id), InterruptKind::Limit(Box::new(asked)));
    d.record(Fact::InterruptOpened { interrupt, kind, call: None, terms });
}

/// How a run ends by a limit that nobody raises.
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

/// A person lets the limit stand.
pub(super) fn limit_ends(d: &mut Decision<'_>, run: &Run, asked: &LimitAsked, totals: &Totals) {
    let end = limit_end(asked).with_output(d.said(run));
    finish(d, run, end, totals);
}

/// A person has made room: the run goes on with what it could not do.
pub(super) fn resume(d: &mut Decision<'_>, run: &Run, next: Next) {
    match next {
        Next::Step(mode) => start_step(d, run, mode, &run.totals),
        Next::Retry => start_again(d, run, &run.model),
    }
}

/// Whether the machine itself keeps count of a limit: nobody can make room for it elsewhere.
pub(super) fn is_own(asked: &LimitAsked) -> bool {
    [MAX_STEPS, MAX_SAME_CALLS, RUN_TIMEOUT].contains(&asked.limit.as_str())
}

/// Names of limits that the machine itself keeps count of.
const MAX_STEPS: &str = "max_steps";
const MAX_SAME_CALLS: &str = "max_same_calls";

/// Goes on after a step: its calls have their results, or its reply asks for more.
pub(super) fn next_step(d: &mut Decision<'_>, run: &Run, mode: StepMode, totals: &Totals) {
    if !has_steps_left(run) {
        return out_of_steps(d, run, mode, totals);
    }
    if let Some(asked) = stalled(d, run, mode) {
        d.record(Fact::LimitReached { limit: asked.limit.clone(), figure: asked.figure, refused: None });
        return at_limit(d, run, (asked, Approvers::new()), totals);
    }
    if run.is_overtime {
        let asked = out_of_time(d, run, Next::Step(mode));
        return at_limit(d, run, (asked, Approvers::new()), totals);
    }
    start_step(d, run, mode, totals);
}

/// The time that the run has taken, as somebody is asked about it.
pub(super) fn out_of_time(d: &Decision<'_>, run: &Run, next: Next) -> LimitAsked {
    let (limit, figure) = (RUN_TIMEOUT.to_owned(), run.timeout_ms());
    let used = d.now.since(run.started_at).saturating_sub(run.waited_ms);
    LimitAsked { limit, figure, used, next: Some(next) }
}

/// The same calls have brought the same results too often in a row, those of this decision included.
fn stalled(d: &Decision<'_>, run: &Run, mode: StepMode) -> Option<LimitAsked> {
    let usual = u64::from(run.agent.limits.max_same_calls);
    let figure = run.figure(MAX_SAME_CALLS, usual);
    let times = u64::from(d.streak(run).times);
    let (limit, next) = (MAX_SAME_CALLS.to_owned(), Some(Next::Step(mode)));
    (usual > 0 && times >= figure).then_some(LimitAsked { limit, figure, used: times, next })
}

/// Whether the run may start another step.
pub(super) fn has_steps_left(run: &Run) -> bool {
    u64::from(run.attempt.step) < run.figure(MAX_STEPS, u64::from(run.agent.limits.max_steps))
}

fn start_step(d: &mut Decision<'_>, run: &Run, mode: StepMode, totals: &Totals) {
    if let Some(refused) = refused(d, Next::Step(mode)) {
        return at_limit(d, run, refused, totals);
    }
    take_steering(d);
    move_window(d, &run.agent, &run.options, mode);
    let attempt = Attempt { step: run.attempt.step + 1, attempt: 1 };
    // Recorded: what an old journal folds to does not depend on the words of a later build.
    let nudge = nudge::text(mode).map(str::to_owned);
    d.record(Fact::StepStarted { attempt, model: run.model.clone(), mode, nudge });
}

/// A limit is reached: somebody is asked, or the run ends.
pub(super) fn at_limit(
    d: &mut Decision<'_>,
    run: &Run,
    (asked, approvers): (LimitAsked, Approvers),
    totals: &Totals,
) {
    match run.options.at_limit() {
        AtLimit::Ask => park(d, asked, approvers, run.attempt.step),
        AtLimit::Fail | AtLimit::Answer => limit_ends(d, run, &asked, totals),
    }
}

/// What waits to steer the run is left for the next one, unless the model is asked once more.
fn out_of_steps(d: &mut Decision<'_>, run: &Run, mode: StepMode, totals: &Totals) {
    let figure = run.figure(MAX_STEPS, u64::from(run.agent.limits.max_steps));
    let limit = MAX_STEPS.to_owned();
    if run.mode == StepMode::Fallback {
        let said = d.said(run);
        let end = if said.is_empty() {
            End::in_place(LAST_RESORT)
        } else {
            End { fallback: true, ..End::done(said) }
        };
        return finish(d, run, end, totals);
    }
    d.record(Fact::LimitReached { limit: limit.clone(), figure, refused: None });
    let used = u64::from(run.attempt.step);
    let asked = LimitAsked { limit, figure, used, next: Some(Next::Step(mode)) };
    match run.options.at_limit() {
        AtLimit::Answer => start_step(d, run, StepMode::Fallback, totals),
        AtLimit::Ask | AtLimit::Fail => at_limit(d, run, (asked, Approvers::new()), totals),
    }
}

/// Ends the run because the model cannot be called. A person whose run is out of steps is answered in fixed words even
/// then; what failed stands in the journal. (WT-L12)
pub(super) fn give_up(d: &mut Decision<'_>, run: &Run, failed: End, totals: &Totals) {
    // Only a run that a person reads asks for the plain answer.
    let end = if run.mode == StepMode::Fallback { End::in_place(LAST_RESORT) } else { failed };
    finish(d, run, end, totals);
}

/// Tries the step again at once, where the run's time is not up.
pub(super) fn try_again(d: &mut Decision<'_>, run: &Run, model: &ModelName) {
    if run.is_overtime {
        let asked = out_of_time(d, run, Next::Retry);
        return at_limit(d, run, (asked, Approvers::new()), &run.totals);
    }
    start_again(d, run, model);
}

fn start_again(d: &mut Decision<'_>, run: &Run, model: &ModelName) {
    if let Some(refused) = refused(d, Next::Retry) {
        return at_limit(d, run, refused, &run.totals);
    }
    let attempt = Attempt { step: run.attempt.step, attempt: run.attempt.attempt + 1 };
    // The step's first attempt has added its nudge.
    d.record(Fact::StepStarted { attempt, model: model.clone(), mode: run.mode, nudge: None });
}

fn move_window(d: &mut Decision<'_>, agent: &Agent, options: &RunOptions, mode: StepMode) {
    let system = has_instructions(agent, options);
    let nudges = u64::from(nudge::text(mode).is_some() || mode == StepMode::Fallback);
    if let Some(start) = window::moved(&d.ahead(), nudges, system, agent.limits.window_messages) {
        d.record(Fact::WindowMoved { start });
    }
}

/// Ends the run, and starts what waits for that. `totals` include what this decision has recorded of replies.
pub(super) fn finish(d: &mut Decision<'_>, run: &Run, end: End, totals: &Totals) {
    let done = end.status == RunStatus::Done;
    finish_only(d, run, end, totals);
    start_waiting(d, done, None);
}

/// Ends the run and starts nothing.
pub(super) fn finish_only(d: &mut Decision<'_>, run: &Run, end: End, totals: &Totals) {
    let denied = totals.denied + d.denied(run);
    let totals = Totals { duration_ms: d.now.since(run.started_at), denied, ..*totals };
    let End { status, output, error, fallback } = end;
    d.record(Fact::RunFinished { status, output, error, fallback, totals });
}

/// After a run that is done the first waiting message starts the next; after another one only a message that was
/// sent in its place does. (ZE-P7) `newest` is such a message that this very decision has queued; where an older one
/// waits, it goes first. One that this very decision has promoted goes before all others.
pub(super) fn start_waiting(d: &mut Decision<'_>, done: bool, newest: Option<(&InputId, &Queued)>) {
    let state = d.state;
    let is = |waiting: &Waiting, one: fn(&Fact) -> Option<&InputId>| {
        d.events.iter().any(|event| one(&event.fact) == Some(&waiting.id))
    };
    let mut waiting = state.queue.iter().filter(|waiting| !is(waiting, taken));
    let promoted = waiting.clone().find(|waiting| is(waiting, promoted));
    let in_turn = |waiting: &&Waiting| done || waiting.queued.place == Place::AfterCancel;
    let next = promoted.or_else(|| waiting.find(in_turn));
    if let Some((id, queued)) = next.map(|waiting| (&waiting.id, &waiting.queued)).or(newest) {
        start_queued(d, id, queued);
    }
}

fn taken(fact: &Fact) -> Option<&InputId> {
    if let Fact::MessageTaken { id } = fact { Some(id) } else { None }
}

fn promoted(fact: &Fact) -> Option<&InputId> {
    if let Fact::MessagePromoted { id, .. } = fact { Some(id) } else { None }
}
