//! Forks with their own folder: a copy of the origin's folder in which recorded changes after the fork's event are
//! undone.
//!
//! The origin's folder is only read. The copy is complete before the new thread's journal is appended, and that
//! append creates the thread. A process that dies before the append leaves a folder without a thread.

use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use windlass_machine::{
    CallKey, Digest, Event, Fact, FileChange, FileImage, Fork, Principal, Reject, RunId, Seq, ThreadId,
};

use super::report::{ForkFiles, ForkFolder, ForkedThread, Report, UnrestoredFile, UnrestoredReason};
use super::{Changed, RestoreMode, Restored, known_of, size_of};
use crate::drive::PreparedFork;
use crate::engine::Engine;
use crate::engine::handle::FilesHandle;
use crate::error::EngineError;
use crate::port::journal::{StoreError, ThreadRow, ThreadStatus};
use crate::tool::{CopyError, CopyLimits, FolderContent, FolderError, Now, WorkingFolder};

/// Maximum delay between the time of a change and the file's
/// timestamp: file systems use a clock with ticks of at most 10 ms.
const FILE_TIME_LAG: Duration = Duration::from_millis(10);

/// Difference between the timestamp of restored files and the threshold of "modified after the event".
const OLDER: Duration = Duration::from_millis(1);

/// The information about files in the history.
struct Plan {
    /// Files that were changed after the event.
    undo: BTreeMap<String, Changed>,
    /// Files that were changed only up to the event.
    left: BTreeMap<String, LeftFile>,
    /// A file with this or a later timestamp was modified after the event.
    since: SystemTime,
    /// Timestamp for restored files.
    restored_at: SystemTime,
    unseen: Restored,
}

/// A file with the content from its last recorded change.
struct LeftFile {
    contents: HashSet<Option<Digest>>,
    sizes: HashSet<u64>,
}

impl LeftFile {
    fn explains(&self, content: Option<Digest>) -> bool {
        self.contents.contains(&content)
    }
}

impl Engine {
    async fn fork_whole(
        &self,
        origin: &ThreadId,
        at: Seq,
        by: Principal,
        folder: Option<String>,
    ) -> Result<ForkedThread, EngineError> {
        // Prevents calls in the origin while its folder is read.
        let _aside = self.set_aside(origin, is_at_rest).await?;
        let row = self.thread(origin).row().await?;
        let fork = self.fork_of(&row, at, by, folder);
        let prepared = self.services.registry.prepare_fork(origin, &fork).await?;
        let Some(source) = self.copied_folder(&row).await? else {
            self.services.registry.commit_fork(prepared).await?;
            let files = ForkFiles::without_copy(self.uncopied());
            return Ok(ForkedThread { thread: fork.thread, files });
        };
        let plan = self.plan(origin, at, &prepared).await?;
        // Checks the limits before a folder is created.
        content(&source, plan.since).await.map_err(|error| refused(origin, error))?;
        let found = self.services.folders.of_thread(&fork.thread, fork.folder.clone()).await;
        let Some(target) = found.map_err(EngineError::Config)? else {
            self.services.registry.commit_fork(prepared).await?;
            let files = ForkFiles::without_copy(ForkFolder::Empty);
            return Ok(ForkedThread { thread: fork.thread, files });
        };
        if source.is_same_folder(&target).map_err(|error| refused(origin, error.into()))? {
            self.services.registry.commit_fork(prepared).await?;
            let files = ForkFiles::without_copy(ForkFolder::Shared);
            return Ok(ForkedThread { thread: fork.thread, files });
        }
        let files = match self.fill(origin, &source, &target, plan).await {
            Ok(files) => files,
            Err(Unfilled::Untouched(error)) => return Err(error),
            Err(Unfilled::Begun(error)) => {
                remove(target).await;
                return Err(error);
            }
        };
        if let Err(error) = self.services.registry.commit_fork(prepared).await {
            // The outcome of the append may be unknown: a thread that may exist keeps its folder.
            if matches!(self.services.store.journal.head(&fork.thread).await, Ok(None)) {
                remove(target).await;
            }
            return Err(error);
        }
        Ok(ForkedThread { thread: fork.thread, files })
    }

