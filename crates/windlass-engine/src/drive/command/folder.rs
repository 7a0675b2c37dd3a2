//! The working folder of a thread's tools. If each thread has its own
//! folder, the driver calls the host program once, at the first tool call.
//!
//! This module opens no folders.

use std::sync::Arc;

use tokio::sync::OnceCell;
use tokio_util::sync::CancellationToken;
use windlass_machine::ThreadId;

use crate::port::clock::Clock;
use crate::tool::WorkingFolder;

/// Timeout for the host program's lookup in milliseconds; long enough for a sleeping local disk to wake up.
const FIND_WITHIN_MS: u64 = 30_000;

/// Returns the folder of a thread, given the folder name that was recorded when the thread was created. May block.
pub(crate) type FolderOf =
    dyn Fn(&ThreadId, Option<&str>) -> Result<Option<Arc<WorkingFolder>>, String> + Send + Sync;

/// Source of the threads' working folders.
pub(crate) enum FolderSource {
    /// All threads share one folder, or no thread has a folder.
    Shared(Option<Arc<WorkingFolder>>),
    /// The host program finds a folder for each thread.
    Each(Arc<FolderOf>),
}

/// The working folders of an engine's threads.
pub(crate) struct Folders {
    source: FolderSource,
    clock: Arc<dyn Clock>,
}

impl Folders {
    pub(crate) fn new(source: FolderSource, clock: &Arc<dyn Clock>) -> Self {
        Self { source, clock: clock.clone() }
    }

    /// Returns the folder name to record for a new thread.
    pub(crate) fn recorded(&self, named: Option<String>) -> Option<String> {
        match &self.source {
            // The recorded folder is always the one that the tools use.
            FolderSource::Shared(Some(folder)) => Some(folder.path().display().to_string()),
            FolderSource::Shared(None) | FolderSource::Each(_) => named,
        }
    }

    /// Returns the folder that all threads share; `None` if each
    /// thread has its own folder, or no thread has a folder.
    pub(crate) fn shared(&self) -> Option<&Arc<WorkingFolder>> {
        match &self.source {
            FolderSource::Shared(folder) => folder.as_ref(),
            FolderSource::Each(_) => None,
        }
    }

    /// Whether each thread has its own folder.
    pub(crate) fn are_separate(&self) -> bool {
        matches!(self.source, FolderSource::Each(_))
    }

    /// Looks up the folder of a thread.
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
        // The program may open or create directories.
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

/// The folder of one thread, looked up once.
pub(in crate::drive) struct ThreadFolder {
    recorded: Option<String>,
    found: OnceCell<Option<Arc<WorkingFolder>>>,
}

impl ThreadFolder {
    /// Creates a folder that was not looked up yet.
    pub(in crate::drive) fn new(recorded: Option<String>) -> Arc<Self> {
        Arc::new(Self { recorded, found: OnceCell::new() })
    }

    /// Returns the folder, if the thread has one. An error is worded for the model; the next call retries the lookup.
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
