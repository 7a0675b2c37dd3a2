//! Something was in flight, and the process that had it is gone.
//!
//! A lost model call is made again, a few times at most: nothing in the world changed, but each attempt may be paid for.
//! A lost tool call is judged by its effect class; what must not be repeated is in doubt.

use super::decision::{Decision, line_of};
use super::line::{Overlay, with_repair};
use super::next::{End, give_up, try_again};
use super::progress::after;
use super::{cancel, rejudge, verdict};
use crate::agent::EffectClass;
use crate::command::Command;
use crate::event::{Fact, Outcome, Verdict};
use crate::id::{Attempt, CallKey};
use crate::input::{CallView, View};
use crate::message::Block;
use crate::policy::{FailureClass, LOST_ATTEMPTS_MAX, error_code, retries_left, retry_delay_ms};
use crate::reject::Reject;
use crate::state::{Call, CallStatus, Line, Phase, Run};

pub(super) fn lost(d: &mut Decision<'_>, command: &Command, view: &View) -> Result<(), Reject> {
    match command {
        Command::CallModel { attempt, .. } => lost_model(d, *attempt),
        Command::CallTool { call, start, .. } => lost_tool(d, *call, *start, view),
        Command::PreviewTool { .. } | Command::Reconcile { .. } => {
            Err(Reject::Stale { what: "a read that changes nothing; it is made again and".into() })
        }
    }
}

fn lost_model(d: &mut Decision<'_>, attempt: Attempt) -> Result<(), Reject> {
    let run = d.active()?;
    if run.attempt != attempt || run.phase != Phase::Calling {
        return Err(Reject::Stale { what: format!("step {}, attempt {}", attempt.step, attempt.attempt) });
    }
    let delay_ms = match run.cancel {
        Some(_) => None,
        None => retry_delay_ms(FailureClass::Lost, run.failures, None),
    };
    d.record(Fact::StepFailed {
        attempt,
        class: FailureClass::Lost,
        message: "the process that made the call is gone".into(),
        partial: None,
        retry_at: delay_ms.filter(|ms| *ms > 0).map(|ms| d.now.plus_ms(ms)),
        attempts_max: delay_ms.map(|_| attempt.attempt + retries_left(FailureClass::Lost, run.failures)),
    });
    if run.cancel.is_some() {
        return cancel::settle(d, run, None, &run.totals);
    }
    match delay_ms {
        Some(0) => try_again(d, run, &run.model),
        Some(_) => {}
        None => {
            let message = format!(
                "{LOST_ATTEMPTS_MAX} attempts at step {} were lost, each with the process that made it",
                attempt.step
            );
            let (code, retryable) = error_code(FailureClass::Lost);
            let end = End::failed(code, message, retryable).with_output(d.said(run));
            give_up(d, run, end, &run.totals);
        }
    }
    Ok(())
}

/// Finds a call whose current start this is.
pub(super) fn find_start<'a>(
    d: &Decision<'a>,
    key: CallKey,
    start: u32,
) -> Result<(&'a Run, &'a Line, &'a Call), Reject> {
    let run = d.active()?;
    let line = line_of(run, key)?;
    let call = &line.calls[key.index as usize];
    if call.status != CallStatus::Started || call.starts != start {
        return Err(Reject::Stale { what: format!("start {start} of call {}/{}", key.step, key.index) });
    }
    Ok((run, line, call))
}

fn lost_tool(d: &mut Decision<'_>, key: CallKey, start: u32, view: &View) -> Result<(), Reject> {
    let (run, line, call) = find_start(d, key, start)?;
    let index = key.index as usize;
    let mut overlay = Overlay::of(run, line);
    let again = call.is_repeatable() && call.tries < run.agent.limits.max_call_starts;
    let reason = "the process that ran it is gone";
    if run.cancel.is_some() {
        if call.class == EffectClass::Pure {
            overlay.close(d, index, Outcome::Cancelled, format!("Stopped: {reason}"));
        } else {
            let effect = d.effect(run, key);
            d.record(Fact::ToolInDoubt { call: key, effect, reason: reason.into() });
            overlay.close(d, index, Outcome::InDoubt, format!("Outcome unknown: {reason}"));
        }
    } else if again {
        repeat(d, &mut overlay, (index, call), view);
    } else if let EffectClass::Reconcile { wait_ms } = call.class {
        overlay.reconcile(d, index, wait_ms);
    } else if call.class == EffectClass::Pure {
        overlay.close(
            d,
            index,
            Outcome::Returned,
            format!("Given up after {start} starts: {reason} each time"),
        );
    } else {
        overlay.doubt(d, index, reason.into());
    }
    after(d, run, overlay)
}