    fn fork_of(&self, row: &ThreadRow, until: Seq, by: Principal, folder: Option<String>) -> Fork {
        let folder = self.services.folders.recorded(folder);
        Fork { thread: self.fresh_thread(), until, by, folder, title: row.view.title.clone() }
    }

    /// Returns the folder to copy; `None` if all threads share one folder, or the thread has no folder.
    async fn copied_folder(&self, row: &ThreadRow) -> Result<Option<Arc<WorkingFolder>>, EngineError> {
        let folders = &self.services.folders;
        if !folders.are_separate() {
            return Ok(None);
        }
        folders.of_thread(&row.thread, row.view.folder.clone()).await.map_err(EngineError::Config)
    }

    fn uncopied(&self) -> ForkFolder {
        if self.services.folders.shared().is_some() { ForkFolder::Shared } else { ForkFolder::Empty }
    }

    /// Determines the files to restore from the journal.
    async fn plan(&self, thread: &ThreadId, at: Seq, prepared: &PreparedFork) -> Result<Plan, EngineError> {
        let done = self.since(thread, at).await?;
        let unseen = self.unseen(&done);
        let until = SystemTime::UNIX_EPOCH + Duration::from_millis(prepared.until_at.0);
        let before = |time: SystemTime, by| time.checked_sub(by).unwrap_or(time);
        let since = before(until, FILE_TIME_LAG);
        Ok(Plan {
            undo: done.files,
            left: left_by(prepared.events()),
            since,
            restored_at: before(since, OLDER),
            unseen,
        })
    }

    /// Copies the folder and undoes changes after the event.
    async fn fill(
        &self,
        origin: &ThreadId,
        source: &Arc<WorkingFolder>,
        target: &Arc<WorkingFolder>,
        plan: Plan,
    ) -> Result<ForkFiles, Unfilled> {
        let (from, to, since) = (source.clone(), target.clone(), plan.since);
        let origin = origin.clone();
        let copy = move || {
            // Only a folder that was empty may be removed on failure.
            from.require_target(&to).map_err(|error| Unfilled::Untouched(refused(&origin, error)))?;
            let copied = from.copy_into(&to, &CopyLimits::default(), Some(since));
            copied.map_err(|error| Unfilled::Begun(refused(&origin, error)))
        };
        let copied = match tokio::task::spawn_blocking(copy).await {
            Ok(copied) => copied?,
            Err(error) => return Err(Unfilled::Begun(crashed(&error))),
        };
        self.settle(target, plan, copied, RestoreMode::Overwrite).await.map_err(Unfilled::Begun)
    }

    /// Undoes recorded changes in the folder, and compares the other files with the history.
    async fn settle(
        &self,
        folder: &Arc<WorkingFolder>,
        plan: Plan,
        content: FolderContent,
        mode: RestoreMode,
    ) -> Result<ForkFiles, EngineError> {
        let mut report = Report::default();
        let recorded: BTreeSet<String> = plan.undo.keys().chain(plan.left.keys()).cloned().collect();
        let mut left = plan.left;
        for (path, changed) in plan.undo {
            let target = changed.target.clone();
            let is_explained = match left.remove(&path) {
                Some(left) => left.explains(target.digest()),
                // Without an earlier record, only a command can have created the file after the event.
                None => {
                    let command = plan.unseen.unseen.first();
                    target == FileImage::Missing || command.is_none_or(|call| call.seq > changed.first)
                }
            };
            let file = self.restore_file(folder.clone(), path, changed, mode).await?;
            report.take(file, &target, is_explained);
        }
        let (own, dated) = (folder.clone(), report.restored_by_record());
        let work = move || {
            if mode != RestoreMode::Preview {
                date(&own, &dated, plan.restored_at);
                // File timestamps lag behind the clock. The pause keeps every timestamp of the copy before the fork's
                // own event. Otherwise a later fork at that event would report the copied files.
                std::thread::sleep(2 * FILE_TIME_LAG);
            }
            differing(&own, left)
        };
        let differs = tokio::task::spawn_blocking(work).await.map_err(|error| crashed(&error))?;
        report.not_restored.extend(differs);
        for path in content.modified_since {
            let path = path.display().to_string();
            if !recorded.contains(&path) {
                let why = "a command, an upload or another program changed it after this event".to_owned();
                report.name(path, UnrestoredReason::ChangedUnrecorded, why);
            }
        }
        for out in content.left_out {
            report.name(out.path.display().to_string(), UnrestoredReason::NotCopied, out.why);
        }
        Ok(report.finish(plan.unseen))
    }
}

