//! Decisions: one file per kind of input, each a pure function from state and input to facts.
//!
//! No other code constructs a [`Fact`]. Each file checks its inputs against a `Situation` and returns a `Plan`, which
//! a `Recorder` carries out. The files form layers without circular imports: `record` has both halves of a decision,
//! and `line` handles the calls of a step. `next` starts and ends steps and runs, and `cancel` and `progress` build
//! on it. Every other file handles one kind of input.

#![warn(clippy::wildcard_enum_match_arm)] // A new variant must break every match that has to consider it.

mod answer;
mod cancel;
pub(crate) mod fork;
mod line;
mod lost;
mod message;
mod model;
mod next;
mod progress;
mod record;
mod rejudge;
mod tick;
mod tool;
mod undispatched;
mod verdict;

use std::collections::BTreeSet;

use serde_json::Value;

use self::message::queue;
use self::record::{Plan, Planned, Recorder, Situation, can_be_read, fits, nothing};
use crate::event::{Event, Fact, Outcome};
use crate::id::{ThreadId, ToolName};
use crate::input::{Input, Note};
use crate::moment::Moment;
use crate::observer::Observer;
use crate::policy::check_json;
use crate::reject::Reject;
use crate::state::State;

/// Decides an input, and applies the facts that it records.
pub(crate) fn decide(
    thread: &ThreadId,
    state: &mut State,
    lacks: &BTreeSet<ToolName>,
    input: &Input,
    moment: Moment,
    observer: &mut dyn Observer,
) -> Result<Vec<Event>, Reject> {
    let moment = Moment { at: moment.at.max(state.at), ..moment };
    let plan = plan(Situation { thread, state, lacks, now: moment.at }, input)?;
    let mut recorder = Recorder::new(thread, state, lacks, moment, observer);
    plan(&mut recorder);
    Ok(recorder.into_events())
}

/// Checks an input.
fn plan<'i>(s: Situation<'_>, input: &'i Input) -> Planned<'i> {
    match input {
        Input::Message(message) => with_note(message::received(s, message)?, message.note.as_deref()),
        Input::Withdraw { id, by } => queue::withdrawn(s, id, by),
        Input::EditQueued { id, message, by } => queue::edited(s, id, message, by),
        Input::SendNow { id, by } => queue::sent_now(s, id, by),
        Input::Cancel { run, by } => cancel::asked(s, run.as_ref(), by),
        Input::Answered { answers, by, grants, note, view } => {
            with_note(answer::answered(s, answers, by, grants, view)?, note.as_deref())
        }
        Input::Title { title, by } => message::titled(title, by),
        Input::TitleMade { title, made } => message::title_made(s, title, made),
        Input::SwitchModel { model, by } => model::switched(model, by),
        Input::Note { name, data } => noted(name, data),
        Input::ModelReplied(replied) => model::replied(s, replied),
        Input::ModelFailed(failed) => model::failed(s, failed),
        Input::ModelStopped { attempt, partial } => model::stopped(s, *attempt, partial.as_ref()),
        Input::ToolReturned { call, content, error, unavailable, duration_ms, kept, offloaded } => {
            let returned = tool::Returned {
                content,
                error: *error,
                outcome: if *unavailable { Outcome::Unavailable } else { Outcome::Returned },
                duration_ms: *duration_ms,
                kept: kept.as_deref(),
                offloaded: offloaded.as_deref(),
            };
            tool::returned(s, *call, returned)
        }
        Input::ToolStopped { call, reason, by_tool, view } => tool::stopped(s, *call, reason, *by_tool, view),
        Input::FileChanging { call, change } => tool::changing(s, *call, change),
        Input::ToolAsked { call, kind, terms, state } => tool::asked(s, *call, kind, terms, state.as_ref()),
        Input::ToolDeferred { call, after_ms, state, rest } => {
            tool::deferred(s, *call, *after_ms, *rest, state.as_ref())
        }
        Input::Previewed { call, round, preview, digest } => {
            tool::previewed(s, *call, *round, preview, *digest)
        }
        Input::Reconciled { call, attempt, found, reason } => {
            lost::reconciled(s, *call, *attempt, found.as_ref(), reason)
        }
        Input::LimitRefused { limit, figure, refused, message } => {
            let message = match message {
                Some(message) => with_note(message::received(s, message)?, message.note.as_deref())?,
                None => nothing(),
            };
            Ok(Box::new(move |r| {
                r.has_no_room(limit, *figure, refused);
                message(r);
                // If the message started no run, the next step needs the refusal on record.
                r.record_no_room();
            }))
        }
        Input::Lost { command, view } => lost::lost(s, command, view),
        Input::NotDispatched { call, start, view } => undispatched::not_dispatched(s, *call, *start, view),
        Input::Rejudge { view } => rejudge::rejudged(s, view),
        Input::Tick { confirmed } => Ok(tick::ticked(s, confirmed)),
    }
}

fn noted<'i>(name: &'i str, data: &'i Value) -> Planned<'i> {
    fits("the name of the note", name.len())?;
    can_be_read("the data of the note", check_json(data))?;
    fits("the data of the note", data.to_string().len())?;
    Ok(Box::new(move |r| r.record(Fact::Note { name: name.into(), data: data.clone() })))
}

/// Records the note that came with another input, after that input's own facts.
fn with_note<'i>(plan: Plan<'i>, note: Option<&'i Note>) -> Planned<'i> {
    let Some(Note { name, data }) = note else { return Ok(plan) };
    let note = noted(name, data)?;
    Ok(Box::new(move |r| {
        plan(r);
        note(r);
    }))
}
