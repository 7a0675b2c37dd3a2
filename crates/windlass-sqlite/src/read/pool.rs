//! A pool of read connections, which are opened on demand and kept open.
//!
//! A short read runs on the caller's thread, because a switch to another thread and back takes longer. A read of
//! possibly many rows runs on a blocking thread.

use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use windlass_engine::port::journal::StoreError;

use crate::database::{Database, Work};

/// Maximum time that a read waits for a connection.
const WAIT: Duration = Duration::from_secs(30);

/// A bounded pool of read connections.
pub(crate) struct Readers {
    folder: PathBuf,
    free: Mutex<Vec<Database>>,
    permits: Arc<Semaphore>,
    connections: u32,
}

impl Readers {
    /// Creates the pool. Opens no connection yet.
    pub fn new(folder: &Path, connections: u32) -> Arc<Self> {
        let permits = Arc::new(Semaphore::new(connections as usize));
        Arc::new(Self { folder: folder.to_owned(), free: Mutex::default(), permits, connections })
    }

    /// Reads a few rows, on the caller's thread.
    pub async fn read<T>(
        &self,
        read: impl FnOnce(&Database) -> Result<T, StoreError>,
    ) -> Result<T, StoreError> {
        let _permit = self.permit().await?;
        self.with_connection(read)
    }

    /// Reads possibly many rows, on a blocking thread. A read that has begun
    /// continues even if the caller stops waiting.
    pub async fn scan<T: Send + 'static>(
        self: &Arc<Self>,
        read: impl FnOnce(&Database) -> Result<T, StoreError> + Send + 'static,
    ) -> Result<T, StoreError> {
        let permit = self.permit().await?;
        let readers = Arc::clone(self);
        blocking(move || {
            let _permit = permit;
            readers.with_connection(read)
        })
        .await
    }

    /// Returns the work of the connections since the last call.
    pub async fn take_work(&self) -> Result<Work, StoreError> {
        let all = Arc::clone(&self.permits).acquire_many_owned(self.connections).await;
        let _all = all.map_err(|_| no_connection())?;
        let mut work = Work::default();
        let free = self.free.lock().unwrap_or_else(PoisonError::into_inner);
        free.iter().for_each(|connection| work.add(connection.take_work()));
        Ok(work)
    }

    async fn permit(&self) -> Result<OwnedSemaphorePermit, StoreError> {
        let permits = Arc::clone(&self.permits);
        if let Ok(permit) = permits.clone().try_acquire_owned() {
            return Ok(permit);
        }
        let permit = tokio::time::timeout(WAIT, permits.acquire_owned()).await;
        permit.ok().and_then(Result::ok).ok_or_else(no_connection)
    }

    /// Takes a free connection or opens one. The caller's permit ensures that the pool has a free slot.
    fn with_connection<T>(
        &self,
        read: impl FnOnce(&Database) -> Result<T, StoreError>,
    ) -> Result<T, StoreError> {
        let free = self.free.lock().unwrap_or_else(PoisonError::into_inner).pop();
        let connection = match free {
            Some(connection) => connection,
            None => Database::open_reader(&self.folder)?,
        };
        let done = read(&connection);
        self.free.lock().unwrap_or_else(PoisonError::into_inner).push(connection);
        done
    }
}

fn no_connection() -> StoreError {
    let why = format!("no connection for reading became free within {} s; try again", WAIT.as_secs());
    StoreError::Unavailable { why }
}

/// Runs blocking work on a blocking thread.
pub(crate) async fn blocking<T: Send + 'static>(
    work: impl FnOnce() -> Result<T, StoreError> + Send + 'static,
) -> Result<T, StoreError> {
    match tokio::task::spawn_blocking(work).await {
        Ok(done) => done,
        Err(error) => match error.try_into_panic() {
            Ok(panic) => std::panic::resume_unwind(panic),
            Err(_) => Err(StoreError::Unavailable { why: "the process is ending".to_owned() }),
        },
    }
}
