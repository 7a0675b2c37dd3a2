//! Handles a tool call that returned, asked, was deferred, or was killed by its own process.
//!
//! `lost` handles calls whose process has ended.

use super::line::{self, close, with_repair};
use super::lost;
use super::progress::after;
use super::record::{Planned, Recorder, Situation};
use crate::agent::EffectClass;
use crate::event::{Fact, FileChange, InterruptKind, Outcome, Rest};
use crate::id::{CallKey, Digest};
use crate::input::{Kept, Offloaded, View};
use crate::message::{Block, Content};
use crate::policy::{Terms, shorten_failure};
use crate::reject::Reject;
use crate::state::CallStatus;

/// Checks that a call is running.
fn check_started(s: Situation<'_>, key: CallKey) -> Result<(), Reject> {
    match s.call(key)?.status {
        CallStatus::Started => Ok(()),
        CallStatus::New
        | CallStatus::Previewing { .. }
        | CallStatus::Asking(_)
        | CallStatus::Ready
        | CallStatus::Deferred { .. }
        | CallStatus::Reconciling { .. }
        | CallStatus::Unresolved { .. }
        | CallStatus::Done => {
            Err(Reject::Stale { what: format!("call {}/{} is not running", key.step, key.index) })
        }
    }
}

/// The returned result of a call.
pub(super) struct Returned<'i> {
    pub content: &'i [Block],
    pub error: bool,
    pub outcome: Outcome,
    pub duration_ms: u64,
    /// New state of the tool in the thread.
    pub kept: Option<&'i Kept>,
    /// Summary that replaces a long result for the model.
    pub offloaded: Option<&'i Offloaded>,
}

pub(super) fn returned<'i>(s: Situation<'_>, key: CallKey, returned: Returned<'i>) -> Planned<'i> {
    check_started(s, key)?;
    Ok(Box::new(move |r| {
        let Returned { content, error, outcome, duration_ms, kept, offloaded } = returned;
        let index = key.index as usize;
        if let Err(why) = content.iter().try_for_each(Block::check) {
            let text = format!("The tool's result was not kept: a part of it {why}");
            close(r, index, Outcome::Returned, text);
            return after(r);
        }
        if let Some(Kept { name, value }) = kept {
            let keeps = &r.state().kept;
            if keeps.len() >= MAX_KEPT && !keeps.contains_key(name) {
                let text =
                    format!("Not kept: the thread keeps {MAX_KEPT} things, and `{name}` would be one more");
                close(r, index, Outcome::Returned, text);
                return after(r);
            }
            r.record(Fact::ToolKept { call: key, name: name.clone(), value: value.clone() });
        }
        // Errors are never offloaded: the model must be able to read all of them. (LM-O5)
        if let Some(Offloaded { reference, payload, summary }) = offloaded.filter(|_| !error) {
            r.record(Fact::ResultOffloaded {
                call: key,
                reference: reference.clone(),
                payload: payload.clone(),
                summary: summary.clone(),
            });
        }
        let content = with_repair(r.call(index), content);
        r.record(Fact::ToolFinished { call: key, outcome, content, error, duration_ms });
        after(r);
    }))
}

/// Maximum length of a path in bytes, as in Linux (`PATH_MAX`).
const MAX_PATH_BYTES: usize = 4096;

/// Handles a running tool that is about to change a file. A call
/// that was stopped in the meantime must not change further files.
pub(super) fn changing<'i>(s: Situation<'_>, key: CallKey, change: &'i FileChange) -> Planned<'i> {
    check_started(s, key)?;
    if change.path.len() > MAX_PATH_BYTES {
        let what = format!("the file's path has {} bytes; at most {MAX_PATH_BYTES}", change.path.len());
        return Err(Reject::Invalid { what });
    }
    Ok(Box::new(move |r| r.record(Fact::FileChanging { call: key, change: Box::new(change.clone()) })))
}

/// Maximum number of tool states in one thread. Each key is a constant in a tool's code, so few are needed.
const MAX_KEPT: usize = 16;

/// Maximum number of interrupts of one call, including approvals; a tool that exceeds it is in a loop.
pub(super) const MAX_ASKS: u32 = 64;

/// Handles a tool that needs an outside answer to continue.
pub(super) fn asked<'i>(
    s: Situation<'_>,
    key: CallKey,
    kind: &'i InterruptKind,
    terms: &'i Terms,
    state: Option<&'i Content>,
) -> Planned<'i> {
    check_started(s, key)?;
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
    Ok(Box::new(move |r| {
        let index = key.index as usize;
        if r.run().cancel.is_some() {
            return stop(r, index, "the run was stopped while the tool asked", false, &View::default());
        }
        if r.call(index).asks >= MAX_ASKS {
            let text = format!("Given up: the tool has asked {MAX_ASKS} times");
            close(r, index, Outcome::Returned, text);
        } else if let Err(why) = kind.check() {
            close(r, index, Outcome::Returned, format!("Given up: what the tool asked {why}"));
        } else {
            r.record(Fact::ToolParked { call: key, state: state.cloned() });
            line::open(r, index, kind.clone(), terms.clone());
        }
        after(r);
    }))
}

