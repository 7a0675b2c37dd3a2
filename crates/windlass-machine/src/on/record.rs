//! The two halves of a decision: its input, and the facts that it records.
//!
//! An input is first checked against a read-only [`Situation`]. The result is a reject or a [`Plan`]. Only a plan
//! gets the [`Recorder`], which applies each fact to the state immediately. A plan returns no result, so a decision
//! cannot reject after its first fact.

use std::collections::BTreeSet;

use serde_json::Value;

use crate::event::{Event, Fact, Refused};
use crate::id::{CallKey, EffectId, RunId, Seq, ThreadId, Timestamp, ToolName};
use crate::message::INLINE_MAX_BYTES;
use crate::moment::Moment;
use crate::observer::Observer;
use crate::reject::Reject;
use crate::state::{Call, Line, Phase, Run, State};

/// The state and time that an input is decided with.
#[derive(Clone, Copy)]
pub(super) struct Situation<'a> {
    pub thread: &'a ThreadId,
    pub state: &'a State,
    /// The active run's own tools that this process does not have.
    pub lacks: &'a BTreeSet<ToolName>,
    pub now: Timestamp,
}

/// The checked effect of an input, not recorded yet.
pub(super) type Plan<'i> = Box<dyn FnOnce(&mut Recorder<'_>) + 'i>;

/// The result of checking an input: its plan, or a reject.
pub(super) type Planned<'i> = Result<Plan<'i>, Reject>;

/// Returns a plan that records nothing.
pub(super) fn nothing<'i>() -> Plan<'i> {
    Box::new(|_| {})
}

/// Records the facts of one decision, stamped with time and run, and applies each to the state.
pub(super) struct Recorder<'a> {
    thread: &'a ThreadId,
    state: &'a mut State,
    lacks: &'a BTreeSet<ToolName>,
    moment: Moment,
    observer: &'a mut dyn Observer,
    events: Vec<Event>,
    /// The run that facts are stamped with.
    run: Option<RunId>,
    /// Head of the journal before the decision.
    from: Seq,
    no_room: NoRoom,
    grants_used: Vec<String>,
    /// Whether a call has reached a limit that ends the run.
    pub is_over: bool,
}

/// The budget whose remaining amount is too small for the next step of this decision.
struct NoRoom {
    budget: Option<(String, u64, Refused)>,
    is_recorded: bool,
}

impl<'a> Situation<'a> {
    /// Whether a tool is one of the active run's own tools that this process does not have.
    pub(super) fn lacks(&self, tool: &ToolName) -> bool {
        self.lacks.contains(tool)
    }

    pub(super) fn active(&self) -> Result<&'a Run, Reject> {
        self.state.run.as_ref().ok_or_else(|| Reject::Closed { what: "the run".into() })
    }

    /// Returns a call of the current step.
    pub(super) fn call(&self, key: CallKey) -> Result<&'a Call, Reject> {
        let run = self.active()?;
        let line = line_of(run).filter(|_| run.attempt.step == key.step);
        let call = line.and_then(|line| line.calls.get(key.index as usize));
        call.ok_or_else(|| Reject::Stale { what: format!("call {}/{}", key.step, key.index) })
    }
}

impl<'a> Recorder<'a> {
    /// Creates a recorder. `moment` must not be before the last event.
    pub(super) fn new(
        thread: &'a ThreadId,
        state: &'a mut State,
        lacks: &'a BTreeSet<ToolName>,
        moment: Moment,
        observer: &'a mut dyn Observer,
    ) -> Self {
        Self {
            run: state.run.as_ref().map(|run| run.id.clone()),
            from: state.seq,
            no_room: NoRoom { budget: state.refused.clone(), is_recorded: true },
            thread,
            state,
            lacks,
            moment,
            observer,
            events: Vec::new(),
            grants_used: Vec::new(),
            is_over: false,
        }
    }

    pub(super) fn record(&mut self, fact: Fact) {
        if let Fact::GrantUsed { grant, .. } = &fact {
            self.grants_used.push(grant.clone());
        }
        let event = Event { at: self.moment.at, wall: self.moment.wall_stamp(), run: self.run.clone(), fact };
        self.observer.before(self.state, &event);
        self.state.apply(&event);
        self.observer.after(self.state, &event);
        self.events.push(event);
    }

    /// Stamps the following facts with another run.
    pub(super) fn begin_run(&mut self, run: &RunId) {
        self.run = Some(run.clone());
    }

