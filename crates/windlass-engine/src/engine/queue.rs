//! The messages of a thread that are queued while a run is active.
//!
//! The machine decides who may change a message.

use std::sync::Arc;

use serde::Serialize;
use windlass_machine::{Input, InputId, Message, Place, Principal, RunId, Seq, Timestamp, Waiting};

use crate::drive::{Letter, NewBlobs};
use crate::engine::handle::QueueHandle;
use crate::error::EngineError;

/// A queued message.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[non_exhaustive]
pub struct QueuedMessage {
    /// The sender's id of the message.
    pub id: InputId,
    /// Content of the message; long texts by digest.
    pub message: Arc<Message>,
    /// The sender.
    pub by: Principal,
    /// The point at which the message will enter the history.
    pub place: Place,
    /// Time at which the message was queued.
    pub since: Timestamp,
    /// The run that the message will start, unless the message is added to the active run.
    pub run: RunId,
}

impl QueueHandle<'_> {
    /// Lists the queued messages; messages with the same `place`
    /// are in the order in which they will enter the history.
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

    /// Replaces the content of a queued message. Fails if the message is no longer queued. Only its sender may edit
    /// it, because the run will work for that user.
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

    /// Withdraws a queued message. Fails if the message is no longer
    /// queued. Only its sender and the thread's owner may withdraw it.
    pub async fn withdraw(self, id: &InputId, by: Principal) -> Result<Seq, EngineError> {
        let Self { engine, id: thread } = self;
        engine.thread(thread).send(Input::Withdraw { id: id.clone(), by }).await
    }

    /// Moves a queued message to the front and cancels the active run. If no run is active, because the last run was
    /// cancelled or failed, the message starts its run immediately. The same rules apply as for
    /// [`withdraw`](Self::withdraw).
    pub async fn send_now(self, id: &InputId, by: Principal) -> Result<Seq, EngineError> {
        let Self { engine, id: thread } = self;
        engine.thread(thread).send(Input::SendNow { id: id.clone(), by }).await
    }
}
