//! A user's file quota: uploads and thread folders together.
//!
//! The quota counts the files on disk, because commands write files, too. It adds writes by tools to the last count. It
//! counts the files again after a while, and before it rejects a write.

use std::io;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, PoisonError};

use windlass::port::clock::Clock;
use windlass::tool::FolderQuota;

/// Maximum number of files and directories of a user that are counted. A count of this number takes a few hundred
/// milliseconds. The number is four times the maximum of entries that a fork may copy.
const COUNTED_MAX: usize = 200_000;
/// Minimum time for which the quota uses a count, in milliseconds.
const USED_FOR_MS: u64 = 1_000;
/// The quota uses a count for this multiple of the count's duration, so that counts take at most 2 % of the time.
const USED_FOR_TIMES: u64 = 50;

/// The quota of a user, shared by all open folders of the user.
pub struct Room {
    folders: Vec<PathBuf>,
    limit: u64,
    clock: Arc<dyn Clock>,
    last: Mutex<Option<Count>>,
}

/// The result of a count.
#[derive(Clone, Copy, Debug)]
struct Count {
    bytes: u64,
    began_ms: u64,
    took_ms: u64,
}

impl Count {
    fn is_recent(&self, now_ms: u64) -> bool {
        now_ms.saturating_sub(self.began_ms) < USED_FOR_MS.max(self.took_ms.saturating_mul(USED_FOR_TIMES))
    }
}

impl Room {
    /// Creates the quota for the files below these folders.
    pub fn new(folders: Vec<PathBuf>, limit: u64, clock: Arc<dyn Clock>) -> Self {
        Self { folders, limit, clock, last: Mutex::default() }
    }

    /// Checks whether the quota has `bytes` left, and reserves them if `is_taken`.
    fn take_if(&self, bytes: u64, is_taken: bool) -> Result<(), String> {
        // Invariant: a count is replaced as a whole. Other threads wait for the lock while this thread counts files.
        let mut last = self.last.lock().unwrap_or_else(PoisonError::into_inner);
        let fits = |count: &Count| count.bytes.saturating_add(bytes) <= self.limit;
        let now_ms = self.clock.monotonic_ms();
        let known = last.filter(|count| count.is_recent(now_ms) && fits(count));
        let mut count = known.map_or_else(|| self.count(), Ok)?;
        if !fits(&count) {
            *last = Some(count);
            return Err(format!("{} of {} bytes are used; {bytes} more do not fit", count.bytes, self.limit));
        }
        if is_taken {
            count.bytes += bytes;
        }
        *last = Some(count);
        Ok(())
    }

    /// Checks whether the quota has `bytes` left. Blocks the thread.
    pub fn check(&self, bytes: u64) -> Result<(), String> {
        self.take_if(bytes, false)
    }

    fn count(&self) -> Result<Count, String> {
        let began_ms = self.clock.monotonic_ms();
        let counted = bytes_below(&self.folders);
        let bytes = counted.map_err(|error| format!("the existing files cannot be counted: {error}"))?;
        let bytes = bytes.ok_or("there are too many files to count")?;
        let took_ms = self.clock.monotonic_ms().saturating_sub(began_ms);
        Ok(Count { bytes, began_ms, took_ms })
    }
}

impl FolderQuota for Room {
    fn take(&self, bytes: u64) -> Result<(), String> {
        self.take_if(bytes, true)
    }

    fn taken(&self) -> Result<u64, String> {
        let mut last = self.last.lock().unwrap_or_else(PoisonError::into_inner);
        let now_ms = self.clock.monotonic_ms();
        let count = last.filter(|count| count.is_recent(now_ms)).map_or_else(|| self.count(), Ok)?;
        *last = Some(count);
        Ok(count.bytes)
    }

    fn limit(&self) -> u64 {
        self.limit
    }
}

/// Returns the total size of all files, or `None` if there are too many files to count.
fn bytes_below(folders: &[PathBuf]) -> io::Result<Option<u64>> {
    let mut open = folders.to_vec();
    let (mut bytes, mut entries) = (0_u64, 0);
    while let Some(directory) = open.pop() {
        let listed = match std::fs::read_dir(&directory) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => continue,
            listed => listed?,
        };
        for entry in listed {
            entries += 1;
            if entries > COUNTED_MAX {
                return Ok(None);
            }
            // Symbolic links are not followed. A file that was deleted during the count uses no space.
            let entry = entry?;
            let Ok(metadata) = entry.metadata() else { continue };
            match metadata.is_dir() {
                true => open.push(entry.path()),
                false => bytes = bytes.saturating_add(metadata.len()),
            }
        }
    }
    Ok(Some(bytes))
}

#[cfg(test)]
mod tests {
    use windlass::clock::ManualClock;
    use windlass::machine::Timestamp;

    use super::*;

    #[test]
    fn what_was_taken_is_added_until_files_are_counted_again() {
        let root = tempfile::tempdir().unwrap();
        let clock = Arc::new(ManualClock::new(Timestamp(0), 0));
        let folders = vec![root.path().to_owned(), root.path().join("missing")];
        let room = Room::new(folders, 10, clock.clone());
        std::fs::create_dir(root.path().join("a")).unwrap();
        std::fs::write(root.path().join("a/one"), "123").unwrap();
        assert_eq!(room.taken(), Ok(3));
        assert_eq!((room.take(6), room.check(1), room.taken()), (Ok(()), Ok(()), Ok(9)));
        // The reserved bytes were never written; the count before a rejection detects this.
        assert_eq!((room.take(7), room.taken()), (Ok(()), Ok(10)));
        std::fs::write(root.path().join("two"), "1234567").unwrap();
        assert_eq!(room.take(1), Err("10 of 10 bytes are used; 1 more do not fit".to_owned()));
        std::fs::remove_file(root.path().join("two")).unwrap();
        // The quota detects deletions by a command after a while, and before a rejection.
        assert_eq!(room.taken(), Ok(10));
        clock.advance_ms(USED_FOR_MS);
        assert_eq!((room.taken(), room.take(7), room.limit()), (Ok(3), Ok(()), 10));
    }

    #[test]
    fn a_count_that_took_long_is_used_for_longer() {
        let recent = |took_ms, now_ms| Count { bytes: 0, began_ms: 100, took_ms }.is_recent(now_ms);
        assert!(recent(0, 1_099) && !recent(0, 1_100) && !recent(20, 1_100));
        assert!(recent(100, 5_099) && !recent(100, 5_100));
    }
}
