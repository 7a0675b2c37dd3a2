//! The commands in flight of a thread: at most one model call, and the tool calls of a step.
//!
//! This module starts and stops commands. The machine decides
//! which commands are wanted, and the consequences of a result.

use std::sync::Arc;

use futures_util::FutureExt;
use futures_util::future::BoxFuture;
use tokio::sync::mpsc;
use tokio_util::sync::CancellationToken;
use tracing::Span;
use windlass_machine::{
    Attempt, CallKey, Command, Digest, Fact, Input, Machine, Phase, Run, Seq, State, View,
};

use super::actors::ActorServices;
use super::mail::{Letter, Mail};
use crate::drive::command::change::Changes;
use crate::drive::command::context::Place;
use crate::drive::command::folder::ThreadFolder;
use crate::drive::command::model::{ModelWork, call_model};
use crate::drive::command::tool::{ToolWork, Work, carry_out, wanted};
use crate::drive::trace;

/// All commands in flight of a thread.
pub(super) struct InFlight {
    /// The model call. The actor polls it directly: a separate task would be woken for each fragment, and a run
    /// spends most of its time waiting for its model.
    model: Option<ModelFlight>,
    tools: Vec<ToolFlight>,
    mailbox: mpsc::Sender<Mail>,
    /// The working folder, set when the first call is started or judged.
    folder: Option<Arc<ThreadFolder>>,
    /// Starts that this driver has recorded but not dispatched.
    recorded: Vec<Start>,
}

/// A recorded start of a command.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Start {
    Model(Attempt),
    Call(CallKey),
}

impl Start {
    fn of(command: &Command) -> Option<Self> {
        match command {
            Command::CallModel { attempt, .. } => Some(Self::Model(*attempt)),
            Command::CallTool { call, .. } => Some(Self::Call(*call)),
            // Previews and reconciliations have no effects and need no recorded start.
            Command::PreviewTool { .. } | Command::Reconcile { .. } => None,
        }
    }
}

struct ModelFlight {
    attempt: Attempt,
    cancel: CancellationToken,
    reply: BoxFuture<'static, Letter>,
}

/// A running tool in its own task.
struct ToolFlight {
    call: CallKey,
    work: Work,
    cancel: CancellationToken,
    task: tokio::task::JoinHandle<()>,
}

impl InFlight {
    /// Creates an empty set of commands. Tools send their outcomes to `mailbox`.
    pub(super) fn new(mailbox: mpsc::Sender<Mail>) -> Self {
        Self { model: None, tools: Vec::new(), mailbox, folder: None, recorded: Vec::new() }
    }

    /// Stores a start before its append.
    pub(super) fn note_start(&mut self, fact: &Fact) {
        match fact {
            Fact::StepStarted { attempt, .. } => self.recorded.push(Start::Model(*attempt)),
            Fact::ToolStarted { call, .. } => self.recorded.push(Start::Call(*call)),
            Fact::RunFinished { .. } => self.recorded.clear(),
            _ => {} // tidy: nothing else is a start or ends one
        }
    }

    /// Drops the starts of a round that was not appended. Remaining
    /// starts of earlier rounds are then reported as lost.
    pub(super) fn forget_starts(&mut self) {
        self.recorded.clear();
    }

    /// Keeps the recorded starts that are not in flight.
    pub(super) fn note_dispatched(&mut self) {
        let mut recorded = std::mem::take(&mut self.recorded);
        recorded.retain(|start| match start {
            Start::Model(attempt) => self.model.as_ref().is_none_or(|flight| flight.attempt != *attempt),
            Start::Call(call) => {
                let carries =
                    |flight: &ToolFlight| flight.call == *call && matches!(flight.work, Work::Call(_));
                !self.tools.iter().any(carries)
            }
        });
        self.recorded = recorded;
    }

    /// Returns the report on a start in a cancelled run. If this driver knows that it did not dispatch the command,
    /// the input reports that; otherwise it reports the command as lost.
    pub(super) fn overtaken(&self, command: Command) -> Input {
        let is_known = Start::of(&command).is_some_and(|start| self.recorded.contains(&start));
        match command {
            Command::CallModel { attempt, .. } if is_known => Input::ModelStopped { attempt, partial: None },
            Command::CallTool { call, start, .. } if is_known => {
                Input::NotDispatched { call, start, view: View::default() }
            }
            command => Input::Lost { command, view: View::default() },
        }
    }

    pub(super) fn is_empty(&self) -> bool {
        self.model.is_none() && self.tools.is_empty()
    }

    /// Whether a tool is running.
    pub(super) fn has_tools(&self) -> bool {
        !self.tools.is_empty()
    }

    /// Whether a command is in flight.
    pub(super) fn has(&self, command: &Command) -> bool {
        self.model.as_ref().is_some_and(|flight| flight.carries(command))
            || self.tools.iter().any(|flight| flight.carries(command))
    }

