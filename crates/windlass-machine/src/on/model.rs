//! Handles a model call that succeeded, failed, or was stopped.
//!
//! This module decides the run's next action after a step without calls; `line` handles the calls.

use std::sync::Arc;

use super::next::{End, finish, give_up, has_steps_left, next_step, try_again};
use super::record::{Planned, Recorder, Situation};
use super::{cancel, line, progress};
use crate::context::nudge::{EMPTY_RETRIES, LAST_RESORT, OVERRUN_RETRIES, SILENT};
use crate::context::window;
use crate::event::{Fact, Output, Place, StepMode, Surface};
use crate::id::{Attempt, Fingerprint, ModelName, Principal};
use crate::input::{ModelFailed, ModelReplied};
use crate::message::{Block, Content, Message, Role, StopReason, Usage};
use crate::policy::{FailureClass, error_code, retries_left, retry_delay_ms, shorten_failure};
use crate::reject::Reject;
use crate::state::{Phase, Run, Waiting};

/// Maximum number of window reductions for one step whose prompt is too long. (LM-L4)
const SHRINKS: u32 = 3;

fn calling<'a>(s: Situation<'a>, attempt: Attempt) -> Result<&'a Run, Reject> {
    let run = s.active()?;
    if run.attempt == attempt && run.phase == Phase::Calling {
        return Ok(run);
    }
    Err(Reject::Stale { what: format!("step {}, attempt {}", attempt.step, attempt.attempt) })
}

pub(super) fn replied<'i>(s: Situation<'_>, reply: &'i ModelReplied) -> Planned<'i> {
    calling(s, reply.attempt)?;
    if let Err(why) = reply.blocks.iter().try_for_each(Block::check) {
        let failure = unreadable(reply.attempt, &why);
        return Ok(Box::new(move |r| fail(r, &failure)));
    }
    Ok(Box::new(move |r| take_reply(r, reply)))
}

fn take_reply(r: &mut Recorder<'_>, reply: &ModelReplied) {
    let message = Arc::new(Message { role: Role::Assistant, blocks: reply.blocks.clone() });
    // If an earlier reply hit the output maximum, the answer starts with that reply.
    let continues = r.run().answer_continues && r.run().answer.is_some();
    r.record(Fact::StepReplied {
        attempt: reply.attempt,
        message: message.clone(),
        stop: told_in_short(&reply.stop),
        usage: reply.usage,
        cost: reply.cost,
        request: reply.request,
        ttft_ms: reply.ttft_ms,
        duration_ms: reply.duration_ms,
        thoughts_ms: reply.thoughts_ms.clone(),
    });
    if r.run().cancel.is_some() {
        return cancel::settle(r);
    }
    if r.line().is_some() {
        line::judge(r, &reply.view);
        return progress::advance(r);
    }
    without_calls(r, &reply.stop, message.has_answer(), continues);
}

/// A reply that cannot be recorded violates the protocol.
fn unreadable(attempt: Attempt, why: &str) -> ModelFailed {
    let message = format!("a part of the reply {why}");
    ModelFailed { attempt, class: FailureClass::Malformed, message, retry_after_ms: None, partial: None }
}

/// Truncates a provider's own stop reason to the maximum length of a failure message.
fn told_in_short(stop: &StopReason) -> StopReason {
    match stop {
        StopReason::Other(words) => StopReason::Other(shorten_failure(words).into_owned()),
        StopReason::End
        | StopReason::ToolCalls
        | StopReason::MaxTokens
        | StopReason::Refusal
        | StopReason::Pause
        | StopReason::StopSequence
        | StopReason::Cancelled => stop.clone(),
    }
}

fn without_calls(r: &mut Recorder<'_>, stop: &StopReason, has_answer: bool, continues: bool) {
    let output = r.run().said();
    match stop {
        StopReason::Refusal => {
            let end = End::failed("ERR_REFUSED", "the model declined to answer".into(), false);
            finish(r, end.with_output(output));
        }
        StopReason::Other(reason) => {
            let end = End::failed("ERR_UNEXPECTED_STOP", format!("the model stopped for `{reason}`"), false);
            finish(r, end.with_output(output));
        }
        StopReason::Pause => next_step(r, StepMode::Plain),
        StopReason::MaxTokens if r.run().overruns <= OVERRUN_RETRIES => {
            next_step(r, if has_answer { StepMode::Continue } else { StepMode::Smaller });
        }
        StopReason::MaxTokens => {
            let message = format!("the reply hit the output cap {} times in a row", OVERRUN_RETRIES + 1);
            finish(r, End::failed("ERR_MAX_TOKENS", message, false).with_output(output));
        }
        StopReason::End | StopReason::ToolCalls | StopReason::StopSequence | StopReason::Cancelled => {
            if has_answer || continues {
                answered(r, output);
            } else {
                silent(r);
            }
        }
    }
}

fn answered(r: &mut Recorder<'_>, output: Output) {
    let steers = |waiting: &Waiting| waiting.queued.place == Place::AfterStep;
    // An answer in the last step is final; steering messages then start the next run.
    if r.state().queue.iter().any(steers) && has_steps_left(r.run()) {
        return next_step(r, StepMode::Plain);
    }
    let fallback = r.run().mode == StepMode::Fallback;
    finish(r, End { fallback, ..End::done(output) });
}

