//! `/threads/{thread}/queue`: messages that are queued while a run is active. (ZE-P7)
//!
//! The machine decides who may change a message (its sender) and who may withdraw it (its sender or the thread's
//! owner). A caller who may not see the thread gets 404.

use axum::Json;
use axum::extract::State;
use axum::response::Response;
use http::StatusCode;
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;
use windlass::QueuedMessage;
use windlass::machine::{InputId, Message, Place, ThreadId};

use crate::http::Shared;
use crate::http::api::{ApiRouter, routes};
use crate::http::caller::Caller;
use crate::http::etag::{ETag, IfMatch, IfNoneMatch, Seen};
use crate::http::input::{Body, Path};
use crate::http::middleware::idempotency::IdempotencyKey;
use crate::http::page::Page;
use crate::http::problem::Problem;
use crate::http::start::send::Said;

pub fn routes() -> ApiRouter {
    ApiRouter::new().routes(routes!(list)).routes(routes!(one, edit, withdraw)).routes(routes!(send_now))
}

/// A queued message.
#[derive(Clone, Debug, Serialize, ToSchema)]
struct Waiting {
    /// Id of the message.
    id: String,
    /// Text of the message.
    text: String,
    /// Id of the sender.
    by: String,
    /// When it will be sent.
    place: When,
    /// When it was queued, in milliseconds since the Unix epoch.
    since: u64,
    /// Id of the run that it starts, if it starts one.
    run: String,
}

/// When a queued message is sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, ToSchema)]
enum When {
    /// After the active run has completed successfully.
    #[serde(rename = "after_run")]
    Run,
    /// After the last result of the current step.
    #[serde(rename = "after_step")]
    Step,
    /// After the active run has ended with any status.
    #[serde(rename = "after_cancel")]
    Cancel,
}

impl From<Place> for When {
    fn from(place: Place) -> Self {
        match place {
            Place::AfterRun => Self::Run,
            Place::AfterStep => Self::Step,
            Place::AfterCancel => Self::Cancel,
        }
    }
}

impl Waiting {
    async fn of(app: &Shared, queued: QueuedMessage) -> Result<Self, Problem> {
        let mut text = String::new();
        for part in queued.message.texts() {
            text.push_str(&app.engine.text(part).await?);
        }
        Ok(Self {
            id: queued.id.to_string(),
            text,
            by: queued.by.to_string(),
            place: queued.place.into(),
            since: queued.since.0,
            run: queued.run.to_string(),
        })
    }
}

fn tag(queued: &QueuedMessage) -> ETag {
    ETag::strong(&("queued", &queued.id, &queued.message, queued.place))
}

async fn find(app: &Shared, thread: &ThreadId, id: &InputId) -> Result<QueuedMessage, Problem> {
    let all = app.engine.thread(thread).queue().list().await?;
    let found = all.into_iter().find(|queued| queued.id == *id);
    found.ok_or_else(|| Problem::not_found(format!("queued message `{id}`")))
}

/// List queued messages, in the order in which they will be sent
#[utoipa::path(get, path = "/threads/{thread}/queue", tag = "threads",
    params(("thread" = String, Path, description = "the thread's id")),
    responses((status = 200, body = Page<Waiting>)))]
async fn list(
    State(app): State<Shared>,
    caller: Caller,
    Path(thread): Path<ThreadId>,
) -> Result<Json<Page<Waiting>>, Problem> {
    caller.reads()?;
    caller.thread(&app, &thread).await?;
    let mut data = Vec::new();
    for queued in app.engine.thread(&thread).queue().list().await? {
        data.push(Waiting::of(&app, queued).await?);
    }
    Ok(Json(Page { data, next_cursor: None }))
}

/// Get a queued message
#[utoipa::path(get, path = "/threads/{thread}/queue/{message}", tag = "threads",
    params(("thread" = String, Path, description = "the thread's id"),
        ("message" = String, Path, description = "the message's id"), IfNoneMatch),
    responses((status = 200, body = Waiting)))]
async fn one(
    State(app): State<Shared>,
    caller: Caller,
    seen: Seen,
    Path((thread, id)): Path<(ThreadId, InputId)>,
) -> Result<Response, Problem> {
    caller.reads()?;
    caller.thread(&app, &thread).await?;
    let queued = find(&app, &thread, &id).await?;
    let tag = tag(&queued);
    seen.answer(&tag, Waiting::of(&app, queued)).await
}

/// A change of a queued message.
#[derive(Clone, Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
struct QueueChange {
    /// New content.
    message: Said,
}

/// Change the content of a queued message
#[utoipa::path(patch, path = "/threads/{thread}/queue/{message}", tag = "threads",
    params(("thread" = String, Path, description = "the thread's id"),
        ("message" = String, Path, description = "the message's id"), IfMatch), request_body = QueueChange,
    responses((status = 200, body = Waiting)))]
async fn edit(
    State(app): State<Shared>,
    caller: Caller,
    seen: Seen,
    Path((thread, id)): Path<(ThreadId, InputId)>,
    Body(change): Body<QueueChange>,
) -> Result<Response, Problem> {
    caller.runs()?;
    caller.thread(&app, &thread).await?;
    let message: Message = change.message.read()?;
    seen.allows(&tag(&find(&app, &thread, &id).await?))?;
    app.engine.thread(&thread).queue().edit(&id, message, caller.user().clone()).await?;
    // The run may have taken the message after the change.
    let queued = find(&app, &thread, &id).await?;
    let tag = tag(&queued);
    Ok(tag.json(Waiting::of(&app, queued).await?))
}

/// Withdraw a queued message
#[utoipa::path(delete, path = "/threads/{thread}/queue/{message}", tag = "threads",
    params(("thread" = String, Path, description = "the thread's id"),
        ("message" = String, Path, description = "the message's id"), IfMatch),
    responses((status = 204, description = "the message was withdrawn")))]
async fn withdraw(
    State(app): State<Shared>,
    caller: Caller,
    seen: Seen,
    Path((thread, id)): Path<(ThreadId, InputId)>,
) -> Result<StatusCode, Problem> {
    caller.runs()?;
    caller.thread(&app, &thread).await?;
    seen.allows(&tag(&find(&app, &thread, &id).await?))?;
    app.engine.thread(&thread).queue().withdraw(&id, caller.user().clone()).await?;
    Ok(StatusCode::NO_CONTENT)
}

/// Send a queued message next; the active run is cancelled for it
#[utoipa::path(post, path = "/threads/{thread}/queue/{message}/send", tag = "threads",
    params(("thread" = String, Path, description = "the thread's id"),
        ("message" = String, Path, description = "the message's id"), IdempotencyKey),
    responses((status = 202, body = Waiting, description = "the message is sent as soon as the run has ended")))]
async fn send_now(
    State(app): State<Shared>,
    caller: Caller,
    Path((thread, id)): Path<(ThreadId, InputId)>,
) -> Result<(StatusCode, Json<Waiting>), Problem> {
    caller.runs()?;
    caller.thread(&app, &thread).await?;
    let queued = find(&app, &thread, &id).await?;
    app.engine.thread(&thread).queue().send_now(&id, caller.user().clone()).await?;
    Ok((StatusCode::ACCEPTED, Json(Waiting::of(&app, queued).await?)))
}
