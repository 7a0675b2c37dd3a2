//! The store on one machine: an SQLite database and a folder of large blobs.
//!
//! Several processes may open the same folder; each is a [`Node`]. One writer per process commits waiting changes in
//! groups; readers have separate connections. The folder must not be on a network file system.

mod backup;
mod blob;
mod budget;
pub mod bus;
mod check;
mod checksum;
mod column;
mod database;
mod fault;
mod folder;
pub mod node;
mod options;
mod read;
mod record;
mod schema;
mod writer;

use std::path::{Path, PathBuf};
use std::sync::Arc;

use async_trait::async_trait;
use bytes::Bytes;
use windlass_engine::port::blob::{APPEND_MAX_BYTES, Blobs};
use windlass_engine::port::budget::{Amounts, BudgetRow};
use windlass_engine::port::clock::Clock;
use windlass_engine::port::journal::{
    AppendError, Batch, Claim, Due, Epoch, Head, Journal, Left, Posted, Recorded, RunQuery, RunRow,
    StoreError, StoredSnapshot, ThreadCounts, ThreadQuery, ThreadRow, Usage, UsageQuery,
};
use windlass_engine::port::records::{Record, RecordChange, RecordError, Records};
use windlass_machine::{BlobRef, Digest, Event, Input, InputId, Principal, RunId, Seq, ThreadId};

pub use self::backup::{Copied, backup, restore};
use self::blob::{BlobFiles, collect};
use self::database::Database;
pub use self::database::Work;
pub use self::folder::SqliteFolder;
use self::node::{DATABASE, Node, opening, private_folder};
pub use self::options::{Durability, StoreOptions};
use self::read::pool::{Readers, blocking};
use self::read::{list, usage};
use self::writer::{Writer, changes};
use crate::writer::change::{PreparedAppend, Until, Write, Written};

/// Whether a folder contains a store. Opening a store creates one.
pub fn is_store(folder: &Path) -> bool {
    folder.join(DATABASE).exists()
}

/// Stores journals, records and blobs in a folder.
pub struct SqliteStore {
    // Fields are dropped in this order: the writer commits its waiting changes while the node is still locked.
    writer: Writer,
    readers: Arc<Readers>,
    /// Connections for queries on behalf of people: a slow list must not block the driver's connections.
    lists: Arc<Readers>,
    blobs: BlobFiles,
    node: Arc<Node>,
    clock: Arc<dyn Clock>,
    folder: PathBuf,
    durability: Durability,
}

/// Number of read connections for the driver, and for lists. Reads are short, and
/// each connection takes half a megabyte.
const READERS: u32 = 3;
const LIST_READERS: u32 = 2;
/// Maximum number of events that are read on the caller's thread.
const PAGE_EVENTS: usize = 256;

impl SqliteStore {
    /// Opens the store in a folder, and creates a missing store.
    ///
    /// Fails if the folder is not writable or on a network file system. Fails if the database is
    /// damaged, or was migrated by a newer build.
    pub async fn open(
        folder: &Path,
        options: StoreOptions,
        clock: Arc<dyn Clock>,
    ) -> Result<Self, StoreError> {
        refuse_without_database(folder)?;
        private_folder(folder)?;
        let node = Arc::new(Node::open(folder, clock.as_ref())?);
        let blobs = BlobFiles::open(folder)?;
        let opening = opening(folder).await?;
        let (path, now_ms) = (folder.to_owned(), clock.now().0);
        let (db, has_loose) = blocking(move || {
            let db = Database::open_writer(&path, options)?;
            schema::migrate(&db)?;
            let has_loose = collect::is_due(&db, now_ms)?;
            Ok((db, has_loose))
        })
        .await?;
        drop(opening);
        let (readers, lists) = (Readers::new(folder, READERS), Readers::new(folder, LIST_READERS));
        let writer = Writer::start(db, Arc::clone(&node), Arc::clone(&clock))?;
        let (folder, durability) = (folder.to_owned(), options.durability);
        let store = Self { writer, readers, lists, blobs, node, clock, folder, durability };
        if has_loose {
            store.collect_until(Until::FirstGroup).await;
        }
        Ok(store)
    }

