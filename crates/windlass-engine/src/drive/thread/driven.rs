//! A driven thread and its rounds: the machine decides all inputs of a round, and one append records the result. A
//! rejected round is decided again.
//!
//! A round starts nothing. After the append, `follow` compares the machine's commands with what is in flight.

use std::sync::Arc;

use tokio::sync::mpsc;
use tracing::Span;
use windlass_machine::{
    Event, Fact, Input, InputId, Machine, Moment, Reject, RunStatus, Seq, ThreadClock, ThreadId, Timestamp,
};

use super::actors::ActorServices;
use super::ended::Ended;
use super::flight::InFlight;
use super::mail::{Decided, Letter, Mail};
use super::round::hold::{self, HeldRound, Hold};
use super::round::{Again, BesideJournal, Judging, NoRoom, RefusedRound, Round};
use crate::drive::command::context::CommandServices;
use crate::drive::journal::append::{NotAppended, append};
use crate::drive::journal::row;
use crate::drive::journal::store::Restored;
use crate::drive::policy::service::granted;
use crate::drive::policy::spend::{Drawn, Spending};
use crate::drive::trace;
use crate::error::EngineError;
use crate::port::bus::Signal;
use crate::port::journal::{Accepted, Batch, BatchId, Epoch, InboxOutcome, StoreError, StoredSnapshot};
use crate::port::observe::Measure;
use crate::port::records::RecordWrite;

/// Minimum size in bytes of the events since the last snapshot at which a new snapshot is written. The events must
/// also exceed the size of the last snapshot. The minimum avoids the cost of snapshots for short runs.
const SNAPSHOT_MIN_BYTES: usize = 64 * 1024;

/// A thread that this process drives.
pub(super) struct DrivenThread {
    pub services: Arc<ActorServices>,
    pub thread: ThreadId,
    lease: Lease,
    pub machine: Machine,
    /// The thread's clock, which never runs backwards.
    clock: ThreadClock,
    pub in_flight: InFlight,
    judging: Judging,
    /// Reserved and used budget amounts of the thread.
    pub spending: Spending,
    snapshot: SnapshotSize,
    pub spans: Spans,
    /// The round that waits for the results of local reads.
    pub held: Option<HeldRound>,
}

/// The right to append to a thread's journal.
#[derive(Clone, Copy)]
pub(super) struct Lease {
    pub epoch: Epoch,
    /// Whether the thread does not exist in the store yet.
    pub is_new: bool,
}

/// Sizes that decide when the next snapshot is due.
struct SnapshotSize {
    /// Approximate size in bytes of the events since the last snapshot.
    since: usize,
    /// Size of the last snapshot in bytes.
    last: usize,
}

/// Tracing spans of the active run.
pub(super) struct Spans {
    pub run: Span,
    /// The span of the input that started the run.
    pub asked: Span,
}

impl DrivenThread {
    /// Creates a driven thread from a folded thread. Tools send their outcomes to `mailbox`.
    pub(super) fn new(
        services: Arc<ActorServices>,
        thread: ThreadId,
        lease: Lease,
        restored: Restored,
        mailbox: mpsc::Sender<Mail>,
    ) -> Self {
        let (wall, monotonic_ms) = (services.clock.now(), services.clock.monotonic_ms());
        Self {
            clock: ThreadClock::open(&restored.machine, wall, monotonic_ms),
            services,
            thread,
            lease,
            machine: restored.machine,
            in_flight: InFlight::new(mailbox),
            judging: Judging::default(),
            spending: Spending::default(),
            snapshot: SnapshotSize { since: restored.since_snapshot, last: restored.snapshot_bytes },
            spans: Spans { run: Span::none(), asked: Span::none() },
            held: None,
        }
    }

    pub(super) fn epoch(&self) -> Epoch {
        self.lease.epoch
    }

    /// Returns the thread's time.
    pub(super) fn now(&self) -> Timestamp {
        self.clock.now(self.services.clock.now(), self.services.clock.monotonic_ms())
    }

