//! What `check` looks at beside a write: the database's pages, its modes, and the disk.
//!
//! It mends nothing.

use std::path::Path;

use sqlx::SqlitePool;

use super::Durability;
use super::fault::store_error;
use crate::port::journal::StoreError;

/// Checks every page and says what was found. The caller has just written something.
pub(super) async fn check(
    pool: &SqlitePool,
    folder: &Path,
    (durability, synchronous): (Durability, i64),
) -> Result<String, StoreError> {
    /// SQLite's levels at which a commit is on disk once it returns, and at which the database stays whole.
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
    let found: String =
        sqlx::query_scalar("PRAGMA quick_check(1)").fetch_one(pool).await.map_err(store_error)?;
    if found != "ok" {
        let why = format!("{found}; stop every process, keep a copy of the folder, and restore a backup");
        return Err(StoreError::Corrupt { why });
    }
    let journal: String =
        sqlx::query_scalar("PRAGMA journal_mode").fetch_one(pool).await.map_err(store_error)?;
    let version: i64 =
        sqlx::query_scalar("PRAGMA user_version").fetch_one(pool).await.map_err(store_error)?;
    let free = match free_bytes(folder) {
        Some(bytes) => format!("{} MiB free", bytes / (1024 * 1024)),
        None => "free space unknown".to_owned(),
    };
    let durability = match durability {
        Durability::Full => "durability full",
        Durability::Relaxed => "durability relaxed (a power cut may take the last moments)",
    };
    Ok(format!(
        "SQLite, version {version}, every page checked, written to; journal mode `{journal}`, {durability}, {free}"
    ))
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
    // The fields' widths differ between systems.
    #[allow(clippy::unnecessary_cast)]
    Some(found.f_bavail as u64 * found.f_frsize as u64)
}

#[cfg(not(unix))]
fn free_bytes(_folder: &Path) -> Option<u64> {
    None
}
