//! Files of a conversation put back as they were at an event.
//!
//! Only what tools changed through the working folder comes back; the answer says which calls may have changed more.

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

/// The routes.
pub fn routes() -> ApiRouter {
    ApiRouter::new().routes(routes!(restore))
}

/// What to go back to.
#[derive(Clone, Copy, Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
struct NewRestore {
    /// The event: files that were changed after it are put back.
    #[schema(minimum = 1)]
    at: u32,
    /// What becomes of files that somebody else has changed since, and whether anything is done.
    #[serde(default)]
    mode: Mode,
}

/// What becomes of the files.
#[derive(Clone, Copy, Debug, Default, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
enum Mode {
    /// Nothing: the answer says what would be done.
    Preview,
    /// They are put back, but for those that somebody else has changed since.
    #[default]
    Spare,
    /// They are put back whatever is there now.
    Overwrite,
}

/// What became of the files.
#[derive(Clone, Debug, Serialize, ToSchema)]
struct RestoredFiles {
    /// Each file that tools changed since.
    files: Vec<File>,
    /// Calls since then that may have changed files of which nothing is known, such as commands; the first 200.
    unseen: Vec<Unseen>,
    /// How many such calls there are.
    unseen_total: usize,
}

/// A file, and what became of it.
#[derive(Clone, Debug, Serialize, ToSchema)]
struct File {
    /// Relative to the conversation's folder.
    path: String,
    /// `restored`, `removed`, `unchanged`, `changed_since`, `not_kept` or `failed`.
    #[schema(value_type = String)]
    fate: FileFate,
    /// Why it was left.
    #[serde(skip_serializing_if = "Option::is_none")]
    why: Option<String>,
}

/// A call that may have changed files of which nothing is known.
#[derive(Clone, Debug, Serialize, ToSchema)]
pub struct Unseen {
    /// Its run.
    run: String,
    /// The step that asked for it.
    step: u32,
    /// Its index in the step.
    index: u32,
    /// Its tool.
    tool: String,
    /// The event that it was started with.
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

/// Puts the files that a conversation's tools changed after an event back as they were
///
/// A file that somebody else has changed since stays, unless `mode` is `overwrite`. Done twice, the second time changes
/// nothing. Refused while a run is active; one that is asked for meanwhile begins when the files are back. Files of a
/// conversation that was begun on the command line are put back there.
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
