//! The store: suites for every implementation, and tests that need processes and disks.

mod bus;
mod clocks;
mod collect;
mod disk;
mod fault;
mod group;
mod process;
mod suites;

use std::path::Path;
use std::sync::Arc;

use windlass::clock::{ManualClock, SystemClock};
use windlass::sqlite::{SqliteStore, StoreOptions};
use windlass_machine::Timestamp;

/// Undoes the newest migration: a store of the previous version, except for its version number.
const WITHOUT_ROWS: &str = "DROP INDEX runs_active_by_owner; ALTER TABLE threads DROP COLUMN forked_from; \
    ALTER TABLE threads DROP COLUMN forked_until; DROP INDEX runs_uncounted; DROP INDEX runs_by_time; \
    ALTER TABLE runs DROP COLUMN counted; ALTER TABLE threads DROP COLUMN asks; DROP TABLE record_owners; DROP TABLE usage; DROP TABLE usage_threads; \
    DROP INDEX threads_by_minute; CREATE INDEX threads_by_minute ON threads (minute); \
    DROP INDEX threads_by_workspace; DROP INDEX threads_busy; DROP INDEX threads_asking_by_owner; \
    DROP TRIGGER titles_kept; DROP TABLE title_parts; DROP TABLE titles; \
    DROP TRIGGER standings_kept; DROP TABLE standings; ";

/// A clock at a fixed time; another seed generates other ids.
fn clock(seed: u64) -> Arc<ManualClock> {
    Arc::new(ManualClock::new(Timestamp(1_700_000_000_000), seed))
}

/// A store as another process would open it.
async fn open(folder: &Path) -> SqliteStore {
    SqliteStore::open(folder, StoreOptions::default(), Arc::new(SystemClock::new())).await.expect("a store")
}
