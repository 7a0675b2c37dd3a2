//! Tracks when the run of a single-run stream becomes active. The message that starts the
//! run may be queued behind another run.

use windlass::machine::{Event, Fact, InputId, RunId};

/// The progress of a stream's run.
#[derive(Debug)]
pub struct Turn {
    run: RunId,
    stage: Stage,
}

#[derive(Debug, PartialEq, Eq)]
enum Stage {
    /// The run is about to begin.
    Soon,
    /// The run's message is queued behind another run.
    Queued(InputId),
    /// The run is active.
    Now,
}

/// Relation of an event to a stream.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Heard {
    /// An event of the stream's run.
    Own,
    /// The message was withdrawn before the run began.
    TakenBack,
    /// An event of another run, or an event about the queue.
    Nothing,
}

impl Turn {
    /// Tracks a run that a message has started or will start.
    pub fn new(run: RunId) -> Self {
        Self { run, stage: Stage::Soon }
    }

    /// Tracks a run that is active.
    pub fn now(run: RunId) -> Self {
        Self { run, stage: Stage::Now }
    }

    pub fn run(&self) -> &RunId {
        &self.run
    }

    pub fn is_now(&self) -> bool {
        self.stage == Stage::Now
    }

    pub fn is_queued(&self) -> bool {
        matches!(self.stage, Stage::Queued(_))
    }

    /// Applies an event. Returns how the event relates to the stream.
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
            _ if is_own && self.is_now() => return Heard::Own, // tidy: the encoder handles the run's own events
            _ => {}                                            // tidy: events of other runs are skipped
        }
        Heard::Nothing
    }
}
