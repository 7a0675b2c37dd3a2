//! The loop of one active thread: decide, append, publish, act.
//!
//! It is the only place where things happen. Nothing is shown or started before the append that
//! records its cause has returned.

use std::collections::BTreeSet;
use std::panic::AssertUnwindSafe;
use std::sync::Arc;

use futures_util::FutureExt;
use futures_util::future::BoxFuture;
use serde_json::json;
use tokio::sync::mpsc;
use windlass_machine::{
    CLOCK_SET_BACK_MS, Command, Input, InputId, Machine, Principal, RunId, Seq, ThreadClock, ThreadId,
    Timestamp, ToolName, View,
};

use super::append::may_pass;
use super::flight::InFlight;
use super::judge::Rejudged;
use super::policy::PolicyNow;
use super::spend::Spending;
use super::{Deps, Letter, MAILBOX, Mail, row, trace};
use crate::error::EngineError;
use crate::port::bus::Signal;
use crate::port::journal::{Epoch, StoreError, StoredSnapshot, ThreadStatus};
use crate::tool::panic_text;

/// A snapshot is written once the events since the last one outweigh it, and at least this much. (design: "What is
/// recorded"; the floor keeps short runs from paying for it.)
const SNAPSHOT_MIN_BYTES: usize = 64 * 1024;

/// The wall clock may be set ahead while an actor sleeps, so it is looked at this often.
const LONGEST_SLEEP_MS: u64 = 30_000;

/// A run that sleeps no longer keeps its driver: to give it back and take it up again costs more than so many seconds of
/// a few kilobytes, and whoever looks after rows does so once a second.
const SHORT_SLEEP_MS: u64 = 10_000;