    /// Returns the input that reports the current time.
    pub(super) fn tick(&self) -> Input {
        let now_ms = self.services.clock.monotonic_ms();
        let confirmed = self.services.expiries.passed(&self.thread, self.machine.state(), now_ms);
        Input::Tick { confirmed }
    }

    /// Starts and stops commands after a round was written, so that the machine's wanted commands are in flight.
    pub(super) fn follow(&mut self) {
        self.judging.is_taken_up = false;
        let (step, span) = (self.judging.step, &self.spans.run);
        self.in_flight.follow(&self.machine, &self.services, step, span);
        self.in_flight.note_dispatched();
    }

    /// Decides the inputs of the letters together with a held round, and appends or holds
    /// the result. Returns the round if the store rejects it. Exhausted budgets are
    /// reported to the machine first, and the inbox rows in `refused` are consumed.
    pub(super) async fn try_round(
        &mut self,
        no_room: &[NoRoom],
        refused: &mut Vec<(InputId, String)>,
        letters: &mut Vec<Letter>,
        hold: Hold,
    ) -> Result<Option<RefusedRound>, Ended> {
        let (mut round, mut held) = self.begin_round();
        self.judging.uses_grants = false;
        self.judging.know_tools(&self.services.catalog, &mut self.machine).await;
        round.consumed.extend(refused.iter().map(|(id, what)| {
            tracing::warn!(thread = %self.thread, %id, what, "an input was refused");
            (id.clone(), InboxOutcome::Rejected(Reject::Invalid { what: what.clone() }))
        }));
        let starts_a_run = self.machine.state().run.is_none()
            && matches!(letters.first(), Some(Letter { input: Input::Message(_), .. }));
        let (mut with_the_first, before) = match no_room.split_last() {
            Some((last, before)) if starts_a_run => (Some(last), before),
            Some(_) | None => (None, no_room),
        };
        let nothing = Letter::plain(Input::Tick { confirmed: Vec::new() });
        for refused in before {
            let _ = self.decide(&refused.report(None), &nothing, &mut round);
        }
        if let Some(input) = self.rejudged(round.at).await? {
            let letter = Letter::plain(input);
            let _ = self.decide(&letter.input, &letter, &mut round);
        }
        let mut outcomes = Vec::with_capacity(letters.len());
        for letter in letters.iter_mut() {
            let Self { services, machine, in_flight, judging, .. } = self;
            judging.look_up(services, machine, in_flight, &mut letter.input).await?;
            let told = with_the_first.take().map(|refused| refused.report(Some(&letter.input)));
            outcomes.push(self.decide(told.as_ref().unwrap_or(&letter.input), letter, &mut round));
        }
        if hold == Hold::Allowed && hold::may_wait(&round, letters, &self.machine, &self.services.catalog) {
            held.append(letters);
            self.held = Some(HeldRound { round, letters: held });
            return Ok(None);
        }
        let appended = match round.events.is_empty() && round.consumed.is_empty() {
            true => Ok(None),
            false => self.append(round).await,
        };
        match appended {
            Ok(None) => refused.clear(),
            Ok(Some(again)) => return Ok(Some(RefusedRound { again, held })),
            Err(ended) => {
                self.tell_stopped(letters, &ended);
                return Err(ended);
            }
        }
        for (letter, outcome) in letters.iter_mut().zip(outcomes) {
            if let Some(reply) = letter.reply.take() {
                // The sender may no longer wait.
                let _ = reply.send(Ok(outcome));
            }
        }
        Ok(None)
    }

    /// Returns the held round with its inputs, or an empty round.
    fn begin_round(&mut self) -> (Round, Vec<Letter>) {
        let (wall, at_ms) = (self.services.clock.now(), self.services.clock.monotonic_ms());
        let at = self.clock.now(wall, at_ms);
        let new = || Round { expected: self.machine.state().seq, ..Round::default() };
        let (round, letters) =
            self.held.take().map_or_else(|| (new(), Vec::new()), |held| (held.round, held.letters));
        (Round { at, at_ms, wall, ..round }, letters)
    }