    /// Deletes blobs that nothing names. After a failure, the next collection continues.
    async fn collect_until(&self, until: Until) {
        match self.writer.write(Write::Collect(until)).await {
            Ok(Written::Collected { is_done: false }) => {
                tracing::warn!("the collection of blobs stopped early; the next one continues");
            }
            Ok(_) => {}
            Err(error) => tracing::warn!(%error, "blobs that nothing names are still there"),
        }
    }

    /// Returns SQLite's work for this store since the last call.
    pub async fn take_work(&self) -> Result<Work, StoreError> {
        let mut work = self.writer.take_work();
        work.add(self.readers.take_work().await?);
        work.add(self.lists.take_work().await?);
        Ok(work)
    }

    /// Returns this process's node in the store.
    pub fn node(&self) -> &Arc<Node> {
        &self.node
    }

    /// Returns, for each of these threads that exists, the node that owns it and its last position.
    pub async fn owners(
        &self,
        threads: &[ThreadId],
    ) -> Result<Vec<(ThreadId, Option<String>, Seq)>, StoreError> {
        self.readers.read(|db| read::owners(db, threads)).await
    }
}

/// Rejects a folder that contains parts of a store but no database: opening it would
/// create an empty store from these parts.
fn refuse_without_database(folder: &Path) -> Result<(), StoreError> {
    // The database is created before these, so a concurrent first start is not mistaken for a damaged store.
    const PARTS: [&str; 4] = ["vault.key", "blobs", "files", "windlass.db-wal"];
    let has_something = |path: &PathBuf| match std::fs::read_dir(path) {
        Ok(mut entries) => entries.next().is_some(),
        Err(_) => path.is_file(),
    };
    let Some(part) = PARTS.map(|name| folder.join(name)).into_iter().find(has_something) else {
        return Ok(());
    };
    if std::fs::metadata(folder.join(DATABASE)).is_ok_and(|found| found.len() > 0) {
        return Ok(());
    }
    let why = format!(
        "the database `{DATABASE}` is missing beside `{}`; put the file back, restore a backup of the folder, or name \
         another folder for a new store",
        part.display(),
    );
    Err(StoreError::Corrupt { why })
}

fn unexpected(written: &'static str) -> StoreError {
    StoreError::Unavailable { why: format!("the store's writer answered {written}; this is a defect") }
}

#[async_trait]
impl Journal for SqliteStore {
    fn node(&self) -> &str {
        self.node.id()
    }

    fn is_alive(&self, node: &str) -> bool {
        self.node.is_alive(node)
    }

    async fn claim(&self, thread: &ThreadId) -> Result<Claim, StoreError> {
        match self.writer.write(Write::Claim(thread.clone())).await? {
            Written::Claim(claim) => Ok(claim),
            Written::Nothing
            | Written::Due(_)
            | Written::Posted(_)
            | Written::Collected { .. }
            | Written::Checked { .. } => Err(unexpected("a claim with something else")),
        }
    }

    async fn claim_due(&self, except: &[ThreadId], limit: usize) -> Result<Vec<Due>, StoreError> {
        let mut alive = self.node.others();
        alive.push(self.node.id().to_owned());
        let now = self.clock.now();
        let found = self.readers.read(|db| read::due(db, &alive, now, except, limit)).await?;
        if found.is_empty() {
            // Nothing is due, so the writer has nothing to do.
            return Ok(Vec::new());
        }
        match self.writer.write(Write::ClaimDue(found)).await? {
            Written::Due(due) => Ok(due),
            Written::Nothing
            | Written::Claim(_)
            | Written::Posted(_)
            | Written::Collected { .. }
            | Written::Checked { .. } => Err(unexpected("claims with something else")),
        }
    }

    async fn release(&self, thread: &ThreadId, epoch: Epoch) -> Result<(), StoreError> {
        self.writer.write(Write::Release(thread.clone(), epoch)).await.map(drop)
    }

    async fn head(&self, thread: &ThreadId) -> Result<Option<Head>, StoreError> {
        self.readers.read(|db| read::head(db, thread)).await
    }

