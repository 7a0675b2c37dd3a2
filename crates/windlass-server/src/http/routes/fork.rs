//! Forks a thread: a new thread starts with the history of another thread, and with that thread's files as of the
//! fork's event.
//!
//! The web UI uses this route for retry, edit and rollback. The original thread and its folder never change.

use axum::Json;
use axum::extract::State;
use axum::response::{IntoResponse, Response};
use http::{StatusCode, header};
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;
use windlass::machine::{Seq, ThreadId};
use windlass::port::journal::ThreadRow;
use windlass::tool::{CopyError, CopyLimits};
use windlass::{FileFate, ForkFiles, ForkFolder, UnrestoredReason};

use super::restore::Unseen;
use super::threads::Thread;
use crate::home::{Home, Homes};
use crate::http::Shared;
use crate::http::api::{ApiRouter, routes};
use crate::http::caller::Caller;
use crate::http::files::no_room;
use crate::http::input::{Body, Path};
use crate::http::middleware::idempotency::IdempotencyKey;
use crate::http::problem::Problem;

pub fn routes() -> ApiRouter {
    ApiRouter::new().routes(routes!(fork))
}

/// Where to fork.
#[derive(Clone, Copy, Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
struct NewFork {
    /// Position of the last event to include; no run may be active there. Default: the last event.
    #[schema(minimum = 1)]
    at: Option<u32>,
    /// If `true`, creates nothing. The response (200) describes the files of the new thread's folder.
    #[serde(default)]
    preview: bool,
}

/// A thread that was forked from another.
#[derive(Clone, Debug, Serialize, ToSchema)]
struct NewThread {
    #[serde(flatten)]
    thread: Thread,
    /// The files in its folder.
    files: FolderFiles,
}

/// The result of a fork preview.
#[derive(Clone, Debug, Serialize, ToSchema)]
struct ForkPreview {
    /// The files that the folder would contain.
    files: FolderFiles,
}

/// The files in the folder of a fork.
#[derive(Clone, Debug, Serialize, ToSchema)]
struct FolderFiles {
    /// `copied`: a copy of the original thread's folder, as of the event. `shared`: the same folder, unchanged.
    /// `empty`: no files of the original thread.
    #[schema(value_type = String)]
    folder: ForkFolder,
    /// Files whose recorded changes after the event are undone.
    restored: Vec<ForkFile>,
    /// Files that may differ from the history; the first 1,000.
    not_restored: Vec<OtherFile>,
    /// Total number of such files.
    not_restored_total: usize,
    /// Calls after the event that may have changed files without a record, such as commands; the first 200.
    unseen: Vec<Unseen>,
    /// Total number of such calls.
    unseen_total: usize,
}

/// A file whose recorded changes after the event are undone.
#[derive(Clone, Debug, Serialize, ToSchema)]
struct ForkFile {
    /// Path relative to the thread's folder.
    path: String,
    /// `restored`: has its content as of the event. `removed`: did not exist then.
    #[schema(value_type = String)]
    fate: FileFate,
}

/// A file that may differ from the history.
#[derive(Clone, Debug, Serialize, ToSchema)]
struct OtherFile {
    /// Path relative to the thread's folder.
    path: String,
    /// `changed_unrecorded`, `not_recorded`, `failed` or `not_copied`.
    #[schema(value_type = String)]
    reason: UnrestoredReason,
    /// Human-readable reason.
    why: String,
}

impl From<ForkFiles> for FolderFiles {
    fn from(files: ForkFiles) -> Self {
        let restored = files.restored.into_iter().map(|file| ForkFile { path: file.path, fate: file.fate });
        let other = files.not_restored.into_iter();
        Self {
            folder: files.folder,
            restored: restored.collect(),
            not_restored: other
                .map(|file| OtherFile { path: file.path, reason: file.reason, why: file.why })
                .collect(),
            not_restored_total: files.not_restored_total,
            unseen: files.unseen.into_iter().map(Unseen::from).collect(),
            unseen_total: files.unseen_total,
        }
    }
}

