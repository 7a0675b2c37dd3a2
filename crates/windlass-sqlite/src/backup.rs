//! Backs up a store in use, and restores a store from a backup.
//!
//! The database is copied at one point in time. Large blobs are separate files, copied before and after that point, so
//! that the copy has every blob that the database names. The backup needs no node in the store, and other processes
//! continue meanwhile. A backup is a folder with the same files as a store.

use std::collections::HashSet;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use rusqlite::params;
use windlass_engine::port::journal::StoreError;
use windlass_machine::Digest;

use super::blob;
use super::check::check_events;
use super::schema;
use crate::database::Database;
use crate::node::{DATABASE, Node, private_folder};
use crate::read::pool::blocking;

/// Name of the marker file in an unfinished copy.
const UNFINISHED: &str = "unfinished";
/// Maximum number of attempts. A backup starts again if a thread is deleted while it copies.
const TRIES: usize = 3;

/// Size of a backup.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Copied {
    /// Number of threads.
    pub threads: u64,
    /// Number of events.
    pub events: u64,
    /// Number of large blobs, which are files.
    pub files: u64,
    /// Total size of the database and the large blobs in bytes.
    pub bytes: u64,
}

/// Copies a store into a folder that is empty or does not exist yet.
///
/// Fails if the source has no store, if the target is not empty, or if the disk is full. A failed copy is marked as
/// unfinished, and [`restore`] rejects it.
pub async fn backup(store: &Path, into: &Path) -> Result<Copied, StoreError> {
    let (store, into) = (store.to_owned(), into.to_owned());
    blocking(move || copy_store(&store, &into)).await
}

fn copy_store(store: &Path, into: &Path) -> Result<Copied, StoreError> {
    if !store.join(DATABASE).is_file() {
        return Err(StoreError::NotFound { what: format!("a store in `{}`", store.display()) });
    }
    private_folder(into)?;
    refuse_full(into, "the backup")?;
    let mark = into.join(UNFINISHED);
    fs::write(&mark, "this copy was not finished\n").map_err(|error| failed(&mark, &error))?;
    let database = into.join(DATABASE);
    for _ in 0..TRIES {
        remove(&database)?;
        let files = copy_files(store, into, &HashSet::new())?;
        copy_database(store, &database)?;
        copy_files(store, into, &files)?;
        let copy = Database::open(into)?;
        let named = named(&copy)?;
        let in_rows = rows(&copy)?;
        let lost = named.iter().any(|hex| !in_rows.contains(hex) && !file_of(into, hex).is_file());
        let (threads, events) = counts(&copy)?;
        drop(copy);
        if lost {
            continue;
        }
        let (files, bytes) = weigh(into)?;
        sync(into)?;
        remove(&mark)?;
        sync_folder(into)?;
        return Ok(Copied { threads, events, files, bytes });
    }
    let why = "files of deleted threads went away while they were copied; try again".to_owned();
    Err(StoreError::Unavailable { why })
}

/// Restores a store from a backup into an empty folder. Verifies every page, every event and every blob.
///
/// Fails if the folder is not empty, if a live process uses it, or if the copy is unfinished or
/// damaged. A failure leaves the folder empty.
pub async fn restore(copy: &Path, store: &Path) -> Result<Copied, StoreError> {
    let (copy, store) = (copy.to_owned(), store.to_owned());
    blocking(move || restore_store(&copy, &store)).await
}

