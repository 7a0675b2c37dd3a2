//! Counts SQLite's work for a store, for the benchmark and for tests of how work grows.
//!
//! Counts do not depend on the machine, unlike times.

/// Work counters of SQLite.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Work {
    /// Statements executed.
    pub statements: u64,
    /// Steps of SQLite's virtual machine.
    pub steps: u64,
    /// Pages read because the connection's cache did not have them.
    pub pages: u64,
}

impl Work {
    /// Adds the counts of another connection.
    pub(crate) fn add(&mut self, more: Self) {
        self.statements += more.statements;
        self.steps += more.steps;
        self.pages += more.pages;
    }
}
