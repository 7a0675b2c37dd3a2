//! A tool answered, or was killed.
//!
//! What a lost call means is `lost`'s; here somebody still had it in hand, or saw it crash.

use super::line::Overlay;
use super::{Decision, cancel, line_of};
use crate::agent::EffectClass;
use crate::event::{Fact, Outcome};
use crate::id::CallKey;
use crate::message::{Block, Content};
use crate::policy::shorten_failure;
use crate::reject::Reject;
use crate::state::{Call, CallStatus, Line, Run};

fn started<'a>(d: &Decision<'a>, call: CallKey) -> Result<(&'a Run, &'a Line), Reject> {
    let run = d.active()?;
    let line = line_of(run, call)?;
    match line.calls[call.index as usize].status {
        CallStatus::Started => Ok((run, line)),
        CallStatus::New | CallStatus::Asking(..) | CallStatus::Ready { .. } | CallStatus::Done => {
            Err(Reject::Stale { what: format!("call {}/{} is not running", call.step, call.index) })
        }
    }
}

pub(super) fn returned(
    d: &mut Decision<'_>,
    key: CallKey,
    content: &[Block],
    error: bool,
    duration_ms: u64,
) -> Result<(), Reject> {
    let (run, line) = started(d, key)?;
    let call = &line.calls[key.index as usize];
    let content = with_repair(call, content);
    d.record(Fact::ToolFinished { call: key, outcome: Outcome::Returned, content, error, duration_ms });
    let mut overlay = Overlay::of(run, line);
    overlay.seats[key.index as usize].place = super::line::Place::Done;
    after(d, run, overlay)
}

/// Tells the model what was really sent, where that is not what it asked.
fn with_repair(call: &Call, content: &[Block]) -> Vec<Block> {
    let mut blocks = content.to_vec();
    if call.repaired
        && let Content::Inline(sent) = &call.arguments
    {
        blocks.push(Block::text(format!("(The arguments were not valid JSON. What was sent: {sent})")));
    }
    blocks
}

pub(super) fn stopped(d: &mut Decision<'_>, key: CallKey, reason: &str) -> Result<(), Reject> {
    let (run, line) = started(d, key)?;
    let reason = &*shorten_failure(reason);
    let index = key.index as usize;
    let mut overlay = Overlay::of(run, line);
    match (line.calls[index].class, run.cancel.is_some()) {
        (EffectClass::Pure, cancelling) => {
            let outcome = if cancelling { Outcome::Cancelled } else { Outcome::Returned };
            overlay.close(d, index, outcome, format!("Stopped: {reason}"));
        }
        // The model's own repeat would be another effect with another key, done twice on the far side.
        (EffectClass::Keyed, false) => {
            if line.calls[index].starts < run.agent.limits.max_call_starts {
                overlay.start(d, index);
            } else {
                overlay.doubt(d, index, reason.into());
            }
        }
        (EffectClass::Idempotent, false) => {
            let text =
                format!("Stopped: {reason}. It may or may not have taken effect; repeating it is safe.");
            overlay.close(d, index, Outcome::Returned, text);
        }
        (EffectClass::Idempotent | EffectClass::Keyed | EffectClass::Once, true) => {
            let effect = d.effect(run, key);
            d.record(Fact::ToolInDoubt { call: key, effect, reason: reason.into() });
            overlay.close(d, index, Outcome::InDoubt, format!("Outcome unknown: {reason}"));
        }
        (EffectClass::Once, false) => overlay.doubt(d, index, reason.into()),
    }
    after(d, run, overlay)
}

/// What follows a change in the line.
pub(super) fn after(d: &mut Decision<'_>, run: &Run, mut overlay: Overlay<'_>) -> Result<(), Reject> {
    if run.cancel.is_some() {
        return cancel::settle(d, run, Some(overlay), &run.totals);
    }
    overlay.go_on(d, &run.totals);
    Ok(())
}
