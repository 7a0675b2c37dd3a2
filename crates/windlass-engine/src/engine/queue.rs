//! The messages of a thread that wait while a run is active, and what becomes of them.
//!
//! Whether somebody may change one is the machine's to say.

use std::sync::Arc;

use serde::Serialize;
use windlass_machine::{Input, InputId, Message, Place, Principal, RunId, Seq, Timestamp, Waiting};

use crate::drive::{Letter, NewBlobs};
use crate::engine::handle::QueueHandle;
use crate::error::EngineError;

/// A message that waits.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[non_exhaustive]
pub struct QueuedMessage {
    /// The sender's id of it.
    pub id: InputId,
    /// What it says; long texts by digest.
    pub message: Arc<Message>,
    /// Who sent it.
    pub by: Principal,
    /// When it is taken.
    pub place: Place,
    /// Since when it waits.
    pub since: Timestamp,
    /// The run that it starts, where it starts one.
    pub run: RunId,
}

impl QueueHandle<'_> {
    /// The messages that wait in a thread, in the order in which they are taken where their places are the same.
    pub async fn list(self) -> Result<Vec<QueuedMessage>, EngineError> {
        let Self { engine, id: thread } = self;
        let machine = engine.thread(thread).folded().await?;
        let shown = |waiting: &Waiting| QueuedMessage {
            id: waiting.id.clone(),
            message: waiting.queued.message.clone(),
            by: waiting.queued.by.clone(),
            place: waiting.queued.place,
            since: waiting.since,
            run: waiting.queued.run.clone(),
        };
        Ok(machine.state().queue.iter().map(shown).collect())
    }

    /// Changes what a waiting message says. Refused where it no longer waits, and to anybody but its sender: the
    /// run will work for them.
    pub async fn edit(self, id: &InputId, message: Message, by: Principal) -> Result<Seq, EngineError> {
        let Self { engine, id: thread } = self;
        if engine.services.store.journal.head(thread).await?.is_none() {
            return Err(EngineError::NoThread(thread.clone()));
        }
        let mut blobs = NewBlobs::default();
        let blocks = blobs.blocks(&engine.services.contents, message.blocks).await?;
        let message = Arc::new(Message { role: message.role, blocks });
        let input = Input::EditQueued { id: id.clone(), message, by };
        let letter = Letter { blobs: blobs.0, ..Letter::plain(input) };
        let input_id = InputId::from(engine.fresh("inp"));
        Ok(engine.services.registry.send(thread, &input_id, letter).await??.seq)
    }

    /// Takes a waiting message back. Refused where it no longer waits, and to anybody but its sender and the thread's
    /// owner.
    pub async fn withdraw(self, id: &InputId, by: Principal) -> Result<Seq, EngineError> {
        let Self { engine, id: thread } = self;
        engine.thread(thread).send(Input::Withdraw { id: id.clone(), by }).await
    }

    /// Sends a waiting message before all others, and now: the active run is cancelled; where none is active, because
    /// the last one was cancelled or failed, the message starts its run at once. Refused as
    /// [`withdraw`](Self::withdraw) is.
    pub async fn send_now(self, id: &InputId, by: Principal) -> Result<Seq, EngineError> {
        let Self { engine, id: thread } = self;
        engine.thread(thread).send(Input::SendNow { id: id.clone(), by }).await
    }
}
