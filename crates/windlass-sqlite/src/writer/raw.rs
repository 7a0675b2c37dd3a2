//! The SQLite calls that the writer makes directly, on a connection that sqlx opened.
//!
//! sqlx passes every statement to another thread and back. An append has a dozen statements, so those hops would cost
//! several times what SQLite takes. All of the store's `unsafe` SQLite calls are in this file. Readers use sqlx.

use std::ffi::{CStr, c_char, c_int, c_void};
use std::ptr::NonNull;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use libsqlite3_sys as ffi;
use sqlx::SqliteConnection;
use windlass_engine::port::journal::StoreError;

use crate::fault::{Fault, store_error};
use crate::work::Work;

/// A connection that sqlx opened and never uses again. Whoever makes statements of it keeps them all under one
/// lock, so that one thread at a time uses it; the last of them closes it.
pub(crate) struct Raw {
    db: NonNull<ffi::sqlite3>,
    /// Pages in the write-ahead log after the last commit.
    log_pages: AtomicU32,
    _connection: SqliteConnection,
}

// SAFETY: SQLite lets a connection move between threads as long as two never use it at once. Every call takes a
// `Statement` by `&mut`, or a `Raw` that lies beside all of them under the same lock.
unsafe impl Send for Raw {}
// SAFETY: as above.
unsafe impl Sync for Raw {}

