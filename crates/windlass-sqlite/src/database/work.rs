//! Counts SQLite's work for a store, for the benchmark and for tests of how work grows.
//!
//! Counts do not depend on the machine, unlike times. rusqlite has no call for a connection's counters, so they are read
//! through its handle; nothing else in this crate calls SQLite's C interface.

use std::ffi::c_int;

use rusqlite::{Connection, ffi};

/// Work counters of SQLite.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Work {
    /// Number of statements executed.
    pub statements: u64,
    /// Number of steps of SQLite's virtual machine.
    pub steps: u64,
    /// Number of pages read because the connection's cache did not have them.
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

/// Returns the connection's work counters since the last call.
pub(super) fn take(connection: &Connection) -> Work {
    const RESET: c_int = 1;
    let mut work = Work::default();
    // SAFETY: the connection is open, and no other thread uses it: `Connection` is not `Sync`. Every statement that
    // SQLite returns belongs to the connection and is live.
    unsafe {
        let db = connection.handle();
        let mut statement = ffi::sqlite3_next_stmt(db, std::ptr::null_mut());
        while !statement.is_null() {
            let count = |what| ffi::sqlite3_stmt_status(statement, what, RESET).unsigned_abs();
            work.statements += u64::from(count(ffi::SQLITE_STMTSTATUS_RUN));
            work.steps += u64::from(count(ffi::SQLITE_STMTSTATUS_VM_STEP));
            statement = ffi::sqlite3_next_stmt(db, statement);
        }
        let (mut misses, mut highest) = (0, 0);
        ffi::sqlite3_db_status(db, ffi::SQLITE_DBSTATUS_CACHE_MISS, &mut misses, &mut highest, RESET);
        work.pages = misses.unsigned_abs().into();
    }
    work
}
