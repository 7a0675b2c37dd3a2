//! The loop of one active thread: decide, append, publish, act.
//!
//! It is the only place where things happen. Nothing is shown or started before the append that
//! records its cause has returned.

use std::panic::AssertUnwindSafe;
use std::sync::Arc;

use futures::FutureExt;
use futures::future::BoxFuture;
use tokio::sync::mpsc;
use windlass_machine::{
    Call, CallStatus, Command, Event, Fact, Input, InputId, Machine, Phase, Principal, Reject, Seq, ThreadId,
    Timestamp, View,
};

use super::append::{NotAppended, Patience, append};
use super::contain::panic_text;
use super::flight::InFlight;
use super::measure;
use super::policy::PolicyNow;
use super::spend::{Drawn, Spending};
use super::{Accepted, Deps, Letter, MAILBOX, Mail, row, trace};
use crate::error::EngineError;
use crate::port::bus::Signal;
use crate::port::journal::{
    Batch, BatchId, Epoch, InboxOutcome, RunView, StoreError, StoredSnapshot, ThreadStatus,
};
use crate::port::observe::Measure;
use crate::port::records::RecordChange;

/// A snapshot is written once the events since the last one outweigh it, and at least this much. (design: "What is
/// recorded"; the floor keeps short runs from paying for it.)
const SNAPSHOT_MIN_BYTES: usize = 64 * 1024;

/// The wall clock may be set ahead while an actor sleeps, so it is looked at this often.
const LONGEST_SLEEP_MS: u64 = 30_000;

/// One thread's driver.
pub(super) struct Actor {
    pub deps: Arc<Deps>,
    pub thread: ThreadId,
    pub epoch: Epoch,
    /// Whether the store has not heard of the thread.
    pub is_new: bool,
    pub machine: Machine,
    pub mailbox: mpsc::Receiver<Mail>,
    pub sender: mpsc::Sender<Mail>,
    /// Whether the inbox has rows that were not read.
    pub inbox: bool,
    pub in_flight: InFlight,
    /// What the machine waits for by the clock.
    pub timer: Option<(Timestamp, BoxFuture<'static, ()>)>,
    /// When the last event was folded, by the clock that never jumps.
    pub event_ms: u64,
    /// Inbox rows that no machine is asked about, with the reason.
    pub refused: Vec<(InputId, String)>,
    /// Position of the newest `step.started`.
    pub step_seq: Seq,
    /// The step whose open calls were last judged again, and by which policy.
    pub rejudged: Option<(Seq, u64)>,
    /// The policy that counts for whom the run works for.
    pub policy: Option<(Principal, PolicyNow)>,
    /// Whether this round has used a grant.
    pub uses_grants: bool,
    /// What is set aside of budgets.
    pub spending: Spending,
    pub since_snapshot: usize,
    pub snapshot_bytes: usize,
    /// What a log shows of the active run.
    pub span: tracing::Span,
    /// What it shows of whoever asked for that run.
    pub asked: tracing::Span,
}

/// What one round has decided.
#[derive(Default)]
struct Round {
    events: Vec<Event>,
    blobs: Vec<(windlass_machine::BlobRef, bytes::Bytes)>,
    consumed: Vec<(InputId, InboxOutcome)>,
    runs: Vec<RunView>,
    drawn: Drawn,
    records: Vec<RecordChange>,
    measures: Vec<Measure>,
}

/// Why a round is decided anew: nothing of it was written.
enum Again {
    /// A budget had no room.
    Refused(Box<Input>),
    /// A grant was used or taken back by somebody else.
    Policy,
}

/// A round is decided anew at most so often: every budget may refuse once, and grants change seldom.
const MAX_ROUNDS: usize = 64;

/// Why an actor ended.
pub(super) enum Ended {
    /// Nothing is left to do; the mailbox is closed, and what came while it was, is handed on.
    Idle,
    /// The process is to drive nothing any more; no tool was at work.
    Left,
    /// Another process drives the thread.
    Fenced,
    /// The store gave up.
    Store(StoreError),
    /// The driver itself panicked.
    Crashed(String),
}

impl Ended {
    fn why(&self) -> String {
        match self {
            Self::Idle => "nothing was left to do".to_owned(),
            Self::Left => super::owner::LEAVING.to_owned(),
            Self::Fenced => "another process drives it now".to_owned(),
            Self::Store(error) => error.to_string(),
            Self::Crashed(why) => format!("the driver crashed ({why}); this is a defect"),
        }
    }
}

impl Actor {
    /// Drives the thread until nothing is left to do.
    pub(super) async fn run(mut self) {
        let driven = AssertUnwindSafe(self.drive()).catch_unwind().await;
        let ended = driven.unwrap_or_else(|panic| Ended::Crashed(panic_text(&*panic)));
        self.in_flight.abort();
        match &ended {
            Ended::Idle => {}
            Ended::Left => tracing::info!(thread = %self.thread, "the thread was left for another process"),
            Ended::Fenced => tracing::warn!(thread = %self.thread, "another process drives the thread now"),
            Ended::Store(error) => tracing::error!(thread = %self.thread, %error, "driving stopped"),
            Ended::Crashed(why) => {
                tracing::error!(thread = %self.thread, why, "driving crashed; this is a defect")
            }
        }
        let late = self.close(&ended);
        if !matches!(ended, Ended::Fenced) {
            self.deps.give_back(&self.thread, self.epoch).await;
        }
        for mail in late {
            self.deps.forward(&self.thread, mail).await;
        }
    }

