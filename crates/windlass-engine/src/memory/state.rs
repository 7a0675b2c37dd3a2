//! The content of the store in memory and its rules, without locks or faults.
//!
//! `MemoryStore` adds locks and faults.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::Arc;

use bytes::Bytes;
use windlass_machine::{BlobRef, CLOCK_SET_BACK_MS, Digest, Event, Input, InputId, Seq, ThreadId, Timestamp};

use super::budget::Budgets;
use super::record::RecordRows;
use crate::port::budget::{of_run, of_thread};
use crate::port::journal::{
    AppendError, Batch, Claim, Due, Epoch, Head, INBOX_MAX, InboxOutcome, Left, Posted, RunView, StoreError,
    StoredSnapshot, ThreadStatus, ThreadView, inbox_is_full,
};
use crate::port::records::RecordChange;

/// Milliseconds for which the outcome of a consumed input is kept.
const OUTCOME_KEPT_MS: u64 = 24 * 60 * 60 * 1000;

#[derive(Default)]
pub(super) struct State {
    pub(super) threads: BTreeMap<ThreadId, Thread>,
    /// Blobs by expected digest; tests may damage the bytes.
    pub blobs: HashMap<Digest, Bytes>,
    pub budgets: Budgets,
    pub records: RecordRows,
    nodes: Nodes,
    places: u64,
}

/// The nodes of a store, and the duration of their claims.
#[derive(Default)]
struct Nodes {
    alive: BTreeSet<String>,
    made: usize,
    /// Without a lease, a claim ends with its node.
    lease_ms: Option<u64>,
}

impl Nodes {
    /// Returns the node that holds a thread; `None` if no node does.
    fn holder<'t>(&self, thread: &'t Thread, now: Timestamp) -> Option<&'t String> {
        let holds = |node: &&String| match self.lease_ms {
            Some(_) => now < thread.held_until,
            None => self.alive.contains(*node),
        };
        thread.node.as_ref().filter(holds)
    }

    /// Assigns a thread to a node in a new epoch.
    fn give(&self, thread: &mut Thread, node: &str, now: Timestamp) {
        thread.head.epoch.0 += 1;
        thread.node = Some(node.to_owned());
        thread.held_until = now.plus_ms(self.lease_ms.unwrap_or_default());
    }
}

#[derive(Default)]
pub(super) struct Thread {
    // A deleted thread is kept, so that its epoch continues and its last owner stays fenced.
    deleted: bool,
    pub(super) head: Head,
    node: Option<String>,
    /// Time at which the node's claim ends, in a store with leases.
    held_until: Timestamp,
    pub(super) created_at: Timestamp,
    pub(super) view: ThreadView,
    // As text, so that an unreadable event fails as in other stores.
    events: Vec<Arc<str>>,
    pub(super) runs: Vec<RunView>,
    inbox: BTreeMap<InputId, InboxRow>,
    snapshot: Option<StoredSnapshot>,
}

struct InboxRow {
    place: u64,
    input: Input,
    outcome: Option<(InboxOutcome, Timestamp)>,
}

impl InboxRow {
    fn posted(&self) -> Posted {
        match &self.outcome {
            Some((outcome, _)) => Posted::Consumed(outcome.clone()),
            None => Posted::Waiting,
        }
    }
    fn is_old(&self, now: Timestamp) -> bool {
        self.outcome.as_ref().is_some_and(|(_, at)| now.since(*at) > OUTCOME_KEPT_MS)
    }
}

impl Thread {
    fn has_inbox(&self) -> bool {
        self.inbox.values().any(|row| row.outcome.is_none())
    }

    fn is_due(&self, now: Timestamp) -> bool {
        let is_ahead = || self.view.updated_at.since(now) >= CLOCK_SET_BACK_MS;
        self.view.status == ThreadStatus::Running
            || self.view.deadline.is_some_and(|deadline| deadline <= now || is_ahead())
            || self.has_inbox()
    }
}

impl State {
    /// Creates an empty state with a live node.
    pub fn with_node(node: &str, lease_ms: Option<u64>) -> Self {
        let nodes = Nodes { alive: BTreeSet::from([node.to_owned()]), made: 1, lease_ms };
        Self { nodes, ..Self::default() }
    }

    /// Adds a live node and returns its id.
    pub fn add_node(&mut self) -> String {
        self.nodes.made += 1;
        let node = format!("node-{}", self.nodes.made);
        self.nodes.alive.insert(node.clone());
        node
    }

