//! A store in memory, which behaves like the other stores and can inject faults.
//!
//! The store is for tests, and for runs that need no durable store: its content is lost when the process ends.

mod budget;
mod fault;
mod list;
mod record;
mod state;
mod usage;

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use async_trait::async_trait;
use bytes::Bytes;
use windlass_machine::{BlobRef, Digest, Event, Input, InputId, Principal, RunId, Seq, ThreadId};

pub use self::fault::AppendFault;
use self::fault::{Faults, Gate};
use self::state::State;
use crate::port::blob::Blobs;
use crate::port::budget::{Amounts, BudgetRow};
use crate::port::clock::Clock;
use crate::port::journal::{
    AppendError, Batch, Claim, Due, Epoch, Head, Journal, Left, Posted, Recorded, RunQuery, RunRow,
    StoreError, StoredSnapshot, ThreadCounts, ThreadQuery, ThreadRow, Usage, UsageQuery,
};
use crate::port::records::{Record, RecordChange, RecordError, Records};

/// A node's view of a store in memory.
#[derive(Clone)]
pub struct MemoryStore {
    state: Arc<Mutex<State>>,
    faults: Arc<Mutex<Faults>>,
    node: Arc<str>,
    clock: Arc<dyn Clock>,
    died: Arc<tokio::sync::Notify>,
    claims: Arc<Gate>,
    folds: Arc<Gate>,
}

impl MemoryStore {
    /// Creates an empty store, viewed by its first node. A claim ends with its node.
    pub fn new(clock: Arc<dyn Clock>) -> Self {
        Self::with_lease(clock, None)
    }

    /// Creates an empty store that behaves like a store of several machines, which does not detect the end of a node.
    /// A claim ends after `lease_ms` milliseconds unless it is renewed.
    pub fn leased(clock: Arc<dyn Clock>, lease_ms: u64) -> Self {
        Self::with_lease(clock, Some(lease_ms))
    }

    fn with_lease(clock: Arc<dyn Clock>, lease_ms: Option<u64>) -> Self {
        let node: Arc<str> = "node-1".into();
        let state = State::with_node(&node, lease_ms);
        Self {
            state: Arc::new(Mutex::new(state)),
            faults: Arc::default(),
            node,
            clock,
            died: Arc::default(),
            claims: Arc::default(),
            folds: Arc::default(),
        }
    }

    /// Returns the view of another live node on the same store, with its own faults.
    pub fn another_node(&self) -> Self {
        let node: Arc<str> = self.state().add_node().into();
        Self {
            state: Arc::clone(&self.state),
            faults: Arc::default(),
            node,
            clock: Arc::clone(&self.clock),
            died: Arc::default(),
            claims: Arc::default(),
            folds: Arc::default(),
        }
    }

    /// Returns the same store after this node's process was restarted: its claims are released.
    pub fn restarted(&self) -> Self {
        self.kill();
        self.another_node()
    }

    /// Ends this node like the death of its process: other nodes may claim its threads.
    pub fn kill(&self) {
        self.state().remove_node(&self.node);
    }

    /// Injects a fault into a future append of this node. Several faults apply in this order.
    pub fn fail_append(&self, fault: AppendFault) {
        lock(&self.faults).appends.push_back(fault);
    }

    /// Disconnects this node from the store like a broken network, or reconnects it. While disconnected, its reads,
    /// claims, renewals and appends fail as unavailable.
    pub fn cut_off(&self, is_cut_off: bool) {
        lock(&self.faults).is_cut_off = is_cut_off;
    }

    /// Waits until an append of this node has met a fault at which its process dies.
    pub async fn died(&self) {
        self.died.notified().await;
    }

    /// Returns the number of reads by this node.
    pub fn count_reads(&self) -> usize {
        lock(&self.faults).reads_made
    }

    /// Delays claims of this node until [`MemoryStore::release_claims`].
    pub fn hold_claims(&self) {
        self.claims.close();
    }

    /// Resumes delayed claims, and stops delaying new claims.
    pub fn release_claims(&self) {
        self.claims.open();
    }

    /// Returns the number of waiting claims of this node, and the number of claims that it has made.
    pub fn claims(&self) -> (usize, usize) {
        self.claims.counts()
    }

    /// Delays folds of journals by this node at their first read, until [`MemoryStore::release_folds`].
    pub fn hold_folds(&self) {
        self.folds.close();
    }

    /// Resumes delayed folds, and stops delaying new folds.
    pub fn release_folds(&self) {
        self.folds.open();
    }

    /// Returns the number of waiting folds of this node, and the number of folds that have started.
    pub fn folds(&self) -> (usize, usize) {
        self.folds.counts()
    }

    /// Makes the next `count` reads of this node fail as unavailable.
    pub fn fail_reads(&self, count: usize) {
        lock(&self.faults).reads += count;
    }

    /// Replaces the text of a recorded event, to simulate damage or an event of a newer build.
    pub fn overwrite_event(&self, thread: &ThreadId, seq: Seq, body: &str) -> Result<(), StoreError> {
        self.state().overwrite_event(thread, seq, body)
    }

