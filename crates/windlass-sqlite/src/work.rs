//! What SQLite has done for a store, counted by SQLite itself: for the benchmark and for tests of how work grows.
//!
//! Counts do not depend on the machine, and times do.

/// What SQLite has done.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Work {
    /// Statements that ran.
    pub statements: u64,
    /// Steps of SQLite's virtual machine.
    pub steps: u64,
    /// Pages that were read because the connection's cache did not have them.
    pub pages: u64,
}

impl Work {
    /// Adds what another connection has done.
    pub(crate) fn add(&mut self, more: Self) {
        self.statements += more.statements;
        self.steps += more.steps;
        self.pages += more.pages;
    }
}
