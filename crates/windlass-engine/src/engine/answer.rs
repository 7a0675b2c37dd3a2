//! Answers to interrupts, sent to the driver of their thread.
//!
//! The machine decides whether an answer is valid.

use windlass_machine::{
    Answer, Given, Grant, Input, InputId, InterruptId, NewGrant, Note, Party, ThreadId, View,
};

use crate::drive::{FoldedThread, Letter, NewBlobs};
use crate::engine::Engine;
use crate::engine::handle::ThreadHandle;
use crate::engine::policy::GrantDraft;
use crate::error::EngineError;
use crate::port::journal::Accepted;

impl Engine {
    /// Answers like [`ThreadHandle::answer_all`], and writes grants and a note atomically with the answers. A new
    /// grant applies to later calls that resemble the approved call; the answers themselves do not use it. The thread
    /// is not folded again if it has no new events.
    pub async fn answer_and_grant(
        &self,
        folded: &FoldedThread,
        answers: Vec<Given>,
        drafts: Vec<GrantDraft>,
        note: Option<Note>,
        by: Party,
    ) -> Result<(Accepted, Vec<Grant>), EngineError> {
        let drafted: Result<Vec<_>, _> = drafts.into_iter().map(|draft| self.drafted(draft)).collect();
        let new: Vec<_> = drafted?.into_iter().map(|(user, grant)| NewGrant { user, grant }).collect();
        let grants = new.iter().map(|new| new.grant.clone()).collect();
        let letter = self.answers(answers, by, new, note).await?;
        let letter = Letter { folded: Some(folded.clone()), ..letter };
        Ok((self.give(folded.thread(), letter).await?, grants))
    }

    async fn give(&self, thread: &ThreadId, letter: Letter) -> Result<Accepted, EngineError> {
        if self.services.store.journal.head(thread).await?.is_none() {
            return Err(EngineError::NoThread(thread.clone()));
        }
        let id = InputId::from(self.fresh("inp"));
        Ok(self.services.registry.send(thread, &id, letter).await??)
    }

    /// Converts answers for the journal: long arguments become blobs.
    async fn answers(
        &self,
        mut answers: Vec<Given>,
        by: Party,
        grants: Vec<NewGrant>,
        note: Option<Note>,
    ) -> Result<Letter, EngineError> {
        let mut blobs = NewBlobs::default();
        for given in &mut answers {
            if let Answer::Edit { arguments } = &mut given.answer {
                *arguments = blobs.content(&self.services.contents, arguments.clone()).await?;
            }
        }
        // The driver adds policy and tools when it processes the input.
        let input = Input::Answered { answers, by, grants, note: note.map(Box::new), view: View::default() };
        Ok(Letter { blobs: blobs.0, ..Letter::plain(input) })
    }
}

impl ThreadHandle<'_> {
    /// Answers an interrupt. The result reports whether the answer
    /// closed the interrupt, or is one of several required votes.
    pub async fn answer(
        self,
        interrupt: &InterruptId,
        answer: Answer,
        by: Party,
    ) -> Result<Accepted, EngineError> {
        let given = Given { interrupt: interrupt.clone(), answer, approval: None };
        self.answer_all(vec![given], by).await
    }

    /// Answers several interrupts of a thread. All answers are accepted or none.
    pub async fn answer_all(self, answers: Vec<Given>, by: Party) -> Result<Accepted, EngineError> {
        let Self { engine, id: thread } = self;
        let letter = engine.answers(answers, by, Vec::new(), None).await?;
        engine.give(thread, letter).await
    }

    /// Adds answers to the thread's inbox for the current or next driver. Does not start a driver.
    pub async fn leave_answers(self, answers: Vec<Given>, by: Party) -> Result<InputId, EngineError> {
        let Self { engine, id: thread } = self;
        if engine.services.store.journal.head(thread).await?.is_none() {
            return Err(EngineError::NoThread(thread.clone()));
        }
        let id = InputId::from(engine.fresh("inp"));
        let letter = engine.answers(answers, by, Vec::new(), None).await?;
        for (blob, bytes) in letter.blobs {
            engine.services.contents.put(&blob, bytes).await?;
        }
        engine.services.registry.leave(thread, &id, &letter.input).await?;
        Ok(id)
    }
}
