//! The model answered, failed, or was dropped.
//!
//! What follows a step without calls is decided here; the calls are `line`'s.

use std::sync::Arc;

use super::decision::Decision;
use super::line::Overlay;
use super::next::{End, finish, give_up, has_steps_left, next_step, try_again};
use super::{cancel, progress};
use crate::context::nudge::{EMPTY_RETRIES, LAST_RESORT, OVERRUN_RETRIES, SILENT};
use crate::context::window;
use crate::event::{Fact, Output, StepMode, Surface, Totals};
use crate::id::{Attempt, Digest, ModelName, Principal};
use crate::input::{ModelFailed, ModelReplied};
use crate::message::{Block, Content, Message, Role, StopReason, Usage};
use crate::policy::{FailureClass, error_code, retries_left, retry_delay_ms, shorten_failure};
use crate::reject::Reject;
use crate::state::{Phase, Run};

/// Prompts of one step that may be too long before the run gives up. (LM-L4)
const SHRINKS: u32 = 3;

fn calling<'a>(d: &Decision<'a>, attempt: Attempt) -> Result<&'a Run, Reject> {
    let run = d.active()?;
    if run.attempt == attempt && run.phase == Phase::Calling {
        return Ok(run);
    }
    Err(Reject::Stale { what: format!("step {}, attempt {}", attempt.step, attempt.attempt) })
}

