//! Tools that a single run has beside the engine's: those of a tenant, with the tenant's credentials. (LM-I7)
//!
//! They live in this process, because what they hold must not be recorded; the journal knows their names. A process
//! that takes a run up without them asks the host program for them. Where that has none, their calls wait for a process
//! that has: they are never made with tools of the engine that happen to have the same names.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use windlass_machine::{Digest, RunId, ThreadId, ToolName};

use super::tools::Offered;
use crate::drive::thread::mail::Decided;
use crate::error::{EngineError, TryAgain};
use crate::port::journal::Accepted;
use crate::port::tool::Tool;

/// Finds the tools of a run that another process has started.
pub(crate) type ToolsOf = dyn Fn(&ThreadId, &RunId) -> Result<Vec<Arc<dyn Tool>>, String> + Send + Sync;

/// How long a thread whose calls wait for tools is left to other processes, before this one looks again whether it has
/// them by now.
const PUT_BY_MS: u64 = 60_000;

/// The tools of runs that have some of their own.
#[derive(Default)]
pub(crate) struct OwnTools {
    pub(in crate::drive) find: Option<Arc<ToolsOf>>,
    runs: Mutex<HashMap<RunId, Given>>,
    /// Threads whose calls wait for tools that are not here, and when that was seen last.
    put_by: Mutex<HashMap<ThreadId, u64>>,
}

/// The tools that a run was given.
pub(in crate::drive) struct Given {
    /// Names that are the run's own, and its tools.
    pub names: Vec<ToolName>,
    pub tools: Vec<Arc<dyn Tool>>,
    /// The engine's tools with them, and which those were.
    pub offered: Arc<Offered>,
    pub base: Digest,
    pub at_ms: u64,
}

impl OwnTools {
    pub(crate) fn new(find: Option<Arc<ToolsOf>>) -> Self {
        Self { find, ..Self::default() }
    }

    /// Leaves a thread to processes that have the tools which its calls wait for.
    pub(in crate::drive) fn put_by(&self, thread: &ThreadId, now_ms: u64) {
        // Nothing panics while the lock is held.
        let mut put_by = self.put_by.lock().unwrap_or_else(PoisonError::into_inner);
        put_by.retain(|_, at_ms| now_ms.saturating_sub(*at_ms) < PUT_BY_MS);
        put_by.insert(thread.clone(), now_ms);
    }

    /// Whether a thread was left to others just now.
    pub(crate) fn is_put_by(&self, thread: &ThreadId, now_ms: u64) -> bool {
        let put_by = self.put_by.lock().unwrap_or_else(PoisonError::into_inner);
        put_by.get(thread).is_some_and(|at_ms| now_ms.saturating_sub(*at_ms) < PUT_BY_MS)
    }

    /// The threads that were left to others just now.
    pub(in crate::drive) fn all_put_by(&self, now_ms: u64) -> Vec<ThreadId> {
        let put_by = self.put_by.lock().unwrap_or_else(PoisonError::into_inner);
        let left = put_by.iter().filter(|(_, at_ms)| now_ms.saturating_sub(**at_ms) < PUT_BY_MS);
        left.map(|(thread, _)| thread.clone()).collect()
    }

    pub(in crate::drive) fn runs(&self) -> MutexGuard<'_, HashMap<RunId, Given>> {
        // Nothing panics while the lock is held.
        self.runs.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn forget(&self, run: &RunId) {
        self.runs().remove(run);
    }

    /// Forgets what a run is given unless its message is sent.
    pub(crate) fn unsent(&self, run: &RunId) -> Unsent<'_> {
        Unsent { own: self, run: Some(run.clone()) }
    }

    /// Forgets a run's tools if its message was certainly not accepted.
    pub(crate) fn settled(
        &self,
        run: &RunId,
        sent: Result<Decided, EngineError>,
    ) -> Result<Accepted, EngineError> {
        let settled = sent.and_then(|accepted| accepted.map_err(EngineError::from));
        // What may succeed later may have succeeded: a driver that is slow, a store that did not answer.
        let is_over = settled.as_ref().is_err_and(|error| {
            matches!(error, EngineError::Rejected(_)) || error.judge().1 == TryAgain::Never
        });
        if is_over {
            self.forget(run);
        }
        settled
    }
}

/// A run whose message is not sent yet: dropped as such, it leaves nothing behind.
pub(crate) struct Unsent<'a> {
    own: &'a OwnTools,
    run: Option<RunId>,
}

impl Unsent<'_> {
    /// Keeps what the run was given: its message goes out.
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
