//! The machine: decide, record, fold, want. Read this first.
//!
//! `handle` decides an input and applies each fact as it records it. The driver appends the events to the journal
//! before it publishes or starts anything. `wants` returns the commands that should be in flight; `deadline` returns
//! when to send [`Input::Tick`]. This module does no I/O, reads no clock and generates no random numbers.

use std::collections::BTreeSet;

use crate::command::{Command, Replied, Resumed};
use crate::context::{self, ModelRequest};
use crate::event::Event;
use crate::id::{CallKey, EffectId, Fingerprint, Seq, ThreadId, Timestamp, ToolName};
use crate::input::{Fork, Input};
use crate::moment::Moment;
use crate::observer::Observer;
use crate::on;
use crate::reject::Reject;
use crate::state::{Call, CallStatus, FOLD, Phase, Run, State};

/// The machine of one thread.
#[derive(Clone, Debug, PartialEq)]
pub struct Machine {
    thread: ThreadId,
    state: State,
    /// The active run's own tools that this process does not have.
    lacks: BTreeSet<ToolName>,
}

/// A disposable cache of the fold: without a snapshot, the whole journal is folded.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Snapshot {
    /// Version of the fold that produced it.
    pub fold: u32,
    /// Position of the last event that the snapshot covers.
    pub seq: Seq,
    /// The encoded state as JSON.
    pub bytes: Vec<u8>,
}

/// The journal does not belong to the thread.
#[derive(Debug, thiserror::Error)]
pub enum CorruptJournal {
    /// The journal's first event names another thread.
    #[error("the journal of thread `{wanted}` says that it belongs to `{found}`")]
    OtherThread {
        /// Thread that was opened.
        wanted: ThreadId,
        /// Thread that the journal names.
        found: ThreadId,
    },
}

impl Machine {
    /// Folds a journal, starting from a snapshot if it is usable. `events` are the events after the snapshot. A
    /// snapshot that is damaged or of another fold version is ignored, and `events` must then be the whole journal.
    /// [`Snapshot::is_usable`] checks the snapshot beforehand.
    pub fn restore(
        thread: ThreadId,
        snapshot: Option<&Snapshot>,
        events: impl IntoIterator<Item = Event>,
    ) -> Result<Self, CorruptJournal> {
        let state = snapshot.and_then(State::from_snapshot).unwrap_or_default();
        let mut machine = Self { thread, state, lacks: BTreeSet::new() };
        for event in events {
            machine.apply(&event);
        }
        match &machine.state.thread {
            Some(found) if *found != machine.thread => {
                Err(CorruptJournal::OtherThread { wanted: machine.thread, found: found.clone() })
            }
            Some(_) | None => Ok(machine),
        }
    }

    /// Decides an input, and applies each event as it records it. A reject changes nothing. The driver must append
    /// the events before it publishes or starts anything. If the append fails, discard the machine and read the
    /// journal again. `moment` comes from the thread's clock, see
    /// [`ThreadClock::moment`](crate::ThreadClock::moment).
    pub fn handle(&mut self, input: &Input, moment: impl Into<Moment>) -> Result<Vec<Event>, Reject> {
        self.handle_observed(input, moment, &mut ())
    }

    /// Like [`Self::handle`], with an observer that sees the state before and after each event.
    pub fn handle_observed(
        &mut self,
        input: &Input,
        moment: impl Into<Moment>,
        observer: &mut dyn Observer,
    ) -> Result<Vec<Event>, Reject> {
        let Self { thread, state, lacks } = self;
        on::decide(thread, state, lacks, input, moment.into(), observer)
    }

    /// Sets the active run's own tools that this process does not have. Calls of these
    /// tools wait for a process that has them. Like the clock, the set is process state
    /// and is not journaled. It only changes when another process takes over the run.
    pub fn lack(&mut self, tools: BTreeSet<ToolName>) {
        self.lacks = tools;
    }

    /// Whether the tool is one of the active run's own tools that this process does not have.
    pub fn lacks(&self, tool: &ToolName) -> bool {
        self.lacks.contains(tool)
    }

    /// Returns the unavailable tools that open calls wait for, except calls with an open interrupt.
    pub fn missing(&self) -> BTreeSet<&ToolName> {
        let run = self.state.run.as_ref().filter(|_| !self.lacks.is_empty());
        let calls = run.into_iter().flat_map(|run| self.calls(run)).map(|(_, call)| call);
        let open = calls.filter(|call| call.status != CallStatus::Done && call.status.asked().is_none());
        open.map(|call| &call.tool).filter(|tool| self.lacks(tool)).collect()
    }

    /// Folds one event of the journal. Never fails. Events from [`Self::handle`] are already applied.
    pub fn apply(&mut self, event: &Event) {
        self.state.apply(event);
    }

    /// Returns the journal of a new thread that starts with another thread's history, up to a position without an
    /// active run. `origin` are the other thread's events from the first on. Fails if the position does not exist or
    /// a run is active there. Only the complete result is a valid journal.
    pub fn fork(origin: &[Event], fork: &Fork, now: Timestamp) -> Result<Vec<Event>, Reject> {
        on::fork::decide(origin, fork, now)
    }

    /// Returns the commands that should be in flight: a function of the state and the unavailable tools.
    pub fn wants(&self) -> Vec<Command> {
        let Some(run) = self.state.run.as_ref().filter(|run| run.cancel.is_none()) else { return Vec::new() };
        let mut commands = self.begun(run);
        commands.extend(self.looks(run));
        commands.retain(|command| !command.tool().is_some_and(|tool| self.lacks(tool)));
        commands
    }