    async fn drive(&mut self) -> Ended {
        if let Err(ended) = self.begin().await {
            return ended;
        }
        loop {
            if self.is_idle() && self.retire() {
                return Ended::Idle;
            }
            // A model call is asked again by whoever goes on; a tool's outcome would be lost with it.
            if self.deps.leaving.is_cancelled() && !self.in_flight.has_tools() {
                return Ended::Left;
            }
            // A model that answers at once would keep this thread from everybody else.
            tokio::task::coop::consume_budget().await;
            let mails = self.wait().await;
            if let Err(ended) = self.take(mails).await {
                return ended;
            }
        }
    }

    /// The first round: what waits for the thread counts before what was lost is begun again, so that a cancel that
    /// came meanwhile finds nothing started.
    async fn begin(&mut self) -> Result<(), Ended> {
        if let Some(run) = &self.machine.state().run {
            self.span = trace::run_span(&self.thread, &run.id, &run.agent);
            tracing::info!(parent: &self.span, "run taken up");
        }
        let unfinished = self.machine.unfinished();
        if !unfinished.is_empty() {
            self.spending = Spending::found(&self.deps, &self.thread).await.map_err(Ended::Store)?;
        }
        let lost = unfinished.into_iter().map(lost);
        let mails = std::iter::from_fn(|| self.mailbox.try_recv().ok()).collect();
        let mut letters = self.sort(mails);
        if self.inbox {
            letters.extend(self.inbox_letters().await?);
        }
        letters.extend(lost);
        self.round(letters).await?;
        self.read_inbox().await?;
        self.report_overtaken().await
    }

    /// Waits for mail, for the model or for the deadline, then drains the mailbox.
    async fn wait(&mut self) -> Vec<Mail> {
        let mut mails: Vec<Mail> = self.next_mail().await.into_iter().collect();
        while mails.len() < MAILBOX
            && let Ok(mail) = self.mailbox.try_recv()
        {
            mails.push(mail);
        }
        mails
    }

    async fn next_mail(&mut self) -> Option<Mail> {
        let deadline = self.machine.deadline();
        if self.timer.as_ref().map(|(at, _)| *at) != deadline {
            let now = self.now();
            self.timer =
                deadline.map(|at| (at, self.deps.clock.sleep_ms(at.since(now).min(LONGEST_SLEEP_MS))));
        }
        let leaving = self.deps.leaving.clone();
        tokio::select! {
            biased;
            () = leaving.cancelled(), if !self.in_flight.has_tools() => None,
            mail = self.mailbox.recv() => mail,
            letter = self.in_flight.replied() => Some(Mail::Landed(Box::new(letter))),
            () = elapsed(&mut self.timer) => {
                self.timer = None;
                let is_due = self.machine.due_in_ms(self.now()) == Some(0);
                is_due.then(|| Mail::Input(Box::new(Letter::plain(Input::Tick))))
            }
        }
    }

