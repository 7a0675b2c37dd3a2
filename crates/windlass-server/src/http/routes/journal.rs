//! A conversation as it was recorded: its events, the prompt of each step, and the whole as a file.
//!
//! Everything is read from the journal.

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

/// Events of a part at most.
const EVENTS_MAX: usize = 500;
/// Events of a part where the request names no number.
const EVENTS: usize = 100;
/// Bytes after which a part ends, whatever is left of it: a text in it may be as long as a message.
const PART_MAX_BYTES: usize = 4 * 1024 * 1024;

/// The routes.
pub fn routes() -> ApiRouter {
    ApiRouter::new().routes(routes!(events)).routes(routes!(prompt)).routes(routes!(export))
}

/// Which events.
#[derive(Clone, Debug, Deserialize, IntoParams)]
#[into_params(parameter_in = Query)]
struct EventsQuery {
    /// Only those after this position.
    #[param(minimum = 0)]
    after: Option<u32>,
    /// At most so many.
    #[param(minimum = 1, maximum = 500, default = 100)]
    limit: Option<usize>,
}

/// A part of a journal.
#[derive(Clone, Debug, Serialize, ToSchema)]
struct Events {
    /// The events, each with its position `seq`, its time `at`, its `type` and what belongs to that.
    #[schema(value_type = Vec<Object>)]
    data: Vec<Value>,
    /// `after` of the part that follows; absent where this one ends with the journal.
    #[serde(skip_serializing_if = "Option::is_none")]
    next_after: Option<u64>,
}

/// What happened in a conversation, in order
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

/// What a model was asked in a step, as it was sent
///
/// The step is named by the position of its `step.started`. It is built from the journal again; `digest` and `replied`
/// say whether it is what was sent.
#[utoipa::path(get, path = "/threads/{thread}/steps/{seq}/prompt", tag = "threads",
    params(("thread" = String, Path, description = "the thread's id"),
        ("seq" = u32, Path, description = "position of the `step.started`")),
    responses((status = 200, body = Object, description = "model, digest, tokens, `parts` in the order in which they \
        were sent, and the whole `request` with long texts by digest")))]
async fn prompt(
    State(app): State<Shared>,
    caller: Caller,
    Path((thread, seq)): Path<(ThreadId, u32)>,
) -> Result<Response, Problem> {
    caller.reads()?;
    caller.thread(&app, &thread).await?;
    Ok(Json(app.engine.thread(&thread).prompt(Seq(seq.into())).await?).into_response())
}

/// A conversation as a file: its events as lines of JSON
///
/// Texts are whole; pictures and documents stay named by digest.
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
    // What goes wrong on the way cuts the connection: a file that ends early must not look whole.
    let lines =
        app.engine.thread(&thread).export().inspect_err(|error| tracing::warn!(%error, "an export was cut"));
    let mut response = Bytes::from_stream(lines).into_response();
    let headers = response.headers_mut();
    headers.insert(header::CONTENT_TYPE, HeaderValue::from_static("application/x-ndjson"));
    headers.insert(
        header::CONTENT_DISPOSITION,
        HeaderValue::from_static("attachment; filename=\"thread.jsonl\""),
    );
    Ok(response)
}
