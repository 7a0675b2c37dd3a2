//! Something was in flight, and the process that had it is gone.
//!
//! A lost model call is simply made again: nothing in the world changed, and the try does not count.
//! A lost tool call is judged by its effect class; what must not be repeated is in doubt.

use super::line::Overlay;
use super::next::try_again;
use super::{Decision, cancel, line_of, tool};
use crate::agent::EffectClass;
use crate::command::Command;
use crate::event::{Fact, Outcome};
use crate::id::{Attempt, CallKey};
use crate::policy::FailureClass;
use crate::reject::Reject;
use crate::state::{CallStatus, Phase};

pub(super) fn lost(d: &mut Decision<'_>, command: &Command) -> Result<(), Reject> {
    match command {
        Command::CallModel { attempt, .. } => lost_model(d, *attempt),
        Command::CallTool { call, start, .. } => lost_tool(d, *call, *start),
    }
}

fn lost_model(d: &mut Decision<'_>, attempt: Attempt) -> Result<(), Reject> {
    let run = d.active()?;
    if run.attempt != attempt || run.phase != Phase::Calling {
        return Err(Reject::Stale { what: format!("step {}, attempt {}", attempt.step, attempt.attempt) });
    }
    d.record(Fact::StepFailed {
        attempt,
        class: FailureClass::Lost,
        message: "the process that made the call is gone".into(),
        partial: None,
        retry_at: None,
    });
    if run.cancel.is_some() {
        return cancel::settle(d, run, None, &run.totals);
    }
    try_again(d, run, &run.model);
    Ok(())
}

fn lost_tool(d: &mut Decision<'_>, key: CallKey, start: u32) -> Result<(), Reject> {
    let run = d.active()?;
    let line = line_of(run, key)?;
    let index = key.index as usize;
    let call = &line.calls[index];
    if call.status != CallStatus::Started || call.starts != start {
        return Err(Reject::Stale { what: format!("start {start} of call {}/{}", key.step, key.index) });
    }
    let mut overlay = Overlay::of(run, line);
    let again = match call.class {
        EffectClass::Pure | EffectClass::Idempotent | EffectClass::Keyed => {
            call.starts < run.agent.limits.max_call_starts
        }
        EffectClass::Once => false,
    };
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
        overlay.start(d, index);
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
    tool::after(d, run, overlay)
}
