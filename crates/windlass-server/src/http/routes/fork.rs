//! A new conversation that begins with the history of another one, and with its files as they were there.
//!
//! Retry, edit and roll back of the pages all come here. The other conversation and its folder are never changed.

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

/// The routes.
pub fn routes() -> ApiRouter {
    ApiRouter::new().routes(routes!(fork))
}

/// Where to fork.
#[derive(Clone, Copy, Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
struct NewFork {
    /// The last event that the new thread has; no run may be active there. Absent: the last one that there is.
    #[schema(minimum = 1)]
    at: Option<u32>,
    /// `true`: nothing is made, and the answer (200) says what the new conversation's folder would hold.
    #[serde(default)]
    preview: bool,
}

/// A conversation that was forked from another.
#[derive(Clone, Debug, Serialize, ToSchema)]
struct NewThread {
    #[serde(flatten)]
    thread: Thread,
    /// What its folder holds.
    files: FolderFiles,
}

/// What a fork's folder would hold.
#[derive(Clone, Debug, Serialize, ToSchema)]
struct ForkPreview {
    /// What it would hold.
    files: FolderFiles,
}

/// What the folder of a fork holds.
#[derive(Clone, Debug, Serialize, ToSchema)]
struct FolderFiles {
    /// `copied`: a copy of the other conversation's folder, as it was at the event. `shared`: the same folder, which
    /// stays as it is. `empty`: none of the other conversation's files.
    #[schema(value_type = String)]
    folder: ForkFolder,
    /// Files whose recorded changes after the event are undone.
    restored: Vec<ForkFile>,
    /// Files that may differ from what the history says, the first 1,000.
    not_restored: Vec<OtherFile>,
    /// How many such files there are.
    not_restored_total: usize,
    /// Calls after the event that may have changed files without a record, such as commands; the first 200.
    unseen: Vec<Unseen>,
    /// How many such calls there are.
    unseen_total: usize,
}

/// A file whose recorded changes after the event are undone.
#[derive(Clone, Debug, Serialize, ToSchema)]
struct ForkFile {
    /// Relative to the conversation's folder.
    path: String,
    /// `restored`: it has its content of then. `removed`: it was not there.
    #[schema(value_type = String)]
    fate: FileFate,
}

/// A file that may differ from what the history says.
#[derive(Clone, Debug, Serialize, ToSchema)]
struct OtherFile {
    /// Relative to the conversation's folder.
    path: String,
    /// `changed_unrecorded`, `not_recorded`, `failed` or `not_copied`.
    #[schema(value_type = String)]
    reason: UnrestoredReason,
    /// The reason in words.
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

/// Makes a new conversation that begins with the history of another one
///
/// Nothing of the history is done or charged again; what waits in the other one stays there. A conversation with a folder
/// of its own gives the new one a copy, in which recorded changes after the event are undone; the folder of the other
/// one is never changed. Refused with 409 while calls of the other one are in flight, with 422 if the folder has more
/// than 50,000 entries or 1 GiB, and with 507 if its owner has no room for the copy.
#[utoipa::path(post, path = "/threads/{thread}/fork", tag = "threads",
    params(("thread" = String, Path, description = "the thread's id"), IdempotencyKey), request_body = NewFork,
    responses((status = 200, body = ForkPreview, description = "what a fork's folder would hold"),
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
        return Err(Problem::invalid("`at` is 0, where nothing has happened yet; the first event is 1"));
    }
    let home = Home::of(caller.workspace(), caller.user());
    let is_own = Homes::is_own_of_thread(row.view.folder.as_deref());
    if is_own {
        has_room(&app, home.clone(), &row).await?;
    }
    let is_owner = row.view.owner == *caller.user();
    // A folder of the command line, and one that a user's conversations share, stays shared with its owner. Other users
    // get no copy of it.
    let uncopied = || ForkFiles::without_copy(if is_owner { ForkFolder::Shared } else { ForkFolder::Empty });
    if new.preview {
        let files =
            if is_own { app.engine.thread(&thread).files().preview_fork(at).await? } else { uncopied() };
        return Ok(Json(ForkPreview { files: files.into() }).into_response());
    }
    let folder = match (is_owner, is_own) {
        (true, _) => row.view.folder.clone(),
        // A copy needs a folder of its own.
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

/// Refuses a copy for which the new conversation's owner has no room. Two at once may pass it together.
async fn has_room(app: &Shared, home: Home, row: &ThreadRow) -> Result<(), Problem> {
    let (app, thread, recorded) = (app.clone(), row.thread.clone(), row.view.folder.clone());
    let look = move || {
        let Some(folder) = app.homes.thread(&thread, recorded.as_deref())? else { return Ok(()) };
        match folder.content(&CopyLimits::default(), None) {
            Ok(content) => app.homes.room(&home).check(content.bytes).map_err(no_room),
            // The engine refuses it with the reason.
            Err(CopyError::TooMany { .. } | CopyError::TooLarge { .. } | CopyError::TooDeep { .. }) => Ok(()),
            Err(error) => Err(Problem::internal(error)),
        }
    };
    tokio::task::spawn_blocking(look).await.map_err(Problem::internal)?
}