/// A value for a statement's parameter.
#[derive(Clone, Copy)]
pub(crate) enum Value<'v> {
    /// NULL.
    Null,
    /// A whole number.
    Integer(i64),
    /// A text.
    Text(&'v str),
    /// Bytes.
    Blob(&'v [u8]),
}

impl<'v> Value<'v> {
    /// A text, or NULL.
    pub fn text_or_null(text: Option<&'v str>) -> Self {
        text.map_or(Self::Null, Self::Text)
    }
    /// A number; what does not fit SQLite's 63 bits becomes the largest that does.
    pub fn number(number: u64) -> Self {
        Self::Integer(i64::try_from(number).unwrap_or(i64::MAX))
    }
}

impl Raw {
    /// Takes a connection over. From here on SQLite no longer writes the log back by itself.
    pub async fn new(mut connection: SqliteConnection) -> Result<Arc<Self>, StoreError> {
        let db = connection.lock_handle().await.map_err(store_error)?.as_raw_handle();
        let raw = Arc::new(Self { db, log_pages: AtomicU32::new(0), _connection: connection });
        // SAFETY: the connection is open as long as `raw`, which holds the number that the hook writes.
        unsafe {
            let pages = std::ptr::from_ref(&raw.log_pages).cast_mut().cast();
            ffi::sqlite3_wal_hook(raw.db.as_ptr(), Some(note_log_pages), pages);
        }
        Ok(raw)
    }

    /// Prepares a statement for the connection's life.
    pub fn prepare(self: &Arc<Self>, sql: &str) -> Result<Statement, Fault> {
        let mut statement = std::ptr::null_mut();
        // SAFETY: the connection is open; the text is given with its length; SQLite keeps no pointer to it.
        let code = unsafe {
            ffi::sqlite3_prepare_v3(
                self.db.as_ptr(),
                sql.as_ptr().cast(),
                sql.len() as i32,
                ffi::SQLITE_PREPARE_PERSISTENT,
                &mut statement,
                std::ptr::null_mut(),
            )
        };
        match NonNull::new(statement) {
            Some(statement) if code == ffi::SQLITE_OK => Ok(Statement { statement, raw: Arc::clone(self) }),
            _ => Err(last_fault(self.db)),
        }
    }

    /// Whether a transaction is open. SQLite ends one by itself after some failures.
    pub fn in_transaction(&self) -> bool {
        // SAFETY: the connection is open.
        unsafe { ffi::sqlite3_get_autocommit(self.db.as_ptr()) == 0 }
    }

    /// How long a statement waits for another process's lock from now on.
    pub fn set_patience(&self, patience: Duration) {
        // SAFETY: the connection is open.
        unsafe { ffi::sqlite3_busy_timeout(self.db.as_ptr(), patience.as_millis() as i32) };
    }

    /// Pages in the write-ahead log after the last commit.
    pub fn log_pages(&self) -> u32 {
        self.log_pages.load(Ordering::Relaxed)
    }

    /// What the connection has done since it was last asked.
    pub fn take_work(&self) -> Work {
        // SAFETY: the connection is open, and the caller holds the lock of its statements.
        unsafe { take_work(self.db) }
    }

    /// Writes the log back into the database, as far as no reader is in the way.
    pub fn write_back(&self) -> Result<(), Fault> {
        // SAFETY: the connection is open; null means every database of it, and that no figures are wanted.
        let code = unsafe {
            ffi::sqlite3_wal_checkpoint_v2(
                self.db.as_ptr(),
                std::ptr::null(),
                ffi::SQLITE_CHECKPOINT_PASSIVE,
                std::ptr::null_mut(),
                std::ptr::null_mut(),
            )
        };
        if code == ffi::SQLITE_OK { Ok(()) } else { Err(last_fault(self.db)) }
    }
}

/// SQLite calls this after each commit.
unsafe extern "C" fn note_log_pages(
    pages: *mut c_void,
    _: *mut ffi::sqlite3,
    _: *const c_char,
    count: c_int,
) -> c_int {
    // SAFETY: `Raw::new` gave the address of a number that lives as long as the connection.
    let pages = unsafe { &*pages.cast_const().cast::<AtomicU32>() };
    pages.store(u32::try_from(count).unwrap_or(0), Ordering::Relaxed);
    ffi::SQLITE_OK
}

/// A prepared statement, reset and without values whenever no call of it runs.
pub(crate) struct Statement {
    statement: NonNull<ffi::sqlite3_stmt>,
    raw: Arc<Raw>,
}

// SAFETY: as for `Raw`.
unsafe impl Send for Statement {}

impl Statement {
    /// Runs the statement to its end; returns how many rows an INSERT, UPDATE or DELETE changed.
    pub fn run(&mut self, values: &[Value<'_>]) -> Result<u64, Fault> {
        let running = self.bind(values)?;
        while running.step()? {}
        // SAFETY: the connection is open.
        Ok(unsafe { ffi::sqlite3_changes64(running.0.raw.db.as_ptr()) } as u64)
    }

    /// Reads the first row, where there is one.
    pub fn first<T>(
        &mut self,
        values: &[Value<'_>],
        read: impl FnOnce(&Row<'_>) -> T,
    ) -> Result<Option<T>, Fault> {
        let running = self.bind(values)?;
        if !running.step()? {
            return Ok(None);
        }
        Ok(Some(read(&Row(running.0))))
    }

    /// Binds without copying: the returned guard borrows both, and unbinds before either can go.
    fn bind<'s>(&'s mut self, values: &'s [Value<'_>]) -> Result<Running<'s>, Fault> {
        let running = Running(self);
        for (index, value) in (1..).zip(values) {
            // SAFETY: the statement is live and reset; texts and bytes are given with their length and
            // outlive the guard, whose drop takes them out again.
            let code = unsafe { bind_one(running.0.statement.as_ptr(), index, *value) };
            if code != ffi::SQLITE_OK {
                return Err(last_fault(running.0.raw.db));
            }
        }
        Ok(running)
    }
}

unsafe fn bind_one(statement: *mut ffi::sqlite3_stmt, index: i32, value: Value<'_>) -> i32 {
    // SAFETY: promised by the caller. A dangling pointer of an empty slice is never read, as its length is 0.
    unsafe {
        match value {
            Value::Null => ffi::sqlite3_bind_null(statement, index),
            Value::Integer(number) => ffi::sqlite3_bind_int64(statement, index, number),
            Value::Text(text) => ffi::sqlite3_bind_text64(
                statement,
                index,
                text.as_ptr().cast(),
                text.len() as u64,
                ffi::SQLITE_STATIC(),
                ffi::SQLITE_UTF8 as u8,
            ),
            Value::Blob(bytes) => ffi::sqlite3_bind_blob64(
                statement,
                index,
                bytes.as_ptr().cast(),
                bytes.len() as u64,
                ffi::SQLITE_STATIC(),
            ),
        }
    }
}

impl Drop for Statement {
    fn drop(&mut self) {
        // SAFETY: made by `prepare`, finalized only here, and the connection is still open.
        unsafe { ffi::sqlite3_finalize(self.statement.as_ptr()) };
    }
}

/// A statement with its values bound.
struct Running<'s>(&'s Statement);

