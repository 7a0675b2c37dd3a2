//! Decisions: one file per kind of input, each pure, from State and Input to facts.
//!
//! Nothing else constructs a [`Fact`]. A decision sees the state as it was before the input; what it
//! needs to know of its own earlier facts it carries along itself, so that nothing is cloned.

mod answer;
mod cancel;
pub(crate) mod fork;
mod line;
mod lost;
mod message;
mod model;
mod next;
mod queue;
mod rejudge;
mod tool;
mod undispatched;
mod verdict;

use std::collections::BTreeSet;

use serde_json::Value;

use crate::context::window::Ahead;
use crate::event::{Answer, Event, Fact, Outcome, Output, Refused};
use crate::id::{CallKey, EffectId, RunId, ThreadId, Timestamp, ToolName};
use crate::input::{Input, Note};
use crate::message::{Block, Content, INLINE_MAX_BYTES, Role, ToolResult};
use crate::policy::check_json;
use crate::reject::Reject;
use crate::state::{CallStatus, POLICY, Phase, Run, State, Streak};

/// The facts of one decision, stamped with time and run as they are recorded.
pub(crate) struct Decision<'a> {
    thread: &'a ThreadId,
    state: &'a State,
    /// Tools of the active run alone that this process does not have.
    lacks: &'a BTreeSet<ToolName>,
    now: Timestamp,
    run: Option<RunId>,
    /// The budget that has no room for the first step of the run that this decision starts; not recorded yet.
    refused: Option<(String, u64, Refused)>,
    events: Vec<Event>,
}

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
        Input::Tick { confirmed } => next::ticked(d, confirmed),
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

/// Refuses what is too long to be recorded in one piece.
fn fits(what: &str, size_bytes: usize) -> Result<(), Reject> {
    if size_bytes <= INLINE_MAX_BYTES {
        return Ok(());
    }
    let what = format!("{what} has {size_bytes} bytes; shorten it to {INLINE_MAX_BYTES} at most");
    Err(Reject::Invalid { what })
}

/// Rejects JSON that could not be read back once it is recorded. `checked` has the reason.
fn can_be_read(what: &str, checked: Result<(), String>) -> Result<(), Reject> {
    checked.map_err(|why| Reject::Invalid { what: format!("{what} {why}") })
}

/// Rejects a JSON null in place of a value that may be left out: it reads back as one that is.
fn is_not_null(what: &str, value: &Value) -> Result<(), Reject> {
    match value {
        Value::Null => Err(Reject::Invalid { what: format!("{what} is null; leave it out") }),
        Value::Bool(_) | Value::Number(_) | Value::String(_) | Value::Array(_) | Value::Object(_) => Ok(()),
    }
}

impl<'a> Decision<'a> {
    fn record(&mut self, fact: Fact) {
        self.events.push(Event { at: self.now, wall: None, run: self.run.clone(), fact });
    }

    /// Whether a tool that is the active run's own is not in this process.
    fn lacks(&self, tool: &ToolName) -> bool {
        self.lacks.contains(tool)
    }