    async fn take(&mut self, mails: Vec<Mail>) -> Result<(), Ended> {
        let letters = self.sort(mails);
        self.round(letters).await?;
        self.read_inbox().await?;
        self.report_overtaken().await
    }

    /// Opens mail.
    fn sort(&mut self, mails: Vec<Mail>) -> Vec<Letter> {
        let mut letters = Vec::with_capacity(mails.len());
        for mail in mails {
            match mail {
                Mail::Input(letter) => letters.push(*letter),
                Mail::Landed(letter) => {
                    self.in_flight.landed(&letter.input);
                    letters.push(*letter);
                }
                Mail::Inbox => self.inbox = true,
            }
        }
        letters
    }

    /// A start that was recorded in the same batch as the run's cancel was never made: it is lost.
    async fn report_overtaken(&mut self) -> Result<(), Ended> {
        if self.machine.state().run.as_ref().is_none_or(|run| run.cancel.is_none()) {
            return Ok(());
        }
        let begun = self.machine.unfinished().into_iter();
        let overtaken: Vec<_> = begun.filter(|command| !self.in_flight.has(command)).map(lost).collect();
        if overtaken.is_empty() { Ok(()) } else { self.round(overtaken).await }
    }

    /// Consumes inbox rows, in order, until none is left.
    async fn read_inbox(&mut self) -> Result<(), Ended> {
        while self.inbox {
            let letters = self.inbox_letters().await?;
            self.round(letters).await?;
        }
        Ok(())
    }

    /// The oldest inbox rows as letters.
    async fn inbox_letters(&mut self) -> Result<Vec<Letter>, Ended> {
        let rows = self.deps.journal.inbox(&self.thread, MAILBOX).await.map_err(Ended::Store)?;
        self.inbox = rows.len() == MAILBOX;
        let mut letters = Vec::with_capacity(rows.len());
        for (id, input) in rows {
            match input {
                Ok(input) if !input.is_the_drivers() => {
                    letters.push(Letter { row: Some(id), ..Letter::plain(input) });
                }
                Ok(_) => self.refused.push((id, "only a thread's driver may report that".to_owned())),
                Err(why) => self.refused.push((id, format!("the input cannot be read: {why}"))),
            }
        }
        Ok(letters)
    }

    /// One round: decide every letter, append once, publish, act.
    async fn round(&mut self, mut letters: Vec<Letter>) -> Result<(), Ended> {
        let mut first = Vec::new();
        for _ in 0..MAX_ROUNDS {
            match self.try_round(&first, &mut letters).await? {
                None => {
                    self.in_flight.follow(&self.machine, &self.deps, &self.thread, self.step_seq, &self.span);
                    return Ok(());
                }
                Some(again) => {
                    self.take_back().await?;
                    match again {
                        Again::Refused(input) => first.push(Letter::plain(*input)),
                        Again::Policy => {
                            self.deps.policy.changed();
                            // Those who use the same grant do not go on in step with each other.
                            self.deps.clock.sleep_ms(1 + self.deps.clock.random() % 20).await;
                        }
                    }
                }
            }
        }
        let why = "budgets or grants were changed by others faster than a step could be decided".to_owned();
        Err(Ended::Store(StoreError::Unavailable { why }))
    }

