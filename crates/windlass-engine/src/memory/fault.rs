//! What can be made to go wrong.
//!
//! Faults are asked for one by one; nothing goes wrong by chance.

use std::collections::VecDeque;
use std::sync::atomic::{AtomicUsize, Ordering};

use tokio::sync::watch;

use crate::port::journal::StoreError;

/// How an append goes wrong.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AppendFault {
    /// It is written, and the caller is told that nobody knows.
    UnknownAndWritten,
    /// It is not written, and the caller is told that nobody knows.
    UnknownAndNotWritten,
    /// It is not written, and the caller is told so.
    Failed,
    /// It is rejected, and so is every retry.
    Refused,
    /// It is not written, because a record was changed by another owner.
    Overtaken,
    /// Another owner has just raised the epoch.
    Fenced,
    /// It is written, and the caller never hears of it: the process dies here.
    DiesWritten,
    /// It is not written, and the caller never hears of it: the process dies here.
    DiesNotWritten,
    /// Nothing goes wrong: counts an append on the way to the next fault.
    Nothing,
}

/// What is still to go wrong.
#[derive(Debug, Default)]
pub(super) struct Faults {
    /// Coming appends, the next one first.
    pub appends: VecDeque<AppendFault>,
    /// How many coming reads fail.
    pub reads: usize,
    /// How many reads were made.
    pub reads_made: usize,
    /// Whether the node does not reach the store.
    pub is_cut_off: bool,
}

impl Faults {
    /// Fails where the node does not reach the store.
    pub fn reach(&self) -> Result<(), StoreError> {
        if self.is_cut_off { Err(injected()) } else { Ok(()) }
    }

    /// Fails where a read is to fail.
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

/// The error of a fault that was asked for.
pub(super) fn injected() -> StoreError {
    StoreError::Unavailable { why: "a fault was injected here; try again".to_owned() }
}

/// The error of an append that is refused for ever.
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

    /// How many calls wait, and how many have passed.
    pub fn counts(&self) -> (usize, usize) {
        (self.waiting.load(Ordering::SeqCst), self.passed.load(Ordering::SeqCst))
    }

    /// Counts calls that do not wait here.
    pub fn count(&self, calls: usize) {
        self.passed.fetch_add(calls, Ordering::SeqCst);
    }

    /// Waits while the gate is closed.
    pub async fn pass(&self) {
        let mut is_closed = self.is_closed.subscribe();
        self.waiting.fetch_add(1, Ordering::SeqCst);
        // The sender lives as long as this gate.
        let _ = is_closed.wait_for(|is_closed| !is_closed).await;
        self.waiting.fetch_sub(1, Ordering::SeqCst);
        self.passed.fetch_add(1, Ordering::SeqCst);
    }
}
