//! `/files` and `/threads/{thread}/files`: users' uploads, and the files of threads.
//!
//! The server sends files only as downloads, so their content never runs in the origin of our pages.

use axum::Json;
use axum::extract::{DefaultBodyLimit, Request, State};
use axum::response::Response;
use http::StatusCode;
use serde::{Deserialize, Serialize};
use utoipa::{IntoParams, ToSchema};
use windlass::machine::ThreadId;
use windlass::tool::{Entry, EntryKind};

use crate::home::Home;
use crate::http::Shared;
use crate::http::api::{ApiRouter, routes};
use crate::http::caller::Caller;
use crate::http::files::{Find, LISTED, blocking, download, home, may_be_changed, of_thread, upload};
use crate::http::input::{Path, Query};
use crate::http::problem::Problem;

pub fn routes(max_bytes: u64) -> ApiRouter {
    let limit = usize::try_from(max_bytes).unwrap_or(usize::MAX);
    let sending = ApiRouter::new()
        .routes(routes!(send))
        .routes(routes!(send_to_thread))
        .layer(DefaultBodyLimit::max(limit));
    ApiRouter::new()
        .routes(routes!(list))
        .routes(routes!(fetch))
        .routes(routes!(remove))
        .routes(routes!(list_of_thread))
        .routes(routes!(fetch_from_thread))
        .merge(sending)
}

/// A file or a directory.
#[derive(Clone, Debug, Serialize, ToSchema)]
pub struct FileEntry {
    /// Name in its directory.
    name: String,
    /// `file` or `directory`.
    kind: &'static str,
    /// Size of a file; absent for a directory.
    #[serde(skip_serializing_if = "Option::is_none")]
    size_bytes: Option<u64>,
    /// Time of the last change, in milliseconds since the Unix epoch.
    modified_at: u64,
}

impl From<Entry> for FileEntry {
    fn from(entry: Entry) -> Self {
        let (kind, size_bytes) = match entry.kind {
            EntryKind::File { size_bytes } => ("file", Some(size_bytes)),
            EntryKind::Directory => ("directory", None),
        };
        Self { name: entry.name, kind, size_bytes, modified_at: entry.modified_at_ms }
    }
}

/// The entries of a directory.
#[derive(Clone, Debug, Serialize, ToSchema)]
struct Listing {
    /// Sorted by name, at most 1,000.
    data: Vec<FileEntry>,
}

/// A file in a thread's folder.
#[derive(Clone, Debug, Deserialize, IntoParams)]
#[into_params(parameter_in = Query)]
struct At {
    /// Path in the folder, such as `report/draft.md`.
    path: String,
}

/// A directory in a thread's folder.
#[derive(Clone, Debug, Deserialize, IntoParams)]
#[into_params(parameter_in = Query)]
struct In {
    /// Path in the folder. Default: the folder itself.
    path: Option<String>,
}

/// List the caller's uploads
#[utoipa::path(get, path = "/files", tag = "files",
    responses((status = 200, body = Listing), (status = 401, body = Problem)))]
async fn list(State(app): State<Shared>, caller: Caller) -> Result<Json<Listing>, Problem> {
    caller.reads()?;
    listing(&app, move |app| Ok(app.homes.uploads(&home(&caller))?), None).await
}

/// Upload a file, replacing one with the same name
#[utoipa::path(put, path = "/files/{name}", tag = "files",
    params(("name" = String, Path, description = "the file's name")),
    request_body(content = Vec<u8>, content_type = "application/octet-stream"),
    responses((status = 201, body = FileEntry), (status = 400, body = Problem), (status = 401, body = Problem),
        (status = 403, body = Problem), (status = 413, body = Problem), (status = 415, body = Problem),
        (status = 507, body = Problem)))]
async fn send(
    State(app): State<Shared>,
    caller: Caller,
    Path(name): Path<String>,
    request: Request,
) -> Result<(StatusCode, Json<FileEntry>), Problem> {
    caller.runs()?;
    let name = upload::checked_name(&app.config.settings.files, &name)?;
    let entry = upload::keep(&app, home(&caller), name, request).await?;
    Ok((StatusCode::CREATED, Json(entry.into())))
}

/// Download one of the caller's uploads
#[utoipa::path(get, path = "/files/{name}", tag = "files",
    params(("name" = String, Path, description = "the file's name")),
    responses((status = 200, body = Vec<u8>, content_type = "application/octet-stream"),
        (status = 401, body = Problem), (status = 404, body = Problem)))]
