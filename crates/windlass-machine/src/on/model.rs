//! The model answered, failed, or was dropped.

use std::sync::Arc;

use super::line::Overlay;
use super::next::{End, finish, next_step, try_again};
use super::{Decision, cancel};
use crate::context::nudge::{EMPTY_RETRIES, LAST_RESORT, OVERRUN_RETRIES, SILENT};
use crate::context::window::{self, Added};
use crate::event::{Fact, RunStatus, StepMode, Surface, Totals};
use crate::id::{Attempt, Digest, ModelName, Principal};
use crate::input::{ModelFailed, ModelReplied};
use crate::message::{Content, Message, MicroUsd, Role, StopReason, Usage};
use crate::policy::{FailureClass, error_code, retry_delay_ms};
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
    let message = Message { role: Role::Assistant, blocks: reply.blocks.clone() };
    let mut totals = run.totals;
    totals.usage.add(&reply.usage);
    totals.cost = totals.cost.zip(reply.cost).map(|(all, one)| MicroUsd(all.0.saturating_add(one.0)));
    let added = Added { messages: u64::from(message.is_worth_keeping()) };
    let asks = message.calls().next().is_some();
    let answer = message.has_answer();
    let text = message.plain_text();
    let message = Arc::new(message);
    d.record(Fact::StepReplied {
        attempt: reply.attempt,
        message: message.clone(),
        stop: reply.stop.clone(),
        usage: reply.usage,
        cost: reply.cost,
        request: reply.request,
        ttft_ms: reply.ttft_ms,
        duration_ms: reply.duration_ms,
    });
    if asks {
        let mut line = Overlay::new(run, &message);
        if run.cancel.is_some() {
            return cancel::settle(d, run, Some(line), Some(&text), &totals);
        }
        line.judge(d, &reply.view);
        line.go_on(d, added, &totals);
        return Ok(());
    }
    if run.cancel.is_some() {
        return cancel::settle(d, run, None, Some(&text), &totals);
    }
    without_calls(d, run, &reply.stop, answer, text, added, &totals);
    Ok(())
}

fn without_calls(
    d: &mut Decision<'_>,
    run: &Run,
    stop: &StopReason,
    answer: bool,
    text: String,
    added: Added,
    totals: &Totals,
) {
    let output = Content::Inline(format!("{}{text}", run.output));
    match stop {
        StopReason::Refusal => {
            let end = End::failed("ERR_REFUSED", "the model declined to answer".into(), false);
            finish(d, run, end.with_output(Some(output)), totals);
        }
        StopReason::Other(reason) => {
            let end = End::failed("ERR_UNEXPECTED_STOP", format!("the model stopped for `{reason}`"), false);
            finish(d, run, end.with_output(Some(output)), totals);
        }
        StopReason::Pause => next_step(d, run, StepMode::Plain, added, totals),
        StopReason::MaxTokens if run.overruns < OVERRUN_RETRIES => {
            let mode = if text.is_empty() { StepMode::Smaller } else { StepMode::Continue };
            next_step(d, run, mode, added, totals);
        }
        StopReason::MaxTokens => {
            let message = format!("the reply hit the output cap {} times in a row", OVERRUN_RETRIES + 1);
            finish(d, run, End::failed("ERR_MAX_TOKENS", message, false).with_output(Some(output)), totals);
        }
        StopReason::End | StopReason::ToolCalls | StopReason::StopSequence | StopReason::Cancelled => {
            if answer || !run.output.is_empty() {
                answered(d, run, output, added, totals);
            } else {
                silent(d, run, added, totals);
            }
        }
    }
}

fn answered(d: &mut Decision<'_>, run: &Run, output: Content, added: Added, totals: &Totals) {
    let steered = d.state.queue.iter().any(|(_, queued)| queued.place == crate::event::Place::AfterStep);
    if steered {
        next_step(d, run, StepMode::Plain, added, totals);
        return;
    }
    let fallback = run.mode == StepMode::Fallback;
    finish(d, run, End { fallback, ..End::done(output) }, totals);
}

/// The reply had neither text nor calls. (WT-L9, WT-L10)
fn silent(d: &mut Decision<'_>, run: &Run, added: Added, totals: &Totals) {
    let words = match run.mode {
        StepMode::Fallback => LAST_RESORT,
        StepMode::Plain | StepMode::AfterEmpty(_) | StepMode::Continue | StepMode::Smaller => {
            if run.empties < EMPTY_RETRIES {
                return next_step(d, run, StepMode::AfterEmpty(run.empties + 1), added, totals);
            }
            SILENT
        }
    };
    match run.options.surface {
        Surface::Chat => finish(d, run, End { fallback: true, ..End::done(words.into()) }, totals),
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
    d.record(Fact::StepFailed {
        attempt: failure.attempt,
        class: failure.class,
        message: failure.message.clone(),
        partial: failure.partial.clone(),
        retry_at: delay.map(|ms| d.now.plus_ms(ms)),
    });
    if run.cancel.is_some() {
        return cancel::settle(d, run, None, None, &run.totals);
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
    if let Some(model) = fallback_model(run) {
        let reason = format!("`{}` failed: {}", run.model, failure.message);
        d.record(Fact::ModelSwitched { model: model.clone(), reason });
        try_again(d, run, model);
        return Ok(());
    }
    let (code, retryable) = error_code(failure.class);
    let partial = failure.partial.clone().or_else(|| run.partial.clone());
    let end = End::failed(code, failure.message.clone(), retryable).with_output(partial);
    finish(d, run, end, &run.totals);
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
        return Err(Reject::Stale { what: "the model call is still wanted".into() });
    }
    let text = partial.and_then(Content::inline).unwrap_or_default();
    match partial {
        Some(partial) if partial.size_bytes() > 0 => {
            let block = crate::message::Block::Text { text: partial.clone(), native: None };
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
            });
        }
        Some(_) | None => d.record(Fact::StepFailed {
            attempt,
            class: FailureClass::Cancelled,
            message: "stopped before any text had come".into(),
            partial: None,
            retry_at: None,
        }),
    }
    cancel::settle(d, run, None, Some(text), &run.totals)
}

pub(super) fn switched(d: &mut Decision<'_>, model: &ModelName, by: &Principal) -> Result<(), Reject> {
    if model.as_str().is_empty() {
        return Err(Reject::Invalid { what: "the model's name is empty; write `provider/model`".into() });
    }
    d.record(Fact::ModelSwitched { model: model.clone(), reason: format!("chosen by {by}") });
    Ok(())
}

/// What a run's end is called when it was stopped.
pub(super) fn stop_status(timeout: bool) -> RunStatus {
    if timeout { RunStatus::Failed } else { RunStatus::Cancelled }
}
