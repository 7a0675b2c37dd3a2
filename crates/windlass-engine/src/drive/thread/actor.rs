//! The loop of one active thread: receive mail, decide and append a round, then carry out the machine's commands.
//!
//! Only this loop causes effects. The loop publishes and starts nothing before the append of the cause has returned.

use std::panic::AssertUnwindSafe;
use std::sync::Arc;

use futures_util::FutureExt;
use futures_util::future::BoxFuture;
use serde_json::json;
use windlass_machine::{CLOCK_SET_BACK_MS, Command, Input, Timestamp, View};

use super::driven::DrivenThread;
use super::ended::Ended;
use super::mail::{Letter, Mail};
use super::mailbox::{MAILBOX, Mailbox};
use super::registry::ThreadRegistry;
use super::round::hold::{self, HOLD_MS, Hold};
use super::round::{Again, NoRoom, RefusedRound};
use crate::drive::journal::append::may_pass;
use crate::drive::journal::row;
use crate::drive::policy::spend::Spending;
use crate::drive::trace;
use crate::error::EngineError;
use crate::port::bus::Signal;
use crate::port::journal::{StoreError, ThreadStatus};
use crate::tool::panic_text;

/// Maximum sleep in milliseconds. It is limited because the wall clock may be set ahead while an actor sleeps.
const LONGEST_SLEEP_MS: u64 = 30_000;

/// Maximum sleep of a run, in milliseconds, during which its driver stays in memory. For a shorter sleep, releasing
/// and reopening the thread costs more than keeping a few kilobytes. The sweep reads due rows once a second.
const SHORT_SLEEP_MS: u64 = 10_000;

/// Name of the note that a driver records when the wall clock was set back.
const CLOCK_SET_BACK: &str = "windlass.clock_set_back";

/// Maximum number of repetitions of a round after budget refusals: each budget may refuse once.
const MAX_REFUSALS: usize = 64;

/// Maximum number of repetitions of a round after another driver used the grant first. Each lost race is another
/// driver's progress, so contention delays drivers but stops none of them.
const MAX_RACES: usize = 1_000;

/// Maximum random pause in milliseconds after the first lost race, and after many lost races. Random pauses spread
/// the appends of drivers that use the same grant.
const RACE_PAUSE_MS: (u64, u64) = (20, 100);

/// Number of lost races after which a driver releases its thread if the process is ending. The number is not 0,
/// because the round may contain a paid reply.
const MAX_RACES_LEAVING: usize = 10;

pub(super) struct Actor {
    registry: Arc<ThreadRegistry>,
    mailbox: Mailbox,
    /// The machine's next deadline, with its timer.
    timer: Option<(Timestamp, BoxFuture<'static, ()>)>,
    /// Ends the wait of a held round.
    hold_timer: Option<BoxFuture<'static, ()>>,
    driven: DrivenThread,
}

impl Actor {
    pub(super) fn new(registry: Arc<ThreadRegistry>, mailbox: Mailbox, driven: DrivenThread) -> Self {
        Self { registry, mailbox, timer: None, hold_timer: None, driven }
    }

    /// Drives the thread until no work is left.
    pub(super) async fn run(mut self) {
        let driven = AssertUnwindSafe(self.drive()).catch_unwind().await;
        let ended = driven.unwrap_or_else(|panic| Ended::Crashed(panic_text(&*panic)));
        self.driven.in_flight.abort();
        let thread = self.driven.thread.clone();
        match &ended {
            Ended::Idle => self.registry.end_backoff(&thread),
            Ended::Left => tracing::info!(%thread, "the thread was left for another process"),
            Ended::Fenced => tracing::warn!(%thread, "another process drives the thread now"),
            Ended::Store(error) => match self.registry.back_off(&thread, may_pass(error)) {
                true => tracing::error!(%thread, %error, "driving stopped"),
                false => tracing::debug!(%thread, %error, "driving stopped again"),
            },
            Ended::Crashed(why) => {
                tracing::error!(%thread, why, "driving crashed; this is a defect");
                self.registry.back_off(&thread, true);
            }
        }
        let late = self.close(&ended);
        match ended {
            Ended::Fenced => self.driven.services.store.leases.let_go(&thread, self.driven.epoch()),
            Ended::Idle | Ended::Left | Ended::Store(_) | Ended::Crashed(_) => {
                self.registry.give_back(&thread, self.driven.epoch()).await;
            }
        }
        for mail in late {
            self.registry.forward(&thread, mail).await;
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
            // Another process repeats a model call, but the outcome of a running tool would be lost.
            if self.registry.leaving.is_cancelled() && !self.driven.in_flight.has_tools() {
                return self.leave().await;
            }
            // A model that replies without waiting would starve other tasks on this worker.
            tokio::task::coop::consume_budget().await;
            let mails = self.wait().await;
            if let Err(ended) = self.take(mails).await {
                return ended;
            }
        }
    }