    /// Returns the input that makes the machine judge calls again after a change of policy, tools or links.
    async fn rejudged(&mut self, at: Timestamp) -> Result<Option<Input>, Ended> {
        let Self { services, machine, in_flight, judging, .. } = self;
        judging.rejudge(services, machine, in_flight, at).await
    }

    /// Sends an error to the senders of undecided inputs.
    pub(super) fn tell_stopped(&self, letters: &mut [Letter], ended: &Ended) {
        let why = ended.why();
        for reply in letters.iter_mut().filter_map(|letter| letter.reply.take()) {
            let stopped = EngineError::Stopped { thread: self.thread.clone(), why: why.clone() };
            let _ = reply.send(Err(stopped));
        }
    }

    /// Reverts the machine to the journal after a round that was not written.
    pub(super) async fn take_back(&mut self) -> Result<(), Ended> {
        self.judging.forget();
        self.in_flight.forget_starts();
        let failed = |error: EngineError| match error {
            EngineError::Store(error) => Ended::Store(error),
            other => Ended::Store(StoreError::Unavailable { why: other.to_string() }),
        };
        if self.lease.is_new {
            self.spending = Spending::default();
            let empty = Machine::restore(self.thread.clone(), None, []);
            self.machine = empty.map_err(|error| failed(error.into()))?;
            return Ok(());
        }
        let head = self.services.store.journal.head(&self.thread).await.map_err(Ended::Store)?;
        let head = head.unwrap_or_default();
        self.machine = self.services.store.restore(&self.thread, &head).await.map_err(failed)?.machine;
        let journal = &*self.services.store.journal;
        self.spending = Spending::found(journal, &self.thread).await.map_err(Ended::Store)?;
        Ok(())
    }

    /// Decides an input and adds its outcome to the round.
    fn decide(&mut self, input: &Input, letter: &Letter, round: &mut Round) -> Decided {
        let Letter { input: _, blobs, row, reply: _, asked, folded: _ } = letter;
        let first = self.machine.state().seq.next();
        let moment = Moment { at: round.at, wall: round.wall };
        let outcome = match self.record(input, moment, round) {
            Ok(events) => {
                round.blobs.extend(blobs.iter().cloned());
                if let Some(last) = events.last() {
                    self.clock.advance(last, round.at_ms);
                }
                if events.iter().any(|event| matches!(event.fact, Fact::RunStarted { .. })) {
                    self.spans.asked = asked.clone();
                }
                let accepted = Accepted::of(first, &events);
                round.events.extend(events);
                if let Input::Answered { grants, .. } = input {
                    round.records.extend(grants.iter().filter_map(granted));
                }
                Ok(accepted)
            }
            Err(reject) => {
                tracing::debug!(thread = %self.thread, %reject, "input refused");
                Err(reject)
            }
        };
        if let Some(row) = row {
            let outcome = match &outcome {
                Ok(accepted) => InboxOutcome::Accepted(Box::new(accepted.clone())),
                Err(reject) => InboxOutcome::Rejected(reject.clone()),
            };
            round.consumed.push((row.clone(), outcome));
        }
        outcome
    }

    /// Decides an input with the machine, and updates rows, reservations and measurements from each event.
    fn record(&mut self, input: &Input, moment: Moment, round: &mut Round) -> Result<Vec<Event>, Reject> {
        let Self { services, thread, machine, in_flight, judging, spending, snapshot, .. } = self;
        let since_snapshot = &mut snapshot.since;
        let mut beside =
            BesideJournal { services, thread, in_flight, judging, spending, since_snapshot, round };
        machine.handle_observed(input, moment, &mut beside)
    }

