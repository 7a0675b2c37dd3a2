//! Appends a batch, with retries. If the store gave no answer, the batch may have been written.
//!
//! Retries never change the batch.

use windlass_machine::Seq;

use super::store::ThreadStore;
use crate::port::clock::Clock;
use crate::port::journal::{AppendError, Batch, Journal, StoreError};

/// Delays between retries of an append, in milliseconds. A full disk or a busy database has seven seconds to recover,
/// while the unrecorded reply is still in memory.
const WAITS_MS: [u64; 5] = [50, 200, 750, 2_000, 4_000];

/// The reason why a batch is not in the journal.
pub(in crate::drive) enum NotAppended {
    /// Another process drives the thread: stop immediately.
    Fenced,
    /// The remaining amount of a budget is too small. The batch was not written.
    Limit { budget: String, cap: u64, taken: u64, wanted: u64 },
    /// A record has another version than expected. The batch was not written.
    Record,
    /// The store rejects the batch or fails.
    Store(StoreError),
}

/// Appends a batch. Returns only when it is certain whether the journal contains the batch. The batch never changes
/// between retries: its position (`expected`), owner (`epoch`) and id prevent a second copy.
pub(in crate::drive) async fn append(store: &ThreadStore, batch: Batch) -> Result<Seq, NotAppended> {
    let end = Seq(batch.expected.0 + batch.events.len() as u64);
    let mut waits = WAITS_MS.into_iter();
    // Whether an earlier attempt may have been written. Until this is known, no later answer is conclusive.
    let mut unknown = false;
    loop {
        let answer = match store.journal.append(batch.clone()).await {
            Ok(seq) => return Ok(seq),
            Err(answer) => answer,
        };
        unknown |= matches!(answer, AppendError::Unknown(_) | AppendError::Conflict { .. });
        let error = match if unknown { stands(&*store.journal, &batch).await } else { Ok(false) } {
            Ok(true) => return Ok(end),
            Ok(false) => match answer {
                AppendError::Fenced { .. } => return Err(NotAppended::Fenced),
                AppendError::Conflict { head } => {
                    let why =
                        format!("the journal stands at {head}, but this owner left it at {}", batch.expected);
                    return Err(NotAppended::Store(StoreError::Corrupt { why }));
                }
                AppendError::Unknown(why) => StoreError::Unavailable { why },
                AppendError::Failed(error) => error,
                AppendError::Limit { budget, cap, taken, wanted } => {
                    return Err(NotAppended::Limit { budget, cap, taken, wanted });
                }
                AppendError::Record { .. } => return Err(NotAppended::Record),
            },
            Err(error) => error,
        };
        let Some(wait) = waits.next().filter(|_| may_pass(&error)) else {
            return Err(NotAppended::Store(error));
        };
        tracing::warn!(thread = %batch.thread, %error, wait_ms = wait, "append failed, trying again");
        store.clock.sleep_ms(wait).await;
    }
}

/// Retries of a read, with the delays of an append, because an
/// unrecorded paid reply may be in memory during the retries.
pub(in crate::drive) struct Patience(std::array::IntoIter<u64, 5>);

impl Patience {
    pub(in crate::drive) fn new() -> Self {
        Self(WAITS_MS.into_iter())
    }

    /// Waits before the next retry of a failed read. Returns the error if no retry is left.
    pub(in crate::drive) async fn after(
        &mut self,
        clock: &dyn Clock,
        error: StoreError,
    ) -> Result<(), StoreError> {
        let Some(wait) = self.0.next().filter(|_| may_pass(&error)) else { return Err(error) };
        tracing::warn!(%error, wait_ms = wait, "the store could not be read, trying again");
        clock.sleep_ms(wait).await;
        Ok(())
    }
}

pub(in crate::drive) fn may_pass(error: &StoreError) -> bool {
    match error {
        StoreError::Unavailable { .. } => true,
        StoreError::NotFound { .. }
        | StoreError::Refused { .. }
        | StoreError::Unreadable { .. }
        | StoreError::Corrupt { .. } => false,
    }
}

/// Whether this batch is the last batch in the journal.
async fn stands(journal: &dyn Journal, batch: &Batch) -> Result<bool, StoreError> {
    let head = journal.head(&batch.thread).await?;
    Ok(head.is_some_and(|head| head.batch == batch.id && head.epoch == batch.epoch))
}