    /// Records that the model call was stopped, so that it does not count as a lost attempt. If the record ends a
    /// cancelled run, the next queued run starts a model call, which is stopped as well.
    async fn leave(&mut self) -> Ended {
        while let Some(given_up) = self.driven.in_flight.give_up_model() {
            if let Err(ended) = self.round(vec![Letter::plain(given_up)]).await {
                return ended;
            }
        }
        Ended::Left
    }

    /// Runs the first round. It processes the inbox before it reports lost commands, so that a pending cancel takes
    /// effect before a command is restarted.
    async fn begin(&mut self) -> Result<(), Ended> {
        let DrivenThread { services, thread, machine, spending, spans, .. } = &mut self.driven;
        if let Some(run) = &machine.state().run {
            spans.run = trace::run_span(thread, &run.id, &run.agent);
            tracing::info!(parent: &spans.run, "run resumed");
        }
        services.expiries.note_open(thread, machine.state(), services.clock.monotonic_ms());
        let unfinished = machine.unfinished();
        if !unfinished.is_empty() {
            *spending = Spending::found(&*services.store.journal, thread).await.map_err(Ended::Store)?;
        }
        let lost = unfinished.into_iter().map(lost);
        let mails = self.mailbox.drain(usize::MAX).collect();
        let mut letters = self.open(mails);
        if self.mailbox.inbox {
            letters.extend(self.inbox_letters().await?);
        }
        letters.extend(lost);
        letters.extend(self.clock_set_back());
        self.round(letters).await?;
        self.read_inbox().await?;
        self.report_overtaken().await
    }

    /// Returns a note if the wall clock was set back since the last event and the thread has a deadline. The note's
    /// append also rewrites the thread's row, with the deadline by the corrected clock.
    fn clock_set_back(&self) -> Option<Letter> {
        self.driven.machine.wall_deadline()?;
        let by_ms = self.driven.machine.state().wall_at().since(self.driven.services.clock.now());
        let note = || Input::Note { name: CLOCK_SET_BACK.to_owned(), data: json!({ "by_ms": by_ms }) };
        (by_ms >= CLOCK_SET_BACK_MS).then(|| Letter::plain(note()))
    }

    /// Waits for mail, a model reply or the deadline, then drains the mailbox.
    async fn wait(&mut self) -> Vec<Mail> {
        let mut mails: Vec<Mail> = self.next_mail().await.into_iter().collect();
        let room = MAILBOX - mails.len();
        mails.extend(self.mailbox.drain(room));
        mails
    }

    async fn next_mail(&mut self) -> Option<Mail> {
        let deadline = self.driven.machine.deadline();
        if self.timer.as_ref().map(|(at, _)| *at) != deadline {
            let (now, clock) = (self.driven.now(), &self.driven.services.clock);
            self.timer = deadline.map(|at| (at, clock.sleep_ms(at.since(now).min(LONGEST_SLEEP_MS))));
        }
        if self.driven.held.is_none() {
            self.hold_timer = None;
        } else if self.hold_timer.is_none() {
            self.hold_timer = Some(self.driven.services.clock.sleep_ms(HOLD_MS));
        }
        let leaving = self.registry.leaving.clone();
        tokio::select! {
            biased;
            () = leaving.cancelled(), if !self.driven.in_flight.has_tools() => None,
            mail = self.mailbox.recv() => mail,
            letter = self.driven.in_flight.replied() => Some(Mail::Landed(Box::new(letter))),
            () = elapsed(&mut self.timer) => {
                self.timer = None;
                let is_due = self.driven.machine.due_in_ms(self.driven.now()) == Some(0);
                is_due.then(|| Mail::Input(Box::new(Letter::plain(self.driven.tick()))))
            }
            () = held(&mut self.hold_timer) => None,
        }
    }