    /// Returns the commands that may have been in flight when the previous process ended. In a run that is being
    /// cancelled, these are the commands that have not ended yet. Previews and reconciliation reads are excluded,
    /// because they are simply repeated.
    pub fn unfinished(&self) -> Vec<Command> {
        self.state.run.as_ref().map(|run| self.begun(run)).unwrap_or_default()
    }

    /// Returns the commands that have a recorded start and no end.
    fn begun(&self, run: &Run) -> Vec<Command> {
        if run.phase == Phase::Calling {
            return vec![Command::CallModel { attempt: run.attempt, model: run.step_model.clone() }];
        }
        let started = self.calls(run).filter(|(_, call)| call.status == CallStatus::Started);
        let replied = |call: &Call| {
            let answer = call.reply.clone().filter(|_| !call.resumes)?;
            Some(Box::new(Replied { answer, state: call.parked.clone() }))
        };
        let resumed = |call: &Call| {
            let resumed = Resumed { times: call.deferrals, state: call.parked.clone() };
            call.resumes.then(|| Box::new(resumed))
        };
        let commands = started.map(|(key, call)| Command::CallTool {
            call: key,
            start: call.starts,
            tool: call.tool.clone(),
            effect: EffectId::derive(&self.thread, &run.id, key),
            class: call.class,
            arguments: call.arguments.clone(),
            timeout_ms: run.agent.limits.call_timeout_ms,
            reply: replied(call),
            resumed: resumed(call),
        });
        commands.collect()
    }

    /// Returns the wanted previews, and the reads that may reveal a lost outcome.
    fn looks(&self, run: &Run) -> Vec<Command> {
        let timeout_ms = run.agent.limits.call_timeout_ms;
        let commands = self.calls(run).filter_map(|(key, call)| {
            let (tool, arguments) = (call.tool.clone(), call.arguments.clone());
            match call.status {
                CallStatus::Previewing { .. } => {
                    Some(Command::PreviewTool { call: key, round: call.looks, tool, arguments, timeout_ms })
                }
                CallStatus::Reconciling { attempt, .. } => {
                    let effect = EffectId::derive(&self.thread, &run.id, key);
                    Some(Command::Reconcile { call: key, attempt, tool, effect, arguments, timeout_ms })
                }
                _ => None, // tidy: nothing is looked up in the other statuses
            }
        });
        commands.collect()
    }

    fn calls<'a>(&self, run: &'a Run) -> impl Iterator<Item = (CallKey, &'a Call)> {
        let line = match &run.phase {
            Phase::Calls(line) => line.calls.as_slice(),
            Phase::Ready | Phase::Calling | Phase::Retrying(_) | Phase::Parked(_) => &[],
        };
        let step = run.attempt.step;
        line.iter().enumerate().map(move |(index, call)| (CallKey { step, index: index as u32 }, call))
    }

    /// Returns the milliseconds from `now` until [`Input::Tick`] is due, to be slept by a monotonic clock. `None` if
    /// only an outside input can change anything.
    pub fn due_in_ms(&self, now: Timestamp) -> Option<u64> {
        self.deadline().map(|at| at.since(now))
    }

    /// Returns when to send [`Input::Tick`], in thread time; `None` if only an outside input can change anything.
    pub fn deadline(&self) -> Option<Timestamp> {
        self.next_deadline(|tool| !self.lacks(tool))
    }

    /// Returns when the thread needs a driver without an outside input, by the wall clock. The result depends on the
    /// journal alone and includes timers of tools that only other processes have.
    pub fn wall_deadline(&self) -> Option<Timestamp> {
        let deadline = self.next_deadline(|_| true)?;
        Some(Timestamp(deadline.0.saturating_sub(self.state.ahead_ms)))
    }

    fn next_deadline(&self, is_here: impl Fn(&ToolName) -> bool) -> Option<Timestamp> {
        let run = self.state.run.as_ref()?;
        let retry = match run.phase {
            Phase::Retrying(at) => Some(at),
            Phase::Ready | Phase::Calling | Phase::Calls(_) | Phase::Parked(_) => None,
        };
        let looks = [run.deadline(), run.next_look(is_here)].into_iter().flatten();
        retry.into_iter().chain(looks.filter(|_| run.cancel.is_none())).min()
    }

    /// Builds the request of the current step; `None` without an active run.
    pub fn request(&self) -> Option<ModelRequest> {
        ModelRequest::of(&self.state)
    }

    /// Returns the fingerprint of the current step's request. Requests of a thread
    /// with equal fingerprints are equal. After a rollback, equal requests may have
    /// different fingerprints, because withdrawn messages stay in the chain.
    pub fn request_fingerprint(&self) -> Fingerprint {
        context::digest(&self.state).into()
    }

    /// Returns the thread's id.
    pub fn thread(&self) -> &ThreadId {
        &self.thread
    }

    /// Returns the current state.
    pub fn state(&self) -> &State {
        &self.state
    }

    /// Creates a snapshot of the current state.
    pub fn snapshot(&self) -> Snapshot {
        // A state contains only strings, numbers and JSON values, which always serialise.
        let bytes = serde_json::to_vec(&self.state).expect("a state is always JSON");
        Snapshot { fold: FOLD, seq: self.state.seq, bytes }
    }
}

impl Snapshot {
    /// Whether this build can use the snapshot; otherwise the whole journal must be folded.
    pub fn is_usable(&self) -> bool {
        State::from_snapshot(self).is_some()
    }
}

impl State {
    fn from_snapshot(snapshot: &Snapshot) -> Option<Self> {
        if snapshot.fold != FOLD {
            return None;
        }
        serde_json::from_slice(&snapshot.bytes).ok().filter(|state: &Self| state.seq == snapshot.seq)
    }
}
