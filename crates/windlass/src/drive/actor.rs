//! The loop of one active thread: decide, append, publish, act.
//!
//! It is the only place where things happen. Nothing is shown or started before the append that
//! records its cause has returned.

use std::sync::Arc;

use tokio::sync::mpsc;
use tokio_util::sync::CancellationToken;
use windlass_machine::{
    Attempt, CallKey, Command, Event, Fact, Input, InputId, Machine, Phase, RunId, Seq, ThreadId, Timestamp,
};

use super::append::{NotAppended, append};
use super::execute::{ModelWork, Place, ToolWork, call_model, call_tool};
use super::{Accepted, Deps, Letter, MAILBOX, Mail, row};
use crate::error::EngineError;
use crate::port::bus::Signal;
use crate::port::journal::{Batch, BatchId, Epoch, InboxOutcome, RunView, StoreError, StoredSnapshot};

/// A snapshot is written once the events since the last one outweigh it, and at least this much. (design: "What is
/// recorded"; the floor keeps short runs from paying for it.)
const SNAPSHOT_MIN_BYTES: usize = 64 * 1024;

/// One thread's driver.
pub(super) struct Actor {
    pub deps: Arc<Deps>,
    pub thread: ThreadId,
    pub epoch: Epoch,
    pub machine: Machine,
    pub mailbox: mpsc::Receiver<Mail>,
    pub sender: mpsc::Sender<Mail>,
    pub in_flight: Vec<Flight>,
    /// Position of the newest `step.started`.
    pub step_seq: Seq,
    /// The step whose open calls were last judged again, and by which policy.
    pub rejudged: Option<(Seq, u64)>,
    pub since_snapshot: usize,
    pub snapshot_bytes: usize,
}

/// Something in flight.
pub(super) struct Flight {
    key: FlightKey,
    cancel: CancellationToken,
    task: tokio::task::JoinHandle<()>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum FlightKey {
    Model(Attempt),
    Tool(CallKey, u32),
}

/// What one round has decided.
#[derive(Default)]
struct Round {
    events: Vec<Event>,
    blobs: Vec<(windlass_machine::BlobRef, bytes::Bytes)>,
    consumed: Vec<(InputId, InboxOutcome)>,
    replies: Vec<(tokio::sync::oneshot::Sender<Result<Accepted, EngineError>>, Accepted)>,
    runs: Vec<RunView>,
}

/// Why an actor ended.
pub(super) enum Ended {
    /// Nothing is left to do; the mailbox is closed and empty.
    Idle,
    /// Another process drives the thread.
    Fenced,
    /// The store gave up.
    Store(StoreError),
}

impl Actor {
    /// Drives the thread until nothing is left to do.
    pub(super) async fn run(mut self) {
        let ended = self.drive().await;
        for flight in &self.in_flight {
            flight.task.abort();
        }
        match &ended {
            Ended::Idle => {}
            Ended::Fenced => tracing::warn!(thread = %self.thread, "another process drives the thread now"),
            Ended::Store(error) => tracing::error!(thread = %self.thread, %error, "driving stopped"),
        }
        self.close(&ended);
        if matches!(ended, Ended::Idle)
            && let Err(error) = self.deps.journal.release(&self.thread, self.epoch).await
        {
            // The thread stays with this node, which is woken for it like for any other of its threads.
            tracing::warn!(thread = %self.thread, %error, "the thread could not be given back");
        }
    }

    async fn drive(&mut self) -> Ended {
        let lost: Vec<_> =
            self.machine.unfinished().into_iter().map(Input::Lost).map(Letter::plain).collect();
        if let Err(ended) = self.round(lost).await {
            return ended;
        }
        if let Err(ended) = self.read_inbox().await {
            return ended;
        }
        loop {
            if self.is_idle() && self.retire() {
                return Ended::Idle;
            }
            let mails = self.wait().await;
            if let Err(ended) = self.take(mails).await {
                return ended;
            }
            if let Err(ended) = self.report_overtaken().await {
                return ended;
            }
        }
    }

