//! Tracing of runs: a span for each run, model call and tool call, with its identity, times and outcome.
//!
//! Fields have the names of OpenTelemetry's conventions for generative AI (`genai.rs`) if these define a name; other
//! names are the journal's. Texts, arguments and results appear at TRACE only, and keys never reach this module.
//! Without a subscriber, no fields are computed.

use serde::Serialize;
use serde_json::Value;
use tracing::Span;
use tracing::field::Empty;
use windlass_machine::{
    Agent, CallKey, Command, Event, Fact, Input, Line, Outcome, Phase, Run, RunId, RunStatus, ThreadId,
    Totals, Usage,
};

use super::genai;
use crate::port::clock::Clock;

/// Creates the span of a run, which lasts as long as this process drives the run.
pub(super) fn run_span(thread: &ThreadId, run: &RunId, agent: &Agent) -> Span {
    tracing::info_span!(
        genai::INVOKE_AGENT,
        { genai::OPERATION } = genai::INVOKE_AGENT,
        { genai::AGENT } = agent.name,
        { genai::CONVERSATION } = %thread,
        %thread,
        %run,
        outcome = Empty,
        steps = Empty,
        calls = Empty,
        duration_ms = Empty,
        { genai::INPUT } = Empty,
        { genai::OUTPUT } = Empty,
        { genai::CACHED } = Empty,
    )
}

/// Creates the span of a command. Steps, attempts and calls are counted from 1.
pub(super) fn command_span(parent: &Span, run: &Run, command: &Command) -> Span {
    match command {
        Command::CallModel { attempt, model } => tracing::info_span!(
            parent: parent,
            genai::CHAT,
            { genai::OPERATION } = genai::CHAT,
            { genai::PROVIDER } = Empty,
            { genai::MODEL } = %model,
            step = attempt.step,
            steps = run.agent.limits.max_steps,
            attempt = attempt.attempt,
            outcome = Empty,
            { genai::ERROR } = Empty,
            ttft_ms = Empty,
            duration_ms = Empty,
            { genai::FINISH } = Empty,
            { genai::INPUT } = Empty,
            { genai::OUTPUT } = Empty,
            { genai::CACHED } = Empty,
        ),
        Command::CallTool { call, start, tool, class, .. } => {
            let line = line_of(run);
            tracing::info_span!(
                parent: parent,
                genai::EXECUTE_TOOL,
                { genai::OPERATION } = genai::EXECUTE_TOOL,
                { genai::TOOL } = %tool,
                { genai::CALL } = line.and_then(|line| Some(line.calls.get(call.index as usize)?.id.as_str())),
                step = call.step,
                steps = run.agent.limits.max_steps,
                call = call.index + 1,
                calls = line.map(|line| line.calls.len()),
                start,
                effect_class = word(class),
                outcome = Empty,
                duration_ms = Empty,
            )
        }
        Command::PreviewTool { call, round: look, tool, .. }
        | Command::Reconcile { call, attempt: look, tool, .. } => tracing::info_span!(
            parent: parent,
            "look_up",
            { genai::TOOL } = %tool,
            step = call.step,
            call = call.index + 1,
            look,
            outcome = Empty,
            duration_ms = Empty,
        ),
    }
}

fn line_of(run: &Run) -> Option<&Line> {
    match &run.phase {
        Phase::Calls(line) => Some(line),
        Phase::Ready | Phase::Calling | Phase::Retrying(_) | Phase::Parked(_) => None,
    }
}