/// Starts a call again, unless the policy by now says otherwise: what was allowed once may not be any more.
pub(super) fn repeat(
    d: &mut Decision<'_>,
    overlay: &mut Overlay<'_>,
    (index, call): (usize, &Call),
    view: &View,
) {
    let (run, tool, pure) =
        (overlay.run, overlay.seats[index].tool, overlay.seats[index].class == EffectClass::Pure);
    let Some(CallView::Known(known)) = view.calls.get(index) else {
        if d.lacks(tool) {
            // It is found lost again where its tool is.
            return;
        }
        let text = format!("the tool `{tool}` is no longer available");
        return match pure {
            true => overlay.close(d, index, Outcome::Unavailable, text),
            false => overlay.doubt(d, index, text),
        };
    };
    if let Some(reason) = rejudge::unfit(known) {
        let text = format!("the tool has changed, and the call cannot be repeated: {reason}");
        return match pure {
            true => overlay.close(d, index, Outcome::Refused, text),
            false => overlay.doubt(d, index, text),
        };
    }
    let judged = verdict::judge(d, run, tool, known, view);
    match judged.verdict {
        Verdict::Allow => overlay.begin(d, index),
        Verdict::Ask if rejudge::still_stands(d, call, &judged, (known, view)) => overlay.begin(d, index),
        Verdict::Ask => {
            overlay.judged(d, index, &judged, known, (None, view.version));
            overlay.ask(d, index, judged);
        }
        Verdict::Deny if pure => {
            overlay.judged(d, index, &judged, known, (None, view.version));
            overlay.denied(d, index, &judged);
        }
        Verdict::Deny => {
            overlay.doubt(d, index, format!("a rule (`{}`) does not let it be repeated", judged.by));
        }
    }
}

/// A read was made that may tell a call's outcome.
pub(super) fn reconciled(
    d: &mut Decision<'_>,
    key: CallKey,
    attempt: u32,
    found: Option<&Vec<Block>>,
    reason: &str,
) -> Result<(), Reject> {
    let run = d.active()?;
    let line = line_of(run, key)?;
    let index = key.index as usize;
    let stale = || Reject::Stale {
        what: format!("read {attempt} for the outcome of call {}/{}", key.step, key.index),
    };
    let CallStatus::Reconciling { attempt: now, until } = line.calls[index].status else {
        return Err(stale());
    };
    if now != attempt || run.cancel.is_some() {
        return Err(stale());
    }
    let mut overlay = Overlay::of(run, line);
    let (found, reason) = match found.map(|content| content.iter().try_for_each(Block::check)) {
        Some(Err(why)) => (None, format!("a part of what was found {why}")),
        Some(Ok(())) | None => (found, reason.to_owned()),
    };
    match found {
        Some(content) => {
            let content = with_repair(&line.calls[index], content);
            overlay.finish(d, index, Outcome::Reconciled, content);
        }
        None if d.now >= until => {
            overlay.doubt(
                d,
                index,
                format!("nothing was found within the time to look for it; last: {reason}"),
            );
        }
        None => {
            let retry_at = d.now.plus_ms(pause_ms(attempt)).min(until);
            d.record(Fact::ToolUnresolved { call: key, reason, retry_at });
        }
    }
    after(d, run, overlay)
}

/// Waits between reads: 1, 2, 4, … s, at most 30 s.
fn pause_ms(attempt: u32) -> u64 {
    1_000 * 2u64.saturating_pow(attempt.saturating_sub(1)).min(30)
}

/// The time has come to look for outcomes again.
pub(super) fn look_again(d: &mut Decision<'_>, run: &Run) {
    let Phase::Calls(line) = &run.phase else { return };
    for (index, call) in line.calls.iter().enumerate() {
        if let CallStatus::Unresolved { attempts, until, retry_at } = call.status
            && retry_at <= d.now
            && !d.lacks(&call.tool)
        {
            let call = CallKey { step: run.attempt.step, index: index as u32 };
            d.record(Fact::ToolReconciling { call, attempt: attempts + 1, until });
        }
    }
}