impl FilesHandle<'_> {
    /// Forks a thread like [`ThreadHandle::fork`](crate::ThreadHandle::fork), and gives the new thread a folder with
    /// the files as they were at the event. The folder is a copy of the origin's folder in which recorded changes
    /// after `at` are undone. `folder` is recorded as the new thread's folder.
    /// [`Builder::folders`](crate::Builder::folders) must return an empty folder for it, or the origin's folder,
    /// which is then shared and not changed.
    ///
    /// The origin's folder is never changed. Fails without creating anything while a call of the origin is in flight,
    /// and if the folder exceeds [`CopyLimits::default`].
    pub async fn fork(
        self,
        at: Seq,
        by: Principal,
        folder: Option<String>,
    ) -> Result<ForkedThread, EngineError> {
        let Self { engine, id: thread } = self;
        let (engine, origin) = (engine.clone(), thread.clone());
        // The fork runs in its own task, so that a dropped caller leaves no partial copy behind.
        let fork = tokio::spawn(async move { engine.fork_whole(&origin, at, by, folder).await });
        fork.await.unwrap_or_else(|error| {
            Err(EngineError::Stopped {
                thread: thread.clone(),
                why: format!("the fork ended early: {error}"),
            })
        })
    }

    /// Reports what the folder of a fork would contain, without creating anything. Fails under the same conditions as
    /// the fork.
    pub async fn preview_fork(self, at: Seq) -> Result<ForkFiles, EngineError> {
        let Self { engine, id: thread } = self;
        let row = engine.resting(thread, is_at_rest).await?;
        let prepared = engine
            .services
            .registry
            .prepare_fork(thread, &engine.fork_of(&row, at, "preview".into(), None))
            .await?;
        let Some(source) = engine.copied_folder(&row).await? else {
            return Ok(ForkFiles::without_copy(engine.uncopied()));
        };
        let plan = engine.plan(thread, at, &prepared).await?;
        let content = content(&source, plan.since).await.map_err(|error| refused(thread, error))?;
        engine.settle(&source, plan, content, RestoreMode::Preview).await
    }
}

/// The reason why a folder was not filled.
enum Unfilled {
    /// No entry was written into the folder.
    Untouched(EngineError),
    /// The folder contains a part of the copy.
    Begun(EngineError),
}

/// Whether no call of a thread is in flight, so that its folder can be read. A run that waits for a person or a time
/// changes no files before it resumes.
fn is_at_rest(status: ThreadStatus) -> bool {
    match status {
        ThreadStatus::Idle | ThreadStatus::Waiting | ThreadStatus::Sleeping => true,
        ThreadStatus::Running => false,
    }
}