/// Records the outcome of a model or tool call in the current span. `started` is a time of the monotonic clock.
pub(super) fn ended(input: &Input, clock: &dyn Clock, started: u64) {
    let span = Span::current();
    if span.is_disabled() {
        return;
    }
    let duration_ms = clock.monotonic_ms().saturating_sub(started);
    let outcome = match input {
        Input::ModelReplied(replied) => {
            span.record(genai::FINISH, word(&replied.stop));
            count(&span, &replied.usage);
            note(&span, "ttft_ms", replied.ttft_ms);
            "replied"
        }
        Input::ModelFailed(failed) => {
            span.record(genai::ERROR, word(&failed.class));
            "failed"
        }
        Input::ToolReturned { error: false, .. } => "returned",
        Input::ToolReturned { error: true, .. } => "error",
        Input::ToolAsked { .. } => "asked",
        Input::ToolDeferred { .. } => "deferred",
        Input::NotDispatched { .. } => "not_dispatched",
        Input::Previewed { .. } => "previewed",
        Input::Reconciled { found: Some(_), .. } => "found",
        Input::Reconciled { found: None, .. } => "not_found",
        _ => "stopped", // tidy: nothing else that is carried out ends here
    };
    span.record("outcome", outcome);
    span.record("duration_ms", duration_ms);
    tracing::info!("ended");
}

/// Logs recorded events that no call's own span covers, and replaces `span` when the active run changes. A run's span
/// follows from the span that requested the run, because the requesting span ends before the run does. `agent` is the
/// agent of the thread's newest run.
pub(super) fn recorded(
    span: &mut Span,
    asked: &Span,
    thread: &ThreadId,
    event: &Event,
    agent: Option<&Agent>,
) {
    if let (Fact::RunStarted { agent: recorded, .. }, Some(run)) = (&event.fact, &event.run)
        && let Some(agent) = recorded.full().map(|agent| &**agent).or(agent)
    {
        *span = run_span(thread, run, agent);
        span.follows_from(asked.id());
    }
    tell(span, event);
    if matches!(event.fact, Fact::RunFinished { .. }) {
        *span = Span::none();
    }
}

fn tell(span: &Span, event: &Event) {
    match &event.fact {
        Fact::RunStarted { .. } => tracing::info!(parent: span, "run started"),
        Fact::RunFinished { status, totals, error, .. } => {
            sum_up(span, *status, totals);
            let code = error.as_ref().map(|error| error.code.as_str());
            tracing::info!(parent: span, { { genai::ERROR } = code }, "run finished");
        }
        Fact::StepFailed { attempt, class, retry_at, .. } => tracing::info!(
            parent: span,
            {
                step = attempt.step,
                attempt = attempt.attempt,
                { genai::ERROR } = word(class),
                retry_in_ms = retry_at.map(|at| at.since(event.at)),
            },
            "step failed"
        ),
        Fact::ModelSwitched { model, .. } => {
            tracing::info!(parent: span, { { genai::MODEL } = %model }, "model switched");
        }
        Fact::CancelRequested { by, reason } => {
            tracing::info!(parent: span, %by, reason = word(reason), "cancel requested");
        }
        Fact::LimitReached { limit, figure, .. } => {
            tracing::info!(parent: span, limit, figure, "limit reached");
        }
        Fact::WindowMoved { start } => tracing::debug!(parent: span, start, "window moved"),
        Fact::InterruptOpened { .. }
        | Fact::InterruptVoted { .. }
        | Fact::InterruptReminded { .. }
        | Fact::InterruptEscalated { .. }
        | Fact::InterruptClosed { .. } => tell_of_people(span, &event.fact),
        Fact::CallJudged { call, .. }
        | Fact::GrantUsed { call, .. }
        | Fact::CallEdited { call, .. }
        | Fact::ToolUnresolved { call, .. }
        | Fact::ToolUndispatched { call }
        | Fact::ToolFinished { call, .. }
        | Fact::ToolInDoubt { call, .. } => tell_of_call(span, *call, event),
        Fact::ThreadCreated { .. }
        | Fact::ThreadForked { .. }
        | Fact::ThreadTitled { .. }
        | Fact::MessageReceived { .. }
        | Fact::MessageQueued { .. }
        | Fact::MessageTaken { .. }
        | Fact::MessageWithdrawn { .. }
        | Fact::MessageEdited { .. }
        | Fact::MessagePromoted { .. }
        | Fact::RunWithdrawn { .. }
        | Fact::StepStarted { .. }
        | Fact::StepReplied { .. }
        | Fact::CallPreviewing { .. }
        | Fact::CallPreviewed { .. }
        | Fact::ToolStarted { .. }
        | Fact::ToolParked { .. }
        | Fact::ToolDeferred { .. }
        | Fact::ToolKept { .. }
        | Fact::FileChanging { .. }
        | Fact::ResultOffloaded { .. }
        | Fact::ToolReconciling { .. }
        | Fact::Note { .. } => {}
    }
}

