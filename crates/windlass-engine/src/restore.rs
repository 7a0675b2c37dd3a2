//! Restores files that a thread's tools have changed to their content at an earlier event.
//!
//! The content comes from the journal. A file that another program has changed since is kept
//! unless the caller asks to overwrite it. Changes by commands and servers are unknown, so the
//! report lists calls that may have made such changes. A second restore makes no further
//! changes. While a restore runs, no process can start a run in the thread.

use std::collections::{BTreeMap, HashMap, HashSet};
use std::path::Path;
use std::sync::Arc;

use bytes::Bytes;
use serde::Serialize;
use windlass_machine::{
    CallKey, Digest, EffectClass, Event, Fact, FileChange, FileImage, Reject, RunId, Seq, ThreadId,
};

use crate::drive::SetAside;
use crate::engine::Engine;
use crate::engine::handle::FilesHandle;
use crate::error::EngineError;
use crate::port::journal::{StoreError, ThreadRow, ThreadStatus};
use crate::tool::{FolderError, Now, WorkingFolder};

mod fork;
mod report;

pub use report::{ForkFiles, ForkFolder, ForkedThread, UnrestoredFile, UnrestoredReason};

/// Maximum number of events read from a journal at a time.
const PAGE: usize = 512;

/// Maximum number of files in one restore: enough for a refactoring of a
/// whole code base. Their records take several megabytes of memory.
const MAX_FILES: usize = 20_000;

/// Timeout in milliseconds for a driver that has just finished to release the thread.
const LET_GO_WITHIN_MS: u64 = 3_000;

/// Interval of the checks whether the thread was released, in milliseconds.
const LOOK_EVERY_MS: u64 = 10;

/// Maximum number of calls that are reported individually.
const MAX_CALLS: usize = 200;

/// The action of a restore on files.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RestoreMode {
    /// Changes nothing and reports what a restore would do.
    Preview,
    /// Restores files, except those that another program has changed since.
    Spare,
    /// Restores files, including those that another program has changed since.
    Overwrite,
}

/// Report of a restore.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Restored {
    /// One entry for each file that the thread's tools changed, ordered by path.
    pub files: Vec<RestoredFile>,
    /// Calls after the target event that may have changed files without a record; at most 200.
    pub unseen: Vec<UnseenCall>,
    /// Total number of such calls.
    pub unseen_total: usize,
}

/// A file and the action of the restore on it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct RestoredFile {
    /// Path relative to the working folder.
    pub path: String,
    /// The action; for a preview, the action that a restore would take.
    pub fate: FileFate,
    /// The reason why the file was kept, in plain language.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub why: Option<String>,
}

/// The action of a restore on a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum FileFate {
    /// The old content is restored.
    Restored,
    /// The file did not exist at the target event, so it is deleted.
    Removed,
    /// The file already has the old content.
    Unchanged,
    /// Another program has changed the file, so it is kept.
    ChangedSince,
    /// The old content is not stored, so the file is kept.
    NotKept,
    /// Restoring the file failed.
    Failed,
}

/// A call that may have changed files without a record.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct UnseenCall {
    /// The run that made the call.
    pub run: RunId,
    /// The call within the run.
    #[serde(flatten)]
    pub call: CallKey,
    /// Name of the tool.
    pub tool: String,
    /// Position of the event that started the call.
    pub seq: Seq,
}

/// A file that the thread's tools changed after the target event.
struct Changed {
    /// The file's image at the target event.
    target: FileImage,
    /// Digests of all images that the journal records for the file after the target event.
    known: HashSet<Option<Digest>>,
    sizes: HashSet<u64>,
    /// Whether another program changed the file between two recorded changes.
    by_others: bool,
    /// Position of the first recorded change.
    first: Seq,
}

/// The changes and calls that were recorded after the target event.
#[derive(Default)]
struct Since {
    files: BTreeMap<String, Changed>,
    names: HashMap<(RunId, u32), Vec<String>>,
    classes: HashMap<(RunId, CallKey), EffectClass>,
    seen: HashSet<(RunId, CallKey)>,
    started: BTreeMap<Seq, (RunId, CallKey)>,
    ended: HashSet<(RunId, CallKey)>,
}

