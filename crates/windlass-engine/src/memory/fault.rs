//! Faults that tests can inject.
//!
//! Each fault is requested explicitly; no operation fails at random.

use std::collections::VecDeque;
use std::sync::atomic::{AtomicUsize, Ordering};

use tokio::sync::watch;

use crate::port::journal::StoreError;

/// A fault of an append.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AppendFault {
    /// The batch is written, but the caller gets an unknown outcome.
    UnknownAndWritten,
    /// The batch is not written, and the caller gets an unknown outcome.
    UnknownAndNotWritten,
    /// The batch is not written, and the caller gets an error that permits a retry.
    Failed,
    /// The batch is rejected, and so is every retry.
    Refused,
    /// The batch is not written, because another owner changed a record.
    Overtaken,
    /// Another owner has just raised the epoch.
    Fenced,
    /// The batch is written, and the process dies before the caller gets the result.
    DiesWritten,
    /// The batch is not written, and the process dies.
    DiesNotWritten,
    /// No fault: lets an append pass before the next fault.
    Nothing,
}

/// The pending faults of a node.
#[derive(Debug, Default)]
pub(super) struct Faults {
    /// Faults of the next appends, in order.
    pub appends: VecDeque<AppendFault>,
    /// Number of next reads that fail.
    pub reads: usize,
    /// Number of reads.
    pub reads_made: usize,
    /// Whether the node cannot reach the store.
    pub is_cut_off: bool,
}

impl Faults {
    /// Fails if the node cannot reach the store.
    pub fn reach(&self) -> Result<(), StoreError> {
        if self.is_cut_off { Err(injected()) } else { Ok(()) }
    }

    /// Fails if a read fault is pending.
    pub fn read(&mut self) -> Result<(), StoreError> {
        self.reads_made += 1;
        self.reach()?;
        if self.reads == 0 {
            return Ok(());
        }
        self.reads -= 1;
        Err(injected())
    }
}

/// The error of an injected fault.
pub(super) fn injected() -> StoreError {
    StoreError::Unavailable { why: "a fault was injected here; try again".to_owned() }
}

/// The error of an append that is rejected permanently.
pub(super) fn refused() -> StoreError {
    StoreError::Refused { why: "a refusal was injected here".to_owned() }
}

/// A gate that delays calls while it is closed, and counts them.
#[derive(Debug, Default)]
pub(super) struct Gate {
    is_closed: watch::Sender<bool>,
    waiting: AtomicUsize,
    passed: AtomicUsize,
}

impl Gate {
    pub fn close(&self) {
        self.is_closed.send_replace(true);
    }

    pub fn open(&self) {
        self.is_closed.send_replace(false);
    }

    /// Returns the number of waiting calls, and the number of calls that have passed.
    pub fn counts(&self) -> (usize, usize) {
        (self.waiting.load(Ordering::SeqCst), self.passed.load(Ordering::SeqCst))
    }

    /// Counts calls that do not wait at the gate.
    pub fn count(&self, calls: usize) {
        self.passed.fetch_add(calls, Ordering::SeqCst);
    }

    pub async fn pass(&self) {
        let mut is_closed = self.is_closed.subscribe();
        self.waiting.fetch_add(1, Ordering::SeqCst);
        // The sender lives as long as this gate.
        let _ = is_closed.wait_for(|is_closed| !is_closed).await;
        self.waiting.fetch_sub(1, Ordering::SeqCst);
        self.passed.fetch_add(1, Ordering::SeqCst);
    }
}
