//! One round of a thread's driver: every letter is decided, and all of it is appended at once or decided again.
//!
//! It starts nothing: what follows from a round is compared with what is in flight once it is written.

use std::collections::BTreeSet;
use std::sync::Arc;

use windlass_machine::{
    Event, Fact, Input, InputId, Machine, Refused, Reject, RunId, RunStatus, Seq, Timestamp,
};

use super::actor::{Actor, Ended};
use super::append::{NotAppended, append};
use super::let_go::LetGo;
use super::policy::granted;
use super::spend::{Drawn, Spending};
use super::{Decided, Letter, MAILBOX, measure, row, trace};
use crate::error::EngineError;
use crate::port::bus::Signal;
use crate::port::journal::{Accepted, Batch, BatchId, InboxOutcome, RunView, StoreError};
use crate::port::observe::Measure;
use crate::port::records::{RecordChange, RecordWrite};

/// What one round has decided.
#[derive(Default)]
pub(super) struct Round {
    /// The thread's time when it began. All of it is decided at that time: what is due in it was judged in it.
    pub at: Timestamp,
    /// The same moment by the clock that never jumps.
    at_ms: u64,
    /// The wall clock at that moment.
    wall: Timestamp,
    events: Vec<Event>,
    blobs: Vec<(windlass_machine::BlobRef, bytes::Bytes)>,
    consumed: Vec<(InputId, InboxOutcome)>,
    runs: Vec<RunView>,
    unqueued: Vec<RunId>,
    drawn: Drawn,
    records: Vec<RecordChange>,
    measures: Vec<Measure>,
    let_go: Vec<LetGo>,
}

/// A budget that had no room for what a round would have started.
struct NoRoom {
    limit: String,
    figure: u64,
    refused: Refused,
}

impl NoRoom {
    /// As the machine is told it; with the message, where that was to start a run.
    fn told(&self, input: Option<&Input>) -> Input {
        let message = match input {
            Some(Input::Message(message)) => Some(message.clone()),
            _ => None, // tidy: nothing else starts a run by itself
        };
        let Self { limit, figure, refused } = self;
        Input::LimitRefused { limit: limit.clone(), figure: *figure, refused: refused.clone(), message }
    }
}

/// Why a round is decided again. Nothing of it was written.
enum Again {
    /// A budget had no room.
    Refused(NoRoom),
    /// A grant was used or taken back by somebody else.
    Policy,
}

/// Maximum repetitions of a round because of budgets: each may refuse once.
const MAX_REFUSALS: usize = 64;

/// Maximum repetitions because another driver used the grant first. Each lost race is another driver's progress, so
/// contention delays drivers and ends none.
const MAX_RACES: usize = 1_000;

/// The longest pause after the first lost race, and after many. Random pauses spread the drivers that use one grant.
const RACE_PAUSE_MS: (u64, u64) = (20, 100);

/// Lost races after which a driver leaves a thread once its process ends. The round may hold a reply that was paid for.
const MAX_RACES_LEAVING: usize = 10;

impl Actor {
    /// One round: decide every letter, append once, publish, act.
    pub(super) async fn round(&mut self, mut letters: Vec<Letter>) -> Result<(), Ended> {
        let mut no_room = Vec::new();
        let (mut races, mut races_leaving, mut pause_ms) = (0, 0, RACE_PAUSE_MS.0);
        while no_room.len() < MAX_REFUSALS && races < MAX_RACES {
            match self.try_round(&no_room, &mut letters).await? {
                None => {
                    self.is_taken_up = false;
                    self.in_flight.follow(&self.machine, &self.deps, &self.thread, self.step_seq, &self.span);
                    self.in_flight.note_dispatched();
                    return Ok(());
                }
                Some(again) => {
                    self.take_back().await?;
                    match again {
                        Again::Refused(refused) => no_room.push(refused),
                        Again::Policy => {
                            self.deps.policy.changed();
                            if races_leaving >= MAX_RACES_LEAVING && !self.in_flight.has_tools() {
                                self.tell_stopped(&mut letters, &Ended::Left);
                                return Err(Ended::Left);
                            }
                            self.pause(pause_ms, &mut letters).await?;
                            races_leaving += usize::from(self.deps.leaving.is_cancelled());
                            (races, pause_ms) = (races + 1, RACE_PAUSE_MS.1.min(2 * pause_ms));
                        }
                    }
                }
            }
        }
        let why = "budgets or grants were changed by others faster than a step could be decided".to_owned();
        Err(Ended::Store(StoreError::Unavailable { why }))
    }

    /// Waits after a lost race, less long if mail comes or the process is to end. The mail joins the round: a cancel is
    /// decided before everything else.
    async fn pause(&mut self, longest_ms: u64, letters: &mut Vec<Letter>) -> Result<(), Ended> {
        let leaving = self.deps.leaving.clone();
        let time = self.deps.clock.sleep_ms(1 + self.deps.clock.random() % longest_ms);
        let mail = tokio::select! {
            biased;
            () = leaving.cancelled() => None,
            mail = self.mailbox.recv(), if letters.len() < MAILBOX => mail,
            () = time => None,
        };
        let mut late = self.sort(mail.into_iter().collect());
        if self.inbox && letters.len() < MAILBOX {
            let is_new = |row: &Letter| !letters.iter().any(|letter| letter.row == row.row);
            late.extend(self.inbox_letters().await?.into_iter().filter(is_new));
        }
        let has_run = self.machine.state().run.is_some();
        for letter in late {
            match letter.input {
                Input::Cancel { .. } if has_run => letters.insert(0, letter),
                _ => letters.push(letter), // tidy: nothing else ends what the round would start
            }
        }
        Ok(())
    }

