//! The events of one round, and the rows, reservations and measurements that derive from them.
//!
//! This module does not append; the driven thread does.

pub(super) mod hold;
mod judge;

use windlass_machine::{
    self as machine, BlobRef, Event, Fact, Input, InputId, Refused, RunId, Seq, State, ThreadId, Timestamp,
};

use super::actors::ActorServices;
use super::flight::InFlight;
use super::mail::Letter;
use crate::drive::command::let_go::LetGo;
use crate::drive::journal::{measure, row};
use crate::drive::policy::spend::{Drawn, Spending};
use crate::port::journal::{InboxOutcome, RunView};
use crate::port::observe::Measure;
use crate::port::records::RecordChange;

pub(super) use judge::Judging;

/// The decided content of one round.
#[derive(Default)]
pub(super) struct Round {
    /// Head of the journal before the round.
    pub expected: Seq,
    /// Thread time of the whole round. The round has judged all calls that are due at this time.
    pub at: Timestamp,
    /// Start of the round by the monotonic clock, in milliseconds.
    pub at_ms: u64,
    /// Start of the round by the wall clock.
    pub wall: Timestamp,
    pub events: Vec<Event>,
    pub blobs: Vec<(BlobRef, bytes::Bytes)>,
    pub consumed: Vec<(InputId, InboxOutcome)>,
    pub runs: Vec<RunView>,
    pub unqueued: Vec<RunId>,
    pub drawn: Drawn,
    pub records: Vec<RecordChange>,
    pub measures: Vec<Measure>,
    pub let_go: Vec<LetGo>,
}

/// A budget whose remaining amount is too small for a start of the round.
pub(super) struct NoRoom {
    pub limit: String,
    pub figure: u64,
    pub refused: Refused,
}

impl NoRoom {
    /// Returns the input that reports the refusal. The input includes
    /// the message if the message would have started a run.
    pub(super) fn report(&self, input: Option<&Input>) -> Input {
        let message = match input {
            Some(Input::Message(message)) => Some(message.clone()),
            _ => None, // tidy: nothing else starts a run by itself
        };
        let Self { limit, figure, refused } = self;
        Input::LimitRefused { limit: limit.clone(), figure: *figure, refused: refused.clone(), message }
    }
}

/// The reason why a round is decided again. No part of the round was written.
pub(super) enum Again {
    /// The remaining amount of a budget was too small.
    Refused(NoRoom),
    /// Another driver has used the grant, or it was revoked.
    Policy,
}

/// A round that the store has rejected.
pub(super) struct RefusedRound {
    pub again: Again,
    /// The inputs of a held round that was rejected with it.
    pub held: Vec<Letter>,
}

/// Updates rows, reservations and measurements from the events of a round.
pub(super) struct BesideJournal<'a> {
    pub services: &'a ActorServices,
    pub thread: &'a ThreadId,
    pub in_flight: &'a mut InFlight,
    pub judging: &'a mut Judging,
    pub spending: &'a mut Spending,
    /// Approximate size in bytes of the events since the last snapshot.
    pub since_snapshot: &'a mut usize,
    pub round: &'a mut Round,
}

impl machine::Observer for BesideJournal<'_> {
    fn before(&mut self, state: &State, event: &Event) {
        let Self { services, thread, round, .. } = self;
        if let (Fact::RunFinished { status, totals, .. }, Some(run)) = (&event.fact, &state.run) {
            let ended = RunView {
                status: Some(*status),
                finished_at: Some(event.at),
                totals: *totals,
                ..row::run_view(run)
            };
            row::put_run(&mut round.runs, ended);
        }
        if services.observer.is_some() {
            round.measures.extend(measure::of(state, event));
        }
        round.let_go.extend(LetGo::of(&services.catalog, thread, state, event));
        self.in_flight.note_start(&event.fact);
        services.expiries.note(thread, &event.fact, round.at_ms);
        if let Some(run) = row::unqueued(state, event) {
            row::drop_queued(&mut round.runs, &run);
            round.unqueued.push(run);
        }
    }

    fn after(&mut self, state: &State, event: &Event) {
        let Self { services, thread, round, .. } = self;
        self.spending.see(&services.budgets, thread, state, event, &mut round.drawn);
        if let Fact::GrantUsed { grant, .. } = &event.fact
            && let Some(change) = self.judging.use_up(grant)
        {
            round.records.retain(|before| before.key != change.key);
            round.records.push(change);
        }
        *self.since_snapshot += row::weight(event);
        if matches!(event.fact, Fact::StepStarted { .. }) {
            self.judging.step = state.seq;
        }
        // Update the row's usage now, because the run may next wait for months.
        if let (Fact::RunStarted { .. } | Fact::ModelSwitched { .. } | Fact::StepReplied { .. }, Some(run)) =
            (&event.fact, &state.run)
        {
            row::put_run(&mut round.runs, row::run_view(run));
        }
        if let Fact::MessageQueued { id, queued } = &event.fact {
            row::put_run(&mut round.runs, row::queued_view(id, queued, state.seq, event.at));
        }
    }
}