    fn active(&self) -> Result<&'a Run, Reject> {
        self.state.run.as_ref().ok_or_else(|| Reject::Closed { what: "the run".into() })
    }

    /// Records that a budget has no room.
    fn tell_refused(&mut self) {
        if let Some((limit, figure, refused)) = self.refused.take() {
            self.record(Fact::LimitReached { limit, figure, refused: Some(refused) });
        }
    }

    /// The grants that this decision has used, once for each use.
    fn grants_used(&self) -> Vec<&str> {
        let mut used = Vec::new();
        for event in &self.events {
            if let Fact::GrantUsed { grant, .. } = &event.fact {
                used.push(grant.as_str());
            }
        }
        used
    }

    /// Calls that people have denied in this decision.
    fn denied(&self, run: &Run) -> u32 {
        let denies = |event: &&Event| {
            if let Fact::InterruptClosed { interrupt, answer: Answer::Deny { .. }, by, .. } = &event.fact {
                let asked = run.asking(interrupt);
                return by.as_str() != POLICY && asked.is_some_and(|(_, asked)| asked.kind.is_about_leave());
            }
            false
        };
        self.events.iter().filter(denies).count() as u32
    }

    fn effect(&self, run: &Run, call: CallKey) -> EffectId {
        EffectId::derive(self.thread, &run.id, call)
    }

    /// The history as it will stand after the facts so far.
    fn ahead(&self) -> Ahead<'a> {
        let mut ahead = Ahead::of(&self.state.history);
        let mut open = self.state.run.as_ref().map_or(0, open_calls);
        for event in &self.events {
            match &event.fact {
                Fact::MessageReceived { .. } | Fact::MessageTaken { .. } => ahead.add(Role::User),
                Fact::StepReplied { message, .. } => {
                    open = message.calls().count();
                    if message.is_worth_keeping() {
                        ahead.add(Role::Assistant);
                    }
                }
                Fact::ToolFinished { .. } => {
                    open = open.saturating_sub(1);
                    if open == 0 {
                        ahead.add(Role::Tool);
                    }
                }
                Fact::RunWithdrawn { .. } => {
                    if let Some(run) = &self.state.run {
                        ahead.cut(run.first_message, &run.dropped);
                    }
                }
                Fact::ThreadCreated { .. }
                | Fact::ThreadForked { .. }
                | Fact::ThreadTitled { .. }
                | Fact::MessageQueued { .. }
                | Fact::MessageWithdrawn { .. }
                | Fact::MessageEdited { .. }
                | Fact::MessagePromoted { .. }
                | Fact::RunStarted { .. }
                | Fact::RunFinished { .. }
                | Fact::StepStarted { .. }
                | Fact::StepFailed { .. }
                | Fact::CallJudged { .. }
                | Fact::GrantUsed { .. }
                | Fact::CallEdited { .. }
                | Fact::CallPreviewing { .. }
                | Fact::CallPreviewed { .. }
                | Fact::InterruptOpened { .. }
                | Fact::InterruptVoted { .. }
                | Fact::InterruptReminded { .. }
                | Fact::InterruptEscalated { .. }
                | Fact::InterruptClosed { .. }
                | Fact::ToolParked { .. }
                | Fact::ToolDeferred { .. }
                | Fact::ToolKept { .. }
                | Fact::FileChanging { .. }
                | Fact::ResultOffloaded { .. }
                | Fact::ToolReconciling { .. }
                | Fact::ToolUnresolved { .. }
                | Fact::ToolStarted { .. }
                | Fact::ToolUndispatched { .. }
                | Fact::ToolInDoubt { .. }
                | Fact::WindowMoved { .. }
                | Fact::ModelSwitched { .. }
                | Fact::CancelRequested { .. }
                | Fact::LimitReached { .. }
                | Fact::Note { .. } => {}
            }
        }
        ahead
    }

    /// Steps in a row with the same calls and results, the one that this decision ends included.
    fn streak(&self, run: &'a Run) -> Streak {
        let mut streak = run.streak;
        let (mut calls, mut results): (Vec<(&ToolName, &Content)>, Vec<&[Block]>) = match &run.phase {
            Phase::Calls(line) => {
                let known = |result: &'a Option<ToolResult>| {
                    result.as_ref().map_or(&[][..], |result| &result.content)
                };
                let calls = line.calls.iter().map(|call| (&call.tool, &call.arguments)).collect();
                (calls, line.results.iter().map(known).collect())
            }
            Phase::Ready | Phase::Calling | Phase::Retrying(_) | Phase::Parked(_) => (Vec::new(), Vec::new()),
        };
        for event in &self.events {
            if let Fact::StepReplied { message, .. } = &event.fact {
                calls = message.calls().map(|call| (&call.name, &call.asked)).collect();
                results = vec![&[]; calls.len()];
            } else if let Fact::CallJudged { call, arguments: Some(sent), .. } = &event.fact
                && let Some((_, arguments)) = calls.get_mut(call.index as usize)
            {
                *arguments = sent;
            } else if let Fact::ToolFinished { call, content, .. } = &event.fact
                && let Some(result) = results.get_mut(call.index as usize)
            {
                *result = content;
            }
        }
        if !calls.is_empty() {
            let steps = calls.into_iter().zip(results);
            streak.count(steps.map(|((tool, arguments), result)| (tool, arguments, result)));
        }
        streak
    }

    /// What the model has said of its answer so far: replies that hit the output cap, then what this decision has
    /// recorded of a reply or of a failed try, else what an earlier failed try had brought.
    fn said(&self, run: &Run) -> Output {
        let mut replies = run.answer_from.map(|first| (first, run.attempt.step.saturating_sub(1)));
        // A reply, even an empty one, takes the place of what failed tries had brought.
        let mut text = run.partial.as_ref();
        for event in &self.events {
            if let Fact::StepReplied { message, attempt, .. } = &event.fact {
                text = None;
                if message.texts().any(|text| text.size_bytes() > 0) {
                    replies = Some((run.answer_from.unwrap_or(attempt.step), attempt.step));
                }
            } else if let Fact::StepFailed { partial: Some(partial), .. } = &event.fact {
                text = Some(partial);
            }
        }
        Output { replies, text: text.filter(|text| text.size_bytes() > 0).cloned() }
    }
}

/// Calls of the step that have no result yet.
fn open_calls(run: &Run) -> usize {
    match &run.phase {
        Phase::Calls(line) => line.calls.iter().filter(|call| call.status != CallStatus::Done).count(),
        Phase::Ready | Phase::Calling | Phase::Retrying(_) | Phase::Parked(_) => 0,
    }
}

/// The line of the step at hand, where the call belongs to it.
fn line_of(run: &Run, call: CallKey) -> Result<&crate::state::Line, Reject> {
    let stale = || Reject::Stale { what: format!("call {}/{}", call.step, call.index) };
    match &run.phase {
        Phase::Calls(line) if run.attempt.step == call.step && (call.index as usize) < line.calls.len() => {
            Ok(line)
        }
        Phase::Calls(_) | Phase::Ready | Phase::Calling | Phase::Retrying(_) | Phase::Parked(_) => {
            Err(stale())
        }
    }
}