impl Engine {
    /// Returns the thread's row, or an error if a run is active in it.
    async fn idle(&self, thread: &ThreadId) -> Result<ThreadRow, EngineError> {
        self.resting(thread, is_idle).await
    }

    /// Returns the thread's row, or an error if `rests` does not accept its status.
    async fn resting(&self, thread: &ThreadId, rests: Rests) -> Result<ThreadRow, EngineError> {
        let row = self.thread(thread).row().await?;
        if rests(row.view.status) { Ok(row) } else { Err(active(thread)) }
    }

    /// Prevents runs from starting or continuing while the thread has one of these statuses.
    async fn set_aside(&self, thread: &ThreadId, rests: Rests) -> Result<SetAside, EngineError> {
        let clock = &self.services.store.clock;
        let from_ms = clock.monotonic_ms();
        loop {
            self.resting(thread, rests).await?;
            if let Some(aside) = self.services.registry.set_aside(thread).await? {
                return Ok(aside);
            }
            if clock.monotonic_ms().saturating_sub(from_ms) >= LET_GO_WITHIN_MS {
                return Err(active(thread));
            }
            clock.sleep_ms(LOOK_EVERY_MS).await;
        }
    }

    async fn since(&self, thread: &ThreadId, at: Seq) -> Result<Since, EngineError> {
        let (mut since, mut after) = (Since::default(), at);
        loop {
            let page = self.services.store.journal.read(thread, after, PAGE).await?;
            let Some(last) = page.last() else { break };
            after = last.seq;
            page.iter().for_each(|recorded| since.take(recorded.seq, &recorded.event));
            if since.files.len() > MAX_FILES {
                let what =
                    format!("more than {MAX_FILES} files were changed since; go back in smaller steps");
                return Err(Reject::Invalid { what }.into());
            }
        }
        // The target may lie inside a step. The tool names and started calls of such a step were recorded before the
        // target.
        let (mut open, mut before) = (since.steps_begun_before(), Seq(at.0.saturating_add(1)));
        while !open.is_empty() {
            let page = self.services.store.journal.read_back(thread, before, PAGE).await?;
            let Some(first) = page.first() else { break };
            before = first.seq;
            page.iter()
                .rev()
                .for_each(|recorded| since.take_before(recorded.seq, &recorded.event, &mut open));
        }
        Ok(since)
    }

    /// Lists the calls whose changes no recorder has seen.
    fn unseen(&self, since: &Since) -> Restored {
        let registry = &self.services.catalog.now().registry;
        let records = |name: &str| {
            registry.known(&name.into()).is_some_and(|registered| registered.tool.traits().records_changes)
        };
        let may = |name: &str, at: &(RunId, CallKey)| {
            let is_pure = since.classes.get(at) == Some(&EffectClass::Pure);
            let reads = || {
                registry
                    .get(name)
                    .is_some_and(|tool| !tool.traits().is_untrusted && tool.spec().annotations.read_only_hint)
            };
            !is_pure && !since.seen.contains(at) && !records(name) && !reads()
        };
        let calls = since.started.iter().filter_map(|(seq, at)| {
            let names = since.names.get(&(at.0.clone(), at.1.step));
            let tool = names.and_then(|names| names.get(at.1.index as usize)).map_or("", String::as_str);
            let unseen = UnseenCall { run: at.0.clone(), call: at.1, tool: tool.to_owned(), seq: *seq };
            may(tool, at).then_some(unseen)
        });
        let mut unseen: Vec<_> = calls.collect();
        let unseen_total = unseen.len();
        unseen.truncate(MAX_CALLS);
        Restored { files: Vec::new(), unseen, unseen_total }
    }