pub(super) fn replied(d: &mut Decision<'_>, reply: &ModelReplied) -> Result<(), Reject> {
    let run = calling(d, reply.attempt)?;
    if let Err(why) = reply.blocks.iter().try_for_each(Block::check) {
        return failed(d, &unreadable(reply.attempt, &why));
    }
    let message = Message { role: Role::Assistant, blocks: reply.blocks.clone() };
    let mut totals = run.totals;
    totals.add_reply(&reply.stop, &reply.usage, reply.cost, reply.ttft_ms);
    let asks = message.calls().next().is_some();
    let message = Arc::new(message);
    d.record(Fact::StepReplied {
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
    if asks {
        let mut line = Overlay::new(run, &message);
        if run.cancel.is_some() {
            return cancel::settle(d, run, Some(line), &totals);
        }
        line.judge(d, &reply.view);
        progress::go_on(d, line, &totals);
        return Ok(());
    }
    if run.cancel.is_some() {
        return cancel::settle(d, run, None, &totals);
    }
    without_calls(d, run, &reply.stop, &message, &totals);
    Ok(())
}

/// A reply that cannot be recorded is one that the protocol does not allow.
fn unreadable(attempt: Attempt, why: &str) -> ModelFailed {
    let message = format!("a part of the reply {why}");
    ModelFailed { attempt, class: FailureClass::Malformed, message, retry_after_ms: None, partial: None }
}

/// A stop whose reason, where it is in the provider's words, is not longer than what a failure may say.
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

fn without_calls(d: &mut Decision<'_>, run: &Run, stop: &StopReason, message: &Message, totals: &Totals) {
    let output = d.said(run);
    match stop {
        StopReason::Refusal => {
            let end = End::failed("ERR_REFUSED", "the model declined to answer".into(), false);
            finish(d, run, end.with_output(output), totals);
        }
        StopReason::Other(reason) => {
            let end = End::failed("ERR_UNEXPECTED_STOP", format!("the model stopped for `{reason}`"), false);
            finish(d, run, end.with_output(output), totals);
        }
        StopReason::Pause => next_step(d, run, StepMode::Plain, totals),
        StopReason::MaxTokens if run.overruns < OVERRUN_RETRIES => {
            let mode = if message.has_answer() { StepMode::Continue } else { StepMode::Smaller };
            next_step(d, run, mode, totals);
        }
        StopReason::MaxTokens => {
            let message = format!("the reply hit the output cap {} times in a row", OVERRUN_RETRIES + 1);
            finish(d, run, End::failed("ERR_MAX_TOKENS", message, false).with_output(output), totals);
        }
        StopReason::End | StopReason::ToolCalls | StopReason::StopSequence | StopReason::Cancelled => {
            if message.has_answer() || run.answer_from.is_some() {
                answered(d, run, output, totals);
            } else {
                silent(d, run, totals);
            }
        }
    }
}

fn answered(d: &mut Decision<'_>, run: &Run, output: Output, totals: &Totals) {
    let steered = d.state.queue.iter().any(|waiting| waiting.queued.place == crate::event::Place::AfterStep);
    // An answer on the last step stands; what was to steer the run then starts the next one.
    if steered && has_steps_left(run) {
        next_step(d, run, StepMode::Plain, totals);
        return;
    }
    let fallback = run.mode == StepMode::Fallback;
    finish(d, run, End { fallback, ..End::done(output) }, totals);
}

/// The reply had neither text nor calls. (WT-L9, WT-L10)
fn silent(d: &mut Decision<'_>, run: &Run, totals: &Totals) {
    let words = match run.mode {
        StepMode::Fallback => LAST_RESORT,
        StepMode::Plain | StepMode::AfterEmpty(_) | StepMode::Continue | StepMode::Smaller => {
            if run.empties < EMPTY_RETRIES {
                return next_step(d, run, StepMode::AfterEmpty(run.empties + 1), totals);
            }
            SILENT
        }
    };
    match run.options.surface {
        Surface::Chat => finish(d, run, End::in_place(words), totals),
        Surface::Headless => {
            let message = format!("the model answered nothing {} times in a row", run.empties + 1);
            finish(d, run, End::failed("ERR_EMPTY_REPLY", message, true), totals);
        }
    }
}

pub(super) fn failed(d: &mut Decision<'_>, failure: &ModelFailed) -> Result<(), Reject> {
    let run = calling(d, failure.attempt)?;
    let delay = if run.cancel.is_some() {
        None
    } else {
        retry_delay_ms(failure.class, run.failures, failure.retry_after_ms)
    };
    let message = shorten_failure(&failure.message).into_owned();
    d.record(Fact::StepFailed {
        attempt: failure.attempt,
        class: failure.class,
        message: message.clone(),
        partial: failure.partial.clone(),
        retry_at: delay.map(|ms| d.now.plus_ms(ms)),
        attempts_max: delay.map(|_| failure.attempt.attempt + retries_left(failure.class, run.failures)),
    });
    if run.cancel.is_some() {
        return cancel::settle(d, run, None, &run.totals);
    }
    if delay.is_some() {
        return Ok(());
    }
    if failure.class == FailureClass::ContextTooLong
        && run.failures.too_long < SHRINKS
        && let Some(start) = window::shrunk(&d.state.history)
    {
        d.record(Fact::WindowMoved { start });
        try_again(d, run, &run.model);
        return Ok(());
    }
    if run.model != run.step_model {
        // Somebody has chosen another model while this one was called: its turn comes before the fallbacks.
        try_again(d, run, &run.model);
        return Ok(());
    }
    if let Some(model) = fallback_model(run) {
        let reason = format!("`{}` failed: {message}", run.model);
        d.record(Fact::ModelSwitched { model: model.clone(), reason });
        try_again(d, run, model);
        return Ok(());
    }
    let (code, retryable) = error_code(failure.class);
    let end = End::failed(code, message, retryable).with_output(d.said(run));
    give_up(d, run, end, &run.totals);
    Ok(())
}

/// The model after the one in use in the agent's list.
fn fallback_model(run: &Run) -> Option<&ModelName> {
    let place = run.agent.models.iter().position(|model| *model == run.model);
    // A model that a person chose stands before the list.
    run.agent.models.get(place.map_or(0, |place| place + 1))
}

pub(super) fn stopped(
    d: &mut Decision<'_>,
    attempt: Attempt,
    partial: Option<&Content>,
) -> Result<(), Reject> {
    let run = calling(d, attempt)?;
    if run.cancel.is_none() {
        if partial.is_some() {
            return Err(Reject::Stale { what: "the model call is still wanted".into() });
        }
        // Another process makes the call again; nothing failed.
        d.record(Fact::StepFailed {
            attempt,
            class: FailureClass::Cancelled,
            message: "the process that made the call ended in order".into(),
            partial: None,
            retry_at: Some(d.now),
            attempts_max: None,
        });
        return Ok(());
    }
    match partial {
        Some(partial) if partial.size_bytes() > 0 => {
            let block = Block::Text { text: partial.clone(), native: None };
            let message = Arc::new(Message { role: Role::Assistant, blocks: vec![block] });
            d.record(Fact::StepReplied {
                attempt,
                message,
                stop: StopReason::Cancelled,
                usage: Usage::default(),
                cost: None,
                request: Digest::default(),
                ttft_ms: None,
                duration_ms: d.now.since(run.step_at),
                thoughts_ms: Vec::new(),
            });
        }
        Some(_) | None => d.record(Fact::StepFailed {
            attempt,
            class: FailureClass::Cancelled,
            message: "stopped before any text had come".into(),
            partial: None,
            retry_at: None,
            attempts_max: None,
        }),
    }
    cancel::settle(d, run, None, &run.totals)
}

pub(super) fn switched(d: &mut Decision<'_>, model: &ModelName, by: &Principal) -> Result<(), Reject> {
    if model.as_str().is_empty() {
        return Err(Reject::Invalid { what: "the model's name is empty; write `provider/model`".into() });
    }
    d.record(Fact::ModelSwitched { model: model.clone(), reason: format!("chosen by {by}") });
    Ok(())
}