fn restore_store(copy: &Path, store: &Path) -> Result<Copied, StoreError> {
    if copy.join(UNFINISHED).exists() || !copy.join(DATABASE).is_file() {
        let why = format!("`{}` is no finished backup; name the folder that `backup` wrote", copy.display());
        return Err(StoreError::Refused { why });
    }
    private_folder(store)?;
    refuse_full(store, "the store")?;
    let mut name = store.file_name().unwrap_or_default().to_owned();
    name.push(".restoring");
    let fresh = store.with_file_name(name);
    private_folder(&fresh)?;
    refuse_full(&fresh, "what is being restored")?;
    let placed = match fill(copy, &fresh) {
        // Fails if another process has meanwhile written to the folder.
        Ok(copied) => fs::remove_dir(store)
            .and_then(|()| fs::rename(&fresh, store))
            .map(|()| copied)
            .map_err(|error| failed(store, &error)),
        Err(error) => Err(error),
    };
    if placed.is_err() {
        let _ = fs::remove_dir_all(&fresh);
    }
    if let Some(parent) = store.parent() {
        sync_folder(parent)?;
    }
    placed
}

fn fill(copy: &Path, fresh: &Path) -> Result<Copied, StoreError> {
    private_folder(fresh)?;
    let database = fresh.join(DATABASE);
    fs::copy(copy.join(DATABASE), &database).map_err(|error| failed(&database, &error))?;
    private(&database)?;
    copy_files(copy, fresh, &HashSet::new())?;
    let opened = Database::open(fresh)?;
    let found: String = opened.value("PRAGMA integrity_check(1)", [])?;
    if found != "ok" {
        return Err(StoreError::Corrupt {
            why: format!("the backup's database: {found}; take another backup"),
        });
    }
    schema::migrate(&opened)?;
    check_events(&opened)?;
    let in_rows = rows(&opened)?;
    for hex in named(&opened)? {
        if in_rows.contains(&hex) {
            continue;
        }
        let path = file_of(fresh, &hex);
        let bytes = fs::read(&path).map_err(|error| failed(&path, &error))?;
        if Digest::of(&bytes).to_string() != hex {
            let why = format!("blob {hex} of the backup holds other bytes; take another backup");
            return Err(StoreError::Corrupt { why });
        }
    }
    let (threads, events) = counts(&opened)?;
    drop(opened);
    let (files, bytes) = weigh(fresh)?;
    sync(fresh)?;
    Ok(Copied { threads, events, files, bytes })
}

/// Copies the database in one read transaction. Writers continue, and the copy has none of their changes.
fn copy_database(store: &Path, into: &Path) -> Result<(), StoreError> {
    Database::open(store)?.run("VACUUM INTO ?1", params![into.display().to_string()])?;
    private(into)
}

/// Returns the hexadecimal digests of all blobs that threads name.
fn named(db: &Database) -> Result<HashSet<String>, StoreError> {
    digests(db, "SELECT DISTINCT digest FROM uses")
}

/// Returns the hexadecimal digests of all blobs stored as rows.
fn rows(db: &Database) -> Result<HashSet<String>, StoreError> {
    digests(db, "SELECT digest FROM blobs")
}

fn digests(db: &Database, query: &str) -> Result<HashSet<String>, StoreError> {
    let hex = |bytes: &[u8]| bytes.iter().map(|byte| format!("{byte:02x}")).collect();
    let found = db.all(query, [], |row| Ok(hex(row.get_ref(0)?.as_bytes()?)))?;
    Ok(found.into_iter().collect())
}

fn counts(db: &Database) -> Result<(u64, u64), StoreError> {
    let count = |query| db.value::<i64>(query, []).map(i64::unsigned_abs);
    Ok((count("SELECT count(*) FROM threads WHERE deleted = 0")?, count("SELECT count(*) FROM events")?))
}

fn file_of(store: &Path, hex: &str) -> PathBuf {
    blob::folder(store).join(blob::place(hex))
}