    async fn append(&self, mut batch: Batch) -> Result<Seq, AppendError> {
        for (blob, bytes) in &batch.blobs {
            verify(blob, bytes).map_err(AppendError::Failed)?;
        }
        let summed = |body: String| (checksum::checksum(body.as_bytes()), body);
        let bodies = batch.events.iter().map(Event::encode).map(summed).collect();
        let names = batch.events.iter().flat_map(Event::blobs).collect();
        let records = RecordChange::prepare_all(std::mem::take(&mut batch.records));
        let records = records.map_err(AppendError::Failed)?;
        self.writer.append(PreparedAppend { batch, bodies, names, records }).await
    }

    async fn read(&self, thread: &ThreadId, after: Seq, limit: usize) -> Result<Vec<Recorded>, StoreError> {
        if limit <= PAGE_EVENTS {
            return self.readers.read(|db| read::events(db, thread, after, limit)).await;
        }
        let thread = thread.clone();
        self.readers.scan(move |db| read::events(db, &thread, after, limit)).await
    }

    async fn read_back(
        &self,
        thread: &ThreadId,
        before: Seq,
        limit: usize,
    ) -> Result<Vec<Recorded>, StoreError> {
        if limit <= PAGE_EVENTS {
            return self.readers.read(|db| read::events_back(db, thread, before, limit)).await;
        }
        let thread = thread.clone();
        self.readers.scan(move |db| read::events_back(db, &thread, before, limit)).await
    }

    async fn names_blob(&self, thread: &ThreadId, digest: &Digest) -> Result<bool, StoreError> {
        self.readers.read(|db| read::names_blob(db, thread, digest)).await
    }

    async fn snapshot(&self, thread: &ThreadId) -> Result<Option<StoredSnapshot>, StoreError> {
        self.readers.read(|db| read::snapshot(db, thread)).await
    }

    async fn put_snapshot(
        &self,
        thread: &ThreadId,
        epoch: Epoch,
        snapshot: StoredSnapshot,
    ) -> Result<(), StoreError> {
        self.writer.write(Write::Snapshot(thread.clone(), epoch, snapshot)).await.map(drop)
    }

    async fn post(&self, thread: &ThreadId, id: &InputId, input: &Input) -> Result<Posted, StoreError> {
        let post = Write::Post {
            thread: thread.clone(),
            id: id.clone(),
            input: column::encode(input),
            names: input.blobs().into_iter().collect(),
            is_message: changes::is_message(input),
        };
        match self.writer.write(post).await? {
            Written::Posted(posted) => Ok(posted),
            Written::Nothing
            | Written::Claim(_)
            | Written::Due(_)
            | Written::Collected { .. }
            | Written::Checked { .. } => Err(unexpected("a posted input with something else")),
        }
    }

    async fn inbox(&self, thread: &ThreadId, limit: usize) -> Result<Vec<(InputId, Left)>, StoreError> {
        self.readers.read(|db| read::inbox(db, thread, limit)).await
    }

    async fn posted(&self, thread: &ThreadId, id: &InputId) -> Result<Option<Posted>, StoreError> {
        self.readers.read(|db| read::outcome(db, thread, id, self.clock.now())).await
    }

    async fn threads(&self, query: &ThreadQuery) -> Result<Vec<ThreadRow>, StoreError> {
        let query = query.clone();
        self.lists.scan(move |db| list::threads(db, &query)).await
    }

    async fn thread(&self, thread: &ThreadId) -> Result<Option<ThreadRow>, StoreError> {
        self.readers.read(|db| list::thread(db, thread)).await
    }

    async fn run(&self, run: &RunId) -> Result<Option<RunRow>, StoreError> {
        self.readers.read(|db| list::run(db, run)).await
    }

    async fn runs_by_id(&self, runs: &[RunId]) -> Result<Vec<RunRow>, StoreError> {
        self.lists.read(|db| list::runs_by_id(db, runs)).await
    }

    async fn runs(&self, query: &RunQuery) -> Result<Vec<RunRow>, StoreError> {
        let query = query.clone();
        self.lists.scan(move |db| list::runs(db, &query)).await
    }

    async fn active_runs(&self, owner: &Principal, limit: usize) -> Result<usize, StoreError> {
        self.readers.read(|db| list::active_runs(db, owner, limit)).await
    }

    async fn thread_counts(&self) -> Result<ThreadCounts, StoreError> {
        self.lists.read(list::counts).await
    }

    async fn usage(&self, query: &UsageQuery) -> Result<Usage, StoreError> {
        let query = query.clone();
        self.lists.scan(move |db| usage::usage(db, &query)).await
    }

