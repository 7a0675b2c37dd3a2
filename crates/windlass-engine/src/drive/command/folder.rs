//! Which folder a thread's tools work in. A host program that gives each thread its own is asked once per driver of a
//! thread, when the first of its tools is called.
//!
//! It opens no folder itself.

use std::sync::Arc;

use tokio::sync::OnceCell;
use tokio_util::sync::CancellationToken;
use windlass_machine::ThreadId;

use crate::port::clock::Clock;
use crate::tool::WorkingFolder;

/// How long a program may look for a folder: a local disk that is asleep wakes up meanwhile.
const FIND_WITHIN_MS: u64 = 30_000;

/// Finds the folder of a thread, by what was recorded of it. May block.
pub(crate) type FolderOf =
    dyn Fn(&ThreadId, Option<&str>) -> Result<Option<Arc<WorkingFolder>>, String> + Send + Sync;

/// Where the folders of an engine's threads come from.
pub(crate) enum FolderSource {
    /// All threads share one, or have none.
    Shared(Option<Arc<WorkingFolder>>),
    /// Each thread has its own.
    Each(Arc<FolderOf>),
}

/// The folders of an engine's threads.
pub(crate) struct Folders {
    source: FolderSource,
    clock: Arc<dyn Clock>,
}

impl Folders {
    pub(crate) fn new(source: FolderSource, clock: &Arc<dyn Clock>) -> Self {
        Self { source, clock: clock.clone() }
    }

    /// What is recorded of a new thread's folder, where a task names one.
    pub(crate) fn recorded(&self, named: Option<String>) -> Option<String> {
        match &self.source {
            // What is recorded is where the tools work.
            FolderSource::Shared(Some(folder)) => Some(folder.path().display().to_string()),
            FolderSource::Shared(None) | FolderSource::Each(_) => named,
        }
    }

    /// The folder that every thread has; `None` if each has its own, or none.
    pub(crate) fn shared(&self) -> Option<&Arc<WorkingFolder>> {
        match &self.source {
            FolderSource::Shared(folder) => folder.as_ref(),
            FolderSource::Each(_) => None,
        }
    }

    /// Whether each thread has a folder of its own.
    pub(crate) fn are_separate(&self) -> bool {
        matches!(self.source, FolderSource::Each(_))
    }

    /// The folder of a thread, looked for now.
    pub(crate) async fn of_thread(
        &self,
        thread: &ThreadId,
        recorded: Option<String>,
    ) -> Result<Option<Arc<WorkingFolder>>, String> {
        let find = match &self.source {
            FolderSource::Shared(folder) => return Ok(folder.clone()),
            FolderSource::Each(find) => find.clone(),
        };
        let thread = thread.clone();
        // The program may open directories, or make them.
        let asked = tokio::task::spawn_blocking(move || find(&thread, recorded.as_deref()));
        tokio::select! {
            biased;
            asked = asked => asked.unwrap_or_else(|error| Err(format!("looking for it crashed: {error}"))),
            () = self.clock.sleep_ms(FIND_WITHIN_MS) => {
                Err(format!("looking for it took longer than {FIND_WITHIN_MS} ms"))
            }
        }
    }
}

/// The folder of one thread, found once.
pub(in crate::drive) struct ThreadFolder {
    recorded: Option<String>,
    found: OnceCell<Option<Arc<WorkingFolder>>>,
}

impl ThreadFolder {
    /// Not looked for yet.
    pub(in crate::drive) fn new(recorded: Option<String>) -> Arc<Self> {
        Arc::new(Self { recorded, found: OnceCell::new() })
    }

    /// The folder, where the thread has one. What went wrong is told as to a model, and is tried again with the next
    /// call.
    pub(in crate::drive) async fn find(
        &self,
        folders: &Folders,
        thread: &ThreadId,
        cancel: &CancellationToken,
    ) -> Result<Option<Arc<WorkingFolder>>, String> {
        if let FolderSource::Shared(folder) = &folders.source {
            return Ok(folder.clone());
        }
        let ask = || async {
            tokio::select! {
                biased;
                found = folders.of_thread(thread, self.recorded.clone()) => found,
                () = cancel.cancelled() => Err("the call was stopped".to_owned()),
            }
        };
        let found = self.found.get_or_try_init(ask).await;
        found.cloned().map_err(|why| format!("The working folder of this thread is not available: {why}"))
    }
}
