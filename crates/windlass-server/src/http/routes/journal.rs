//! A thread as recorded: its events, the prompt of each step, and an export.
//!
//! The routes read all data from the journal.

use axum::Json;
use axum::body::Body as Bytes;
use axum::extract::State;
use axum::response::{IntoResponse, Response};
use futures::TryStreamExt;
use http::{HeaderValue, header};
use serde::{Deserialize, Serialize};
use serde_json::Value;
use utoipa::{IntoParams, ToSchema};
use windlass::machine::{Seq, ThreadId};

use crate::http::Shared;
use crate::http::api::{ApiRouter, routes};
use crate::http::caller::Caller;
use crate::http::input::{Path, Query};
use crate::http::problem::Problem;

/// Maximum number of events of a page.
const EVENTS_MAX: usize = 500;
/// Default number of events of a page.
const EVENTS: usize = 100;
/// Size after which a page ends early, in bytes, because an event may contain the text of a whole message.
const PART_MAX_BYTES: usize = 4 * 1024 * 1024;

pub fn routes() -> ApiRouter {
    ApiRouter::new().routes(routes!(events)).routes(routes!(prompt)).routes(routes!(export))
}

/// Which events to return.
#[derive(Clone, Debug, Deserialize, IntoParams)]
#[into_params(parameter_in = Query)]
struct EventsQuery {
    /// Only events after this position.
    #[param(minimum = 0)]
    after: Option<u32>,
    /// Maximum number of events.
    #[param(minimum = 1, maximum = 500, default = 100)]
    limit: Option<usize>,
}

/// A page of a journal.
#[derive(Clone, Debug, Serialize, ToSchema)]
struct Events {
    /// The events. Each has its position `seq`, its time `at`, its `type`, and the members of that type.
    #[schema(value_type = Vec<Object>)]
    data: Vec<Value>,
    /// `after` of the next page; absent if this page ends with the journal.
    #[serde(skip_serializing_if = "Option::is_none")]
    next_after: Option<u64>,
}

/// List the events of a conversation, in order
#[utoipa::path(get, path = "/threads/{thread}/events", tag = "threads",
    params(("thread" = String, Path, description = "the thread's id"), EventsQuery),
    responses((status = 200, body = Events)))]
async fn events(
    State(app): State<Shared>,
    caller: Caller,
    Path(thread): Path<ThreadId>,
    Query(query): Query<EventsQuery>,
) -> Result<Json<Events>, Problem> {
    caller.reads()?;
    let row = caller.reads_thread(&app, &thread).await?;
    let limit = query.limit.unwrap_or(EVENTS);
    if !(1..=EVENTS_MAX).contains(&limit) {
        return Err(Problem::bad_request(format!("`limit` is {limit}; it must be 1 to {EVENTS_MAX}")));
    }
    let mut last = Seq(query.after.unwrap_or_default().into());
    let (mut data, mut bytes) = (Vec::new(), 0);
    for recorded in app.engine.thread(&thread).events(last, limit).await? {
        last = recorded.seq;
        let event = app.engine.event_json(&recorded).await?;
        bytes += event.to_string().len();
        data.push(event);
        if bytes >= PART_MAX_BYTES {
            break;
        }
    }
    let is_more = !data.is_empty() && last < row.head;
    Ok(Json(Events { data, next_after: is_more.then_some(last.0) }))
}

/// Get the model request of a step
///
/// The step is identified by the position of its `step.started`. The request is rebuilt from the journal; `digest` and
/// `replied` show whether it equals the one that was sent.
#[utoipa::path(get, path = "/threads/{thread}/steps/{seq}/prompt", tag = "threads",
    params(("thread" = String, Path, description = "the thread's id"),
        ("seq" = u32, Path, description = "position of the `step.started`")),
    responses((status = 200, body = Object, description = "model, digest, tokens, `parts` in the order of \
        the request, and the complete `request` with long texts by digest")))]
async fn prompt(
    State(app): State<Shared>,
    caller: Caller,
    Path((thread, seq)): Path<(ThreadId, u32)>,
) -> Result<Response, Problem> {
    caller.reads()?;
    caller.thread(&app, &thread).await?;
    Ok(Json(app.engine.thread(&thread).prompt(Seq(seq.into())).await?).into_response())
}

/// Export a conversation: its events as JSON lines
///
/// Texts are complete. Images and documents are referenced by digest.
#[utoipa::path(get, path = "/threads/{thread}/export", tag = "threads",
    params(("thread" = String, Path, description = "the thread's id")),
    responses((status = 200, body = String, content_type = "application/x-ndjson")))]
async fn export(
    State(app): State<Shared>,
    caller: Caller,
    Path(thread): Path<ThreadId>,
) -> Result<Response, Problem> {
    caller.reads()?;
    caller.thread(&app, &thread).await?;
    // An error during the export aborts the connection, so that a truncated file does not look complete.
    let lines = app
        .engine
        .thread(&thread)
        .export()
        .inspect_err(|error| tracing::warn!(%error, "an export ended early"));
    let mut response = Bytes::from_stream(lines).into_response();
    let headers = response.headers_mut();
    headers.insert(header::CONTENT_TYPE, HeaderValue::from_static("application/x-ndjson"));
    headers.insert(
        header::CONTENT_DISPOSITION,
        HeaderValue::from_static("attachment; filename=\"thread.jsonl\""),
    );
    Ok(response)
}
