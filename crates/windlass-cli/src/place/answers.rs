//! Submits answers from the terminal to the engine, and records them in the store's audit log.

use windlass::machine::{Given, Grant, InterruptId, ThreadId};
use windlass::{Accepted, EngineError, FoldedThread, GrantDraft};
use windlass_server::account::audit::Note;
use windlass_server::account::audit::answer::{ANSWERED, entry_of};
use windlass_server::account::audit::log::AuditLog;
use windlass_server::account::people::user::local;
use windlass_server::clock::clock;

use super::Place;

/// The source in an audit entry, instead of a session or key id.
const TERMINAL: &str = "terminal";

impl Place {
    /// Answers interrupts of a thread and creates grants, all or none. The answers are in effect before the audit log
    /// is written. So a failure of the audit log is logged and not returned.
    ///
    /// Returns the effect of the answers and the created grants.
    pub async fn answer(
        &self,
        thread: &ThreadId,
        given: Vec<Given>,
        drafts: Vec<GrantDraft>,
    ) -> Result<(Accepted, Vec<Grant>), EngineError> {
        let folded = self.engine.thread(thread).folded().await?;
        let entries = entries(&folded, &given);
        let (accepted, grants) = self.engine.answer_and_grant(&folded, given, drafts, None, local()).await?;
        let grant = grants.first().map(|grant| grant.id.clone());
        let named = |entry: Note| match &grant {
            Some(grant) => entry.with("grant", grant.as_str()),
            None => entry,
        };
        self.record(entries.into_iter().map(|(interrupt, entry)| (interrupt, named(entry)))).await;
        Ok((accepted, grants))
    }

    /// Saves answers in a thread's inbox. The process that drives the thread, now or later, applies them.
    pub async fn leave_answers(&self, thread: &ThreadId, given: Vec<Given>) -> Result<(), EngineError> {
        let entries = entries(&self.engine.thread(thread).folded().await?, &given);
        self.engine.thread(thread).leave_answers(given, local()).await?;
        self.record(entries.into_iter()).await;
        Ok(())
    }

    async fn record(&self, entries: impl Iterator<Item = (InterruptId, Note)>) {
        let log = AuditLog::new(self.engine.records().clone(), clock());
        for (interrupt, entry) in entries {
            if let Err(error) = log.record(entry).await {
                tracing::error!(%interrupt, %error, "cannot write an answer to the audit log");
            }
        }
    }
}

fn entries(folded: &FoldedThread, given: &[Given]) -> Vec<(InterruptId, Note)> {
    let by = local();
    let note = Note::new(&by.workspace, ANSWERED).actor(&by.principal).via(TERMINAL);
    given.iter().map(|given| entry_of(note.clone(), folded.thread(), folded, given)).collect()
}
