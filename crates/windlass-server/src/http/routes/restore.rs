//! Restores the files of a thread to their state at an event.
//!
//! Only recorded changes, which tools made through the working folder, can be undone. The response lists calls that
//! may have changed other files.

use axum::Json;
use axum::extract::State;
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;
use windlass::machine::{Seq, ThreadId};
use windlass::{FileFate, RestoreMode, Restored, UnseenCall};

use crate::http::Shared;
use crate::http::api::{ApiRouter, routes};
use crate::http::caller::Caller;
use crate::http::files::{may_be_changed, may_be_seen};
use crate::http::input::{Body, Path};
use crate::http::middleware::idempotency::IdempotencyKey;
use crate::http::problem::Problem;

pub fn routes() -> ApiRouter {
    ApiRouter::new().routes(routes!(restore))
}

/// The state to restore.
#[derive(Clone, Copy, Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
struct NewRestore {
    /// Position of an event. Changes that tools made after it are undone.
    #[schema(minimum = 1)]
    at: u32,
    /// How to treat files that were changed outside the tools, or whether to preview only.
    #[serde(default)]
    mode: Mode,
}

/// How to restore.
#[derive(Clone, Copy, Debug, Default, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
enum Mode {
    /// Change nothing; the response describes what would be done.
    Preview,
    /// Restore, but skip files that were changed outside the tools.
    #[default]
    Spare,
    /// Restore all files, overwriting other changes.
    Overwrite,
}

/// The result of a restore.
#[derive(Clone, Debug, Serialize, ToSchema)]
struct RestoredFiles {
    /// All files that tools changed after the event.
    files: Vec<File>,
    /// Calls after the event that may have changed files without a record, such as commands; the first 200.
    unseen: Vec<Unseen>,
    /// Total number of such calls.
    unseen_total: usize,
}

/// A file and its result.
#[derive(Clone, Debug, Serialize, ToSchema)]
struct File {
    /// Path relative to the thread's folder.
    path: String,
    /// `restored`, `removed`, `unchanged`, `changed_since`, `not_kept` or `failed`.
    #[schema(value_type = String)]
    fate: FileFate,
    /// Why the file was not restored.
    #[serde(skip_serializing_if = "Option::is_none")]
    why: Option<String>,
}

/// A call that may have changed files without a record.
#[derive(Clone, Debug, Serialize, ToSchema)]
pub struct Unseen {
    /// Id of its run.
    run: String,
    /// Number of its step.
    step: u32,
    /// Index of the call in its step.
    index: u32,
    /// Name of its tool.
    tool: String,
    /// Position of the event that recorded its start.
    seq: u64,
}

impl From<UnseenCall> for Unseen {
    fn from(call: UnseenCall) -> Self {
        let UnseenCall { run, call, tool, seq } = call;
        Self { run: run.to_string(), step: call.step, index: call.index, tool, seq: seq.0 }
    }
}

impl From<Restored> for RestoredFiles {
    fn from(restored: Restored) -> Self {
        let files = restored.files.into_iter();
        let unseen = restored.unseen.into_iter().map(Unseen::from);
        Self {
            files: files.map(|file| File { path: file.path, fate: file.fate, why: file.why }).collect(),
            unseen: unseen.collect(),
            unseen_total: restored.unseen_total,
        }
    }
}

/// Restore the files that a conversation's tools changed after an event
///
/// Files that were changed outside the tools are skipped, unless `mode` is `overwrite`. A repeated request changes
/// nothing. Fails while a run is active. A run that is requested during the restore starts after it. Files of a
/// conversation that was started on the command line can only be restored there.
#[utoipa::path(post, path = "/threads/{thread}/files/restore", tag = "threads",
    params(("thread" = String, Path, description = "the thread's id"), IdempotencyKey), request_body = NewRestore,
    responses((status = 200, body = RestoredFiles), (status = 403, body = Problem),
        (status = 404, body = Problem)))]
async fn restore(
    State(app): State<Shared>,
    caller: Caller,
    Path(thread): Path<ThreadId>,
    Body(wish): Body<NewRestore>,
) -> Result<Json<RestoredFiles>, Problem> {
    caller.runs()?;
    let recorded = caller.thread(&app, &thread).await?.view.folder;
    let mode = match wish.mode {
        Mode::Preview => RestoreMode::Preview,
        Mode::Spare => RestoreMode::Spare,
        Mode::Overwrite => RestoreMode::Overwrite,
    };
    may_be_seen(&app, &thread, recorded.as_deref())?;
    if mode != RestoreMode::Preview {
        may_be_changed(&thread, recorded.as_deref())?;
    }
    let restored = app.engine.thread(&thread).files().restore(Seq(wish.at.into()), mode).await?;
    Ok(Json(restored.into()))
}