async fn fetch(
    State(app): State<Shared>,
    caller: Caller,
    Path(name): Path<String>,
) -> Result<Response, Problem> {
    caller.reads()?;
    download::file(app, move |app| Ok(app.homes.uploads(&home(&caller))?), name).await
}

/// Delete one of the caller's uploads; messages keep their attached copies
#[utoipa::path(delete, path = "/files/{name}", tag = "files",
    params(("name" = String, Path, description = "the file's name")),
    responses((status = 204), (status = 401, body = Problem), (status = 404, body = Problem)))]
async fn remove(
    State(app): State<Shared>,
    caller: Caller,
    Path(name): Path<String>,
) -> Result<StatusCode, Problem> {
    caller.runs()?;
    blocking(move || {
        let folder = app.homes.uploads(&home(&caller))?;
        Ok(folder.delete(&folder.resolve(&name)?)?)
    })
    .await?;
    Ok(StatusCode::NO_CONTENT)
}

/// List files of a conversation's folder
#[utoipa::path(get, path = "/threads/{thread}/files", tag = "files",
    params(("thread" = String, Path, description = "the thread's id"), In),
    responses((status = 200, body = Listing), (status = 401, body = Problem), (status = 404, body = Problem)))]
async fn list_of_thread(
    State(app): State<Shared>,
    caller: Caller,
    Path(thread): Path<ThreadId>,
    Query(at): Query<In>,
) -> Result<Json<Listing>, Problem> {
    caller.reads()?;
    let recorded = caller.thread(&app, &thread).await?.view.folder;
    listing(&app, move |app| of_thread(app, &thread, recorded.as_deref()), at.path).await
}

/// Download a file from a conversation's folder
#[utoipa::path(get, path = "/threads/{thread}/files/content", tag = "files",
    params(("thread" = String, Path, description = "the thread's id"), At),
    responses((status = 200, body = Vec<u8>, content_type = "application/octet-stream"),
        (status = 400, body = Problem), (status = 401, body = Problem), (status = 404, body = Problem)))]
async fn fetch_from_thread(
    State(app): State<Shared>,
    caller: Caller,
    Path(thread): Path<ThreadId>,
    Query(at): Query<At>,
) -> Result<Response, Problem> {
    caller.reads()?;
    let recorded = caller.thread(&app, &thread).await?.view.folder;
    download::file(app, move |app| of_thread(app, &thread, recorded.as_deref()), at.path).await
}

/// Upload a file to a conversation's folder, where the agent's tools can read it
#[utoipa::path(put, path = "/threads/{thread}/files/content", tag = "files",
    params(("thread" = String, Path, description = "the thread's id"), At),
    request_body(content = Vec<u8>, content_type = "application/octet-stream"),
    responses((status = 201, body = FileEntry), (status = 400, body = Problem), (status = 401, body = Problem),
        (status = 403, body = Problem), (status = 404, body = Problem), (status = 413, body = Problem),
        (status = 415, body = Problem), (status = 507, body = Problem)))]
async fn send_to_thread(
    State(app): State<Shared>,
    caller: Caller,
    Path(thread): Path<ThreadId>,
    Query(at): Query<At>,
    request: Request,
) -> Result<(StatusCode, Json<FileEntry>), Problem> {
    caller.runs()?;
    let view = caller.thread(&app, &thread).await?.view;
    may_be_changed(&thread, view.folder.as_deref())?;
    if !app.config.settings.files.takes(&at.path) {
        return Err(upload::wrong_type(&at.path));
    }
    let owner = Home::of(&view.workspace, &view.owner);
    let find = move |app: &Shared| of_thread(app, &thread, view.folder.as_deref());
    let entry = upload::keep_at(&app, owner, find, at.path, request).await?;
    Ok((StatusCode::CREATED, Json(entry.into())))
}

async fn listing(app: &Shared, find: impl Find, path: Option<String>) -> Result<Json<Listing>, Problem> {
    let app = app.clone();
    let entries = blocking(move || {
        let folder = find(&app)?;
        let path = path.map(|path| folder.resolve(&path)).transpose()?;
        Ok(folder.list(path.as_ref(), LISTED)?)
    });
    Ok(Json(Listing { data: entries.await?.into_iter().map(FileEntry::from).collect() }))
}