    /// Decides and appends once; says why it has to be done again. `first` goes before the letters.
    async fn try_round(&mut self, first: &[Letter], letters: &mut [Letter]) -> Result<Option<Again>, Ended> {
        let mut round = Round::default();
        self.uses_grants = false;
        round.consumed.extend(self.refused.iter().map(|(id, what)| {
            tracing::warn!(thread = %self.thread, %id, what, "an input was refused");
            (id.clone(), InboxOutcome::Rejected(Reject::Invalid { what: what.clone() }))
        }));
        let expected = self.machine.state().seq;
        for letter in first {
            let _ = self.decide(letter, &mut round);
        }
        self.rejudge(&mut round).await?;
        let mut outcomes = Vec::with_capacity(letters.len());
        for letter in letters.iter_mut() {
            self.look_up(&mut letter.input).await?;
            outcomes.push(self.decide(letter, &mut round));
        }
        let appended = match round.events.is_empty() && round.consumed.is_empty() {
            true => Ok(None),
            false => self.append(expected, round).await,
        };
        match appended {
            Ok(None) => self.refused.clear(),
            Ok(again) => return Ok(again),
            Err(ended) => {
                self.tell_stopped(letters, &ended);
                return Err(ended);
            }
        }
        for (letter, outcome) in letters.iter_mut().zip(outcomes) {
            if let Some(reply) = letter.reply.take() {
                // Whoever asked may be gone.
                let _ = reply.send(Ok(outcome));
            }
        }
        Ok(None)
    }

    fn tell_stopped(&self, letters: &mut [Letter], ended: &Ended) {
        let why = ended.why();
        for reply in letters.iter_mut().filter_map(|letter| letter.reply.take()) {
            let stopped = EngineError::Stopped { thread: self.thread.clone(), why: why.clone() };
            let _ = reply.send(Err(stopped));
        }
    }

    /// Forgets what was decided and not written.
    async fn take_back(&mut self) -> Result<(), Ended> {
        (self.policy, self.rejudged) = (None, None);
        let failed = |error: EngineError| match error {
            EngineError::Store(error) => Ended::Store(error),
            other => Ended::Store(StoreError::Unavailable { why: other.to_string() }),
        };
        self.rejudged = None;
        if self.is_new {
            self.spending = Spending::default();
            let empty = Machine::restore(self.thread.clone(), None, []);
            self.machine = empty.map_err(|error| failed(error.into()))?;
            return Ok(());
        }
        let head = self.deps.journal.head(&self.thread).await.map_err(Ended::Store)?;
        let head = head.unwrap_or_default();
        self.machine = self.deps.restore(&self.thread, &head).await.map_err(failed)?.machine;
        self.spending = Spending::found(&self.deps, &self.thread).await.map_err(Ended::Store)?;
        Ok(())
    }

    /// Puts into an input what a decision needs to know of the policy, as it is now.
    async fn look_up(&mut self, input: &mut Input) -> Result<(), Ended> {
        let judged = match input {
            Input::ModelReplied(replied) => !replied.view.calls.is_empty(),
            Input::Lost { command, .. } => matches!(command, Command::CallTool { .. }),
            Input::Answered { .. } => true,
            _ => false, // tidy: nothing else is judged
        };
        if judged && self.policy.as_ref().is_some_and(|(_, policy)| policy.is_loosened()) {
            // What was loosened in the store may have been tightened there by another process.
            self.look_at_changes().await?;
        }
        let policy = if judged { self.policy().await? } else { None };
        let Some(policy) = policy else { return Ok(()) };
        match input {
            Input::ModelReplied(replied) => {
                replied.view = policy.view(std::mem::take(&mut replied.view.calls))
            }
            Input::Answered { answers, view, .. } => {
                *view = self.deps.view_again(self.machine.state(), &policy, answers).await;
            }
            Input::Lost { view, .. } => {
                *view = self.deps.view_again(self.machine.state(), &policy, &[]).await;
            }
            _ => {} // tidy: nothing else is judged
        }
        Ok(())
    }

    /// Notices what other processes have changed of the policy.
    async fn look_at_changes(&mut self) -> Result<(), Ended> {
        let mut patience = Patience::new();
        while let Err(error) = self.deps.look_at_changes().await {
            patience.after(&self.deps, error).await.map_err(Ended::Store)?;
        }
        Ok(())
    }

