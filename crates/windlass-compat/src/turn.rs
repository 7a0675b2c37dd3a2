//! Whose turn it is in a thread, for a stream that tells of one run alone: its message may wait behind another run.

use windlass::machine::{Event, Fact, InputId, RunId};

/// The turn of a stream's run.
#[derive(Debug)]
pub struct Turn {
    run: RunId,
    stage: Stage,
}

#[derive(Debug, PartialEq, Eq)]
enum Stage {
    /// The run is about to begin.
    Soon,
    /// Its message waits behind another run.
    Queued(InputId),
    /// It goes on.
    Now,
}

/// What an event is to a stream.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Heard {
    /// One of its own run.
    Own,
    /// Its message was taken back before the run began.
    TakenBack,
    /// Another run's, or one about turns.
    Nothing,
}

impl Turn {
    /// The turn of a run that a message has just started, or is to start.
    pub fn new(run: RunId) -> Self {
        Self { run, stage: Stage::Soon }
    }

    /// The turn of a run that goes on.
    pub fn now(run: RunId) -> Self {
        Self { run, stage: Stage::Now }
    }

    /// The run.
    pub fn run(&self) -> &RunId {
        &self.run
    }

    /// Whether it is the run's turn.
    pub fn is_now(&self) -> bool {
        self.stage == Stage::Now
    }

    /// Whether the message waits behind another run.
    pub fn is_queued(&self) -> bool {
        matches!(self.stage, Stage::Queued(_))
    }

    /// Takes an event; returns what it is to the stream.
    pub fn hear(&mut self, event: &Event) -> Heard {
        let is_own = event.run.as_ref() == Some(&self.run);
        match &event.fact {
            Fact::MessageQueued { id, queued } if queued.run == self.run => {
                self.stage = Stage::Queued(id.clone());
            }
            Fact::MessageTaken { id } if self.stage == Stage::Queued(id.clone()) => self.stage = Stage::Soon,
            Fact::MessageWithdrawn { id, .. } if self.stage == Stage::Queued(id.clone()) => {
                return Heard::TakenBack;
            }
            Fact::RunStarted { .. } if is_own => self.stage = Stage::Now,
            _ if is_own && self.is_now() => return Heard::Own, // tidy: what it says is for the speaker
            _ => {}                                            // tidy: of other runs nothing is told
        }
        Heard::Nothing
    }
}
