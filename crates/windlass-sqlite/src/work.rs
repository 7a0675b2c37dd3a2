//! What SQLite has done for a store, counted by SQLite itself: for the benchmark and for tests of how work grows.
//!
//! Counts do not depend on the machine, and times do.

use sqlx::SqlitePool;
use windlass_engine::port::journal::StoreError;

use crate::fault::store_error;
use crate::writer::raw::take_work;
use crate::{LIST_READERS, READERS, SqliteStore};

/// What SQLite has done.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Work {
    /// Statements that ran.
    pub statements: u64,
    /// Steps of SQLite's virtual machine.
    pub steps: u64,
    /// Pages that were looked at, in the cache or on disk.
    pub pages: u64,
}

impl Work {
    fn add(&mut self, more: Self) {
        self.statements += more.statements;
        self.steps += more.steps;
        self.pages += more.pages;
    }
}

impl SqliteStore {
    /// What SQLite has done for this store since it was last asked. Opens every connection for reading.
    pub async fn take_work(&self) -> Result<Work, StoreError> {
        let mut work = self.writer.take_work();
        work.add(of_pool(&self.readers, READERS).await?);
        work.add(of_pool(&self.lists, LIST_READERS).await?);
        Ok(work)
    }
}

async fn of_pool(pool: &SqlitePool, connections: u32) -> Result<Work, StoreError> {
    let (mut work, mut held) = (Work::default(), Vec::new());
    for _ in 0..connections {
        let mut connection = pool.acquire().await.map_err(store_error)?;
        let mut handle = connection.lock_handle().await.map_err(store_error)?;
        // SAFETY: the handle keeps the connection locked.
        work.add(unsafe { take_work(handle.as_raw_handle()) });
        drop(handle);
        held.push(connection);
    }
    Ok(work)
}
