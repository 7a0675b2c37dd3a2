//! Explains SQLite's result codes to operators, each with a remedy.
//!
//! The caller decides about retries.

use rusqlite::ffi;
use windlass_engine::port::journal::{AppendError, StoreError};
use windlass_engine::port::records::RecordError;

/// A failed SQLite call.
#[derive(Clone, Debug)]
pub(super) struct Fault {
    /// SQLite's extended result code.
    pub code: i32,
    /// SQLite's own message.
    pub message: String,
}

impl Fault {
    /// Returns an explanation of the failure, with a remedy.
    pub fn words(&self) -> String {
        match StoreError::from(self.clone()) {
            StoreError::Unavailable { why } | StoreError::Refused { why } | StoreError::Corrupt { why } => {
                why
            }
            other @ (StoreError::NotFound { .. } | StoreError::Unreadable { .. }) => other.to_string(),
        }
    }
}

impl From<rusqlite::Error> for Fault {
    fn from(error: rusqlite::Error) -> Self {
        use rusqlite::Error;
        let (code, message) = match &error {
            Error::SqliteFailure(failure, message) => (failure.extended_code, message.clone()),
            Error::SqlInputError { error, msg, .. } => (error.extended_code, Some(msg.clone())),
            Error::FromSqlConversionFailure(..)
            | Error::IntegralValueOutOfRange(..)
            | Error::InvalidColumnType(..)
            | Error::Utf8Error(..)
            | Error::QueryReturnedNoRows => (ffi::SQLITE_MISMATCH, None),
            // The other errors are incorrect uses of a statement.
            _ => (ffi::SQLITE_MISUSE, None),
        };
        Self { code, message: message.unwrap_or_else(|| error.to_string()) }
    }
}

impl From<Fault> for StoreError {
    fn from(fault: Fault) -> Self {
        let Fault { code, message } = &fault;
        let unavailable = |why: String| StoreError::Unavailable { why };
        match code & 0xff {
            ffi::SQLITE_FULL => unavailable(
                "the disk is full or the store has reached its size limit; make room, then try again"
                    .to_owned(),
            ),
            ffi::SQLITE_IOERR if is_write(*code) => unavailable(format!(
                "the disk refused to write ({message}, code {code}), as it does beyond a quota or a size limit; \
                 make room, then try again"
            )),
            ffi::SQLITE_IOERR => unavailable(format!(
                "the disk refused to read or write ({message}, code {code}); look at its free space and health"
            )),
            ffi::SQLITE_READONLY | ffi::SQLITE_PERM | ffi::SQLITE_CANTOPEN => unavailable(format!(
                "the store's folder cannot be written to ({message}, code {code}); give this user write \
                 access to it and to every file in it"
            )),
            ffi::SQLITE_BUSY | ffi::SQLITE_LOCKED => unavailable(
                "another process has kept the store locked for more than 5 s; try again, or end that process"
                    .to_owned(),
            ),
            ffi::SQLITE_CORRUPT | ffi::SQLITE_NOTADB => StoreError::Corrupt {
                why: format!(
                    "{message} (code {code}); stop every process, keep a copy of the folder, and restore a backup \
                     or run `sqlite3 windlass.db .recover`"
                ),
            },
            // A value of an unexpected type: see the conversion above.
            ffi::SQLITE_MISMATCH => damaged(message),
            ffi::SQLITE_TOOBIG => StoreError::Refused {
                why: "a value is larger than the store can hold; make it smaller".to_owned(),
            },
            _ => unavailable(format!("{message} (code {code})")),
        }
    }
}

impl From<Fault> for AppendError {
    fn from(fault: Fault) -> Self {
        Self::Failed(fault.into())
    }
}

impl From<Fault> for RecordError {
    fn from(fault: Fault) -> Self {
        Self::Store(fault.into())
    }
}

/// Whether a disk error is a failed write: to the database, its log, or the log's index. The first
/// connection to the store rebuilds that index.
fn is_write(code: i32) -> bool {
    matches!(
        code,
        ffi::SQLITE_IOERR_WRITE
            | ffi::SQLITE_IOERR_TRUNCATE
            | ffi::SQLITE_IOERR_SHMOPEN
            | ffi::SQLITE_IOERR_SHMSIZE
    )
}

/// Creates the error for a row that this code cannot have written.
pub(super) fn damaged(what: &str) -> StoreError {
    StoreError::Corrupt {
        why: format!("a row cannot be read: {what}; restore a backup of the store's folder"),
    }
}