    /// Waits for mail or for the deadline, then drains the mailbox.
    async fn wait(&mut self) -> Vec<Mail> {
        let deadline = self.machine.deadline();
        let clock = self.deps.clock.clone();
        let first = tokio::select! {
            biased;
            mail = self.mailbox.recv() => mail,
            () = sleep(&*clock, deadline) => Some(Mail::Input(Box::new(Letter::plain(Input::Tick)))),
        };
        let mut mails: Vec<Mail> = first.into_iter().collect();
        while mails.len() < MAILBOX
            && let Ok(mail) = self.mailbox.try_recv()
        {
            mails.push(mail);
        }
        mails
    }

    async fn take(&mut self, mails: Vec<Mail>) -> Result<(), Ended> {
        let mut letters = Vec::with_capacity(mails.len());
        let mut inbox = false;
        for mail in mails {
            match mail {
                Mail::Input(letter) => letters.push(*letter),
                Mail::Inbox => inbox = true,
            }
        }
        self.round(letters).await?;
        if inbox { self.read_inbox().await } else { Ok(()) }
    }

    /// A start that was recorded in the same batch as the run's cancel was never made: it is lost.
    async fn report_overtaken(&mut self) -> Result<(), Ended> {
        if self.machine.state().run.as_ref().is_none_or(|run| run.cancel.is_none()) {
            return Ok(());
        }
        let begun = self.machine.unfinished().into_iter();
        let overtaken: Vec<_> = begun
            .filter(|command| !self.in_flight.iter().any(|flight| flight.key == key(command)))
            .map(|command| Letter::plain(Input::Lost(command)))
            .collect();
        if overtaken.is_empty() { Ok(()) } else { self.round(overtaken).await }
    }

    /// Consumes inbox rows, in order, until none is left.
    async fn read_inbox(&mut self) -> Result<(), Ended> {
        loop {
            let rows = self.deps.journal.inbox(&self.thread, MAILBOX).await.map_err(Ended::Store)?;
            if rows.is_empty() {
                return Ok(());
            }
            let mut letters = Vec::with_capacity(rows.len());
            for (id, mut input) in rows {
                self.look_up(&mut input).await?;
                letters.push(Letter { row: Some(id), ..Letter::plain(input) });
            }
            self.round(letters).await?;
        }
    }

    /// An answer from another process carries no view of this one's policy and tools.
    async fn look_up(&self, input: &mut Input) -> Result<(), Ended> {
        if let Input::Answered { view, .. } = input {
            *view = self.deps.view_again(self.machine.state()).await.map_err(Ended::Store)?;
        }
        Ok(())
    }

    /// One round: decide every letter, append once, publish, act.
    async fn round(&mut self, letters: Vec<Letter>) -> Result<(), Ended> {
        let mut round = Round::default();
        let expected = self.machine.state().seq;
        self.rejudge(&mut round).await?;
        for letter in letters {
            self.decide(letter, &mut round);
        }
        if !round.events.is_empty() || !round.consumed.is_empty() {
            self.append(expected, &mut round).await?;
        }
        for (reply, outcome) in round.replies {
            // Whoever asked may be gone.
            let _ = reply.send(Ok(outcome));
        }
        self.act();
        Ok(())
    }

    /// A policy that changed since the open calls were judged counts before any of them starts.
    async fn rejudge(&mut self, round: &mut Round) -> Result<(), Ended> {
        let judged = match self.machine.state().run.as_ref().map(|run| &run.phase) {
            Some(Phase::Calls(line)) => line.view,
            Some(Phase::Ready | Phase::Calling | Phase::Retrying(_)) | None => return Ok(()),
        };
        let now = self.deps.policy().version();
        if judged != 0 && judged != now && self.rejudged != Some((self.step_seq, now)) {
            // A rejudgement that changes nothing records nothing: once per step and policy is enough.
            self.rejudged = Some((self.step_seq, now));
            let view = self.deps.view_again(self.machine.state()).await.map_err(Ended::Store)?;
            self.decide(Letter::plain(Input::Rejudge { view }), round);
        }
        Ok(())
    }

