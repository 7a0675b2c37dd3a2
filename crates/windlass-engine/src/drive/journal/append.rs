//! One append and the rule of the unknown: a call that failed without an answer may have happened.
//!
//! It changes no batch: what was decided once is what is written.

use windlass_machine::Seq;

use super::store::ThreadStore;
use crate::port::clock::Clock;
use crate::port::journal::{AppendError, Batch, Journal, StoreError};

/// Waits between tries of an append that certainly or possibly did not happen: a full disk or a busy database is
/// given seven seconds to recover while the reply that is to be recorded is still in memory.
const WAITS_MS: [u64; 5] = [50, 200, 750, 2_000, 4_000];

/// Why a batch is not in the journal.
pub(in crate::drive) enum NotAppended {
    /// Another process drives the thread: stop at once.
    Fenced,
    /// A budget has no room: nothing was written.
    Limit { budget: String, cap: u64, taken: u64, wanted: u64 },
    /// A record is another than expected: nothing was written.
    Record,
    /// The store does not take it.
    Store(StoreError),
}

/// Appends a batch; comes back only when it is known whether it stands in the journal. The batch is decided once and
/// never changes between tries: its place (`expected`), its owner (`epoch`) and its id make a second copy impossible.
pub(in crate::drive) async fn append(store: &ThreadStore, batch: Batch) -> Result<Seq, NotAppended> {
    let end = Seq(batch.expected.0 + batch.events.len() as u64);
    let mut waits = WAITS_MS.into_iter();
    // Whether an earlier try may stand in the journal: then no answer counts before that is known.
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

/// Reads are made as patiently as appends: a reply that was paid for waits in memory meanwhile.
pub(in crate::drive) struct Patience(std::array::IntoIter<u64, 5>);

impl Patience {
    pub(in crate::drive) fn new() -> Self {
        Self(WAITS_MS.into_iter())
    }

    /// Waits before another try of a read that failed; gives the error back where there is none.
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

/// Whether this very batch is the last one in the journal.
async fn stands(journal: &dyn Journal, batch: &Batch) -> Result<bool, StoreError> {
    let head = journal.head(&batch.thread).await?;
    Ok(head.is_some_and(|head| head.batch == batch.id && head.epoch == batch.epoch))
}