/// Maximum number of deferrals of one call: enough to poll each minute for a week, or every five seconds for half a
/// day. Each deferral takes two events, so a polling call adds at most a few megabytes to the journal.
const MAX_DEFERRALS: u32 = 10_000;

/// Maximum length of one deferral in milliseconds; a longer deferral
/// is shortened. A delay of more than a year is probably a mistake.
const MAX_DEFERRAL_MS: u64 = 366 * 24 * 3_600_000;

/// Handles a tool that defers its call.
pub(super) fn deferred<'i>(
    s: Situation<'_>,
    key: CallKey,
    after_ms: u64,
    rest: Rest,
    state: Option<&'i Content>,
) -> Planned<'i> {
    check_started(s, key)?;
    Ok(Box::new(move |r| {
        let index = key.index as usize;
        if r.run().cancel.is_some() {
            let reason = "the run was stopped while the call was put off";
            return stop(r, index, reason, false, &View::default());
        }
        if r.call(index).deferrals < MAX_DEFERRALS {
            let until = r.now().plus_ms(after_ms.min(MAX_DEFERRAL_MS));
            r.record(Fact::ToolDeferred { call: key, until, state: state.cloned(), rest });
        } else if r.call(index).class == EffectClass::Pure {
            let text = format!("Given up: the call was put off {MAX_DEFERRALS} times");
            close(r, index, Outcome::Returned, text);
        } else {
            line::doubt(r, index, format!("the call was put off {MAX_DEFERRALS} times without an end"));
        }
        after(r);
    }))
}

/// Starts the deferred calls that are due. A changed policy was handled by an earlier input.
pub(super) fn resume_due(r: &mut Recorder<'_>) {
    for index in 0..r.line().map_or(0, |line| line.calls.len()) {
        if r.call(index).status.is_due(r.now()) {
            line::begin(r, index);
        }
    }
}

/// Handles the preview of a call.
pub(super) fn previewed<'i>(
    s: Situation<'_>,
    key: CallKey,
    round: u32,
    preview: &'i Content,
    digest: Digest,
) -> Planned<'i> {
    let call = s.call(key)?;
    let CallStatus::Previewing { recheck } = call.status else {
        return Err(Reject::Stale { what: format!("the preview of call {}/{}", key.step, key.index) });
    };
    if call.looks != round || s.active()?.cancel.is_some() {
        return Err(Reject::Stale { what: format!("preview {round} of call {}/{}", key.step, key.index) });
    }
    let is_same = recheck && call.preview == Some(digest);
    Ok(Box::new(move |r| {
        let index = key.index as usize;
        r.record(Fact::CallPreviewed { call: key, preview: preview.clone(), digest });
        let call = r.call(index);
        if is_same {
            line::start(r, index);
        } else if call.asks >= MAX_ASKS {
            let why = format!("what the call would do has changed {MAX_ASKS} times while it was asked about");
            if call.may_have_changed_something() {
                let text = format!("Outcome unknown: not repeated, because {why}");
                close(r, index, Outcome::InDoubt, text);
            } else {
                close(r, index, Outcome::Denied, format!("Not run: {why}"));
            }
        } else {
            let terms = call.terms.clone();
            line::ask_for_approval(r, index, Some(preview.clone()), terms);
        }
        after(r);
    }))
}

/// Handles a call that ended without a recordable result. If
/// the call is repeated, the current policy judges it first.
pub(super) fn stopped<'i>(
    s: Situation<'_>,
    key: CallKey,
    reason: &'i str,
    by_tool: bool,
    view: &'i View,
) -> Planned<'i> {
    check_started(s, key)?;
    Ok(Box::new(move |r| stop(r, key.index as usize, reason, by_tool, view)))
}

fn stop(r: &mut Recorder<'_>, index: usize, reason: &str, by_tool: bool, view: &View) {
    let reason = &*shorten_failure(reason);
    let (run, call) = (r.run(), r.call(index));
    // The call would resume from its deferral, and stop for the same reason.
    let is_over = by_tool && call.resumes;
    let has_tries = call.tries < run.agent.limits.max_call_starts && !is_over;
    match (call.class, run.cancel.is_some()) {
        // The call only polls work elsewhere: its end does not reveal the state of that work.
        (_, false) if call.rest == Rest::Repeatable && has_tries => lost::repeat(r, index, view),
        (EffectClass::Pure, cancelling) => {
            let outcome = if cancelling { Outcome::Cancelled } else { Outcome::Returned };
            close(r, index, outcome, format!("Stopped: {reason}"));
        }
        // A repetition by the model would be a second effect with another key.
        (EffectClass::Keyed, false) if has_tries => lost::repeat(r, index, view),
        (EffectClass::Keyed, false) => line::doubt(r, index, reason.into()),
        (EffectClass::Idempotent, false) => {
            let text =
                format!("Stopped: {reason}. It may or may not have taken effect; repeating it is safe.");
            close(r, index, Outcome::Returned, text);
        }
        (
            EffectClass::Idempotent | EffectClass::Keyed | EffectClass::Reconcile { .. } | EffectClass::Once,
            true,
        ) => lost::leave_in_doubt(r, index, reason),
        (EffectClass::Reconcile { wait_ms }, false) => line::reconcile(r, index, wait_ms),
        (EffectClass::Once, false) => line::doubt(r, index, reason.into()),
    }
    after(r);
}