/// Handles a reply with neither text nor calls. (WT-L9, WT-L10)
fn silent(r: &mut Recorder<'_>) {
    let Run { mode, empties, ref options, .. } = *r.run();
    let words = match mode {
        StepMode::Fallback => LAST_RESORT,
        StepMode::Plain | StepMode::AfterEmpty(_) | StepMode::Continue | StepMode::Smaller => {
            if empties <= EMPTY_RETRIES {
                return next_step(r, StepMode::AfterEmpty(empties));
            }
            SILENT
        }
    };
    match options.surface {
        Surface::Chat => finish(r, End::in_place(words)),
        Surface::Headless => {
            let message = format!("the model answered nothing {empties} times in a row");
            finish(r, End::failed("ERR_EMPTY_REPLY", message, true));
        }
    }
}

pub(super) fn failed<'i>(s: Situation<'_>, failure: &'i ModelFailed) -> Planned<'i> {
    calling(s, failure.attempt)?;
    Ok(Box::new(move |r| fail(r, failure)))
}

fn fail(r: &mut Recorder<'_>, failure: &ModelFailed) {
    let run = r.run();
    // The failures before the current failure.
    let failures = run.failures;
    let delay = if run.cancel.is_some() {
        None
    } else {
        retry_delay_ms(failure.class, failures, failure.retry_after_ms)
    };
    let message = shorten_failure(&failure.message).into_owned();
    r.record(Fact::StepFailed {
        attempt: failure.attempt,
        class: failure.class,
        message: message.clone(),
        partial: failure.partial.clone(),
        retry_at: delay.map(|ms| r.now().plus_ms(ms)),
        attempts_max: delay.map(|_| failure.attempt.attempt + retries_left(failure.class, failures)),
    });
    if r.run().cancel.is_some() {
        return cancel::settle(r);
    }
    if delay.is_some() {
        return;
    }
    if failure.class == FailureClass::ContextTooLong
        && failures.too_long < SHRINKS
        && let Some(start) = window::shrunk(&r.state().history)
    {
        r.record(Fact::WindowMoved { start });
        return try_again(r);
    }
    if r.run().model != r.run().step_model {
        // A person has chosen another model during this call: try that model before the fallbacks.
        return try_again(r);
    }
    if let Some(model) = fallback_model(r.run()).cloned() {
        let reason = format!("`{}` failed: {message}", r.run().model);
        r.record(Fact::ModelSwitched { model, reason });
        return try_again(r);
    }
    let (code, retryable) = error_code(failure.class);
    let end = End::failed(code, message, retryable).with_output(r.run().said());
    give_up(r, end);
}

/// Returns the model after the current model in the agent's list.
fn fallback_model(run: &Run) -> Option<&ModelName> {
    let place = run.agent.models.iter().position(|model| *model == run.model);
    // A model that a person chose precedes the list.
    run.agent.models.get(place.map_or(0, |place| place + 1))
}

pub(super) fn stopped<'i>(s: Situation<'_>, attempt: Attempt, partial: Option<&'i Content>) -> Planned<'i> {
    let run = calling(s, attempt)?;
    if run.cancel.is_some() {
        return Ok(Box::new(move |r| stop(r, attempt, partial)));
    }
    if partial.is_some() {
        return Err(Reject::Stale { what: "the model call is still wanted".into() });
    }
    // Another process repeats the call, so the stop is no failure.
    Ok(Box::new(move |r| {
        r.record(Fact::StepFailed {
            attempt,
            class: FailureClass::Cancelled,
            message: "the process that made the call ended in order".into(),
            partial: None,
            retry_at: Some(r.now()),
            attempts_max: None,
        });
    }))
}

/// Handles the end of a model call in a run that is being cancelled.
fn stop(r: &mut Recorder<'_>, attempt: Attempt, partial: Option<&Content>) {
    match partial {
        Some(partial) if partial.size_bytes() > 0 => {
            let block = Block::Text { text: partial.clone(), native: None };
            let message = Arc::new(Message { role: Role::Assistant, blocks: vec![block] });
            r.record(Fact::StepReplied {
                attempt,
                message,
                stop: StopReason::Cancelled,
                usage: Usage::default(),
                cost: None,
                request: Fingerprint::default(),
                ttft_ms: None,
                duration_ms: r.now().since(r.run().step_at),
                thoughts_ms: Vec::new(),
            });
        }
        Some(_) | None => r.record(Fact::StepFailed {
            attempt,
            class: FailureClass::Cancelled,
            message: "stopped before any text had come".into(),
            partial: None,
            retry_at: None,
            attempts_max: None,
        }),
    }
    cancel::settle(r);
}

pub(super) fn switched<'i>(model: &'i ModelName, by: &'i Principal) -> Planned<'i> {
    if model.as_str().is_empty() {
        return Err(Reject::Invalid { what: "the model's name is empty; write `provider/model`".into() });
    }
    Ok(Box::new(move |r| {
        r.record(Fact::ModelSwitched { model: model.clone(), reason: format!("chosen by {by}") });
    }))
}
