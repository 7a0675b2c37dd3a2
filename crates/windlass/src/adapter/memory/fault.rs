//! What can be made to go wrong.

use std::collections::VecDeque;

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
}

impl Faults {
    /// Fails where a read is to fail.
    pub fn read(&mut self) -> Result<(), StoreError> {
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
