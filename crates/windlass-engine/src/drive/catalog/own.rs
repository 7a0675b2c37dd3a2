//! Tools that only a single run has, such as a tenant's tools with the tenant's credentials. (LM-I7)
//!
//! Own tools exist only in this process, because their secrets must not be recorded; the journal has their names. A
//! process that resumes the run without them requests them from the host program. If the program does not have these
//! tools, their calls wait for a process that does. The engine's tools of the same names are never used instead.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use windlass_machine::{Digest, RunId, ThreadId, ToolName};

use super::tools::Offered;
use crate::drive::thread::mail::Decided;
use crate::error::{EngineError, TryAgain};
use crate::port::journal::Accepted;
use crate::port::tool::Tool;

/// Returns the tools of a run that another process has started.
pub(crate) type ToolsOf = dyn Fn(&ThreadId, &RunId) -> Result<Vec<Arc<dyn Tool>>, String> + Send + Sync;

/// Milliseconds for which this process does not drive a thread whose calls wait for missing tools. After that time,
/// it checks again whether it has the tools.
const PUT_BY_MS: u64 = 60_000;

/// The own tools of runs in this process.
#[derive(Default)]
pub(crate) struct OwnTools {
    pub(in crate::drive) find: Option<Arc<ToolsOf>>,
    runs: Mutex<HashMap<RunId, Given>>,
    /// Threads whose calls wait for tools that this process does not have, with the time of the last check.
    put_by: Mutex<HashMap<ThreadId, u64>>,
}

/// The tools of one run.
pub(in crate::drive) struct Given {
    /// Names of the engine's tools that the run replaces or excludes, and the run's own tools.
    pub names: Vec<ToolName>,
    pub tools: Vec<Arc<dyn Tool>>,
    /// All tools of the run, and the digest of the engine's tools that they were built from.
    pub offered: Arc<Offered>,
    pub base: Digest,
    pub at_ms: u64,
}

impl OwnTools {
    pub(crate) fn new(find: Option<Arc<ToolsOf>>) -> Self {
        Self { find, ..Self::default() }
    }

    /// Marks a thread whose calls wait for missing tools, so that only processes with these tools drive it.
    pub(in crate::drive) fn put_by(&self, thread: &ThreadId, now_ms: u64) {
        // No code panics while the lock is held.
        let mut put_by = self.put_by.lock().unwrap_or_else(PoisonError::into_inner);
        put_by.retain(|_, at_ms| now_ms.saturating_sub(*at_ms) < PUT_BY_MS);
        put_by.insert(thread.clone(), now_ms);
    }

    /// Whether this process has recently marked a thread with [`put_by`](Self::put_by).
    pub(crate) fn is_put_by(&self, thread: &ThreadId, now_ms: u64) -> bool {
        let put_by = self.put_by.lock().unwrap_or_else(PoisonError::into_inner);
        put_by.get(thread).is_some_and(|at_ms| now_ms.saturating_sub(*at_ms) < PUT_BY_MS)
    }

    /// Returns the threads that this process has recently marked with [`put_by`](Self::put_by).
    pub(in crate::drive) fn all_put_by(&self, now_ms: u64) -> Vec<ThreadId> {
        let put_by = self.put_by.lock().unwrap_or_else(PoisonError::into_inner);
        let left = put_by.iter().filter(|(_, at_ms)| now_ms.saturating_sub(**at_ms) < PUT_BY_MS);
        left.map(|(thread, _)| thread.clone()).collect()
    }

    pub(in crate::drive) fn runs(&self) -> MutexGuard<'_, HashMap<RunId, Given>> {
        // No code panics while the lock is held.
        self.runs.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn forget(&self, run: &RunId) {
        self.runs().remove(run);
    }

    /// Returns a guard that drops the run's tools unless its message is sent.
    pub(crate) fn unsent(&self, run: &RunId) -> Unsent<'_> {
        Unsent { own: self, run: Some(run.clone()) }
    }

    /// Drops a run's tools if its message was certainly not accepted.
    pub(crate) fn settled(
        &self,
        run: &RunId,
        sent: Result<Decided, EngineError>,
    ) -> Result<Accepted, EngineError> {
        let settled = sent.and_then(|accepted| accepted.map_err(EngineError::from));
        // After an error that permits a retry, the message may have been accepted: the driver was slow, or the store
        // did not answer.
        let is_over = settled.as_ref().is_err_and(|error| {
            matches!(error, EngineError::Rejected(_)) || error.judge().1 == TryAgain::Never
        });
        if is_over {
            self.forget(run);
        }
        settled
    }
}

/// A run whose message was not sent yet. Dropping the guard drops the run's tools.
pub(crate) struct Unsent<'a> {
    own: &'a OwnTools,
    run: Option<RunId>,
}

impl Unsent<'_> {
    /// Keeps the run's tools, because its message is being sent.
    pub(crate) fn keep(mut self) {
        self.run = None;
    }
}

impl Drop for Unsent<'_> {
    fn drop(&mut self) {
        if let Some(run) = &self.run {
            self.own.forget(run);
        }
    }
}