    /// The policy that counts for the active run now.
    async fn policy(&mut self) -> Result<Option<PolicyNow>, Ended> {
        let Some(run) = &self.machine.state().run else { return Ok(None) };
        if let Some((user, policy)) = &self.policy
            && *user == run.by
            // Uses that are not written yet count: they are known here alone.
            && (self.uses_grants || !self.deps.is_stale(policy))
        {
            return Ok(Some(policy.clone()));
        }
        let user = run.by.clone();
        let mut patience = Patience::new();
        let policy = loop {
            match self.deps.policy_for(&user, &self.thread).await {
                Ok(policy) => break policy,
                Err(error) => patience.after(&self.deps, error).await.map_err(Ended::Store)?,
            }
        };
        self.policy = Some((user, policy.clone()));
        Ok(Some(policy))
    }

    /// A policy that changed since the open calls were judged counts before any of them starts.
    async fn rejudge(&mut self, round: &mut Round) -> Result<(), Ended> {
        let (judged, waits) = match self.machine.state().run.as_ref().map(|run| &run.phase) {
            Some(Phase::Calls(line)) => (line.view, line.calls.iter().any(waits)),
            Some(Phase::Ready | Phase::Calling | Phase::Retrying(_) | Phase::Parked(_)) | None => {
                return Ok(());
            }
        };
        if waits {
            // What another process has changed counts as well, and at once.
            self.look_at_changes().await?;
        }
        let Some(policy) = self.policy().await? else { return Ok(()) };
        let now = policy.version;
        if judged != 0 && judged != now && self.rejudged != Some((self.step_seq, now)) {
            // A rejudgement that changes nothing records nothing: once per step and policy is enough.
            self.rejudged = Some((self.step_seq, now));
            let view = self.deps.view_again(self.machine.state(), &policy, &[]).await;
            let _ = self.decide(&Letter::plain(Input::Rejudge { view }), round);
        }
        Ok(())
    }