    /// Replaces the text of a record's value, to simulate damage.
    pub fn overwrite_record(&self, kind: &str, key: &str, value: &str) -> Result<(), StoreError> {
        self.state().records.overwrite(kind, key, value)
    }

    /// Replaces the bytes of a blob, to simulate damage.
    pub fn overwrite_blob(&self, digest: Digest, bytes: Bytes) {
        self.state().blobs.insert(digest, bytes);
    }

    fn state(&self) -> MutexGuard<'_, State> {
        lock(&self.state)
    }

    fn readable(&self) -> Result<MutexGuard<'_, State>, StoreError> {
        lock(&self.faults).read()?;
        Ok(self.state())
    }
}

/// No operation leaves these values inconsistent, so a poisoned lock is safe to use.
fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

fn decoded(thread: &ThreadId, bodies: Vec<(Seq, Arc<str>)>) -> Result<Vec<Recorded>, StoreError> {
    let decode = |(seq, body): (Seq, Arc<str>)| match Event::decode(&body) {
        Ok(event) => Ok(Recorded { seq, event }),
        Err(source) => Err(StoreError::Unreadable { thread: thread.clone(), seq, source }),
    };
    bodies.into_iter().map(decode).collect()
}

#[async_trait]
impl Journal for MemoryStore {
    fn node(&self) -> &str {
        &self.node
    }

    fn is_alive(&self, node: &str) -> bool {
        self.state().is_alive(node)
    }

    fn lease_ms(&self) -> Option<u64> {
        self.state().lease_ms()
    }

    async fn claim(&self, thread: &ThreadId) -> Result<Claim, StoreError> {
        self.claims.pass().await;
        lock(&self.faults).reach()?;
        Ok(self.state().claim(thread, &self.node, self.clock.now()))
    }

    async fn claim_due(&self, except: &[ThreadId], limit: usize) -> Result<Vec<Due>, StoreError> {
        let due = self.readable()?.claim_due(&self.node, self.clock.now(), except, limit);
        self.claims.count(due.len());
        Ok(due)
    }

    async fn renew(&self, claims: &[(ThreadId, Epoch)]) -> Result<Vec<ThreadId>, StoreError> {
        Ok(self.readable()?.renew(claims, &self.node, self.clock.now()))
    }

    async fn release(&self, thread: &ThreadId, epoch: Epoch) -> Result<(), StoreError> {
        self.state().release(thread, epoch, &self.node);
        Ok(())
    }

    async fn head(&self, thread: &ThreadId) -> Result<Option<Head>, StoreError> {
        Ok(self.readable()?.head(thread))
    }

    async fn append(&self, batch: Batch) -> Result<Seq, AppendError> {
        lock(&self.faults).reach().map_err(AppendError::Failed)?;
        let fault = lock(&self.faults).appends.pop_front();
        if let Some(AppendFault::DiesWritten | AppendFault::DiesNotWritten) = fault {
            if fault == Some(AppendFault::DiesWritten) {
                self.state().append(batch, &self.node, self.clock.now())?;
            }
            self.died.notify_one();
            return std::future::pending().await;
        }
        let mut state = self.state();
        match fault {
            None | Some(AppendFault::Nothing | AppendFault::DiesWritten | AppendFault::DiesNotWritten) => {
                state.append(batch, &self.node, self.clock.now())
            }
            Some(AppendFault::UnknownAndWritten) => {
                state.append(batch, &self.node, self.clock.now())?;
                Err(AppendError::Unknown("the connection was lost after the commit".to_owned()))
            }
            Some(AppendFault::UnknownAndNotWritten) => {
                Err(AppendError::Unknown("the connection was lost before the commit".to_owned()))
            }
            Some(AppendFault::Overtaken) => {
                Err(AppendError::Record { kind: "grant".to_owned(), key: "injected".to_owned() })
            }
            Some(AppendFault::Refused) => Err(AppendError::Failed(fault::refused())),
            Some(AppendFault::Failed) => Err(AppendError::Failed(fault::injected())),
            Some(AppendFault::Fenced) => {
                Err(AppendError::Fenced { current: state.fence(&batch.thread, self.clock.now()) })
            }
        }
    }

    async fn read(&self, thread: &ThreadId, after: Seq, limit: usize) -> Result<Vec<Recorded>, StoreError> {
        let bodies = self.readable()?.bodies(thread, after, limit);
        decoded(thread, bodies)
    }

    async fn read_back(
        &self,
        thread: &ThreadId,
        before: Seq,
        limit: usize,
    ) -> Result<Vec<Recorded>, StoreError> {
        let state = self.readable()?;
        let head = state.head(thread).map_or(0, |head| head.seq.0);
        let last = before.0.saturating_sub(1).min(head);
        let count = last.min(limit as u64);
        decoded(thread, state.bodies(thread, Seq(last - count), count as usize))
    }

    async fn names_blob(&self, thread: &ThreadId, digest: &Digest) -> Result<bool, StoreError> {
        Ok(self.readable()?.names_blob(thread, digest))
    }

    async fn snapshot(&self, thread: &ThreadId) -> Result<Option<StoredSnapshot>, StoreError> {
        self.folds.pass().await;
        Ok(self.readable()?.snapshot(thread))
    }

