//! The machine: decide, record, fold, want. Read this first.
//!
//! `handle` decides what an input means and applies each fact as it records it; the driver appends the events to the
//! journal, and only then shows or starts anything; `wants` says what should be in flight; `deadline` says when to send
//! [`Input::Tick`]. Nothing here does I/O, reads a clock or draws a random number.

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

/// One thread's machine.
#[derive(Clone, Debug, PartialEq)]
pub struct Machine {
    thread: ThreadId,
    state: State,
    /// Tools of the active run alone that this process does not have.
    lacks: BTreeSet<ToolName>,
}

/// A cache of the fold. Disposable: without it the whole journal is folded.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Snapshot {
    /// Version of the fold that made it.
    pub fold: u32,
    /// The last event that it covers.
    pub seq: Seq,
    /// The state as JSON.
    pub bytes: Vec<u8>,
}

/// A journal that does not belong to its thread.
#[derive(Debug, thiserror::Error)]
pub enum CorruptJournal {
    /// The journal speaks of another thread.
    #[error("the journal of thread `{wanted}` says that it belongs to `{found}`")]
    OtherThread {
        /// The thread that was opened.
        wanted: ThreadId,
        /// The thread that the journal names.
        found: ThreadId,
    },
}

impl Machine {
    /// Folds a journal, from a snapshot where there is a usable one. `events` are those after the snapshot's
    /// position. A snapshot of another fold version, or a damaged one, is ignored, and `events` must then be all of
    /// them: [`Snapshot::is_usable`] says so beforehand.
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

    /// Decides what an input means, and applies each event as it records it. A reject changes nothing. The events must
    /// be appended before anything is shown or started; where that fails, the machine is discarded and the journal is
    /// read again. The moment is that of the thread's clock, see [`ThreadClock::moment`](crate::ThreadClock::moment).
    pub fn handle(&mut self, input: &Input, moment: impl Into<Moment>) -> Result<Vec<Event>, Reject> {
        self.handle_observed(input, moment, &mut ())
    }

    /// The same, with an observer that sees the state before and after each event.
    pub fn handle_observed(
        &mut self,
        input: &Input,
        moment: impl Into<Moment>,
        observer: &mut dyn Observer,
    ) -> Result<Vec<Event>, Reject> {
        let Self { thread, state, lacks } = self;
        on::decide(thread, state, lacks, input, moment.into(), observer)
    }

    /// Says which tools of the active run alone this process does not have: a call of one waits, as it stands, for a
    /// process that has it. It is told as the time is, and recorded nowhere: it says nothing of the thread. None turns
    /// up while the run is in hand here, because its calls were found lost without it.
    pub fn lack(&mut self, tools: BTreeSet<ToolName>) {
        self.lacks = tools;
    }

    /// Whether this process does not have a tool that is the active run's own.
    pub fn lacks(&self, tool: &ToolName) -> bool {
        self.lacks.contains(tool)
    }

    /// The tools that calls wait for which nobody is asked about, because this process does not have them.
    pub fn missing(&self) -> BTreeSet<&ToolName> {
        let run = self.state.run.as_ref().filter(|_| !self.lacks.is_empty());
        let calls = run.into_iter().flat_map(|run| self.calls(run)).map(|(_, call)| call);
        let open = calls.filter(|call| call.status != CallStatus::Done && call.status.asked().is_none());
        open.map(|call| &call.tool).filter(|tool| self.lacks(tool)).collect()
    }

    /// Folds one event of the journal in. Never fails. What [`Self::handle`] has recorded is applied already.
    pub fn apply(&mut self, event: &Event) {
        self.state.apply(event);
    }

    /// The journal of a thread that begins with the history of another one, up to a place where no run is active.
    /// `origin` are the other thread's events from its first on. Refused where there is no such place, or a run is
    /// active in it; nothing but the whole of the result makes a thread.
    pub fn fork(origin: &[Event], fork: &Fork, now: Timestamp) -> Result<Vec<Event>, Reject> {
        on::fork::decide(origin, fork, now)
    }

    /// What should be in flight now: a function of the state alone.
    pub fn wants(&self) -> Vec<Command> {
        let Some(run) = self.state.run.as_ref().filter(|run| run.cancel.is_none()) else { return Vec::new() };
        let mut commands = self.begun(run);
        commands.extend(self.looks(run));
        commands.retain(|command| !command.tool().is_some_and(|tool| self.lacks(tool)));
        commands
    }

    /// What was in flight when the process that had it went: what is wanted, and, in a run that is being stopped,
    /// what has not ended yet. Previews and reads that change nothing are not among it: they are simply made again.
    pub fn unfinished(&self) -> Vec<Command> {
        self.state.run.as_ref().map(|run| self.begun(run)).unwrap_or_default()
    }

    /// What the journal says has begun and has not ended.
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

    /// Previews, and reads that may tell a lost outcome.
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

    /// Milliseconds until [`Input::Tick`] is to be sent, from the thread's time on: to be slept by a clock that never
    /// jumps. `None` where only an outside input can change anything.
    pub fn due_in_ms(&self, now: Timestamp) -> Option<u64> {
        self.deadline().map(|at| at.since(now))
    }

    /// When to send [`Input::Tick`], in the thread's time; `None` where only an outside input can change anything.
    pub fn deadline(&self) -> Option<Timestamp> {
        self.next_deadline(|tool| !self.lacks(tool))
    }

    /// When the thread needs a driver without an outside input, by the wall clock. A function of the journal alone: it
    /// also counts timers of tools that this process lacks, because another process may have them.
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

    /// The request of the step at hand; `None` where no run is active.
    pub fn request(&self) -> Option<ModelRequest> {
        ModelRequest::of(&self.state)
    }

    /// Fingerprint of that request. Requests of a thread with equal fingerprints are equal. After a rollback, equal requests
    /// may have different fingerprints, because withdrawn messages stay in the chain.
    pub fn request_fingerprint(&self) -> Fingerprint {
        context::digest(&self.state).into()
    }

    /// The thread.
    pub fn thread(&self) -> &ThreadId {
        &self.thread
    }

    /// The fold so far.
    pub fn state(&self) -> &State {
        &self.state
    }

    /// A snapshot of the fold so far.
    pub fn snapshot(&self) -> Snapshot {
        // A state holds only strings, numbers and JSON values: nothing that the serialiser refuses.
        let bytes = serde_json::to_vec(&self.state).expect("a state is always JSON");
        Snapshot { fold: FOLD, seq: self.state.seq, bytes }
    }
}

impl Snapshot {
    /// Whether this build's fold made it and it can be read; otherwise the whole journal is folded.
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