/// Logs questions to people, and their answers.
fn tell_of_people(span: &Span, fact: &Fact) {
    match fact {
        Fact::InterruptOpened { interrupt, call, .. } => tracing::info!(
            parent: span,
            step = call.map(|call| call.step),
            call = call.map(|call| call.index + 1),
            %interrupt,
            "waiting for an answer"
        ),
        Fact::InterruptVoted { interrupt, by, .. } => {
            tracing::info!(parent: span, %interrupt, %by, "approved by one of several");
        }
        Fact::InterruptReminded { interrupt } => {
            tracing::warn!(parent: span, %interrupt, "the interrupt has no answer yet");
        }
        Fact::InterruptEscalated { interrupt, to } => {
            tracing::warn!(parent: span, %interrupt, ?to, "the interrupt has no answer; escalated");
        }
        Fact::InterruptClosed { interrupt, by, .. } => {
            tracing::info!(parent: span, %interrupt, %by, "answered");
        }
        _ => {} // tidy: the others are traced elsewhere
    }
}

/// Logs a change of a call.
fn tell_of_call(span: &Span, at: CallKey, event: &Event) {
    let (step, call) = (at.step, at.index + 1);
    match &event.fact {
        Fact::CallJudged { verdict, rule, .. } => {
            tracing::debug!(parent: span, step, call, verdict = word(verdict), rule, "call judged");
        }
        Fact::GrantUsed { grant, .. } => tracing::info!(parent: span, step, call, grant, "grant used"),
        Fact::CallEdited { by, .. } => tracing::info!(parent: span, step, call, %by, "call edited"),
        Fact::ToolUnresolved { retry_at, .. } => {
            let retry_in_ms = retry_at.since(event.at);
            tracing::info!(parent: span, step, call, retry_in_ms, "outcome not found yet");
        }
        Fact::ToolUndispatched { .. } => tracing::info!(parent: span, step, call, "start taken back"),
        // A call that returned has logged its outcome in its own span.
        Fact::ToolFinished { outcome: Outcome::Returned, .. } => {}
        Fact::ToolFinished { outcome, .. } => {
            tracing::info!(parent: span, step, call, outcome = word(outcome), "call closed");
        }
        Fact::ToolInDoubt { .. } => tracing::info!(parent: span, step, call, "call in doubt"),
        _ => {} // tidy: the others are traced elsewhere
    }
}

fn sum_up(span: &Span, status: RunStatus, totals: &Totals) {
    if span.is_disabled() {
        return;
    }
    span.record("outcome", word(&status));
    span.record("steps", totals.steps);
    span.record("calls", totals.calls);
    span.record("duration_ms", totals.duration_ms);
    count(span, &totals.usage);
}

fn count(span: &Span, usage: &Usage) {
    note(span, genai::INPUT, usage.input);
    note(span, genai::OUTPUT, usage.output);
    note(span, genai::CACHED, usage.cached);
}

fn note(span: &Span, name: &str, figure: Option<u64>) {
    if let Some(figure) = figure {
        span.record(name, figure);
    }
}

/// Formats a value as the journal encodes it.
fn word(value: &impl Serialize) -> String {
    match serde_json::to_value(value) {
        Ok(Value::String(word)) => word,
        Ok(other) => other.to_string(),
        Err(error) => error.to_string(),
    }
}