    async fn take(&mut self, mails: Vec<Mail>) -> Result<(), Ended> {
        // Must precede `open`, which removes finished calls from `in_flight`: `follow` would dispatch such a call
        // again before its result is decided.
        if self.driven.held.is_some() && !hold::joins(&mails) {
            self.write(Vec::new(), Hold::Never).await?;
            self.driven.follow();
            self.hold_timer = None;
        }
        let letters = self.open(mails);
        self.round(letters).await?;
        self.read_inbox().await?;
        self.report_overtaken().await
    }

    fn open(&mut self, mails: Vec<Mail>) -> Vec<Letter> {
        self.mailbox.open(mails, &mut self.driven.in_flight)
    }

    async fn inbox_letters(&mut self) -> Result<Vec<Letter>, Ended> {
        let journal = &*self.driven.services.store.journal;
        self.mailbox.inbox_letters(journal, &self.driven.thread).await.map_err(Ended::Store)
    }

    /// Reports starts that were not dispatched because the same batch contains a cancel. A start that this driver
    /// found in the journal may have been dispatched.
    async fn report_overtaken(&mut self) -> Result<(), Ended> {
        let DrivenThread { machine, in_flight, .. } = &self.driven;
        if machine.state().run.as_ref().is_none_or(|run| run.cancel.is_none()) {
            return Ok(());
        }
        let begun = machine.unfinished().into_iter();
        let overtaken = begun.filter(|command| !in_flight.has(command));
        let overtaken: Vec<_> =
            overtaken.map(|command| Letter::plain(in_flight.overtaken(command))).collect();
        if overtaken.is_empty() { Ok(()) } else { self.round(overtaken).await }
    }

    /// Consumes the inbox rows in order until the inbox is empty.
    async fn read_inbox(&mut self) -> Result<(), Ended> {
        while self.mailbox.inbox {
            let letters = self.inbox_letters().await?;
            self.round(letters).await?;
        }
        Ok(())
    }

    /// Runs one round: decides all inputs, appends once, publishes and acts.
    async fn round(&mut self, letters: Vec<Letter>) -> Result<(), Ended> {
        let hold = if self.mailbox.inbox || !self.mailbox.is_empty() { Hold::Never } else { Hold::Allowed };
        self.write(letters, hold).await?;
        self.driven.follow();
        Ok(())
    }

    /// Decides all inputs and appends the events in one batch, together
    /// with a held round; or holds the whole batch for a later append.
    async fn write(&mut self, mut letters: Vec<Letter>, hold: Hold) -> Result<(), Ended> {
        if self.mailbox.lapsed == Some(self.driven.epoch()) {
            self.driven.tell_stopped(&mut letters, &Ended::Fenced);
            return Err(Ended::Fenced);
        }
        let mut no_room: Vec<NoRoom> = Vec::new();
        let (mut races, mut races_leaving, mut pause_ms) = (0, 0, RACE_PAUSE_MS.0);
        while no_room.len() < MAX_REFUSALS && races < MAX_RACES {
            let refused =
                self.driven.try_round(&no_room, &mut self.mailbox.refused, &mut letters, hold).await?;
            let Some(RefusedRound { again, held }) = refused else { return Ok(()) };
            self.driven.take_back().await?;
            if !held.is_empty() {
                // The held inputs are recorded first; the other inputs are decided after them.
                Box::pin(self.write(held, Hold::Never)).await?;
                continue;
            }
            match again {
                Again::Refused(refused) => no_room.push(refused),
                Again::Policy => {
                    self.driven.services.policy.changed();
                    if races_leaving >= MAX_RACES_LEAVING && !self.driven.in_flight.has_tools() {
                        self.driven.tell_stopped(&mut letters, &Ended::Left);
                        return Err(Ended::Left);
                    }
                    self.pause(pause_ms, &mut letters).await?;
                    races_leaving += usize::from(self.registry.leaving.is_cancelled());
                    (races, pause_ms) = (races + 1, RACE_PAUSE_MS.1.min(2 * pause_ms));
                }
            }
        }
        let why = "budgets or grants were changed by others faster than a step could be decided".to_owned();
        Err(Ended::Store(StoreError::Unavailable { why }))
    }