/// Returns the contents that recorded changes have left in files, from the events of a history.
fn left_by(events: &[Event]) -> BTreeMap<String, LeftFile> {
    let mut last: HashMap<&str, (&FileChange, (&RunId, CallKey))> = HashMap::new();
    let mut succeeded: HashSet<(&RunId, CallKey)> = HashSet::new();
    for event in events {
        let Some(run) = &event.run else { continue };
        match &event.fact {
            Fact::FileChanging { call, change } => {
                last.insert(&change.path, (&**change, (run, *call)));
            }
            Fact::ToolFinished { call, error: false, .. } => {
                succeeded.insert((run, *call));
            }
            _ => {} // tidy: the others say nothing of files
        }
    }
    let left = last.into_iter().map(|(path, (change, call))| {
        let mut contents = HashSet::from([change.after.digest()]);
        // A change is recorded before the call makes it. If the call did not succeed, the change may be missing.
        if !succeeded.contains(&call) {
            contents.extend(known_of(&change.before));
        }
        let sizes = [&change.before, &change.after].into_iter().filter_map(size_of).collect();
        (path.to_owned(), LeftFile { contents, sizes })
    });
    left.collect()
}

/// Counts the entries of a folder.
async fn content(folder: &Arc<WorkingFolder>, since: SystemTime) -> Result<FolderContent, CopyError> {
    let folder = folder.clone();
    let count = move || folder.content(&CopyLimits::default(), Some(since));
    tokio::task::spawn_blocking(count).await.unwrap_or_else(|error| {
        let source = std::io::Error::other(error);
        Err(FolderError::Io { action: "list", path: ".".to_owned(), source }.into())
    })
}

/// Returns files whose content differs from the content of their last recorded change. Blocks.
fn differing(folder: &WorkingFolder, left: BTreeMap<String, LeftFile>) -> Vec<UnrestoredFile> {
    let look = |path: &str, left: &LeftFile| -> Result<(), String> {
        let found = folder.resolve(path).map_err(|error| error.to_string())?;
        if found.as_path() != Path::new(path) {
            return Err("a symbolic link stands on its way now".to_owned());
        }
        let is_left = match folder.digest_of(&found, &left.sizes).map_err(|error| error.to_string())? {
            Now::Missing => left.explains(None),
            Now::File(digest) => left.explains(Some(digest)),
            Now::Other => false,
        };
        if is_left {
            return Ok(());
        }
        Err("a command, an upload or another program changed it; it has its present content".to_owned())
    };
    let differs = left.into_iter().filter_map(|(path, left)| {
        let why = look(&path, &left).err()?;
        Some(UnrestoredFile { path, reason: UnrestoredReason::ChangedUnrecorded, why })
    });
    differs.collect()
}

/// Sets the timestamps of restored files before the event. Otherwise a
/// later fork would consider these files changed after the event. Blocks.
fn date(folder: &WorkingFolder, paths: &[String], at: SystemTime) {
    for path in paths {
        let opened = folder.resolve(path).and_then(|path| folder.open_file(&path));
        let dated = opened.map(|file| file.set_modified(at));
        if !matches!(dated, Ok(Ok(()))) {
            tracing::debug!(path, "a restored file keeps the time of its restoration");
        }
    }
}

/// Removes the folder of a thread that was not created.
async fn remove(folder: Arc<WorkingFolder>) {
    let removed = tokio::task::spawn_blocking(move || folder.remove_whole()).await;
    if let Err(error) = removed.map_err(std::io::Error::other).flatten() {
        tracing::warn!(%error, "a part of a copied folder stays behind");
    }
}

/// Returns the error for a folder that cannot be copied.
fn refused(thread: &ThreadId, error: CopyError) -> EngineError {
    let why = format!("the folder of thread `{thread}` cannot be copied: {error}");
    match error {
        CopyError::TooMany { .. } | CopyError::TooLarge { .. } | CopyError::TooDeep { .. } => {
            Reject::Invalid { what: why }.into()
        }
        CopyError::NotEmpty(_) | CopyError::Inside(_) => EngineError::Config(why),
        CopyError::Folder(_) => StoreError::Unavailable { why }.into(),
    }
}

fn crashed(error: &tokio::task::JoinError) -> EngineError {
    StoreError::Unavailable { why: format!("work with a folder ended early: {error}") }.into()
}