    fn decide(&mut self, letter: Letter, round: &mut Round) {
        let Letter { input, blobs, row, reply } = letter;
        let first = self.machine.state().seq.next();
        self.landed(&input);
        let outcome = match self.machine.handle(&input, self.deps.clock.now()) {
            Ok(events) => {
                round.blobs.extend(blobs);
                for event in events {
                    self.fold(&event, round);
                    round.events.push(event);
                }
                Ok(first)
            }
            Err(reject) => {
                tracing::debug!(thread = %self.thread, %reject, "input refused");
                Err(reject)
            }
        };
        if let Some(row) = row {
            let outcome = match &outcome {
                Ok(seq) => InboxOutcome::Accepted(*seq),
                Err(reject) => InboxOutcome::Rejected(reject.clone()),
            };
            round.consumed.push((row, outcome));
        }
        if let Some(reply) = reply {
            round.replies.push((reply, outcome));
        }
    }

    /// Folds an event in and keeps the lists' row of its run.
    fn fold(&mut self, event: &Event, round: &mut Round) {
        if let (Fact::RunFinished { status, totals, .. }, Some(run)) =
            (&event.fact, &self.machine.state().run)
        {
            let ended = RunView {
                status: Some(*status),
                finished_at: Some(event.at),
                totals: *totals,
                ..row::run_view(run)
            };
            row::put_run(&mut round.runs, ended);
        }
        self.machine.apply(event);
        self.since_snapshot += row::weight(event);
        let state = self.machine.state();
        if matches!(event.fact, Fact::StepStarted { .. }) {
            self.step_seq = state.seq;
        }
        if let (Fact::RunStarted { .. } | Fact::ModelSwitched { .. }, Some(run)) = (&event.fact, &state.run) {
            row::put_run(&mut round.runs, row::run_view(run));
        }
    }

    async fn append(&mut self, expected: Seq, round: &mut Round) -> Result<(), Ended> {
        let events: Arc<[Event]> = std::mem::take(&mut round.events).into();
        let batch = Batch {
            thread: self.thread.clone(),
            epoch: self.epoch,
            expected,
            id: BatchId(self.deps.clock.random()),
            events: events.clone(),
            blobs: std::mem::take(&mut round.blobs),
            consumed: std::mem::take(&mut round.consumed),
            thread_view: row::thread_view(&self.machine),
            runs: std::mem::take(&mut round.runs),
        };
        match append(&self.deps, batch).await {
            Ok(seq) => {
                let status = Some(row::status(self.machine.state()));
                let replied = events.iter().any(|event| ends_reply(&event.fact));
                self.deps.bus.publish(&self.thread, Signal::Appended { seq, events, status });
                if replied {
                    self.deps.bus.settle(&self.thread);
                }
                self.keep_snapshot();
                Ok(())
            }
            Err(not_appended) => {
                let (ended, why) = match not_appended {
                    NotAppended::Fenced => (Ended::Fenced, "another process drives it now".to_owned()),
                    NotAppended::Store(error) => {
                        let why = error.to_string();
                        (Ended::Store(error), why)
                    }
                };
                for (reply, _) in round.replies.drain(..) {
                    let stopped = EngineError::Stopped { thread: self.thread.clone(), why: why.clone() };
                    let _ = reply.send(Err(stopped));
                }
                Err(ended)
            }
        }
    }

    /// Compares what is wanted with what is in flight: starts what is missing, stops what is no longer wanted.
    fn act(&mut self) {
        let wanted = self.machine.wants();
        for flight in &self.in_flight {
            if !wanted.iter().any(|command| key(command) == flight.key) {
                flight.cancel.cancel();
            }
        }
        for command in wanted {
            if !self.in_flight.iter().any(|flight| flight.key == key(&command)) {
                self.start(command);
            }
        }
    }

    fn start(&mut self, command: Command) {
        let Some(run) = self.machine.state().run.as_ref().map(|run| run.id.clone()) else { return };
        let cancel = CancellationToken::new();
        let place = self.place(run);
        let flight = key(&command);
        let task = match &command {
            Command::CallModel { attempt, .. } => {
                let Some(request) = self.machine.request() else { return };
                let work = ModelWork {
                    attempt: *attempt,
                    seq: self.step_seq,
                    request,
                    digest: self.machine.request_digest(),
                    cancel: cancel.clone(),
                };
                tokio::spawn(call_model(place, work))
            }
            Command::CallTool { .. } => {
                tokio::spawn(call_tool(place, ToolWork { command, cancel: cancel.clone() }))
            }
        };
        self.in_flight.push(Flight { key: flight, cancel, task });
    }