    async fn put_snapshot(
        &self,
        thread: &ThreadId,
        epoch: Epoch,
        snapshot: StoredSnapshot,
    ) -> Result<(), StoreError> {
        self.state().put_snapshot(thread, epoch, snapshot)
    }

    async fn post(&self, thread: &ThreadId, id: &InputId, input: &Input) -> Result<Posted, StoreError> {
        self.state().post(thread, id, input, self.clock.now())
    }

    async fn inbox(&self, thread: &ThreadId, limit: usize) -> Result<Vec<(InputId, Left)>, StoreError> {
        Ok(self.readable()?.inbox(thread, limit))
    }

    async fn posted(&self, thread: &ThreadId, id: &InputId) -> Result<Option<Posted>, StoreError> {
        Ok(self.readable()?.posted(thread, id, self.clock.now()))
    }

    async fn threads(&self, query: &ThreadQuery) -> Result<Vec<ThreadRow>, StoreError> {
        Ok(self.readable()?.list(query))
    }

    async fn thread(&self, thread: &ThreadId) -> Result<Option<ThreadRow>, StoreError> {
        Ok(self.readable()?.row(thread))
    }

    async fn run(&self, run: &RunId) -> Result<Option<RunRow>, StoreError> {
        Ok(self.readable()?.run(run))
    }

    async fn runs(&self, query: &RunQuery) -> Result<Vec<RunRow>, StoreError> {
        Ok(self.readable()?.runs(query))
    }

    async fn active_runs(&self, owner: &Principal, limit: usize) -> Result<usize, StoreError> {
        let query = RunQuery { owner: Some(owner.clone()), active: Some(true), ..RunQuery::newest(limit) };
        Ok(self.readable()?.runs(&query).len().min(limit))
    }

    async fn thread_counts(&self) -> Result<ThreadCounts, StoreError> {
        Ok(self.readable()?.thread_counts())
    }

    async fn usage(&self, query: &UsageQuery) -> Result<Usage, StoreError> {
        self.readable()?.usage(query)
    }

    async fn holder(&self, thread: &ThreadId) -> Result<Option<String>, StoreError> {
        Ok(self.readable()?.holder(thread))
    }

    async fn waiting_inboxes(&self) -> Result<Vec<ThreadId>, StoreError> {
        Ok(self.readable()?.waiting_inboxes())
    }

    async fn budgets(&self, prefix: &str) -> Result<Vec<BudgetRow>, StoreError> {
        Ok(self.readable()?.budgets.list(prefix))
    }

    async fn open_reservations(&self, thread: &ThreadId) -> Result<Vec<(String, Amounts)>, StoreError> {
        Ok(self.readable()?.budgets.open(thread))
    }

    async fn delete(&self, thread: &ThreadId) -> Result<(), StoreError> {
        self.state().delete(thread, self.clock.now())
    }

    async fn check(&self) -> Result<String, StoreError> {
        let threads = self.readable()?.len();
        Ok(format!("in memory, {threads} threads; nothing outlives this process"))
    }
}

#[async_trait]
impl Records for MemoryStore {
    async fn get(&self, kind: &str, key: &str) -> Result<Option<Record>, StoreError> {
        self.readable()?.records.get(kind, key)
    }

    async fn list(
        &self,
        kind: &str,
        owner: Option<&str>,
        after: Option<&str>,
        limit: usize,
    ) -> Result<Vec<Record>, StoreError> {
        self.readable()?.records.list(kind, owner, after, limit)
    }

    async fn apply(&self, changes: Vec<RecordChange>) -> Result<Vec<Option<u64>>, RecordError> {
        let changes = RecordChange::prepare_all(changes)?;
        let mut state = self.state();
        let plan = state.records.plan(changes)?;
        let versions = plan.versions.clone();
        state.records.write(plan, self.clock.now());
        Ok(versions)
    }

    async fn changes(&self, kinds: &[&str]) -> Result<Vec<u64>, StoreError> {
        Ok(self.readable()?.records.changes(kinds))
    }

    async fn changes_of(&self, owned: &[(&str, &str)]) -> Result<Vec<u64>, StoreError> {
        Ok(self.readable()?.records.changes_of(owned))
    }
}

#[async_trait]
impl Blobs for MemoryStore {
    async fn put(&self, blob: &BlobRef, bytes: Bytes) -> Result<(), StoreError> {
        state::verify(blob, &bytes)?;
        self.state().blobs.entry(blob.digest).or_insert(bytes);
        Ok(())
    }

    async fn get(&self, digest: &Digest) -> Result<Option<Bytes>, StoreError> {
        let found = self.readable()?.blobs.get(digest).cloned();
        match found {
            Some(bytes) if Digest::of(&bytes) != *digest => {
                Err(StoreError::Corrupt { why: format!("blob {digest} holds other bytes") })
            }
            found => Ok(found),
        }
    }

    /// Deletes no blobs, because the store's content is lost when its process ends.
    async fn collect(&self) -> Result<(), StoreError> {
        Ok(())
    }
}