    async fn restore_file(
        &self,
        folder: Arc<WorkingFolder>,
        path: String,
        changed: Changed,
        mode: RestoreMode,
    ) -> Result<RestoredFile, EngineError> {
        let kept = match &changed.target {
            FileImage::Kept { blob, .. } if mode != RestoreMode::Preview => {
                match self.services.contents.blob(&blob.digest).await {
                    Ok(bytes) => Some(bytes),
                    Err(error @ StoreError::NotFound { .. }) => {
                        let why = Some(error.to_string());
                        return Ok(RestoredFile { path, fate: FileFate::Failed, why });
                    }
                    Err(error) => return Err(error.into()),
                }
            }
            FileImage::Kept { .. }
            | FileImage::Missing
            | FileImage::Known { .. }
            | FileImage::TooLarge { .. } => None,
        };
        let name = path.clone();
        let work = move || put_back(&folder, &name, &changed, kept, mode);
        let done = tokio::task::spawn_blocking(work).await.unwrap_or_else(|error| Err(error.to_string()));
        let (fate, why) = done.unwrap_or_else(|why| (FileFate::Failed, Some(why)));
        Ok(RestoredFile { path, fate, why })
    }
}

impl FilesHandle<'_> {
    /// Restores files that the thread's tools changed after `at` to their content at `at`. Fails while a run is
    /// active in the thread, and prevents runs from starting until the restore is done. A file that cannot be
    /// restored is reported, and the restore continues with the next file.
    pub async fn restore(self, at: Seq, mode: RestoreMode) -> Result<Restored, EngineError> {
        let Self { engine, id: thread } = self;
        // A preview does not delay runs.
        let _aside = match mode {
            RestoreMode::Preview => None,
            RestoreMode::Spare | RestoreMode::Overwrite => Some(engine.set_aside(thread, is_idle).await?),
        };
        let row = engine.idle(thread).await?;
        if at > row.head {
            return Err(Reject::NotFound { what: format!("event {at}") }.into());
        }
        let since = engine.since(thread, at).await?;
        let mut restored = engine.unseen(&since);
        if since.files.is_empty() {
            return Ok(restored);
        }
        let folder =
            engine.services.folders.of_thread(thread, row.view.folder).await.map_err(EngineError::Config)?;
        let folder =
            folder.ok_or_else(|| EngineError::Config("the thread has no working folder".to_owned()))?;
        for (path, changed) in since.files {
            restored.files.push(engine.restore_file(folder.clone(), path, changed, mode).await?);
        }
        Ok(restored)
    }
}

impl Since {
    fn take(&mut self, seq: Seq, event: &Event) {
        let Some(run) = &event.run else { return };
        match &event.fact {
            Fact::StepReplied { attempt, message, .. } => {
                let names = message.calls().map(|call| call.name.to_string()).collect();
                self.names.insert((run.clone(), attempt.step), names);
            }
            Fact::CallJudged { call, class, .. } => {
                self.classes.insert((run.clone(), *call), *class);
            }
            Fact::ToolStarted { call, .. } => {
                self.started.insert(seq, (run.clone(), *call));
            }
            Fact::ToolFinished { call, .. } => {
                self.ended.insert((run.clone(), *call));
            }
            Fact::FileChanging { call, change } => {
                self.seen.insert((run.clone(), *call));
                self.change(seq, change);
            }
            _ => {} // tidy: the others change no file
        }
    }

    /// Returns the steps that have recorded events after the target but began before it.
    fn steps_begun_before(&self) -> HashSet<(RunId, u32)> {
        let calls = self.started.values().chain(&self.ended);
        let steps = calls.map(|(run, call)| (run.clone(), call.step));
        steps.filter(|step| !self.names.contains_key(step)).collect()
    }

    /// Processes an event before the target, newest first. Only events of steps that are still open are considered.
    fn take_before(&mut self, seq: Seq, event: &Event, open: &mut HashSet<(RunId, u32)>) {
        let Some(run) = &event.run else { return };
        let is_open = |step: u32| open.contains(&(run.clone(), step));
        match &event.fact {
            Fact::StepReplied { attempt, .. } if is_open(attempt.step) => {
                open.remove(&(run.clone(), attempt.step));
                self.take(seq, event);
            }
            Fact::CallJudged { call, class, .. } if is_open(call.step) => {
                // A later verdict, which was processed first, takes precedence.
                self.classes.entry((run.clone(), *call)).or_insert(*class);
            }
            Fact::ToolStarted { call, .. } if is_open(call.step) => {
                let call = (run.clone(), *call);
                let was_at_work = self.ended.contains(&call) && !self.started.values().any(|it| *it == call);
                if was_at_work {
                    self.started.insert(seq, call);
                }
            }
            Fact::FileChanging { call, .. } if is_open(call.step) => {
                self.seen.insert((run.clone(), *call));
            }
            _ => {} // tidy: the others say nothing of calls that were at work
        }
    }

