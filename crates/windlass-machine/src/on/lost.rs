//! Handles a command that was in flight when its process ended.
//!
//! A lost model call is repeated a limited number of times: it has no effects, but each attempt may be charged. For a
//! lost tool call the effect class decides. A call that must not be repeated is in doubt.

use super::line::{self, close, with_repair};
use super::next::{End, give_up, try_again};
use super::progress::after;
use super::record::{Planned, Recorder, Situation};
use super::{cancel, rejudge, verdict};
use crate::agent::EffectClass;
use crate::command::Command;
use crate::event::{Fact, Outcome, Verdict};
use crate::id::{Attempt, CallKey};
use crate::input::{CallView, View};
use crate::message::Block;
use crate::policy::{FailureClass, LOST_ATTEMPTS_MAX, error_code, retries_left, retry_delay_ms};
use crate::reject::Reject;
use crate::state::{CallStatus, Phase};

pub(super) fn lost<'i>(s: Situation<'_>, command: &Command, view: &'i View) -> Planned<'i> {
    match command {
        Command::CallModel { attempt, .. } => {
            let (run, attempt) = (s.active()?, *attempt);
            if run.attempt != attempt || run.phase != Phase::Calling {
                let what = format!("step {}, attempt {}", attempt.step, attempt.attempt);
                return Err(Reject::Stale { what });
            }
            Ok(Box::new(move |r| lose_model_call(r, attempt)))
        }
        Command::CallTool { call, start, .. } => {
            check_start(s, *call, *start)?;
            let index = call.index as usize;
            Ok(Box::new(move |r| lose_tool_call(r, index, view)))
        }
        Command::PreviewTool { .. } | Command::Reconcile { .. } => {
            Err(Reject::Stale { what: "a read that changes nothing; it is made again and".into() })
        }
    }
}

fn lose_model_call(r: &mut Recorder<'_>, attempt: Attempt) {
    let run = r.run();
    // The failures before this loss.
    let failures = run.failures;
    let delay_ms = match run.cancel {
        Some(_) => None,
        None => retry_delay_ms(FailureClass::Lost, failures, None),
    };
    r.record(Fact::StepFailed {
        attempt,
        class: FailureClass::Lost,
        message: "the process that made the call is gone".into(),
        partial: None,
        retry_at: delay_ms.filter(|ms| *ms > 0).map(|ms| r.now().plus_ms(ms)),
        attempts_max: delay_ms.map(|_| attempt.attempt + retries_left(FailureClass::Lost, failures)),
    });
    if r.run().cancel.is_some() {
        return cancel::settle(r);
    }
    match delay_ms {
        Some(0) => try_again(r),
        Some(_) => {}
        None => {
            let message = format!(
                "{LOST_ATTEMPTS_MAX} attempts at step {} were lost, each with the process that made it",
                attempt.step
            );
            let (code, retryable) = error_code(FailureClass::Lost);
            let end = End::failed(code, message, retryable).with_output(r.run().said());
            give_up(r, end);
        }
    }
}

/// Checks that `start` is the current start of the call.
pub(super) fn check_start(s: Situation<'_>, key: CallKey, start: u32) -> Result<(), Reject> {
    let call = s.call(key)?;
    if call.status != CallStatus::Started || call.starts != start {
        return Err(Reject::Stale { what: format!("start {start} of call {}/{}", key.step, key.index) });
    }
    Ok(())
}

fn lose_tool_call(r: &mut Recorder<'_>, index: usize, view: &View) {
    let (run, call) = (r.run(), r.call(index));
    let again = call.is_repeatable() && call.tries < run.agent.limits.max_call_starts;
    let reason = "the process that ran it is gone";
    match (run.cancel.is_some(), call.class) {
        (true, EffectClass::Pure) => close(r, index, Outcome::Cancelled, format!("Stopped: {reason}")),
        (true, _) => leave_in_doubt(r, index, reason),
        (false, _) if again => repeat(r, index, view),
        (false, EffectClass::Reconcile { wait_ms }) => line::reconcile(r, index, wait_ms),
        (false, EffectClass::Pure) => {
            let text = format!("Given up after {} starts: {reason} each time", call.starts);
            close(r, index, Outcome::Returned, text);
        }
        (false, EffectClass::Idempotent | EffectClass::Keyed | EffectClass::Once) => {
            line::doubt(r, index, reason.into());
        }
    }
    after(r);
}