/// The name of the note that a driver records when it finds that the wall clock was set back.
const CLOCK_SET_BACK: &str = "windlass.clock_set_back";

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
    /// The thread's time.
    pub thread_clock: ThreadClock,
    /// Inbox rows that no machine is asked about, with the reason.
    pub refused: Vec<(InputId, String)>,
    /// Position of the newest `step.started`.
    pub step_seq: Seq,
    /// The run's own tools that are not here.
    pub lacks: Option<(RunId, BTreeSet<ToolName>)>,
    /// Whether it has tools of its own, and nothing was decided since they were looked up.
    pub is_taken_up: bool,
    /// The calls that were last judged again.
    pub rejudged: Vec<Rejudged>,
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
    pub(super) fn why(&self) -> String {
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
            Ended::Idle => self.deps.end_backoff(&self.thread),
            Ended::Left => tracing::info!(thread = %self.thread, "the thread was left for another process"),
            Ended::Fenced => tracing::warn!(thread = %self.thread, "another process drives the thread now"),
            Ended::Store(error) => match self.deps.back_off(&self.thread, may_pass(error)) {
                true => tracing::error!(thread = %self.thread, %error, "driving stopped"),
                false => tracing::debug!(thread = %self.thread, %error, "driving stopped again"),
            },
            Ended::Crashed(why) => {
                tracing::error!(thread = %self.thread, why, "driving crashed; this is a defect");
                self.deps.back_off(&self.thread, true);
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
            // Another process repeats a model call; the outcome of a tool would be lost.
            if self.deps.leaving.is_cancelled() && !self.in_flight.has_tools() {
                return self.leave().await;
            }
            // A model that answers at once would keep this thread from everybody else.
            tokio::task::coop::consume_budget().await;
            let mails = self.wait().await;
            if let Err(ended) = self.take(mails).await {
                return ended;
            }
        }
    }

    /// Gives up the model call, so that it counts as no lost attempt. If that ends a cancelled run, the call of the next
    /// run in the queue follows.
    async fn leave(&mut self) -> Ended {
        while let Some(given_up) = self.in_flight.give_up_model() {
            if let Err(ended) = self.round(vec![Letter::plain(given_up)]).await {
                return ended;
            }
        }
        Ended::Left
    }

    /// The first round: what waits for the thread counts before what was lost is begun again, so that a cancel that
    /// came meanwhile finds nothing started.
    async fn begin(&mut self) -> Result<(), Ended> {
        if let Some(run) = &self.machine.state().run {
            self.span = trace::run_span(&self.thread, &run.id, &run.agent);
            tracing::info!(parent: &self.span, "run taken up");
        }
        let now_ms = self.deps.clock.monotonic_ms();
        self.deps.expiries.note_open(&self.thread, self.machine.state(), now_ms);
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
        letters.extend(self.clock_set_back());
        self.round(letters).await?;
        self.read_inbox().await?;
        self.report_overtaken().await
    }

    /// A note that the wall clock was set back since the last event of a thread that waits for a time. Its append also
    /// writes the thread's row, with the deadline by the corrected clock.
    fn clock_set_back(&self) -> Option<Letter> {
        self.machine.wall_deadline()?;
        let by_ms = self.machine.state().wall_at().since(self.deps.clock.now());
        let note = || Input::Note { name: CLOCK_SET_BACK.to_owned(), data: json!({ "by_ms": by_ms }) };
        (by_ms >= CLOCK_SET_BACK_MS).then(|| Letter::plain(note()))
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
                is_due.then(|| Mail::Input(Box::new(Letter::plain(self.tick()))))
            }
        }
    }

    fn tick(&self) -> Input {
        let now_ms = self.deps.clock.monotonic_ms();
        let confirmed = self.deps.expiries.passed(&self.thread, self.machine.state(), now_ms);
        Input::Tick { confirmed }
    }

    async fn take(&mut self, mails: Vec<Mail>) -> Result<(), Ended> {
        let letters = self.sort(mails);
        self.round(letters).await?;
        self.read_inbox().await?;
        self.report_overtaken().await
    }

    /// Opens mail.
    pub(super) fn sort(&mut self, mails: Vec<Mail>) -> Vec<Letter> {
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

    /// A start that was recorded in the same batch as the run's cancel was never dispatched. One that this driver has found
    /// in the journal may have been.
    async fn report_overtaken(&mut self) -> Result<(), Ended> {
        if self.machine.state().run.as_ref().is_none_or(|run| run.cancel.is_none()) {
            return Ok(());
        }
        let begun = self.machine.unfinished().into_iter();
        let overtaken = begun.filter(|command| !self.in_flight.has(command));
        let overtaken: Vec<_> =
            overtaken.map(|command| Letter::plain(self.in_flight.overtaken(command))).collect();
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
    pub(super) async fn inbox_letters(&mut self) -> Result<Vec<Letter>, Ended> {
        let rows = self.deps.journal.inbox(&self.thread, MAILBOX).await.map_err(Ended::Store)?;
        self.inbox = rows.len() == MAILBOX;
        let mut letters = Vec::with_capacity(rows.len());
        for (id, input) in rows {
            match input {
                Ok(input) if !input.is_the_drivers() => {
                    letters.push(Letter { row: Some(id), ..Letter::plain(input) });
                }
                Ok(_) => self.refuse(id, "only a thread's driver may report that".to_owned()),
                Err(why) => self.refuse(id, format!("the input cannot be read: {why}")),
            }
        }
        Ok(letters)
    }

    /// Refuses an inbox row, once however often it is read before an append consumes it.
    fn refuse(&mut self, id: InputId, why: String) {
        if !self.refused.iter().any(|(refused, _)| *refused == id) {
            self.refused.push((id, why));
        }
    }

    /// The thread's time.
    pub(super) fn now(&self) -> Timestamp {
        self.now_by(self.deps.clock.now())
    }

    /// The thread's time by a reading of the wall clock.
    pub(super) fn now_by(&self, wall: Timestamp) -> Timestamp {
        self.thread_clock.now(wall, self.deps.clock.monotonic_ms())
    }

    /// Writes a snapshot where the events since the last one outweigh it; never awaited.
    pub(super) fn keep_snapshot(&mut self) {
        if self.since_snapshot < self.snapshot_bytes.max(SNAPSHOT_MIN_BYTES) {
            return;
        }
        let snapshot = self.machine.snapshot();
        (self.since_snapshot, self.snapshot_bytes) = (0, snapshot.bytes.len());
        let stored = StoredSnapshot { fold: snapshot.fold, seq: snapshot.seq, bytes: snapshot.bytes.into() };
        let (deps, thread, epoch) = (self.deps.clone(), self.thread.clone(), self.epoch);
        tokio::spawn(async move {
            if let Err(error) = deps.journal.put_snapshot(&thread, epoch, stored).await {
                tracing::warn!(%thread, %error, "the snapshot was not kept; the journal has everything");
            }
        });
    }

    fn is_idle(&self) -> bool {
        let due_in_ms = self.machine.due_in_ms(self.now());
        // What waits for people or sleeps is a row: where threads are looked after, it is taken up again when its time
        // has come.
        // What waits for tools is given back at once, so that whoever has them may take it.
        let lacks = !self.machine.missing().is_empty();
        let is_row = lacks
            || self.deps.attends
                && match row::status(self.machine.state()) {
                    ThreadStatus::Waiting => true,
                    ThreadStatus::Sleeping => due_in_ms.is_none_or(|ms| ms > SHORT_SLEEP_MS),
                    ThreadStatus::Idle | ThreadStatus::Running => false,
                };
        let is_due = due_in_ms.is_some_and(|ms| ms == 0 || !is_row);
        self.in_flight.is_empty() && !is_due && self.machine.wants().is_empty()
    }

    /// Leaves the register of actors, unless mail has come in the meantime.
    fn retire(&mut self) -> bool {
        let mut actors = self.deps.actors();
        if !self.mailbox.is_empty() {
            return false;
        }
        self.mailbox.close();
        if !self.machine.missing().is_empty() {
            self.deps.own_tools.put_by(&self.thread, self.deps.clock.monotonic_ms());
        }
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
        // The fragments of a reply that this driver did not complete are void: no follower needs them.
        self.deps.bus.settle(&self.thread);
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