    /// Stores that a budget is too small for the next step, without recording a fact.
    pub(super) fn has_no_room(&mut self, limit: &str, figure: u64, refused: &Refused) {
        let budget = Some((limit.to_owned(), figure, refused.clone()));
        self.no_room = NoRoom { budget, is_recorded: false };
    }

    /// Records that a budget is too small, unless the journal already has this fact.
    pub(super) fn record_no_room(&mut self) {
        if let Some((limit, figure, refused)) = self.no_room.budget.clone()
            && !std::mem::replace(&mut self.no_room.is_recorded, true)
        {
            self.record(Fact::LimitReached { limit, figure, refused: Some(refused) });
        }
    }

    /// Returns the budget that is too small for the next step.
    pub(super) fn no_room(&self) -> Option<&(String, u64, Refused)> {
        self.no_room.budget.as_ref()
    }

    /// Returns the recorded events.
    pub(super) fn into_events(self) -> Vec<Event> {
        self.events
    }

    /// Returns the state after the recorded facts, and the time.
    pub(super) fn situation(&self) -> Situation<'_> {
        Situation { thread: self.thread, state: self.state, lacks: self.lacks, now: self.moment.at }
    }

    /// Returns the state after the recorded facts.
    pub(super) fn state(&self) -> &State {
        self.state
    }

    pub(super) fn now(&self) -> Timestamp {
        self.moment.at
    }

    /// Returns the head of the journal before the decision.
    pub(super) fn from(&self) -> Seq {
        self.from
    }

    pub(super) fn lacks(&self, tool: &ToolName) -> bool {
        self.lacks.contains(tool)
    }

    /// Returns the grants that this decision has used, once per use.
    pub(super) fn grants_used(&self) -> &[String] {
        &self.grants_used
    }

    /// Returns the active run. The plan must have checked that a run is active, and must not have finished the run.
    pub(super) fn run(&self) -> &Run {
        self.state.run.as_ref().expect("a plan about a run has an active one")
    }

    /// Returns the calls of the step; `None` when every call has its result.
    pub(super) fn line(&self) -> Option<&Line> {
        self.state.run.as_ref().and_then(line_of)
    }

    /// Returns an open call of the step.
    pub(super) fn call(&self, index: usize) -> &Call {
        let line = self.line().expect("a plan about a call has the calls of its step");
        &line.calls[index]
    }

    pub(super) fn key(&self, index: usize) -> CallKey {
        CallKey { step: self.run().attempt.step, index: index as u32 }
    }

    pub(super) fn effect(&self, call: CallKey) -> EffectId {
        EffectId::derive(self.thread, &self.run().id, call)
    }

    /// Returns the effects of the last finished run that are not pure.
    pub(super) fn effects_of_last(&self) -> Vec<EffectId> {
        let Some(last) = &self.state.last else { return Vec::new() };
        last.effects.iter().map(|call| EffectId::derive(self.thread, &last.run, *call)).collect()
    }
}

/// Returns the calls of a run's current step.
pub(super) fn line_of(run: &Run) -> Option<&Line> {
    match &run.phase {
        Phase::Calls(line) => Some(line),
        Phase::Ready | Phase::Calling | Phase::Retrying(_) | Phase::Parked(_) => None,
    }
}

/// Rejects a text that is too long to be recorded inline.
pub(super) fn fits(what: &str, size_bytes: usize) -> Result<(), Reject> {
    if size_bytes <= INLINE_MAX_BYTES {
        return Ok(());
    }
    let what = format!("{what} has {size_bytes} bytes; shorten it to {INLINE_MAX_BYTES} at most");
    Err(Reject::Invalid { what })
}

/// Rejects JSON that could not be decoded from the journal. `checked` has the reason.
pub(super) fn can_be_read(what: &str, checked: Result<(), String>) -> Result<(), Reject> {
    checked.map_err(|why| Reject::Invalid { what: format!("{what} {why}") })
}

/// Rejects a JSON null for an optional value, because null decodes as absent.
pub(super) fn is_not_null(what: &str, value: &Value) -> Result<(), Reject> {
    match value {
        Value::Null => Err(Reject::Invalid { what: format!("{what} is null; leave it out") }),
        Value::Bool(_) | Value::Number(_) | Value::String(_) | Value::Array(_) | Value::Object(_) => Ok(()),
    }
}