/// Closes a call with an unknown outcome in a run that is being cancelled.
pub(super) fn leave_in_doubt(r: &mut Recorder<'_>, index: usize, reason: &str) {
    let call = r.key(index);
    r.record(Fact::ToolInDoubt { call, effect: r.effect(call), reason: reason.into() });
    close(r, index, Outcome::InDoubt, format!("Outcome unknown: {reason}"));
}

/// Starts a call again, unless the current policy no longer allows it.
pub(super) fn repeat(r: &mut Recorder<'_>, index: usize, view: &View) {
    let call = r.call(index);
    let (tool, pure) = (call.tool.clone(), call.class == EffectClass::Pure);
    let Some(CallView::Known(known)) = view.calls.get(index) else {
        if r.lacks(&tool) {
            // It is found lost again where its tool is.
            return;
        }
        let text = format!("the tool `{tool}` is no longer available");
        return match pure {
            true => close(r, index, Outcome::Unavailable, text),
            false => line::doubt(r, index, text),
        };
    };
    if let Some(reason) = rejudge::unfit(known) {
        let text = format!("the tool has changed, and the call cannot be repeated: {reason}");
        return match pure {
            true => close(r, index, Outcome::Refused, text),
            false => line::doubt(r, index, text),
        };
    }
    let judged = verdict::judge(r, &tool, known, view);
    match judged.verdict {
        Verdict::Allow => line::begin(r, index),
        Verdict::Ask if rejudge::still_stands(r, index, &judged, known, view) => line::begin(r, index),
        Verdict::Ask => {
            line::judged(r, index, &judged, known, None, view);
            line::ask(r, index, judged);
        }
        Verdict::Deny if pure => {
            line::judged(r, index, &judged, known, None, view);
            line::denied(r, index, &judged);
        }
        Verdict::Deny => {
            line::doubt(r, index, format!("a rule (`{}`) does not let it be repeated", judged.by));
        }
    }
}

/// Handles the response to a reconciliation read.
pub(super) fn reconciled<'i>(
    s: Situation<'_>,
    key: CallKey,
    attempt: u32,
    found: Option<&'i Vec<Block>>,
    reason: &'i str,
) -> Planned<'i> {
    let stale = || Reject::Stale {
        what: format!("read {attempt} for the outcome of call {}/{}", key.step, key.index),
    };
    let CallStatus::Reconciling { attempt: now, until } = s.call(key)?.status else {
        return Err(stale());
    };
    if now != attempt || s.active()?.cancel.is_some() {
        return Err(stale());
    }
    Ok(Box::new(move |r| {
        let index = key.index as usize;
        let (found, reason) = match found.map(|content| content.iter().try_for_each(Block::check)) {
            Some(Err(why)) => (None, format!("a part of what was found {why}")),
            Some(Ok(())) | None => (found, reason.to_owned()),
        };
        match found {
            Some(content) => {
                let content = with_repair(r.call(index), content);
                line::finish(r, index, Outcome::Reconciled, content);
            }
            None if r.now() >= until => {
                let text = format!("nothing was found within the time to look for it; last: {reason}");
                line::doubt(r, index, text);
            }
            None => {
                let retry_at = r.now().plus_ms(pause_ms(attempt)).min(until);
                r.record(Fact::ToolUnresolved { call: key, reason, retry_at });
            }
        }
        after(r);
    }))
}

/// Returns the pause after a read in milliseconds: 1, 2, 4, … s, at most 30 s.
fn pause_ms(attempt: u32) -> u64 {
    1_000 * 2u64.saturating_pow(attempt.saturating_sub(1)).min(30)
}

/// Starts the reconciliation reads that are due.
pub(super) fn look_again(r: &mut Recorder<'_>) {
    for index in 0..r.line().map_or(0, |line| line.calls.len()) {
        let call = r.call(index);
        if let CallStatus::Unresolved { attempts, until, retry_at } = call.status
            && retry_at <= r.now()
            && !r.lacks(&call.tool)
        {
            r.record(Fact::ToolReconciling { call: r.key(index), attempt: attempts + 1, until });
        }
    }
}
