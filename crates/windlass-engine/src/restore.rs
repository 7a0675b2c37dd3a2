//! Files put back as they were at a place of a thread, for those that its tools changed since.
//!
//! What to put back is read from the journal; a file that holds anything but what the thread's tools have left there is
//! somebody else's, and stays unless it is said to be overwritten. What commands and servers changed is not known: the
//! calls that may have done so are told. Done twice, the second time changes nothing. Meanwhile no run begins in the
//! thread, in whichever process.

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

/// Events read from a journal at a time.
const PAGE: usize = 512;

/// Files that are put back at once: a change of a whole code base, and still some megabytes of what is known of them.
const MAX_FILES: usize = 20_000;

/// How long a driver that has just come to its end may take to let go of the thread.
const LET_GO_WITHIN_MS: u64 = 3_000;

/// How often that is looked at.
const LOOK_EVERY_MS: u64 = 10;

/// Calls that are told of by name; more than a person reads.
const MAX_CALLS: usize = 200;

/// What becomes of the files.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RestoreMode {
    /// Nothing: it is only told what would be done.
    Preview,
    /// They are put back, but for those that somebody else has changed since.
    Spare,
    /// They are put back whatever is there now.
    Overwrite,
}

/// What became of the files that a thread's tools have changed.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Restored {
    /// Each file, by its path.
    pub files: Vec<RestoredFile>,
    /// Calls since then that may have changed files of which nothing is known, the first 200.
    pub unseen: Vec<UnseenCall>,
    /// How many such calls there are.
    pub unseen_total: usize,
}

/// A file, and what became of it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct RestoredFile {
    /// Relative to the working folder.
    pub path: String,
    /// What was done, or would be.
    pub fate: FileFate,
    /// Why it was left, in words.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub why: Option<String>,
}

/// What becomes of a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum FileFate {
    /// Its old bytes are put back.
    Restored,
    /// It was not there, and is deleted.
    Removed,
    /// It is as it was.
    Unchanged,
    /// Somebody else has changed it, so it stays.
    ChangedSince,
    /// What it was is not kept, so it stays.
    NotKept,
    /// It cannot be put back.
    Failed,
}

/// A call that may have changed files of which nothing is known.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct UnseenCall {
    /// Its run.
    pub run: RunId,
    /// Which of that.
    #[serde(flatten)]
    pub call: CallKey,
    /// Its tool.
    pub tool: String,
    /// Where it was started.
    pub seq: Seq,
}

/// One file since the place that is gone back to.
struct Changed {
    /// What it was there.
    target: FileImage,
    /// What the thread knows to have been there since: its tools' doing.
    known: HashSet<Option<Digest>>,
    sizes: HashSet<u64>,
    /// Whether somebody else changed it between two of these.
    by_others: bool,
    /// Where its first change is recorded.
    first: Seq,
}

/// All that was done since a place.
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
    /// The thread, where no run is active in it.
    async fn idle(&self, thread: &ThreadId) -> Result<ThreadRow, EngineError> {
        self.resting(thread, is_idle).await
    }

    /// The thread, where its status is one of those that are meant.
    async fn resting(&self, thread: &ThreadId, rests: Rests) -> Result<ThreadRow, EngineError> {
        let row = self.thread(thread).row().await?;
        if rests(row.view.status) { Ok(row) } else { Err(active(thread)) }
    }

    /// Keeps runs from beginning, and from continuing, in a thread with one of these statuses.
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
        // The place may lie inside a step: what its calls are called, and which of them were at work, stands before it.
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

    /// The calls that may have changed what no recorder saw.
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
    /// Puts the files that tools of a thread changed after `at` back as they were there. Refused while a run is active in
    /// the thread; none begins until it is done. A file that cannot be put back is reported, and the next one is tried.
    pub async fn restore(self, at: Seq, mode: RestoreMode) -> Result<Restored, EngineError> {
        let Self { engine, id: thread } = self;
        // A preview delays no run.
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

    /// Steps of which something is told, and not how they began.
    fn steps_begun_before(&self) -> HashSet<(RunId, u32)> {
        let calls = self.started.values().chain(&self.ended);
        let steps = calls.map(|(run, call)| (run.clone(), call.step));
        steps.filter(|step| !self.names.contains_key(step)).collect()
    }

    /// Takes an event before the place, the newest first, where it is of a step that is still open.
    fn take_before(&mut self, seq: Seq, event: &Event, open: &mut HashSet<(RunId, u32)>) {
        let Some(run) = &event.run else { return };
        let is_open = |step: u32| open.contains(&(run.clone(), step));
        match &event.fact {
            Fact::StepReplied { attempt, .. } if is_open(attempt.step) => {
                open.remove(&(run.clone(), attempt.step));
                self.take(seq, event);
            }
            Fact::CallJudged { call, class, .. } if is_open(call.step) => {
                // It may have been judged again since.
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
            // Of a file that is too large to be read nobody can say more.
            if !matches!(image, FileImage::TooLarge { .. }) {
                let is_new = changed.known.insert(image.digest());
                changed.by_others |= is_new && std::ptr::eq(image, &change.before);
            }
        }
    }
}

/// Whether files may be worked with while a thread has a status.
type Rests = fn(ThreadStatus) -> bool;

fn is_idle(status: ThreadStatus) -> bool {
    status == ThreadStatus::Idle
}

fn active(thread: &ThreadId) -> EngineError {
    EngineError::Active { thread: thread.clone() }
}

/// What a first look tells of a file.
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

/// Compares a file with what the thread left, and puts it back. Blocks.
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