    fn place(&self, run: RunId) -> Place {
        Place { deps: self.deps.clone(), thread: self.thread.clone(), run, mailbox: self.sender.clone() }
    }

    /// Takes what an input reports out of what is in flight.
    fn landed(&mut self, input: &Input) {
        let landed = match input {
            Input::ModelReplied(replied) => FlightKey::Model(replied.attempt),
            Input::ModelFailed(failed) => FlightKey::Model(failed.attempt),
            Input::ModelStopped { attempt, .. } => FlightKey::Model(*attempt),
            Input::ToolReturned { call, .. } | Input::ToolStopped { call, .. } => {
                self.in_flight
                    .retain(|flight| !matches!(flight.key, FlightKey::Tool(key, _) if key == *call));
                return;
            }
            Input::Message(_)
            | Input::Withdraw { .. }
            | Input::Cancel { .. }
            | Input::Answered { .. }
            | Input::Title { .. }
            | Input::SwitchModel { .. }
            | Input::Note { .. }
            | Input::Lost(_)
            | Input::Rejudge { .. }
            | Input::Tick => return,
        };
        self.in_flight.retain(|flight| flight.key != landed);
    }

    /// Writes a snapshot where the events since the last one outweigh it; never awaited.
    fn keep_snapshot(&mut self) {
        if self.since_snapshot < self.snapshot_bytes.max(SNAPSHOT_MIN_BYTES) {
            return;
        }
        let snapshot = self.machine.snapshot();
        (self.since_snapshot, self.snapshot_bytes) = (0, snapshot.bytes.len());
        let stored = StoredSnapshot { fold: snapshot.fold, seq: snapshot.seq, bytes: snapshot.bytes.into() };
        let (deps, thread) = (self.deps.clone(), self.thread.clone());
        tokio::spawn(async move {
            if let Err(error) = deps.journal.put_snapshot(&thread, stored).await {
                tracing::warn!(%thread, %error, "the snapshot was not kept; the journal has everything");
            }
        });
    }

    fn is_idle(&self) -> bool {
        self.in_flight.is_empty() && self.machine.deadline().is_none() && self.machine.wants().is_empty()
    }

    /// Leaves the register of actors, unless mail has come in the meantime.
    fn retire(&mut self) -> bool {
        let mut actors = self.deps.actors();
        if !self.mailbox.is_empty() {
            return false;
        }
        self.mailbox.close();
        actors.remove(&self.thread);
        true
    }

    /// Answers whoever still waits, and leaves the register.
    fn close(&mut self, ended: &Ended) {
        let mut actors = self.deps.actors();
        if actors.get(&self.thread).is_some_and(|sender| sender.same_channel(&self.sender)) {
            actors.remove(&self.thread);
        }
        drop(actors);
        self.mailbox.close();
        let why = match ended {
            Ended::Idle => "nothing was left to do".to_owned(),
            Ended::Fenced => "another process drives it now".to_owned(),
            Ended::Store(error) => error.to_string(),
        };
        while let Ok(mail) = self.mailbox.try_recv() {
            if let Mail::Input(letter) = mail
                && let Some(reply) = letter.reply
            {
                let stopped = EngineError::Stopped { thread: self.thread.clone(), why: why.clone() };
                let _ = reply.send(Err(stopped));
            }
        }
        // A watcher of a fenced owner goes on watching: somebody else drives the thread now.
        if matches!(ended, Ended::Store(_)) {
            self.deps.bus.publish(&self.thread, Signal::Stopped { why: why.into() });
        }
    }
}

async fn sleep(clock: &dyn crate::port::clock::Clock, deadline: Option<Timestamp>) {
    match deadline {
        Some(at) => clock.sleep_until(at).await,
        None => std::future::pending().await,
    }
}

fn key(command: &Command) -> FlightKey {
    match command {
        Command::CallModel { attempt, .. } => FlightKey::Model(*attempt),
        Command::CallTool { call, start, .. } => FlightKey::Tool(*call, *start),
    }
}

fn ends_reply(fact: &Fact) -> bool {
    matches!(fact, Fact::StepReplied { .. } | Fact::StepFailed { .. })
}