    /// Waits after a lost race. Mail, or the end of the process, ends the wait early. The mail joins the round; a
    /// cancel is decided before everything else.
    async fn pause(&mut self, longest_ms: u64, letters: &mut Vec<Letter>) -> Result<(), Ended> {
        let leaving = self.registry.leaving.clone();
        let clock = &self.driven.services.clock;
        let time = clock.sleep_ms(1 + clock.random() % longest_ms);
        let mail = tokio::select! {
            biased;
            () = leaving.cancelled() => None,
            mail = self.mailbox.recv(), if letters.len() < MAILBOX => mail,
            () = time => None,
        };
        let mut late = self.open(mail.into_iter().collect());
        if self.mailbox.inbox && letters.len() < MAILBOX {
            let is_new = |row: &Letter| !letters.iter().any(|letter| letter.row == row.row);
            late.extend(self.inbox_letters().await?.into_iter().filter(is_new));
        }
        let has_run = self.driven.machine.state().run.is_some();
        for letter in late {
            match letter.input {
                Input::Cancel { .. } if has_run => letters.insert(0, letter),
                _ => letters.push(letter), // tidy: nothing else ends what the round would start
            }
        }
        Ok(())
    }

    fn is_idle(&self) -> bool {
        let DrivenThread { services, machine, in_flight, .. } = &self.driven;
        let due_in_ms = machine.due_in_ms(self.driven.now());
        // A run that waits for people or sleeps needs no driver: an engine that attends all threads reopens its
        // thread in time. A run that waits for missing tools is released immediately, so that a process that has the
        // tools may claim its thread.
        let lacks = !machine.missing().is_empty();
        let is_row = lacks
            || services.attends
                && match row::status(machine.state()) {
                    ThreadStatus::Waiting => true,
                    ThreadStatus::Sleeping => due_in_ms.is_none_or(|ms| ms > SHORT_SLEEP_MS),
                    ThreadStatus::Idle | ThreadStatus::Running => false,
                };
        let is_due = due_in_ms.is_some_and(|ms| ms == 0 || !is_row);
        in_flight.is_empty() && self.driven.held.is_none() && !is_due && machine.wants().is_empty()
    }

    /// Removes the actor from the register, unless new mail has arrived.
    fn retire(&mut self) -> bool {
        let DrivenThread { services, machine, thread, .. } = &self.driven;
        let mut actors = self.registry.actors();
        if !self.mailbox.is_empty() {
            return false;
        }
        self.mailbox.close();
        if !machine.missing().is_empty() {
            services.catalog.own.put_by(thread, services.clock.monotonic_ms());
        }
        actors.remove(thread);
        true
    }

    /// Removes the actor from the register and answers the waiting senders. If the actor ended because no work is
    /// left, returns the mail that arrived since.
    fn close(&mut self, ended: &Ended) -> Vec<Mail> {
        let DrivenThread { services, thread, .. } = &self.driven;
        let mut actors = self.registry.actors();
        if actors.get(thread).is_some_and(|sender| sender.same_channel(&self.mailbox.sender)) {
            actors.remove(thread);
        }
        drop(actors);
        self.mailbox.close();
        let late = self.mailbox.drain(usize::MAX);
        if matches!(ended, Ended::Idle) {
            return late.collect();
        }
        let why = ended.why();
        for mail in late {
            if let Mail::Input(letter) = mail
                && let Some(reply) = letter.reply
            {
                let stopped = EngineError::Stopped { thread: thread.clone(), why: why.clone() };
                let _ = reply.send(Err(stopped));
            }
        }
        // Watchers of a thread with a fenced driver keep watching, because another process now drives the thread.
        if !matches!(ended, Ended::Fenced) {
            services.bus.publish(thread, Signal::Stopped { why: why.into() });
        }
        // The fragments of a reply that this driver did not complete are void: no follower needs them.
        services.bus.settle(thread);
        Vec::new()
    }
}

/// Completes when a held round has reached its maximum wait.
async fn held(timer: &mut Option<BoxFuture<'static, ()>>) {
    match timer {
        Some(timer) => timer.await,
        None => std::future::pending().await,
    }
}

async fn elapsed(timer: &mut Option<(Timestamp, BoxFuture<'static, ()>)>) {
    match timer {
        Some((_, timer)) => timer.await,
        None => std::future::pending().await,
    }
}

/// Reports a lost command. The driver adds the current policy when it processes the report.
fn lost(command: Command) -> Letter {
    Letter::plain(Input::Lost { command, view: View::default() })
}
