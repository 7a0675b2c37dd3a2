//! Verifies, in addition to a test write: the database's pages, events and blobs, its modes, and the disk.
//!
//! Repairs nothing.

use std::path::Path;

use rusqlite::params;
use windlass_engine::port::journal::StoreError;
use windlass_machine::{Digest, ThreadId};

use super::fault::damaged;
use super::options::Durability;
use super::read::decode;
use crate::database::Database;

/// Checks every page, every event and every blob in the database, and describes the result. The caller has verified that
/// the store is writable.
pub(super) fn check(
    db: &Database,
    folder: &Path,
    durability: Durability,
    synchronous: i64,
) -> Result<String, StoreError> {
    /// SQLite's `synchronous` levels. `FULL`: a commit is on disk when it returns.
    /// `NORMAL`: the database stays consistent.
    const FULL: i64 = 2;
    const NORMAL: i64 = 1;
    let wanted = match durability {
        Durability::Full => FULL,
        Durability::Relaxed => NORMAL,
    };
    if synchronous < wanted {
        let why = format!(
            "the store's writer runs with `synchronous = {synchronous}`, and its durability needs {wanted}; this is a \
             defect"
        );
        return Err(StoreError::Refused { why });
    }
    let found: String = db.value("PRAGMA quick_check(1)", [])?;
    if found != "ok" {
        let why = format!("{found}; stop every process, keep a copy of the folder, and restore a backup");
        return Err(StoreError::Corrupt { why });
    }
    let events = check_events(db)?;
    let blobs = check_blobs(db)?;
    let journal: String = db.value("PRAGMA journal_mode", [])?;
    let version: i64 = db.value("PRAGMA user_version", [])?;
    let free = match free_bytes(folder) {
        Some(bytes) => format!("{} MiB free", bytes / (1024 * 1024)),
        None => "free space unknown".to_owned(),
    };
    let durability = match durability {
        Durability::Full => "durability full",
        Durability::Relaxed => "durability relaxed (a power cut may take the last moments)",
    };
    Ok(format!(
        "SQLite, version {version}, every page checked, {events}, {blobs}, written to; journal mode `{journal}`, \
         {durability}, {free}"
    ))
}

/// Reads every event of every thread, and verifies its checksum.
pub(super) fn check_events(db: &Database) -> Result<String, StoreError> {
    const EVENTS: &str = "SELECT position, body, checksum, thread FROM events \
        CROSS JOIN threads ON number = position >> 32 WHERE position > ?1 ORDER BY position LIMIT 1000";
    let (mut after, mut checked, mut without) = (-1_i64, 0_u64, 0_u64);
    loop {
        let from = after;
        let rows = db.all(EVENTS, params![from], |row| {
            after = row.get(0)?;
            let sum: Option<i64> = row.get(2)?;
            (checked, without) = (checked + 1, without + u64::from(sum.is_none()));
            let thread = ThreadId::from(row.get::<_, String>(3)?);
            Ok(decode(&thread, after, row.get_ref(1)?.as_bytes()?, sum).map(drop))
        })?;
        if rows.is_empty() {
            break;
        }
        rows.into_iter().collect::<Result<(), StoreError>>()?;
    }
    Ok(match without {
        0 => format!("{checked} events match their checksums"),
        _ => format!("{checked} events can be read, {without} of them without a checksum"),
    })
}

/// Reads every blob that is stored as a row, and verifies its digest.
fn check_blobs(db: &Database) -> Result<String, StoreError> {
    const BLOBS: &str = "SELECT rowid, digest, bytes FROM blobs WHERE rowid > ?1 ORDER BY rowid LIMIT 100";
    let (mut after, mut checked) = (0_i64, 0_u64);
    loop {
        let from = after;
        let wrong = db.all(BLOBS, params![from], |row| {
            after = row.get(0)?;
            let (digest, bytes) = (row.get_ref(1)?.as_bytes()?, row.get_ref(2)?.as_bytes()?);
            Ok((Digest::of(bytes).as_bytes().as_slice() != digest).then(|| digest.to_vec()))
        })?;
        if wrong.is_empty() {
            break;
        }
        checked += wrong.len() as u64;
        if let Some(digest) = wrong.into_iter().flatten().next() {
            let hex: String = digest.iter().map(|byte| format!("{byte:02x}")).collect();
            return Err(damaged(&format!("blob {hex} holds other bytes")));
        }
    }
    Ok(format!("{checked} blobs match their digests (those in files are checked when they are read)"))
}

#[cfg(unix)]
fn free_bytes(folder: &Path) -> Option<u64> {
    use std::os::unix::ffi::OsStrExt;
    let path = std::ffi::CString::new(folder.as_os_str().as_bytes()).ok()?;
    let mut found = std::mem::MaybeUninit::<libc::statvfs>::uninit();
    // SAFETY: `path` ends with a zero byte, and `found` is read only after the call has filled it.
    let found = unsafe {
        if libc::statvfs(path.as_ptr(), found.as_mut_ptr()) != 0 {
            return None;
        }
        found.assume_init()
    };
    // The field widths differ between systems.
    #[allow(clippy::unnecessary_cast)]
    Some(found.f_bavail as u64 * found.f_frsize as u64)
}

#[cfg(not(unix))]
fn free_bytes(_folder: &Path) -> Option<u64> {
    None
}