    fn change(&mut self, seq: Seq, change: &FileChange) {
        let entry = self.files.entry(change.path.clone());
        let changed = entry.or_insert_with(|| Changed {
            target: change.before.clone(),
            known: known_of(&change.before),
            sizes: HashSet::new(),
            by_others: false,
            first: seq,
        });
        for image in [&change.before, &change.after] {
            changed.sizes.extend(size_of(image));
            // A file that is too large to read has no digest to compare with.
            if !matches!(image, FileImage::TooLarge { .. }) {
                let is_new = changed.known.insert(image.digest());
                changed.by_others |= is_new && std::ptr::eq(image, &change.before);
            }
        }
    }
}

/// Whether a restore may change files while a thread has a status.
type Rests = fn(ThreadStatus) -> bool;

fn is_idle(status: ThreadStatus) -> bool {
    status == ThreadStatus::Idle
}

fn active(thread: &ThreadId) -> EngineError {
    EngineError::Active { thread: thread.clone() }
}

/// Returns the digests that the first recorded image of a file contributes.
fn known_of(image: &FileImage) -> HashSet<Option<Digest>> {
    match image {
        FileImage::TooLarge { .. } => HashSet::new(),
        FileImage::Missing | FileImage::Kept { .. } | FileImage::Known { .. } => {
            HashSet::from([image.digest()])
        }
    }
}

fn size_of(image: &FileImage) -> Option<u64> {
    match image {
        FileImage::Missing => None,
        FileImage::Kept { blob, .. } => Some(blob.size_bytes),
        FileImage::Known { size_bytes, .. } | FileImage::TooLarge { size_bytes } => Some(*size_bytes),
    }
}

type Done = Result<(FileFate, Option<String>), String>;

/// Compares a file with the recorded images and restores it. Blocks.
fn put_back(
    folder: &WorkingFolder,
    path: &str,
    changed: &Changed,
    kept: Option<Bytes>,
    mode: RestoreMode,
) -> Done {
    let _turn = folder.take_turn();
    let failed = |error: FolderError| error.to_string();
    let found = folder.resolve(path).map_err(failed)?;
    if found.as_path() != Path::new(path) {
        return Err("a symbolic link stands on its way now".to_owned());
    }
    let now = folder.digest_of(&found, &changed.sizes).map_err(failed)?;
    let is_back = match &changed.target {
        FileImage::Missing => now == Now::Missing,
        FileImage::Kept { blob, .. } => now == Now::File(blob.digest),
        FileImage::Known { digest, .. } => now == Now::File(*digest),
        FileImage::TooLarge { .. } => false,
    };
    if is_back {
        return Ok((FileFate::Unchanged, None));
    }
    let is_ours = match now {
        Now::Missing => changed.known.contains(&None),
        Now::File(digest) => changed.known.contains(&Some(digest)),
        Now::Other => false,
    };
    if let FileImage::Known { size_bytes, .. } | FileImage::TooLarge { size_bytes } = &changed.target {
        let why = format!("its {size_bytes} bytes of then were too many to be kept");
        return Ok((FileFate::NotKept, Some(why)));
    }
    if mode != RestoreMode::Overwrite && (!is_ours || changed.by_others) {
        let why = "somebody else has changed it since; it stays unless it is to be overwritten";
        return Ok((FileFate::ChangedSince, Some(why.to_owned())));
    }
    let fate = match &changed.target {
        FileImage::Missing => FileFate::Removed,
        FileImage::Kept { .. } | FileImage::Known { .. } | FileImage::TooLarge { .. } => FileFate::Restored,
    };
    if mode == RestoreMode::Preview {
        folder.refuse_protected(&found).map_err(failed)?;
        return Ok((fate, None));
    }
    match (&changed.target, kept) {
        (FileImage::Kept { mode, .. }, Some(bytes)) => {
            folder.write_as(&found, &bytes, Some(*mode)).map_err(failed)?;
        }
        _ => folder.remove(&found).map_err(failed)?, // tidy: what is not kept has returned above
    }
    Ok((fate, None))
}