    fn decide(&mut self, letter: &Letter, round: &mut Round) -> Accepted {
        let Letter { input, blobs, row, reply: _, asked } = letter;
        let first = self.machine.state().seq.next();
        let outcome = match self.machine.handle(input, self.now()) {
            Ok(events) => {
                round.blobs.extend(blobs.iter().cloned());
                for event in events {
                    if matches!(event.fact, Fact::RunStarted { .. }) {
                        self.asked = asked.clone();
                    }
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
            round.consumed.push((row.clone(), outcome));
        }
        outcome
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
        if self.deps.observer.is_some() {
            round.measures.extend(measure::of(&self.machine, event));
        }
        self.machine.apply(event);
        self.spending.see(&self.deps, &self.machine, event, &mut round.drawn);
        self.uses_grants |= matches!(event.fact, Fact::GrantUsed { .. });
        if let Fact::GrantUsed { grant, .. } = &event.fact
            && let Some((_, policy)) = &mut self.policy
            && let Some(change) = policy.use_up(grant)
        {
            round.records.retain(|before| before.key != change.key);
            round.records.push(change);
        }
        self.event_ms = self.deps.clock.monotonic_ms();
        self.since_snapshot += row::weight(event);
        let state = self.machine.state();
        if matches!(event.fact, Fact::StepStarted { .. }) {
            self.step_seq = state.seq;
        }
        if let (Fact::RunStarted { .. } | Fact::ModelSwitched { .. }, Some(run)) = (&event.fact, &state.run) {
            row::put_run(&mut round.runs, row::run_view(run));
        }
    }

    /// Appends a round; where it has to be decided anew, says why.
    async fn append(&mut self, expected: Seq, round: Round) -> Result<Option<Again>, Ended> {
        let events: Arc<[Event]> = round.events.into();
        let Drawn { reserve, settle } = round.drawn;
        let changes_policy = !round.records.is_empty();
        let mut measures = round.measures;
        let from_ms = self.deps.clock.monotonic_ms();
        let batch = Batch {
            thread: self.thread.clone(),
            epoch: self.epoch,
            is_new: self.is_new,
            expected,
            id: BatchId(self.deps.clock.random()),
            events: events.clone(),
            blobs: round.blobs,
            consumed: round.consumed,
            settle,
            reserve,
            records: round.records,
            thread_view: row::thread_view(&self.machine),
            runs: round.runs,
        };
        let appended = append(&self.deps, batch).await;
        if let Some(observer) = &self.deps.observer {
            let took_ms = self.deps.clock.monotonic_ms().saturating_sub(from_ms);
            let written = appended.is_ok();
            measures.retain(|_| written);
            measures.push(Measure::Appended { took_ms, written });
            measures.iter().for_each(|measure| observer.observe(measure));
        }
        let not_appended = match appended {
            Ok(seq) => {
                self.is_new = false;
                for event in events.iter() {
                    trace::recorded(&mut self.span, &self.asked, &self.thread, event);
                }
                let status = Some(row::status(self.machine.state()));
                let replied = events.iter().any(|event| ends_reply(&event.fact));
                self.deps.bus.publish(&self.thread, Signal::Appended { seq, events, status });
                if replied {
                    self.deps.bus.settle(&self.thread);
                }
                if changes_policy {
                    self.deps.policy.changed();
                }
                self.keep_snapshot();
                return Ok(None);
            }
            Err(not_appended) => not_appended,
        };
        match not_appended {
            NotAppended::Fenced => Err(Ended::Fenced),
            NotAppended::Store(error) => Err(Ended::Store(error)),
            NotAppended::Limit { budget, cap, taken, wanted } => {
                let refused = self.deps.refused(&budget, taken, wanted);
                let input = Input::LimitRefused { limit: budget, figure: cap, refused };
                Ok(Some(Again::Refused(Box::new(input))))
            }
            NotAppended::Record => Ok(Some(Again::Policy)),
        }
    }

    /// The thread's time.
    fn now(&self) -> Timestamp {
        let since_event_ms = self.deps.clock.monotonic_ms().saturating_sub(self.event_ms);
        self.machine.now(self.deps.clock.now(), since_event_ms)
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
        // What waits for people is a row: where threads are looked after, it is taken up again when its time has come.
        let waits = self.deps.attends && row::status(self.machine.state()) == ThreadStatus::Waiting;
        let due_in_ms = self.machine.due_in_ms(self.now());
        let is_due = due_in_ms.is_some_and(|ms| ms == 0 || !waits);
        self.in_flight.is_empty() && !is_due && self.machine.wants().is_empty()
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

    /// Leaves the register, and answers whoever still waits; an actor that is merely done hands back the mail that
    /// came while it left.
    fn close(&mut self, ended: &Ended) -> Vec<Mail> {
        let mut actors = self.deps.actors();
        if actors.get(&self.thread).is_some_and(|sender| sender.same_channel(&self.sender)) {
            actors.remove(&self.thread);
        }
        drop(actors);
        self.mailbox.close();
        let late = std::iter::from_fn(|| self.mailbox.try_recv().ok());
        if matches!(ended, Ended::Idle) {
            return late.collect();
        }
        let why = ended.why();
        for mail in late {
            if let Mail::Input(letter) = mail
                && let Some(reply) = letter.reply
            {
                let stopped = EngineError::Stopped { thread: self.thread.clone(), why: why.clone() };
                let _ = reply.send(Err(stopped));
            }
        }
        // A watcher of a fenced owner goes on watching: somebody else drives the thread now.
        if !matches!(ended, Ended::Fenced) {
            self.deps.bus.publish(&self.thread, Signal::Stopped { why: why.into() });
        }
        Vec::new()
    }
}

async fn elapsed(timer: &mut Option<(Timestamp, BoxFuture<'static, ()>)>) {
    match timer {
        Some((_, timer)) => timer.await,
        None => std::future::pending().await,
    }
}

/// The report that something in flight is gone; what is known of it is looked up when it is decided.
fn lost(command: Command) -> Letter {
    Letter::plain(Input::Lost { command, view: View::default() })
}

/// Whether a call was judged and has not started.
fn waits(call: &Call) -> bool {
    matches!(call.status, CallStatus::Previewing { .. } | CallStatus::Asking(_) | CallStatus::Ready)
}

fn ends_reply(fact: &Fact) -> bool {
    matches!(fact, Fact::StepReplied { .. } | Fact::StepFailed { .. })
}