    /// Whether a node is alive. A store with leases cannot detect this and returns `true`.
    pub fn is_alive(&self, node: &str) -> bool {
        self.nodes.lease_ms.is_some() || self.nodes.alive.contains(node)
    }

    /// Returns the milliseconds after which a claim ends unless it is renewed; `None` without leases.
    pub fn lease_ms(&self) -> Option<u64> {
        self.nodes.lease_ms
    }

    /// Marks a node as dead.
    pub fn remove_node(&mut self, node: &str) {
        self.nodes.alive.remove(node);
    }

    pub fn len(&self) -> usize {
        self.threads.values().filter(|thread| !thread.deleted).count()
    }

    /// See [`Journal::claim`](crate::port::journal::Journal::claim).
    pub fn claim(&mut self, id: &ThreadId, node: &str, now: Timestamp) -> Claim {
        self.known_or_created(id, now);
        let Self { threads, nodes, .. } = self;
        let thread = threads.entry(id.clone()).or_default();
        if let Some(holder) = nodes.holder(thread, now).filter(|holder| *holder != node) {
            return Claim::Held { node: holder.clone() };
        }
        nodes.give(thread, node, now);
        Claim::Taken { head: thread.head, inbox: thread.has_inbox() }
    }

    /// See [`Journal::claim_due`](crate::port::journal::Journal::claim_due).
    pub fn claim_due(&mut self, node: &str, now: Timestamp, except: &[ThreadId], limit: usize) -> Vec<Due> {
        let except: BTreeSet<&ThreadId> = except.iter().collect();
        let Self { threads, nodes, .. } = self;
        let is_due = |(id, thread): &(&ThreadId, &mut Thread)| {
            let is_free = !thread.deleted && nodes.holder(thread, now).is_none();
            is_free && thread.is_due(now) && !except.contains(id)
        };
        let claim = |(id, thread): (&ThreadId, &mut Thread)| {
            nodes.give(thread, node, now);
            Due { thread: id.clone(), head: thread.head, inbox: thread.has_inbox() }
        };
        threads.iter_mut().filter(is_due).take(limit).map(claim).collect()
    }

    /// See [`Journal::renew`](crate::port::journal::Journal::renew).
    pub fn renew(&mut self, claims: &[(ThreadId, Epoch)], node: &str, now: Timestamp) -> Vec<ThreadId> {
        let Self { threads, nodes, .. } = self;
        let mut lost = Vec::new();
        for (id, epoch) in claims {
            let thread = threads.get_mut(id).filter(|thread| thread.node.as_deref() == Some(node));
            match thread.filter(|thread| thread.head.epoch == *epoch) {
                Some(thread) => thread.held_until = now.plus_ms(nodes.lease_ms.unwrap_or_default()),
                None => lost.push(id.clone()),
            }
        }
        lost
    }

    /// See [`Journal::release`](crate::port::journal::Journal::release).
    pub fn release(&mut self, id: &ThreadId, epoch: Epoch, node: &str) {
        if let Some(thread) = self.threads.get_mut(id)
            && thread.head.epoch == epoch
            && thread.node.as_deref() == Some(node)
        {
            thread.node = None;
        }
    }

    /// Raises the epoch like another owner's claim. Returns the new epoch.
    pub fn fence(&mut self, id: &ThreadId, now: Timestamp) -> Epoch {
        let thread = self.known_or_created(id, now);
        thread.head.epoch.0 += 1;
        thread.node = None;
        thread.head.epoch
    }

    /// See [`Journal::head`](crate::port::journal::Journal::head).
    pub fn head(&self, id: &ThreadId) -> Option<Head> {
        self.known(id).map(|thread| thread.head)
    }

    /// See [`Journal::append`](crate::port::journal::Journal::append).
    pub fn append(&mut self, batch: Batch, node: &str, now: Timestamp) -> Result<Seq, AppendError> {
        if batch.is_new {
            if let Some(known) = self.threads.get(&batch.thread) {
                return Err(AppendError::Fenced { current: known.head.epoch });
            }
            let thread = batch.thread.clone();
            self.claim(&thread, node, now);
            // If the first append fails, the thread does not exist.
            return self.append_known(batch, node, now).inspect_err(|_| drop(self.threads.remove(&thread)));
        }
        self.append_known(batch, node, now)
    }