    /// Appends a round. Returns the reason if the round must be decided again.
    async fn append(&mut self, round: Round) -> Result<Option<Again>, Ended> {
        let events: Arc<[Event]> = round.events.into();
        let Drawn { reserve, settle } = round.drawn;
        let mut measures = round.measures;
        let from_ms = self.services.clock.monotonic_ms();
        let changes_policy = round.records.iter().any(|change| change.write != RecordWrite::Keep);
        let batch = Batch {
            thread: self.thread.clone(),
            epoch: self.lease.epoch,
            is_new: self.lease.is_new,
            expected: round.expected,
            id: BatchId(self.services.clock.random()),
            events: events.clone(),
            blobs: round.blobs,
            consumed: round.consumed,
            settle,
            reserve,
            records: round.records,
            thread_view: row::thread_view(&self.machine),
            unqueued: round.unqueued,
            runs: round.runs,
        };
        let appended = append(&self.services.store, batch).await;
        if let Some(observer) = &self.services.observer {
            let took_ms = self.services.clock.monotonic_ms().saturating_sub(from_ms);
            let written = appended.is_ok();
            measures.retain(|_| written);
            measures.push(Measure::Appended { took_ms, written });
            measures.iter().for_each(|measure| observer.observe(measure));
        }
        let not_appended = match appended {
            Ok(seq) => {
                if std::mem::take(&mut self.lease.is_new) {
                    self.services.store.leases.hold(&self.thread, self.lease.epoch);
                }
                let CommandServices { contents, clock, .. } = &*self.services.commands;
                round.let_go.into_iter().for_each(|call| call.tell(contents.clone(), clock.clone()));
                self.publish(seq, events);
                if changes_policy {
                    self.services.policy.changed();
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
                let refused = self.services.budgets.refused(&budget, taken, wanted);
                Ok(Some(Again::Refused(NoRoom { limit: budget, figure: cap, refused })))
            }
            NotAppended::Record => Ok(Some(Again::Policy)),
        }
    }

    /// Publishes appended events and cleans up after finished runs.
    fn publish(&mut self, seq: Seq, events: Arc<[Event]>) {
        let ActorServices { bus, catalog, background, .. } = &*self.services;
        let newest = self.machine.state().newest_agent();
        let agent = newest.as_ref().map(|newest| &*newest.agent);
        for event in events.iter() {
            trace::recorded(&mut self.spans.run, &self.spans.asked, &self.thread, event, agent);
            if let (Fact::RunFinished { status, .. }, Some(run)) = (&event.fact, &event.run) {
                catalog.own.forget(run);
                if *status == RunStatus::Cancelled {
                    let run = run.clone();
                    background.end_soon(move |command| command.run == run);
                }
            }
        }
        let status = Some(row::status(self.machine.state()));
        let replied = events.iter().any(|event| ends_reply(&event.fact));
        bus.publish(&self.thread, Signal::Appended { seq, events, status });
        if replied {
            bus.settle(&self.thread);
        }
    }

    /// Writes a snapshot if the events since the last snapshot exceed its size. The write is not awaited.
    fn keep_snapshot(&mut self) {
        if self.snapshot.since < self.snapshot.last.max(SNAPSHOT_MIN_BYTES) {
            return;
        }
        let snapshot = self.machine.snapshot();
        self.snapshot = SnapshotSize { since: 0, last: snapshot.bytes.len() };
        let stored = StoredSnapshot { fold: snapshot.fold, seq: snapshot.seq, bytes: snapshot.bytes.into() };
        let (store, thread, epoch) = (self.services.store.clone(), self.thread.clone(), self.lease.epoch);
        tokio::spawn(async move {
            if let Err(error) = store.journal.put_snapshot(&thread, epoch, stored).await {
                tracing::warn!(%thread, %error, "the snapshot was not kept; the journal has everything");
            }
        });
    }
}

fn ends_reply(fact: &Fact) -> bool {
    matches!(fact, Fact::StepReplied { .. } | Fact::StepFailed { .. })
}