    async fn holder(&self, thread: &ThreadId) -> Result<Option<String>, StoreError> {
        let mut owners = self.owners(std::slice::from_ref(thread)).await?;
        Ok(owners.pop().and_then(|(_, node, _)| node))
    }

    async fn waiting_inboxes(&self) -> Result<Vec<ThreadId>, StoreError> {
        self.readers.scan(read::waiting_inboxes).await
    }

    async fn budgets(&self, prefix: &str) -> Result<Vec<BudgetRow>, StoreError> {
        let prefix = prefix.to_owned();
        self.lists.scan(move |db| budget::list(db, &prefix)).await
    }

    async fn open_reservations(&self, thread: &ThreadId) -> Result<Vec<(String, Amounts)>, StoreError> {
        self.readers.read(|db| budget::open(db, thread)).await
    }

    async fn delete(&self, thread: &ThreadId) -> Result<(), StoreError> {
        self.writer.write(Write::Delete(thread.clone())).await?;
        // The thread is deleted even if this collection fails. Its blobs are collected when the store is next opened.
        self.collect_until(Until::DeletedThreads).await;
        Ok(())
    }

    async fn check(&self) -> Result<String, StoreError> {
        let synchronous = match self.writer.write(Write::Check).await? {
            Written::Checked { synchronous } => synchronous,
            Written::Nothing
            | Written::Claim(_)
            | Written::Due(_)
            | Written::Posted(_)
            | Written::Collected { .. } => return Err(unexpected("a check with something else")),
        };
        let (folder, durability) = (self.folder.clone(), self.durability);
        self.lists.scan(move |db| check::check(db, &folder, durability, synchronous)).await
    }
}

#[async_trait]
impl Records for SqliteStore {
    async fn get(&self, kind: &str, key: &str) -> Result<Option<Record>, StoreError> {
        self.readers.read(|db| record::get(db, kind, key)).await
    }

    async fn list(
        &self,
        kind: &str,
        owner: Option<&str>,
        after: Option<&str>,
        limit: usize,
    ) -> Result<Vec<Record>, StoreError> {
        let after = after.unwrap_or_default();
        self.readers.read(|db| record::list(db, kind, owner, after, limit)).await
    }

    async fn apply(&self, changes: Vec<RecordChange>) -> Result<Vec<Option<u64>>, RecordError> {
        self.writer.apply(RecordChange::prepare_all(changes)?).await
    }

    async fn changes(&self, kinds: &[&str]) -> Result<Vec<u64>, StoreError> {
        self.readers.read(|db| record::changes(db, kinds)).await
    }

    async fn changes_of(&self, owned: &[(&str, &str)]) -> Result<Vec<u64>, StoreError> {
        self.readers.read(|db| record::changes_of(db, owned)).await
    }
}

#[async_trait]
impl Blobs for SqliteStore {
    async fn put(&self, blob: &BlobRef, bytes: Bytes) -> Result<(), StoreError> {
        verify(blob, &bytes)?;
        if bytes.len() < APPEND_MAX_BYTES {
            return self.writer.write(Write::Blob(blob.digest, bytes)).await.map(drop);
        }
        self.writer.write(Write::Loosen(blob.digest)).await?;
        self.blobs.put(blob, bytes).await
    }

    async fn collect(&self) -> Result<(), StoreError> {
        self.writer.write(Write::Collect(Until::FirstGroup)).await.map(drop)
    }

    async fn get(&self, digest: &Digest) -> Result<Option<Bytes>, StoreError> {
        let found = match self.readers.read(|db| blob::row(db, digest)).await? {
            Some(bytes) => Some(bytes),
            None => self.blobs.get(digest).await?,
        };
        match found {
            Some(bytes) if Digest::of(&bytes) != *digest => {
                let why = format!("blob {digest} holds other bytes; restore a backup of the store's folder");
                Err(StoreError::Corrupt { why })
            }
            found => Ok(found),
        }
    }
}

fn verify(blob: &BlobRef, bytes: &Bytes) -> Result<(), StoreError> {
    if Digest::of(bytes) == blob.digest {
        return Ok(());
    }
    Err(StoreError::Refused { why: format!("the bytes are not those of blob {}", blob.digest) })
}
