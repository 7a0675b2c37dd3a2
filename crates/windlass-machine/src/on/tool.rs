//! A tool answered, or was killed.
//!
//! What a lost call means is `lost`'s; here somebody still had it in hand, or saw it crash.

use super::decision::{Decision, line_of};
use super::line::{Overlay, Place, with_repair};
use super::lost;
use super::progress::after;
use crate::agent::EffectClass;
use crate::event::{Fact, FileChange, InterruptKind, Outcome, Rest};
use crate::id::{CallKey, Digest};
use crate::input::{Kept, Offloaded, View};
use crate::message::{Block, Content};
use crate::policy::{Terms, shorten_failure};
use crate::reject::Reject;
use crate::state::{CallStatus, Line, Run};

fn started<'a>(d: &Decision<'a>, call: CallKey) -> Result<(&'a Run, &'a Line), Reject> {
    let run = d.active()?;
    let line = line_of(run, call)?;
    match line.calls[call.index as usize].status {
        CallStatus::Started => Ok((run, line)),
        CallStatus::New
        | CallStatus::Previewing { .. }
        | CallStatus::Asking(_)
        | CallStatus::Ready
        | CallStatus::Deferred { .. }
        | CallStatus::Reconciling { .. }
        | CallStatus::Unresolved { .. }
        | CallStatus::Done => {
            Err(Reject::Stale { what: format!("call {}/{} is not running", call.step, call.index) })
        }
    }
}

pub(super) fn returned(
    d: &mut Decision<'_>,
    key: CallKey,
    (content, error, duration_ms, outcome): (&[Block], bool, u64, Outcome),
    (kept, offloaded): (Option<&Kept>, Option<&Offloaded>),
) -> Result<(), Reject> {
    let (run, line) = started(d, key)?;
    let index = key.index as usize;
    let mut overlay = Overlay::of(run, line);
    if let Err(why) = content.iter().try_for_each(Block::check) {
        overlay.close(
            d,
            index,
            Outcome::Returned,
            format!("The tool's result was not kept: a part of it {why}"),
        );
        return after(d, run, overlay);
    }
    if let Some(Kept { name, value }) = kept {
        if d.state.kept.len() >= MAX_KEPT && !d.state.kept.contains_key(name) {
            let text =
                format!("Not kept: the thread keeps {MAX_KEPT} things, and `{name}` would be one more");
            overlay.close(d, index, Outcome::Returned, text);
            return after(d, run, overlay);
        }
        d.record(Fact::ToolKept { call: key, name: name.clone(), value: value.clone() });
    }
    // An error is for the model to read, all of it. (LM-O5)
    if let Some(Offloaded { reference, payload, summary }) = offloaded.filter(|_| !error) {
        d.record(Fact::ResultOffloaded {
            call: key,
            reference: reference.clone(),
            payload: payload.clone(),
            summary: summary.clone(),
        });
    }
    let content = with_repair(&line.calls[index], content);
    d.record(Fact::ToolFinished { call: key, outcome, content, error, duration_ms });
    overlay.seats[index].place = Place::Done;
    after(d, run, overlay)
}

/// A path is as long as the system takes it (`PATH_MAX`).
const MAX_PATH_BYTES: usize = 4096;

/// A tool at work is about to change a file. One that was given up meanwhile changes nothing more.
pub(super) fn changing(d: &mut Decision<'_>, key: CallKey, change: &FileChange) -> Result<(), Reject> {
    started(d, key)?;
    if change.path.len() > MAX_PATH_BYTES {
        let what = format!("the file's path has {} bytes; at most {MAX_PATH_BYTES}", change.path.len());
        return Err(Reject::Invalid { what });
    }
    d.record(Fact::FileChanging { call: key, change: Box::new(change.clone()) });
    Ok(())
}

/// Things that tools keep with one thread: each is a name in a tool's code, of which a handful are enough.
const MAX_KEPT: usize = 16;

/// Outside replies that one call may ask for, approvals included; a tool that asks for more goes round in a circle.
pub(super) const MAX_ASKS: u32 = 64;

/// A tool cannot go on without an outside reply.
pub(super) fn asked(
    d: &mut Decision<'_>,
    key: CallKey,
    (kind, terms): (&InterruptKind, &Terms),
    state: Option<&Content>,
) -> Result<(), Reject> {
    let (run, line) = started(d, key)?;
    let index = key.index as usize;
    match kind {
        InterruptKind::Question(_) | InterruptKind::SignIn { .. } | InterruptKind::Handoff { .. } => {}
        InterruptKind::Approval { .. }
        | InterruptKind::Hook { .. }
        | InterruptKind::InDoubt { .. }
        | InterruptKind::Limit(_) => {
            return Err(Reject::Invalid {
                what: "a tool asks questions, sign-ins and hand-offs only".into(),
            });
        }
    }
    if run.cancel.is_some() {
        return stopped(d, key, ("the run was stopped while the tool asked", false), &View::default());
    }
    let mut overlay = Overlay::of(run, line);
    if overlay.seats[index].asks >= MAX_ASKS {
        let text = format!("Given up: the tool has asked {MAX_ASKS} times");
        overlay.close(d, index, Outcome::Returned, text);
    } else if let Err(why) = kind.check() {
        overlay.close(d, index, Outcome::Returned, format!("Given up: what the tool asked {why}"));
    } else {
        d.record(Fact::ToolParked { call: key, state: state.cloned() });
        overlay.open(d, index, kind.clone(), terms.clone());
    }
    after(d, run, overlay)
}

