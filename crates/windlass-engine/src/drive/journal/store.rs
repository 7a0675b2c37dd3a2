//! Reads threads from the store and folds their journals.
//!
//! This module neither drives nor claims threads. A fold is current as of the head that it was read for.

use std::ops::Deref;
use std::sync::Arc;

use windlass_machine::{CorruptJournal, Machine, Seq, Snapshot, ThreadId};

use super::lease::Leases;
use super::row;
use crate::drive::Reaches;
use crate::error::EngineError;
use crate::port::clock::Clock;
use crate::port::journal::{Head, Journal, StoreError};

/// Maximum number of events read from a journal at a time.
const PAGE: usize = 512;

/// A folded thread, from which a driver continues.
#[derive(Clone)]
pub(crate) struct Restored {
    pub machine: Machine,
    /// Approximate size in bytes of the events after the newest snapshot.
    pub since_snapshot: usize,
    pub snapshot_bytes: usize,
}

impl Restored {
    /// Creates a thread without events.
    pub(crate) fn new(thread: &ThreadId) -> Result<Self, CorruptJournal> {
        let machine = Machine::restore(thread.clone(), None, [])?;
        Ok(Self { machine, since_snapshot: 0, snapshot_bytes: 0 })
    }
}

/// A thread folded at one moment, see [`ThreadHandle::folded`](crate::ThreadHandle::folded). Clones share the fold.
///
/// An input that is sent with it does not fold the thread again, unless the thread has new events.
#[derive(Clone)]
pub struct FoldedThread {
    pub(crate) thread: ThreadId,
    head: Head,
    pub(crate) restored: Arc<Restored>,
}

impl FoldedThread {
    /// Id of the thread.
    pub fn thread(&self) -> &ThreadId {
        &self.thread
    }

    /// Whether the fold has the journal's events up to this head. A batch's id is random, so a thread that was
    /// deleted and created again under the same id has a different head.
    pub(crate) fn is_at(&self, head: &Head) -> bool {
        self.head.seq == head.seq && self.head.batch == head.batch
    }
}

impl Deref for FoldedThread {
    type Target = Machine;

    fn deref(&self) -> &Machine {
        &self.restored.machine
    }
}

/// The threads of a store.
pub(crate) struct ThreadStore {
    pub journal: Arc<dyn Journal>,
    pub clock: Arc<dyn Clock>,
    /// The claims that must be renewed.
    pub leases: Leases,
    reaches: Option<Arc<Reaches>>,
}

impl ThreadStore {
    pub(crate) fn new(
        journal: &Arc<dyn Journal>,
        clock: &Arc<dyn Clock>,
        reaches: Option<Arc<Reaches>>,
    ) -> Self {
        let leases = Leases::new(journal.lease_ms().is_some());
        Self { journal: journal.clone(), clock: clock.clone(), leases, reaches }
    }

    /// Folds a thread's current journal.
    pub(crate) async fn folded(&self, thread: &ThreadId) -> Result<FoldedThread, EngineError> {
        let head = self.journal.head(thread).await?;
        let head = head.ok_or_else(|| EngineError::NoThread(thread.clone()))?;
        let restored = Arc::new(self.restore(thread, &head).await?);
        Ok(FoldedThread { thread: thread.clone(), head, restored })
    }

    /// Folds a thread's journal, or uses the sender's fold if the fold has the same head. Returns
    /// [`EngineError::NotReached`] if this process cannot use the model access that the active run has recorded,
    /// unless the first input is a cancel.
    pub(in crate::drive) async fn restore_reached(
        &self,
        thread: &ThreadId,
        head: &Head,
        folded: Option<FoldedThread>,
        is_cancel: bool,
    ) -> Result<Restored, EngineError> {
        let restored = match folded.filter(|folded| folded.thread == *thread && folded.is_at(head)) {
            Some(folded) => Arc::unwrap_or_clone(folded.restored),
            None => self.restore(thread, head).await?,
        };
        let Some(run) = restored.machine.state().run.as_ref().filter(|run| run.cancel.is_none()) else {
            return Ok(restored);
        };
        match (&self.reaches, run.options.access.as_deref()) {
            (Some(reaches), Some(access)) if !is_cancel && !reaches(access) => {
                let how = match (&access.base_url, &access.api_key_env) {
                    (Some(address), Some(key)) => {
                        format!("the model's address `{address}` and the key in the variable `{key}`")
                    }
                    (Some(address), None) => format!("the model's address `{address}`"),
                    (None, Some(key)) => format!("the key in the variable `{key}`"),
                    (None, None) => "a model's address that is not recorded".to_owned(),
                };
                Err(EngineError::NotReached { run: run.id.clone(), how })
            }
            _ => Ok(restored),
        }
    }

    /// Folds a thread's journal up to a head, starting from a usable snapshot if the store has one.
    pub(crate) async fn restore(&self, thread: &ThreadId, head: &Head) -> Result<Restored, EngineError> {
        if head.seq == Seq::default() {
            return Ok(Restored::new(thread)?);
        }
        let stored = self.journal.snapshot(thread).await?;
        let snapshot = stored
            .map(|stored| Snapshot { fold: stored.fold, seq: stored.seq, bytes: stored.bytes.to_vec() })
            .filter(|snapshot| snapshot.is_usable() && snapshot.seq <= head.seq);
        let from = snapshot.as_ref().map(|snapshot| snapshot.seq).unwrap_or_default();
        let mut machine = Machine::restore(thread.clone(), snapshot.as_ref(), [])?;
        let snapshot_bytes = snapshot.map_or(0, |snapshot| snapshot.bytes.len());
        let (mut after, mut since_snapshot) = (from, 0);
        while after < head.seq {
            let page = self.journal.read(thread, after, PAGE).await?;
            let Some(last) = page.last() else {
                let why = format!("the journal of thread `{thread}` ends at {after}, not at {}", head.seq);
                return Err(StoreError::Corrupt { why }.into());
            };
            after = last.seq;
            // A fold up to an older head excludes later events.
            for recorded in page.iter().take_while(|recorded| recorded.seq <= head.seq) {
                machine.apply(&recorded.event);
                since_snapshot += row::weight(&recorded.event);
            }
        }
        match &machine.state().thread {
            Some(found) if found != thread => {
                Err(CorruptJournal::OtherThread { wanted: thread.clone(), found: found.clone() }.into())
            }
            Some(_) | None => Ok(Restored { machine, since_snapshot, snapshot_bytes }),
        }
    }
}
