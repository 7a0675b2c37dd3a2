//! Files of users and threads, shared by several routes.
//!
//! The server sends files only as downloads, so their content never runs in the origin of our pages.

pub mod download;
pub mod upload;

use std::sync::Arc;

use http::StatusCode;
use windlass::machine::ThreadId;
use windlass::tool::{FolderError, WorkingFolder};

pub use self::upload::no_room;
use super::Shared;
use super::caller::Caller;
use super::problem::Problem;
use crate::home::{Home, HomeError, Homes};

/// Maximum number of entries of a directory listing.
pub const LISTED: usize = 1_000;

/// Locates a folder on a thread where blocking is allowed.
pub trait Find: FnOnce(&Shared) -> Result<Folder, Problem> + Send + 'static {}
impl<F: FnOnce(&Shared) -> Result<Folder, Problem> + Send + 'static> Find for F {}

/// A folder, possibly shared with tools of running threads.
pub type Folder = Arc<WorkingFolder>;

/// Returns the caller's home, which contains the caller's folders.
pub fn home(caller: &Caller) -> Home {
    Home::of(caller.workspace(), caller.user())
}

/// Returns the folder of a thread. Blocks the thread.
pub fn of_thread(app: &Shared, thread: &ThreadId, recorded: Option<&str>) -> Result<Folder, Problem> {
    let missing = || Problem::not_found(format!("a folder of thread `{thread}`"));
    app.homes.thread(thread, recorded)?.ok_or_else(missing)
}

/// Returns 404 if the thread works in a folder of the command line that this process does not serve. The folder may be
/// private.
pub fn may_be_seen(app: &Shared, thread: &ThreadId, recorded: Option<&str>) -> Result<(), Problem> {
    match app.homes.has_files_of(recorded) {
        true => Ok(()),
        false => Err(Problem::not_found(format!("a folder of thread `{thread}`"))),
    }
}

/// Rejects changes to files in a folder that does not belong to the server.
pub fn may_be_changed(thread: &ThreadId, recorded: Option<&str>) -> Result<(), Problem> {
    match Homes::is_own(recorded) {
        true => Ok(()),
        false => {
            Err(Problem::forbidden(format!("the folder of thread `{thread}` does not belong to this server"))
                .hint("the conversation was started on the command line; change its files there"))
        }
    }
}

/// Runs file operations on the blocking thread pool.
pub async fn blocking<T: Send + 'static>(
    work: impl FnOnce() -> Result<T, Problem> + Send + 'static,
) -> Result<T, Problem> {
    tokio::task::spawn_blocking(work).await.map_err(Problem::internal)?
}

impl From<HomeError> for Problem {
    fn from(error: HomeError) -> Self {
        match error {
            HomeError::Elsewhere(..) => Self::not_found("a folder of this conversation"),
            HomeError::Folder(error) => error.into(),
        }
    }
}

impl From<FolderError> for Problem {
    fn from(error: FolderError) -> Self {
        let said = error.to_string();
        match error {
            FolderError::Missing(path) => Self::not_found(format!("the file `{path}`")),
            FolderError::Io { source, .. } if source.kind() == std::io::ErrorKind::NotFound => {
                Self::not_found("the file")
            }
            FolderError::Io { source, .. } if source.kind() == std::io::ErrorKind::StorageFull => {
                Self::new(StatusCode::INSUFFICIENT_STORAGE, "disk_full", "the server's disk is full")
            }
            FolderError::Io { .. } | FolderError::Open { .. } => Self::internal(said),
            FolderError::Protected(_) | FolderError::Store(_) | FolderError::ReadOnly(_) => {
                Self::forbidden(said)
            }
            FolderError::NoRoom { why, .. } => no_room(why),
            // Invalid paths, and paths that are not files.
            _ => Self::bad_request(said),
        }
    }
}
