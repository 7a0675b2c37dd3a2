//! What the cases of the journal port are run on.
//!
//! A program makes one for each case.

use std::sync::Arc;

use crate::clock::ManualClock;
use crate::port::journal::Journal;

/// A fresh, empty store as two nodes see it.
pub struct JournalSubject {
    /// The first node's view.
    pub first: Arc<dyn Journal>,
    /// The second node's view.
    pub second: Arc<dyn Journal>,
    /// The clock of both.
    pub clock: Arc<ManualClock>,
    /// Ends the first node as the death of its process would; called after `first` was dropped.
    pub end_first: Box<dyn FnOnce() + Send>,
}