    fn append_known(&mut self, mut batch: Batch, node: &str, now: Timestamp) -> Result<Seq, AppendError> {
        let Some(thread) = self.threads.get_mut(&batch.thread).filter(|thread| !thread.deleted) else {
            return Err(AppendError::Failed(no_thread(&batch.thread)));
        };
        if thread.head.epoch != batch.epoch || thread.node.as_deref() != Some(node) {
            return Err(AppendError::Fenced { current: thread.head.epoch });
        }
        if thread.head.seq != batch.expected {
            return Err(AppendError::Conflict { head: thread.head.seq });
        }
        for (id, _) in &batch.consumed {
            if thread.inbox.get(id).is_none_or(|row| row.outcome.is_some()) {
                let what = format!("inbox row `{id}`");
                return Err(AppendError::Failed(StoreError::NotFound { what }));
            }
        }
        for (blob, bytes) in &batch.blobs {
            verify(blob, bytes).map_err(AppendError::Failed)?;
        }
        let booking = self.budgets.plan(&batch.thread, &batch.settle, &batch.reserve)?;
        let changes = RecordChange::prepare_all(std::mem::take(&mut batch.records));
        let plan = self.records.plan(changes.map_err(AppendError::Failed)?)?;
        // The following steps cannot fail, so the append is atomic.
        self.budgets.write(&batch.thread, booking, now);
        self.records.write(plan, now);
        for (blob, bytes) in batch.blobs {
            self.blobs.entry(blob.digest).or_insert(bytes);
        }
        for (id, outcome) in batch.consumed {
            if let Some(row) = thread.inbox.get_mut(&id) {
                row.outcome = Some((outcome, now));
            }
        }
        thread.events.extend(batch.events.iter().map(|event| Arc::from(event.encode())));
        for run in batch.runs.iter().filter(|run| run.status.is_some()) {
            self.budgets.forget(&of_run(&batch.thread_view.workspace, &run.run));
        }
        thread.runs.retain(|run| run.queued.is_none() || !batch.unqueued.contains(&run.run));
        for run in batch.runs {
            match thread.runs.iter_mut().find(|known| known.run == run.run) {
                Some(known) => *known = run,
                None => thread.runs.push(run),
            }
        }
        thread.view = batch.thread_view;
        thread.head.seq = Seq(thread.events.len() as u64);
        thread.head.batch = batch.id;
        Ok(thread.head.seq)
    }

    /// Returns events after a position, as text.
    pub fn bodies(&self, id: &ThreadId, after: Seq, limit: usize) -> Vec<(Seq, Arc<str>)> {
        let Some(thread) = self.known(id) else { return Vec::new() };
        let numbered = (1..).map(Seq).zip(thread.events.iter().cloned());
        numbered.skip(usize::try_from(after.0).unwrap_or(usize::MAX)).take(limit).collect()
    }

    /// Whether an event or a pending input of a thread references a blob.
    pub fn names_blob(&self, id: &ThreadId, digest: &Digest) -> bool {
        let Some(thread) = self.known(id) else { return false };
        let recorded = thread.events.iter().filter_map(|body| Event::decode(body).ok());
        let mut names = recorded
            .flat_map(|event| event.blobs())
            .chain(thread.inbox.values().flat_map(|row| row.input.blobs()));
        names.any(|named| named == *digest)
    }

    /// Replaces the text of an event.
    pub fn overwrite_event(&mut self, id: &ThreadId, seq: Seq, body: &str) -> Result<(), StoreError> {
        let missing = || StoreError::NotFound { what: format!("event {seq} of thread `{id}`") };
        let thread = self.threads.get_mut(id).ok_or_else(missing)?;
        let index = usize::try_from(seq.0).ok().and_then(|seq| seq.checked_sub(1)).ok_or_else(missing)?;
        *thread.events.get_mut(index).ok_or_else(missing)? = body.into();
        Ok(())
    }

    /// See [`Journal::snapshot`](crate::port::journal::Journal::snapshot).
    pub fn snapshot(&self, id: &ThreadId) -> Option<StoredSnapshot> {
        self.known(id)?.snapshot.clone()
    }

    /// See [`Journal::put_snapshot`](crate::port::journal::Journal::put_snapshot).
    pub fn put_snapshot(
        &mut self,
        id: &ThreadId,
        epoch: Epoch,
        snapshot: StoredSnapshot,
    ) -> Result<(), StoreError> {
        let thread = self.threads.get_mut(id).filter(|thread| !thread.deleted);
        let thread = thread.ok_or_else(|| no_thread(id))?;
        if thread.head.epoch == epoch {
            thread.snapshot = Some(snapshot);
        }
        Ok(())
    }