/// Copies the blob files that `into` does not have yet, except those in `known`. Returns every file found.
fn copy_files(from: &Path, into: &Path, known: &HashSet<PathBuf>) -> Result<HashSet<PathBuf>, StoreError> {
    let (from, into) = (blob::folder(from), blob::folder(into));
    private_folder(&into)?;
    let mut seen = HashSet::new();
    for folder in entries(&from)? {
        for file in entries(&folder)? {
            // Both paths were made by joining names to `from`.
            let place = file.strip_prefix(&from).unwrap_or(&file).to_owned();
            let is_blob = file.extension().is_none() && !place.to_string_lossy().contains('#');
            let target = into.join(&place);
            if is_blob && !known.contains(&place) && !target.exists() {
                if let Some(parent) = target.parent() {
                    private_folder(parent)?;
                }
                match fs::copy(&file, &target) {
                    Ok(_) => private(&target)?,
                    // The blob's thread was deleted meanwhile.
                    Err(error) if error.kind() == io::ErrorKind::NotFound => continue,
                    Err(error) => return Err(failed(&target, &error)),
                }
            }
            seen.insert(place);
        }
    }
    Ok(seen)
}

/// Returns the entries of a folder; none if the path is missing or not a folder.
fn entries(folder: &Path) -> Result<Vec<PathBuf>, StoreError> {
    match fs::read_dir(folder) {
        Ok(found) => Ok(found.filter_map(|entry| Some(entry.ok()?.path())).collect()),
        Err(error) if matches!(error.kind(), io::ErrorKind::NotFound | io::ErrorKind::NotADirectory) => {
            Ok(Vec::new())
        }
        Err(error) => Err(failed(folder, &error)),
    }
}

/// Returns the number of large blobs and the total size in bytes.
fn weigh(store: &Path) -> Result<(u64, u64), StoreError> {
    let size =
        |path: &Path| fs::metadata(path).map(|found| found.len()).map_err(|error| failed(path, &error));
    let (mut files, mut bytes) = (0, size(&store.join(DATABASE))?);
    for folder in entries(&blob::folder(store))? {
        for file in entries(&folder)? {
            (files, bytes) = (files + 1, bytes + size(&file)?);
        }
    }
    Ok((files, bytes))
}

/// Flushes a folder and all its files to the disk.
fn sync(store: &Path) -> Result<(), StoreError> {
    let flush = |path: &Path| {
        fs::File::open(path).and_then(|file| file.sync_all()).map_err(|error| failed(path, &error))
    };
    flush(&store.join(DATABASE))?;
    for folder in entries(&blob::folder(store))? {
        for file in entries(&folder)? {
            flush(&file)?;
        }
        sync_folder(&folder)?;
    }
    sync_folder(&blob::folder(store))?;
    sync_folder(store)
}

#[cfg(unix)]
fn sync_folder(folder: &Path) -> Result<(), StoreError> {
    fs::File::open(folder).and_then(|opened| opened.sync_all()).map_err(|error| failed(folder, &error))
}

#[cfg(not(unix))]
fn sync_folder(_folder: &Path) -> Result<(), StoreError> {
    Ok(())
}

/// Rejects a folder that is not empty. The error names a live process that uses it.
fn refuse_full(folder: &Path, what: &str) -> Result<(), StoreError> {
    if entries(folder)?.is_empty() {
        return Ok(());
    }
    let live = Node::alive_in(folder);
    let why = match live {
        0 => format!("`{}` is not empty; name a folder for {what} that does not exist yet", folder.display()),
        live => {
            format!("`{}` is a store that {live} live processes use; name another folder", folder.display())
        }
    };
    Err(StoreError::Refused { why })
}

fn remove(path: &Path) -> Result<(), StoreError> {
    match fs::remove_file(path) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => Err(failed(path, &error)),
        Ok(()) | Err(_) => Ok(()),
    }
}

/// Removes all permissions of the group and of other users.
fn private(path: &Path) -> Result<(), StoreError> {
    #[cfg(unix)]
    {
        use std::os::unix::fs::PermissionsExt;
        fs::set_permissions(path, fs::Permissions::from_mode(0o600)).map_err(|error| failed(path, &error))?;
    }
    let _ = path;
    Ok(())
}

fn failed(path: &Path, error: &io::Error) -> StoreError {
    let why = format!("`{}`: {error}; look at the disk's space and rights", path.display());
    StoreError::Unavailable { why }
}
