//! Decisions: one file per kind of input, each pure, from State and Input to facts.
//!
//! Nothing else constructs a [`Fact`]. The files form layers without circular imports. `decision` and `line`
//! hold the decision so far, `next` starts and ends steps and runs, `cancel` and `progress` build on it, and every other file
//! handles one kind of input.

mod answer;
mod cancel;
mod decision;
pub(crate) mod fork;
mod line;
mod lost;
mod message;
mod model;
mod next;
mod progress;
mod queue;
mod rejudge;
mod tick;
mod tool;
mod undispatched;
mod verdict;

use std::collections::BTreeSet;

use serde_json::Value;

use self::decision::{Decision, can_be_read, fits};
use crate::event::{Event, Fact, Outcome};
use crate::id::{ThreadId, Timestamp, ToolName};
use crate::input::{Input, Note};
use crate::policy::check_json;
use crate::reject::Reject;
use crate::state::State;

/// Decides what an input means.
pub(crate) fn decide(
    (thread, state, lacks): (&ThreadId, &State, &BTreeSet<ToolName>),
    input: &Input,
    now: Timestamp,
) -> Result<Vec<Event>, Reject> {
    let now = now.max(state.at);
    let run = state.run.as_ref().map(|run| run.id.clone());
    let mut decision = Decision { thread, state, lacks, now, run, refused: None, events: Vec::new() };
    let d = &mut decision;
    match input {
        Input::Message(message) => {
            message::received(d, message).and_then(|()| note_beside(d, message.note.as_deref()))
        }
        Input::Withdraw { id, by } => queue::withdrawn(d, id, by),
        Input::EditQueued { id, message, by } => queue::edited(d, id, message, by),
        Input::SendNow { id, by } => queue::sent_now(d, id, by),
        Input::Cancel { run, by } => cancel::asked(d, run.as_ref(), by),
        Input::Answered { answers, by, grants, note, view } => {
            let answered = answer::answered(d, answers, by, (grants, view));
            answered.and_then(|()| note_beside(d, note.as_deref()))
        }
        Input::Title { title, by } => message::titled(d, title, by),
        Input::TitleMade { title, made } => message::title_made(d, title, made),
        Input::SwitchModel { model, by } => model::switched(d, model, by),
        Input::Note { name, data } => noted(d, name, data),
        Input::ModelReplied(replied) => model::replied(d, replied),
        Input::ModelFailed(failed) => model::failed(d, failed),
        Input::ModelStopped { attempt, partial } => model::stopped(d, *attempt, partial.as_ref()),
        Input::ToolReturned { call, content, error, unavailable, duration_ms, kept, offloaded } => {
            let beside = (kept.as_deref(), offloaded.as_deref());
            let outcome = if *unavailable { Outcome::Unavailable } else { Outcome::Returned };
            tool::returned(d, *call, (content, *error, *duration_ms, outcome), beside)
        }
        Input::ToolStopped { call, reason, by_tool, view } => {
            tool::stopped(d, *call, (reason, *by_tool), view)
        }
        Input::FileChanging { call, change } => tool::changing(d, *call, change),
        Input::ToolAsked { call, kind, terms, state } => tool::asked(d, *call, (kind, terms), state.as_ref()),
        Input::ToolDeferred { call, after_ms, state, rest } => {
            tool::deferred(d, *call, (*after_ms, *rest), state.as_ref())
        }
        Input::Previewed { call, round, preview, digest } => {
            tool::previewed(d, *call, *round, (preview, *digest))
        }
        Input::Reconciled { call, attempt, found, reason } => {
            lost::reconciled(d, *call, *attempt, found.as_ref(), reason)
        }
        Input::LimitRefused { limit, figure, refused, message } => {
            d.refused = Some((limit.clone(), *figure, refused.clone()));
            if let Some(message) = message {
                message::received(d, message)?;
                note_beside(d, message.note.as_deref())?;
            }
            // Where the message has started no run, whatever comes next is told.
            d.tell_refused();
            Ok(())
        }
        Input::Lost { command, view } => lost::lost(d, command, view),
        Input::NotDispatched { call, start, view } => undispatched::not_dispatched(d, (*call, *start), view),
        Input::Rejudge { view } => rejudge::rejudged(d, view),
        Input::Tick { confirmed } => tick::ticked(d, confirmed),
    }?;
    Ok(decision.events)
}

fn noted(d: &mut Decision<'_>, name: &str, data: &Value) -> Result<(), Reject> {
    fits("the name of the note", name.len())?;
    can_be_read("the data of the note", check_json(data))?;
    fits("the data of the note", data.to_string().len())?;
    d.record(Fact::Note { name: name.into(), data: data.clone() });
    Ok(())
}

/// Records the note that came with another input.
fn note_beside(d: &mut Decision<'_>, note: Option<&Note>) -> Result<(), Reject> {
    note.map_or(Ok(()), |Note { name, data }| noted(d, name, data))
}