    /// Starts the wanted commands that are not in flight, and stops those that are no longer wanted.
    pub(super) fn follow(&mut self, machine: &Machine, services: &ActorServices, step: Seq, span: &Span) {
        let wanted = machine.wants();
        let cancel_model =
            self.model.iter().filter(|flight| !wanted.iter().any(|command| flight.carries(command)));
        cancel_model.for_each(|flight| flight.cancel.cancel());
        let cancel_tools =
            self.tools.iter().filter(|flight| !wanted.iter().any(|command| flight.carries(command)));
        cancel_tools.for_each(|flight| flight.cancel.cancel());
        let missing: Vec<Command> = wanted.into_iter().filter(|command| !self.has(command)).collect();
        let Some(run) = machine.state().run.as_ref() else { return };
        let thread = machine.thread();
        for command in missing {
            let span = trace::command_span(span, run, &command);
            let folder = self.folder(machine.state());
            let place = Place {
                services: services.commands.clone(),
                workspace: machine.state().workspace.as_str().into(),
                thread: thread.clone(),
                run: run.id.clone(),
                folder,
                utc_offset_minutes: run.options.utc_offset_minutes,
                tools: services.catalog.of_run(&machine.state().workspace, thread, run),
                offload: run.options.offload,
                span,
            };
            let cancel = CancellationToken::new();
            match command {
                Command::CallModel { attempt, .. } => {
                    // A model call that is being stopped must end first.
                    let (None, Some(request)) = (&self.model, machine.request()) else { continue };
                    let fingerprint = machine.request_fingerprint();
                    let bounds = services.budgets.bounds(&machine.state().workspace, run, &request);
                    let work = ModelWork {
                        attempt,
                        seq: step,
                        request,
                        own_tools: run.options.own_tools.clone(),
                        fingerprint,
                        bounds,
                        cancel: cancel.clone(),
                    };
                    self.model =
                        Some(ModelFlight { attempt, cancel, reply: call_model(place, work).boxed() });
                }
                command => {
                    let Some(mut work) = ToolWork::of(command, thread, &run.id, cancel.clone()) else {
                        continue;
                    };
                    let tool = place.tools.registry.get(work.tool.as_str());
                    let name = tool.as_ref().and_then(|tool| tool.traits().keeps);
                    if tool.as_ref().is_some_and(|tool| tool.traits().fetches) {
                        work.offloaded = machine.state().offloaded.iter().cloned().collect();
                    }
                    work.approval = approval_of(run, work.call);
                    work.changes = Some(Changes::new(self.mailbox.clone(), machine.state().file_bytes));
                    work.kept = name.and_then(|name| machine.state().kept.get(name).cloned());
                    let (call, kind) = (work.call, work.work);
                    let task = self.begin(place, work);
                    self.tools.push(ToolFlight { call, work: kind, cancel, task });
                }
            }
        }
    }

    /// Returns the working folder of the thread's tools.
    pub(super) fn folder(&mut self, state: &State) -> Arc<ThreadFolder> {
        self.folder.get_or_insert_with(|| ThreadFolder::new(state.folder.clone())).clone()
    }

    fn begin(&self, place: Place, work: ToolWork) -> tokio::task::JoinHandle<()> {
        let mailbox = self.mailbox.clone();
        tokio::spawn(async move {
            let returned = carry_out(place, work).await;
            // A closed mailbox means that the driver has ended. The next driver finds the call in the journal.
            let _ = mailbox.send(Mail::Landed(Box::new(returned))).await;
        })
    }

    /// Waits for the model's reply; pending forever without a model call.
    pub(super) async fn replied(&mut self) -> Letter {
        match &mut self.model {
            Some(flight) => (&mut flight.reply).await,
            None => std::future::pending().await,
        }
    }

    /// Removes the command whose result has arrived.
    pub(super) fn landed(&mut self, input: &Input) {
        match input {
            Input::ToolReturned { call, .. }
            | Input::ToolStopped { call, .. }
            | Input::ToolAsked { call, .. }
            | Input::NotDispatched { call, .. }
            | Input::ToolDeferred { call, .. } => {
                self.tools.retain(|flight| flight.call != *call || !matches!(flight.work, Work::Call(_)));
            }
            Input::Previewed { call, round, .. } => self.forget(*call, Work::Preview(*round)),
            Input::Reconciled { call, attempt, .. } => self.forget(*call, Work::Reconcile(*attempt)),
            _ => self.model = None, // tidy: nothing but model calls and tool calls lands
        }
    }

    fn forget(&mut self, call: CallKey, work: Work) {
        self.tools.retain(|flight| (flight.call, flight.work) != (call, work));
    }

    /// Drops the model call. Returns the input that reports the stop.
    pub(super) fn give_up_model(&mut self) -> Option<Input> {
        let ModelFlight { attempt, .. } = self.model.take()?;
        Some(Input::ModelStopped { attempt, partial: None })
    }

    /// Aborts all commands in flight.
    pub(super) fn abort(&mut self) {
        self.model = None;
        self.tools.drain(..).for_each(|flight| flight.task.abort());
    }
}

impl ModelFlight {
    fn carries(&self, command: &Command) -> bool {
        matches!(command, Command::CallModel { attempt, .. } if *attempt == self.attempt)
    }
}

impl ToolFlight {
    fn carries(&self, command: &Command) -> bool {
        wanted(command) == Some((self.call, self.work))
    }
}

/// Returns the digest of the call that the gate judged.
fn approval_of(run: &Run, call: CallKey) -> Option<Digest> {
    match &run.phase {
        Phase::Calls(line) => line.calls.get(call.index as usize).map(|call| call.approval),
        Phase::Ready | Phase::Calling | Phase::Retrying(_) | Phase::Parked(_) => None,
    }
}
