//! A decision in progress: the state before the input, and the facts recorded so far.
//!
//! The state is not changed or cloned: a decision reads its own earlier facts from the list of recorded events.

use std::collections::BTreeSet;

use serde_json::Value;

use crate::context::window::Ahead;
use crate::event::{Answer, Event, Fact, Output, Refused};
use crate::id::{CallKey, EffectId, RunId, ThreadId, Timestamp, ToolName};
use crate::message::{Block, Content, INLINE_MAX_BYTES, Role, ToolResult};
use crate::reject::Reject;
use crate::state::{CallStatus, POLICY, Phase, Run, State, Streak};

/// The facts of one decision, stamped with time and run as they are recorded.
pub(super) struct Decision<'a> {
    pub thread: &'a ThreadId,
    pub state: &'a State,
    /// The active run's own tools that this process lacks.
    pub lacks: &'a BTreeSet<ToolName>,
    pub now: Timestamp,
    pub run: Option<RunId>,
    /// The budget that has no room for the first step of the run that this decision starts; not recorded yet.
    pub refused: Option<(String, u64, Refused)>,
    pub events: Vec<Event>,
}

impl<'a> Decision<'a> {
    pub(super) fn record(&mut self, fact: Fact) {
        self.events.push(Event { at: self.now, wall: None, run: self.run.clone(), fact });
    }

    /// Whether a tool that is the active run's own is not in this process.
    pub(super) fn lacks(&self, tool: &ToolName) -> bool {
        self.lacks.contains(tool)
    }

    pub(super) fn active(&self) -> Result<&'a Run, Reject> {
        self.state.run.as_ref().ok_or_else(|| Reject::Closed { what: "the run".into() })
    }

    /// Records that a budget has no room.
    pub(super) fn tell_refused(&mut self) {
        if let Some((limit, figure, refused)) = self.refused.take() {
            self.record(Fact::LimitReached { limit, figure, refused: Some(refused) });
        }
    }

    /// The grants that this decision has used, once for each use.
    pub(super) fn grants_used(&self) -> Vec<&str> {
        let mut used = Vec::new();
        for event in &self.events {
            if let Fact::GrantUsed { grant, .. } = &event.fact {
                used.push(grant.as_str());
            }
        }
        used
    }

    /// Calls that people have denied in this decision.
    pub(super) fn denied(&self, run: &Run) -> u32 {
        let denies = |event: &&Event| {
            if let Fact::InterruptClosed { interrupt, answer: Answer::Deny { .. }, by, .. } = &event.fact {
                let asked = run.asking(interrupt);
                return by.as_str() != POLICY && asked.is_some_and(|(_, asked)| asked.kind.is_about_leave());
            }
            false
        };
        self.events.iter().filter(denies).count() as u32
    }

    pub(super) fn effect(&self, run: &Run, call: CallKey) -> EffectId {
        EffectId::derive(self.thread, &run.id, call)
    }

    /// The history as it will stand after the facts so far.
    pub(super) fn ahead(&self) -> Ahead<'a> {
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

    /// Consecutive steps with equal calls and results, including the step that this decision ends.
    pub(super) fn streak(&self, run: &'a Run) -> Streak {
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
    pub(super) fn said(&self, run: &Run) -> Output {
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
pub(super) fn line_of(run: &Run, call: CallKey) -> Result<&crate::state::Line, Reject> {
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

/// Refuses what is too long to be recorded in one piece.
pub(super) fn fits(what: &str, size_bytes: usize) -> Result<(), Reject> {
    if size_bytes <= INLINE_MAX_BYTES {
        return Ok(());
    }
    let what = format!("{what} has {size_bytes} bytes; shorten it to {INLINE_MAX_BYTES} at most");
    Err(Reject::Invalid { what })
}

/// Rejects JSON that could not be read back once it is recorded. `checked` has the reason.
pub(super) fn can_be_read(what: &str, checked: Result<(), String>) -> Result<(), Reject> {
    checked.map_err(|why| Reject::Invalid { what: format!("{what} {why}") })
}

/// Rejects a JSON null for an optional value: it decodes as an absent one.
pub(super) fn is_not_null(what: &str, value: &Value) -> Result<(), Reject> {
    match value {
        Value::Null => Err(Reject::Invalid { what: format!("{what} is null; leave it out") }),
        Value::Bool(_) | Value::Number(_) | Value::String(_) | Value::Array(_) | Value::Object(_) => Ok(()),
    }
}
