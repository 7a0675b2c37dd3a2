//! Opens connections to the database, and runs statements on them.
//!
//! Knows no table. One thread uses a connection at a time: the writer's lock and the pools of readers ensure it.

mod work;

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use rusqlite::hooks::Wal;
use rusqlite::{Connection, OpenFlags, Params};
use windlass_engine::port::journal::StoreError;

pub use self::work::Work;
use crate::fault::Fault;
use crate::node::DATABASE;
use crate::options::{BUSY, Durability, StoreOptions};

const PAGE_BYTES: u64 = 4096;
/// Maximum number of prepared statements that a connection caches: all statements of the
/// writer, the most recent of a reader.
const WRITER_STATEMENTS: usize = 128;
const READER_STATEMENTS: usize = 32;

/// A connection.
pub(crate) struct Database {
    connection: Connection,
    /// Number of pages in the write-ahead log after the connection's last commit.
    log_pages: Arc<AtomicU32>,
}

impl Database {
    /// Opens the connection that writes, and creates the database if it does not exist. SQLite's automatic
    /// checkpoints are off on this connection.
    pub fn open_writer(folder: &Path, options: StoreOptions) -> Result<Self, Fault> {
        let mut database = Self::open_with(folder, OpenFlags::SQLITE_OPEN_CREATE, WRITER_STATEMENTS)?;
        let synchronous = match options.durability {
            Durability::Full => "FULL",
            Durability::Relaxed => "NORMAL",
        };
        // One megabyte holds the inner pages of the tables; most leaf pages are written once.
        database.run_script(&format!(
            "PRAGMA page_size = {PAGE_BYTES}; PRAGMA journal_mode = WAL; PRAGMA synchronous = {synchronous}; \
             PRAGMA cache_size = -1024; PRAGMA journal_size_limit = 67108864;"
        ))?;
        if let Some(bytes) = options.max_bytes {
            database.run_script(&format!("PRAGMA max_page_count = {}", (bytes / PAGE_BYTES).max(1)))?;
        }
        let log_pages = Arc::clone(&database.log_pages);
        database.connection.wal_hook(Some(move |_: &mut Wal, pages: i32| {
            log_pages.store(u32::try_from(pages).unwrap_or(0), Ordering::Relaxed);
            Ok(())
        }))?;
        Ok(database)
    }

    /// Opens a read-only connection.
    pub fn open_reader(folder: &Path) -> Result<Self, Fault> {
        let database = Self::open(folder)?;
        database.run_script("PRAGMA query_only = 1; PRAGMA cache_size = -512;")?;
        Ok(database)
    }

    /// Opens an existing database with SQLite's defaults.
    pub fn open(folder: &Path) -> Result<Self, Fault> {
        Self::open_with(folder, OpenFlags::empty(), READER_STATEMENTS)
    }

    fn open_with(folder: &Path, more: OpenFlags, statements: usize) -> Result<Self, Fault> {
        let flags = OpenFlags::SQLITE_OPEN_READ_WRITE | OpenFlags::SQLITE_OPEN_NO_MUTEX | more;
        let connection = Connection::open_with_flags(folder.join(DATABASE), flags)?;
        connection.busy_timeout(BUSY)?;
        connection.set_prepared_statement_cache_capacity(statements);
        let database = Self { connection, log_pages: Arc::default() };
        database.run_script("PRAGMA foreign_keys = 0; PRAGMA temp_store = MEMORY;")?;
        Ok(database)
    }

    /// Runs a statement to its end. Returns the number of rows that an INSERT, UPDATE or DELETE changed.
    pub fn run(&self, sql: &str, values: impl Params) -> Result<usize, Fault> {
        Ok(self.connection.prepare_cached(sql)?.execute(values)?)
    }

    /// Returns the first row, if there is one.
    pub fn first<T>(
        &self,
        sql: &str,
        values: impl Params,
        read: impl FnOnce(&rusqlite::Row<'_>) -> rusqlite::Result<T>,
    ) -> Result<Option<T>, Fault> {
        let mut statement = self.connection.prepare_cached(sql)?;
        let mut rows = statement.query(values)?;
        Ok(rows.next()?.map(read).transpose()?)
    }

    /// Whether a statement returns a row.
    pub fn exists(&self, sql: &str, values: impl Params) -> Result<bool, Fault> {
        Ok(self.connection.prepare_cached(sql)?.exists(values)?)
    }

    /// Returns the value of a statement that always has exactly one row.
    pub fn value<T: rusqlite::types::FromSql>(&self, sql: &str, values: impl Params) -> Result<T, Fault> {
        Ok(self.connection.prepare_cached(sql)?.query_row(values, |row| row.get(0))?)
    }

    /// Returns every row.
    pub fn all<T>(
        &self,
        sql: &str,
        values: impl Params,
        read: impl FnMut(&rusqlite::Row<'_>) -> rusqlite::Result<T>,
    ) -> Result<Vec<T>, Fault> {
        let mut statement = self.connection.prepare_cached(sql)?;
        let rows = statement.query_map(values, read)?;
        Ok(rows.collect::<rusqlite::Result<_>>()?)
    }

    /// Runs several statements without parameters.
    pub fn run_script(&self, sql: &str) -> Result<(), Fault> {
        Ok(self.connection.execute_batch(sql)?)
    }

    /// Runs reads on one snapshot, or writes that are committed only if all succeed. `begin` is the
    /// statement that begins the transaction.
    pub fn transaction<T>(
        &self,
        begin: &str,
        body: impl FnOnce() -> Result<T, StoreError>,
    ) -> Result<T, StoreError> {
        self.run(begin, [])?;
        let done = body().and_then(|done| {
            self.run("COMMIT", [])?;
            Ok(done)
        });
        if self.is_in_transaction() {
            self.run("ROLLBACK", [])?;
        }
        done
    }

    /// Whether a transaction is open. SQLite ends a transaction itself after some failures.
    pub fn is_in_transaction(&self) -> bool {
        !self.connection.is_autocommit()
    }

    /// Sets how long a statement waits for another process's lock.
    pub fn set_busy_timeout(&self, timeout: Duration) -> Result<(), Fault> {
        Ok(self.connection.busy_timeout(timeout)?)
    }

    /// Returns the number of pages in the write-ahead log after the last commit.
    pub fn log_pages(&self) -> u32 {
        self.log_pages.load(Ordering::Relaxed)
    }

    /// Checkpoints the log: writes it back into the database, up to the first page that a reader still needs. Does
    /// nothing while another process runs a checkpoint.
    pub fn write_back(&self) -> Result<(), Fault> {
        self.first("PRAGMA wal_checkpoint(PASSIVE)", [], |_| Ok(())).map(drop)
    }

    /// Returns the connection's work counters since the last call.
    pub fn take_work(&self) -> Work {
        work::take(&self.connection)
    }
}