/// How often one call may be put off: looked after once a minute for a week, or each five seconds for half a day. Each
/// time takes two events, so that a call which does nothing else fills no more than some megabytes of journal.
const MAX_DEFERRALS: u32 = 10_000;

/// How long a call may be put off at once; longer is cut to it. A year is longer than anybody plans for, and a time that
/// far away is more often a mistake than a wish.
const MAX_DEFERRAL_MS: u64 = 366 * 24 * 3_600_000;

/// A tool goes on later.
pub(super) fn deferred(
    d: &mut Decision<'_>,
    key: CallKey,
    (after_ms, rest): (u64, Rest),
    state: Option<&Content>,
) -> Result<(), Reject> {
    let (run, line) = started(d, key)?;
    let index = key.index as usize;
    if run.cancel.is_some() {
        return stopped(d, key, ("the run was stopped while the call was put off", false), &View::default());
    }
    let mut overlay = Overlay::of(run, line);
    if line.calls[index].deferrals < MAX_DEFERRALS {
        let until = d.now.plus_ms(after_ms.min(MAX_DEFERRAL_MS));
        d.record(Fact::ToolDeferred { call: key, until, state: state.cloned(), rest });
        overlay.seats[index].place = Place::Deferred;
    } else if line.calls[index].class == EffectClass::Pure {
        let text = format!("Given up: the call was put off {MAX_DEFERRALS} times");
        overlay.close(d, index, Outcome::Returned, text);
    } else {
        overlay.doubt(d, index, format!("the call was put off {MAX_DEFERRALS} times without an end"));
    }
    after(d, run, overlay)
}

/// Starts the calls whose time has come. A policy that has changed was told before.
pub(super) fn resume_due(d: &mut Decision<'_>, line: &Line, overlay: &mut Overlay<'_>) {
    for (index, call) in line.calls.iter().enumerate() {
        if call.status.is_due(d.now) {
            overlay.begin(d, index);
        }
    }
}

/// What a call would do is known.
pub(super) fn previewed(
    d: &mut Decision<'_>,
    key: CallKey,
    round: u32,
    (preview, digest): (&Content, Digest),
) -> Result<(), Reject> {
    let run = d.active()?;
    let line = line_of(run, key)?;
    let index = key.index as usize;
    let call = &line.calls[index];
    let CallStatus::Previewing { recheck } = call.status else {
        return Err(Reject::Stale { what: format!("the preview of call {}/{}", key.step, key.index) });
    };
    if call.looks != round || run.cancel.is_some() {
        return Err(Reject::Stale { what: format!("preview {round} of call {}/{}", key.step, key.index) });
    }
    let mut overlay = Overlay::of(run, line);
    d.record(Fact::CallPreviewed { call: key, preview: preview.clone(), digest });
    overlay.seats[index].preview = Some(digest);
    if recheck && call.preview == Some(digest) {
        overlay.start(d, index);
    } else if overlay.seats[index].asks >= MAX_ASKS {
        let why = format!("what the call would do has changed {MAX_ASKS} times while it was asked about");
        if overlay.may_have_changed_something(index) {
            overlay.close(
                d,
                index,
                Outcome::InDoubt,
                format!("Outcome unknown: not repeated, because {why}"),
            );
        } else {
            overlay.close(d, index, Outcome::Denied, format!("Not run: {why}"));
        }
    } else {
        overlay.ask_for_approval(d, index, Some(preview.clone()));
    }
    after(d, run, overlay)
}

/// A call came to no end that can be recorded. Where it is made again, the policy of now judges it.
pub(super) fn stopped(
    d: &mut Decision<'_>,
    key: CallKey,
    (reason, by_tool): (&str, bool),
    view: &View,
) -> Result<(), Reject> {
    let (run, line) = started(d, key)?;
    let reason = &*shorten_failure(reason);
    let index = key.index as usize;
    let mut overlay = Overlay::of(run, line);
    let call = &line.calls[index];
    // It would go on from where it was put off, and find the same.
    let is_over = by_tool && call.resumes;
    let has_tries = call.tries < run.agent.limits.max_call_starts && !is_over;
    match (call.class, run.cancel.is_some()) {
        // It only looked after what goes on elsewhere: that it was stopped there says nothing of it here.
        (_, false) if call.rest == Rest::Repeatable && has_tries => {
            lost::repeat(d, &mut overlay, (index, call), view);
        }
        (EffectClass::Pure, cancelling) => {
            let outcome = if cancelling { Outcome::Cancelled } else { Outcome::Returned };
            overlay.close(d, index, outcome, format!("Stopped: {reason}"));
        }
        // The model's own repeat would be another effect with another key, done twice on the far side.
        (EffectClass::Keyed, false) => {
            if has_tries {
                lost::repeat(d, &mut overlay, (index, call), view);
            } else {
                overlay.doubt(d, index, reason.into());
            }
        }
        (EffectClass::Idempotent, false) => {
            let text =
                format!("Stopped: {reason}. It may or may not have taken effect; repeating it is safe.");
            overlay.close(d, index, Outcome::Returned, text);
        }
        (
            EffectClass::Idempotent | EffectClass::Keyed | EffectClass::Reconcile { .. } | EffectClass::Once,
            true,
        ) => {
            let effect = d.effect(run, key);
            d.record(Fact::ToolInDoubt { call: key, effect, reason: reason.into() });
            overlay.close(d, index, Outcome::InDoubt, format!("Outcome unknown: {reason}"));
        }
        (EffectClass::Reconcile { wait_ms }, false) => overlay.reconcile(d, index, wait_ms),
        (EffectClass::Once, false) => overlay.doubt(d, index, reason.into()),
    }
    after(d, run, overlay)
}
