//! The subject of the journal port's cases.
//!
//! A program creates a subject for each case.

use std::sync::Arc;

use crate::clock::ManualClock;
use crate::port::journal::Journal;

/// A new, empty store with the views of two nodes.
pub struct JournalSubject {
    /// View of the first node.
    pub first: Arc<dyn Journal>,
    /// View of the second node.
    pub second: Arc<dyn Journal>,
    /// Clock of both nodes.
    pub clock: Arc<ManualClock>,
    /// Ends the first node like the death of its process. The suite calls this function after it has dropped `first`.
    pub end_first: Box<dyn FnOnce() + Send>,
}