impl Running<'_> {
    /// Steps; `true` where a row is there to read.
    fn step(&self) -> Result<bool, Fault> {
        // SAFETY: the statement is live and used by this thread alone.
        match unsafe { ffi::sqlite3_step(self.0.statement.as_ptr()) } {
            ffi::SQLITE_ROW => Ok(true),
            ffi::SQLITE_DONE => Ok(false),
            _ => Err(last_fault(self.0.raw.db)),
        }
    }
}

impl Drop for Running<'_> {
    fn drop(&mut self) {
        // SAFETY: the statement is live. Their codes repeat the failure of the step, which was told already.
        unsafe {
            ffi::sqlite3_reset(self.0.statement.as_ptr());
            ffi::sqlite3_clear_bindings(self.0.statement.as_ptr());
        }
    }
}

/// The row that a statement stands at.
pub(crate) struct Row<'s>(&'s Statement);

impl Row<'_> {
    /// A whole number; 0 for NULL.
    pub fn integer(&self, column: i32) -> i64 {
        // SAFETY: the statement stands at a row; SQLite answers a column out of range with 0.
        unsafe { ffi::sqlite3_column_int64(self.0.statement.as_ptr(), column) }
    }

    /// Bytes; empty for NULL.
    pub fn blob(&self, column: i32) -> Vec<u8> {
        // SAFETY: the statement stands at a row; the bytes are copied before anything else touches it, and an empty
        // value, which may have no address, is not read.
        unsafe {
            let bytes = ffi::sqlite3_column_blob(self.0.statement.as_ptr(), column);
            let length = ffi::sqlite3_column_bytes(self.0.statement.as_ptr(), column) as usize;
            if bytes.is_null() || length == 0 {
                return Vec::new();
            }
            std::slice::from_raw_parts(bytes.cast::<u8>(), length).to_vec()
        }
    }

    /// A text; `None` for NULL. Bytes that are not UTF-8 are replaced.
    pub fn text(&self, column: i32) -> Option<String> {
        // SAFETY: the statement stands at a row; the bytes are copied before anything else touches it.
        unsafe {
            let text = ffi::sqlite3_column_text(self.0.statement.as_ptr(), column);
            if text.is_null() {
                return None;
            }
            let length = ffi::sqlite3_column_bytes(self.0.statement.as_ptr(), column) as usize;
            Some(String::from_utf8_lossy(std::slice::from_raw_parts(text, length)).into_owned())
        }
    }
}

/// What a connection has done since it was last asked.
///
/// # Safety
///
/// The connection is open, and no other thread uses it meanwhile.
pub(crate) unsafe fn take_work(db: NonNull<ffi::sqlite3>) -> Work {
    const RESET: c_int = 1;
    let mut work = Work::default();
    // SAFETY: promised by the caller; every statement belongs to the connection and is live.
    unsafe {
        let mut statement = ffi::sqlite3_next_stmt(db.as_ptr(), std::ptr::null_mut());
        while !statement.is_null() {
            let count = |what| ffi::sqlite3_stmt_status(statement, what, RESET).unsigned_abs();
            work.statements += u64::from(count(ffi::SQLITE_STMTSTATUS_RUN));
            work.steps += u64::from(count(ffi::SQLITE_STMTSTATUS_VM_STEP));
            statement = ffi::sqlite3_next_stmt(db.as_ptr(), statement);
        }
        let (mut misses, mut highest) = (0, 0);
        let what = ffi::SQLITE_DBSTATUS_CACHE_MISS;
        ffi::sqlite3_db_status(db.as_ptr(), what, &mut misses, &mut highest, RESET);
        work.pages = misses.unsigned_abs().into();
    }
    work
}

fn last_fault(db: NonNull<ffi::sqlite3>) -> Fault {
    // SAFETY: the connection is open and used by this thread alone; the message is copied at once.
    unsafe {
        let message = CStr::from_ptr(ffi::sqlite3_errmsg(db.as_ptr())).to_string_lossy().into_owned();
        Fault { code: ffi::sqlite3_extended_errcode(db.as_ptr()), message }
    }
}