    /// Decides and appends once; says why it has to be done again. What there was no room for is told first.
    async fn try_round(
        &mut self,
        no_room: &[NoRoom],
        letters: &mut [Letter],
    ) -> Result<Option<Again>, Ended> {
        let (wall, at_ms) = (self.deps.clock.now(), self.deps.clock.monotonic_ms());
        let mut round = Round { at: self.thread_clock.now(wall, at_ms), at_ms, wall, ..Round::default() };
        self.uses_grants = false;
        self.know_tools().await;
        round.consumed.extend(self.refused.iter().map(|(id, what)| {
            tracing::warn!(thread = %self.thread, %id, what, "an input was refused");
            (id.clone(), InboxOutcome::Rejected(Reject::Invalid { what: what.clone() }))
        }));
        let expected = self.machine.state().seq;
        let starts_a_run = self.machine.state().run.is_none()
            && matches!(letters.first(), Some(Letter { input: Input::Message(_), .. }));
        let (mut with_the_first, before) = match no_room.split_last() {
            Some((last, before)) if starts_a_run => (Some(last), before),
            Some(_) | None => (None, no_room),
        };
        let nothing = Letter::plain(Input::Tick { confirmed: Vec::new() });
        for refused in before {
            let _ = self.decide(&refused.told(None), &nothing, &mut round);
        }
        self.rejudge(&mut round).await?;
        let mut outcomes = Vec::with_capacity(letters.len());
        for letter in letters.iter_mut() {
            self.look_up(&mut letter.input).await?;
            let told = with_the_first.take().map(|refused| refused.told(Some(&letter.input)));
            outcomes.push(self.decide(told.as_ref().unwrap_or(&letter.input), letter, &mut round));
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
        (self.policy, self.rejudged) = (None, Vec::new());
        self.in_flight.forget_starts();
        let failed = |error: EngineError| match error {
            EngineError::Store(error) => Ended::Store(error),
            other => Ended::Store(StoreError::Unavailable { why: other.to_string() }),
        };
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

    /// Tells the machine which of the run's own tools are not here. They are looked up once for each run, so that none
    /// turns up in the middle of what was decided without it.
    async fn know_tools(&mut self) {
        let state = self.machine.state();
        let Some(run) = &state.run else {
            self.machine.lack(BTreeSet::new());
            return;
        };
        let is_known = self.lacks.as_ref().is_some_and(|(of, _)| *of == run.id);
        if !is_known {
            self.policy = None;
            self.is_taken_up = !run.options.own_tools.is_empty();
            self.lacks = Some((run.id.clone(), self.deps.lacking(state).await));
        }
        if let Some((_, lacks)) = &self.lacks {
            self.machine.lack(lacks.clone());
        }
    }

    /// Decides what an input means, which came with a letter.
    pub(super) fn decide(&mut self, input: &Input, letter: &Letter, round: &mut Round) -> Decided {
        let Letter { input: _, blobs, row, reply: _, asked, folded: _ } = letter;
        let first = self.machine.state().seq.next();
        let outcome = match self.machine.handle(input, round.at) {
            Ok(events) => {
                round.blobs.extend(blobs.iter().cloned());
                let accepted = Accepted::of(first, &events);
                for mut event in events {
                    self.thread_clock.stamp(&mut event, round.wall, round.at_ms);
                    if matches!(event.fact, Fact::RunStarted { .. }) {
                        self.asked = asked.clone();
                    }
                    self.fold(&event, round);
                    round.events.push(event);
                }
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
        round.let_go.extend(LetGo::of(&self.deps, &self.machine, event));
        self.in_flight.note_start(&event.fact);
        self.deps.expiries.note(&self.thread, &event.fact, round.at_ms);
        if let Some(run) = row::unqueued(&self.machine, event) {
            row::drop_queued(&mut round.runs, &run);
            round.unqueued.push(run);
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
        self.since_snapshot += row::weight(event);
        let state = self.machine.state();
        if matches!(event.fact, Fact::StepStarted { .. }) {
            self.step_seq = state.seq;
        }
        // What it has used so far is told while it goes on, and while it waits, which may be for months.
        if let (Fact::RunStarted { .. } | Fact::ModelSwitched { .. } | Fact::StepReplied { .. }, Some(run)) =
            (&event.fact, &state.run)
        {
            row::put_run(&mut round.runs, row::run_view(run));
        }
        if let Fact::MessageQueued { id, queued } = &event.fact {
            row::put_run(&mut round.runs, row::queued_view(id, queued, (state.seq, event.at)));
        }
    }

    /// Appends a round; where it has to be decided anew, says why.
    async fn append(&mut self, expected: Seq, round: Round) -> Result<Option<Again>, Ended> {
        let events: Arc<[Event]> = round.events.into();
        let Drawn { reserve, settle } = round.drawn;
        let mut measures = round.measures;
        let from_ms = self.deps.clock.monotonic_ms();
        let changes_policy = round.records.iter().any(|change| change.write != RecordWrite::Keep);
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
            unqueued: round.unqueued,
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
                round.let_go.into_iter().for_each(|call| call.tell(&self.deps));
                for event in events.iter() {
                    trace::recorded(&mut self.span, &self.asked, &self.thread, event);
                    if let (Fact::RunFinished { status, .. }, Some(run)) = (&event.fact, &event.run) {
                        self.deps.own_tools.forget(run);
                        if *status == RunStatus::Cancelled {
                            let run = run.clone();
                            self.deps.end_background_soon(move |command| command.run == run);
                        }
                    }
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
                Ok(Some(Again::Refused(NoRoom { limit: budget, figure: cap, refused })))
            }
            NotAppended::Record => Ok(Some(Again::Policy)),
        }
    }
}

fn ends_reply(fact: &Fact) -> bool {
    matches!(fact, Fact::StepReplied { .. } | Fact::StepFailed { .. })
}