    /// See [`Journal::post`](crate::port::journal::Journal::post).
    pub fn post(
        &mut self,
        id: &ThreadId,
        input_id: &InputId,
        input: &Input,
        now: Timestamp,
    ) -> Result<Posted, StoreError> {
        if !matches!(input, Input::Message(_)) && self.known(id).is_none() {
            return Err(no_thread(id));
        }
        self.places += 1;
        let place = self.places;
        let thread = self.known_or_created(id, now);
        thread.inbox.retain(|_, row| !row.is_old(now));
        let waiting = thread.inbox.values().filter(|row| row.outcome.is_none()).count();
        if waiting >= INBOX_MAX && !thread.inbox.contains_key(input_id) {
            return Err(inbox_is_full(id));
        }
        let row = thread.inbox.entry(input_id.clone());
        Ok(row.or_insert_with(|| InboxRow { place, input: input.clone(), outcome: None }).posted())
    }

    /// See [`Journal::inbox`](crate::port::journal::Journal::inbox).
    pub fn inbox(&self, id: &ThreadId, limit: usize) -> Vec<(InputId, Left)> {
        let Some(thread) = self.known(id) else { return Vec::new() };
        let mut rows: Vec<_> = thread.inbox.iter().filter(|(_, row)| row.outcome.is_none()).collect();
        rows.sort_by_key(|(_, row)| row.place);
        rows.into_iter().take(limit).map(|(id, row)| (id.clone(), Ok(row.input.clone()))).collect()
    }

    /// See [`Journal::posted`](crate::port::journal::Journal::posted).
    pub fn posted(&self, id: &ThreadId, input_id: &InputId, now: Timestamp) -> Option<Posted> {
        let row = self.known(id)?.inbox.get(input_id)?;
        (!row.is_old(now)).then(|| row.posted())
    }

    /// See [`Journal::holder`](crate::port::journal::Journal::holder).
    pub fn holder(&self, id: &ThreadId) -> Option<String> {
        self.known(id)?.node.clone()
    }

    /// See [`Journal::waiting_inboxes`](crate::port::journal::Journal::waiting_inboxes).
    pub fn waiting_inboxes(&self) -> Vec<ThreadId> {
        let wanted = |thread: &Thread| !thread.deleted && thread.has_inbox();
        self.threads.iter().filter(|(_, thread)| wanted(thread)).map(|(id, _)| id.clone()).collect()
    }

    /// See [`Journal::delete`](crate::port::journal::Journal::delete).
    pub fn delete(&mut self, id: &ThreadId, now: Timestamp) -> Result<(), StoreError> {
        let thread = self.threads.get_mut(id).filter(|thread| !thread.deleted);
        let thread = thread.ok_or_else(|| no_thread(id))?;
        if thread.view.status != ThreadStatus::Idle {
            let why = format!("thread `{id}` has an active run; cancel the run, then delete the thread");
            return Err(StoreError::Refused { why });
        }
        let epoch = Epoch(thread.head.epoch.0 + 1);
        let own = of_thread(&thread.view.workspace, id);
        *thread = Thread { deleted: true, head: Head { epoch, ..Head::default() }, ..Thread::default() };
        self.budgets.forget_thread(id, now);
        self.budgets.forget(&own);
        Ok(())
    }

    /// Returns a thread unless it was deleted.
    pub(super) fn known(&self, id: &ThreadId) -> Option<&Thread> {
        self.threads.get(id).filter(|thread| !thread.deleted)
    }

    fn known_or_created(&mut self, id: &ThreadId, now: Timestamp) -> &mut Thread {
        let thread =
            self.threads.entry(id.clone()).or_insert_with(|| Thread { deleted: true, ..Thread::default() });
        if thread.deleted {
            thread.deleted = false;
            thread.created_at = now;
            thread.view.updated_at = now;
        }
        thread
    }
}

/// Rejects bytes whose digest is not the blob's.
pub(super) fn verify(blob: &BlobRef, bytes: &Bytes) -> Result<(), StoreError> {
    if Digest::of(bytes) == blob.digest {
        return Ok(());
    }
    Err(StoreError::Refused { why: format!("the bytes are not those of blob {}", blob.digest) })
}

fn no_thread(id: &ThreadId) -> StoreError {
    StoreError::NotFound { what: format!("thread `{id}`") }
}