/// Fork a conversation
///
/// The new conversation starts with the history of the original one. No part of the history is executed or charged
/// again. Pending interrupts stay in the original. If the original has its own folder, the new conversation receives a
/// copy in which recorded changes after the event are undone. The original folder never changes. Fails with 409 while
/// calls of the original are in flight. Fails with 422 if the folder has more than 50,000 entries or 1 GiB, and with
/// 507 if the copy exceeds the owner's quota.
#[utoipa::path(post, path = "/threads/{thread}/fork", tag = "threads",
    params(("thread" = String, Path, description = "the thread's id"), IdempotencyKey), request_body = NewFork,
    responses((status = 200, body = ForkPreview, description = "a preview of the fork's folder"),
        (status = 201, body = NewThread, headers(("Location" = String, description = "the new thread"))),
        (status = 404, body = Problem), (status = 409, body = Problem), (status = 422, body = Problem),
        (status = 507, body = Problem)))]
async fn fork(
    State(app): State<Shared>,
    caller: Caller,
    Path(thread): Path<ThreadId>,
    Body(new): Body<NewFork>,
) -> Result<Response, Problem> {
    caller.runs()?;
    let row = caller.thread(&app, &thread).await?;
    let at = new.at.map_or(row.head, |at| Seq(at.into()));
    if at == Seq::default() {
        return Err(Problem::invalid("`at` is 0; the first event is 1"));
    }
    let home = Home::of(caller.workspace(), caller.user());
    let is_own = Homes::is_own_of_thread(row.view.folder.as_deref());
    if is_own {
        has_room(&app, home.clone(), &row).await?;
    }
    let is_owner = row.view.owner == *caller.user();
    // The fork shares the original's folder if that folder belongs to the command line or to several of the owner's
    // threads. Other users receive no copy of the folder.
    let uncopied = || ForkFiles::without_copy(if is_owner { ForkFolder::Shared } else { ForkFolder::Empty });
    if new.preview {
        let files =
            if is_own { app.engine.thread(&thread).files().preview_fork(at).await? } else { uncopied() };
        return Ok(Json(ForkPreview { files: files.into() }).into_response());
    }
    let folder = match (is_owner, is_own) {
        (true, _) => row.view.folder.clone(),
        // The fork needs its own folder for the copy.
        (false, true) => Some(home.recorded()),
        (false, false) => Some(home.folder(app.config.settings.files.folder())),
    };
    let by = caller.user().clone();
    let (fork, files) = if is_own {
        let fork = app.engine.thread(&thread).files().fork(at, by, folder).await?;
        (fork.thread, fork.files)
    } else {
        (app.engine.thread(&thread).fork(at, by, folder).await?, uncopied())
    };
    let made = NewThread { thread: caller.thread(&app, &fork).await?.into(), files: files.into() };
    Ok((StatusCode::CREATED, [(header::LOCATION, format!("/api/v1/threads/{fork}"))], Json(made))
        .into_response())
}

/// Returns an error if the copy exceeds the quota of the new thread's owner. Two concurrent forks may both pass this
/// check.
async fn has_room(app: &Shared, home: Home, row: &ThreadRow) -> Result<(), Problem> {
    let (app, thread, recorded) = (app.clone(), row.thread.clone(), row.view.folder.clone());
    let look = move || {
        let Some(folder) = app.homes.thread(&thread, recorded.as_deref())? else { return Ok(()) };
        match folder.content(&CopyLimits::default(), None) {
            Ok(content) => app.homes.room(&home).check(content.bytes).map_err(no_room),
            // The engine rejects the copy with the reason.
            Err(CopyError::TooMany { .. } | CopyError::TooLarge { .. } | CopyError::TooDeep { .. }) => Ok(()),
            Err(error) => Err(Problem::internal(error)),
        }
    };
    tokio::task::spawn_blocking(look).await.map_err(Problem::internal)?
}
