//! Waiting for a run, including a run that is queued behind another.
//!
//! The waiter watches the thread and makes sure that a process drives it.

use futures_util::StreamExt;
use windlass_machine::{Fact, InputId, RunId, Seq};

use crate::drive::watch::Update;
use crate::engine::Engine;
use crate::engine::handle::RunHandle;
use crate::error::EngineError;
use crate::outcome::{Outcome, Status};
use crate::port::journal::{Recorded, RunRow, ThreadStatus};

/// Interval in milliseconds at which a waiter makes sure that the run is driven.
const TEND_EVERY_MS: u64 = 1_000;

impl Engine {
    /// Finds a run. For a queued run, also returns the message that will start it.
    async fn find(&self, run: &RunId) -> Result<(RunRow, Option<InputId>), EngineError> {
        let row = self.services.store.journal.run(run).await?.ok_or_else(no_run(run))?;
        let queued = row.view.queued.clone();
        Ok((row, queued))
    }
}

impl RunHandle<'_> {
    /// Waits until a run has ended, or waits for a person, or waits for one of its own tools that this process does
    /// not have. If the process that drives the run dies during the wait, this process takes over the run.
    ///
    /// A queued run is awaited from its queue position to its end. If the active run takes the message as steering,
    /// the wait ends with that run. If the thread becomes idle without taking the message, the outcome has
    /// [`Status::Queued`](crate::Status::Queued).
    pub async fn wait(self) -> Result<Outcome, EngineError> {
        let Self { engine, id: run } = self;
        let (row, mut queued) = engine.find(run).await?;
        let mut run = run.clone();
        let mut updates = engine.thread(&row.thread).watch(Seq(row.view.from.0.saturating_sub(1)));
        let mut active = false;
        loop {
            let clock = &engine.services.store.clock;
            let update = tokio::select! {
                biased;
                update = updates.next() => update,
                () = clock.sleep_ms(TEND_EVERY_MS) => {
                    engine.thread(&row.thread).tend().await?;
                    if active && engine.thread(&row.thread).is_left_to_others() {
                        let outcome = engine.run(&run).status().await?;
                        if outcome.status == Status::Paused {
                            return Ok(outcome);
                        }
                    }
                    continue;
                }
            };
            match update.ok_or_else(no_run(&run))?? {
                Update::Event(Recorded { event, .. }) => match event.fact {
                    Fact::MessageTaken { id } if queued.as_ref() == Some(&id) => {
                        (queued, active) = (None, true);
                        run = event.run.unwrap_or(run);
                    }
                    Fact::MessageWithdrawn { id, .. } if queued.as_ref() == Some(&id) => {
                        return Err(EngineError::NoRun(run));
                    }
                    Fact::RunStarted { .. } if event.run.as_ref() == Some(&run) => active = true,
                    Fact::RunFinished { .. } if event.run.as_ref() == Some(&run) => {
                        return engine.run(&run).status().await;
                    }
                    _ => {} // tidy: the other kinds do not end a wait
                },
                Update::Status(ThreadStatus::Waiting) if active => {
                    let outcome = engine.run(&run).status().await?;
                    // An answer may have arrived since the update was sent.
                    if outcome.status != Status::Running {
                        return Ok(outcome);
                    }
                }
                Update::Status(ThreadStatus::Idle) if queued.is_some() => {
                    return engine.run(&run).status().await;
                }
                Update::Stopped { why } => {
                    return Err(EngineError::Stopped { thread: row.thread, why: why.to_string() });
                }
                Update::Status(_)
                | Update::Delta { .. }
                | Update::Snapshot { .. }
                | Update::Progress { .. } => {}
            }
        }
    }

    /// Returns a run's row, also for a queued run.
    pub async fn row(self) -> Result<RunRow, EngineError> {
        let Self { engine, id: run } = self;
        Ok(engine.find(run).await?.0)
    }
}

fn no_run(run: &RunId) -> impl FnOnce() -> EngineError + use<> {
    let run = run.clone();
    move || EngineError::NoRun(run)
}
