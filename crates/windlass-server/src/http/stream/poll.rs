//! Long polling for clients that cannot keep a stream open. A request returns available updates, or waits for one.

use std::time::Duration;

use axum::Json;
use axum::extract::State;
use futures::FutureExt;
use http::HeaderMap;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use utoipa::{IntoParams, ToSchema};
use windlass::machine::ThreadId;
use windlass::{Backlog, Update};

use super::feed::{Feed, Item, Reader};
use super::frame::is_placed;
use super::position;
use crate::http::Shared;
use crate::http::api::{ApiRouter, routes};
use crate::http::caller::Caller;
use crate::http::input::{Path, Query};
use crate::http::problem::Problem;
use crate::http::stream::json;

/// Maximum wait of a request, in seconds: less than the usual timeouts of proxies (30 to 60 s).
const WAIT_MAX_S: u64 = 25;

/// Maximum number of updates in one response; the next request continues after them.
const UPDATES: usize = 500;

/// Number of bytes in one response after which no further update is added.
const BYTES: usize = 1024 * 1024;

pub fn routes() -> ApiRouter {
    ApiRouter::new().routes(routes!(updates))
}

/// Query parameters of a poll.
#[derive(Debug, Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
struct Poll {
    /// Return the updates after this position, the `next` of the previous response. Default: from the thread's first
    /// event.
    after: Option<String>,
    /// Seconds to wait if there are no updates yet; at most 25.
    #[serde(default)]
    #[param(maximum = 25)]
    wait: u64,
}

/// Updates and the position after them.
#[derive(Debug, Serialize, ToSchema)]
struct Updates {
    /// Updates after the position, in order; the same objects as in a stream.
    #[schema(value_type = Vec<Object>)]
    updates: Vec<Value>,
    /// Position after the last of these updates.
    #[schema(example = "12.0")]
    next: String,
}

/// Poll the updates of a conversation since a position
#[utoipa::path(get, path = "/threads/{thread}/updates", tag = "streams",
    params(("thread" = String, Path, description = "the thread's id"), Poll),
    responses((status = 200, body = Updates), (status = 401, body = Problem), (status = 404, body = Problem),
        (status = 422, body = Problem)))]
async fn updates(
    State(app): State<Shared>,
    caller: Caller,
    headers: HeaderMap,
    Path(thread): Path<ThreadId>,
    Query(poll): Query<Poll>,
) -> Result<Json<Updates>, Problem> {
    caller.reads()?;
    if poll.wait > WAIT_MAX_S {
        let what = format!("`wait` is {} s; it must be at most {WAIT_MAX_S} s", poll.wait);
        return Err(Problem::invalid(what));
    }
    let row = caller.reads_thread(&app, &thread).await?;
    let after = position(&HeaderMap::new(), poll.after.as_deref(), row.head)?.unwrap_or_default();
    let mut feed = Feed::open(&app, Reader::of(&headers), &thread, after, Backlog::Fragments);
    let (mut updates, mut bytes) = (Vec::new(), 0);
    let mut wait = Box::pin(tokio::time::sleep(Duration::from_secs(poll.wait)));
    // The first item is always awaited, even with `wait=0`: the feed reads the journal and then reports at least the
    // thread's status.
    let mut patience = Patience::Always;
    while updates.len() < UPDATES && bytes < BYTES {
        let Some(update) = next(&mut feed, patience, &mut wait).await? else { break };
        // Updates without a position describe the current state and would be repeated in every response.
        if is_placed(&update) {
            let value = json::update(&app.engine, &update).await?;
            bytes += value.to_string().len();
            updates.push(value);
        }
        patience = if updates.is_empty() { Patience::Some } else { Patience::None };
    }
    Ok(Json(Updates { updates, next: feed.position().to_string() }))
}

/// The time to wait for an update.
#[derive(Clone, Copy)]
enum Patience {
    Always,
    /// Until the time that the client requested has passed.
    Some,
    None,
}

async fn next(
    feed: &mut Feed,
    patience: Patience,
    wait: &mut (impl Future<Output = ()> + Unpin),
) -> Result<Option<Update>, Problem> {
    loop {
        let item = match patience {
            Patience::Always => feed.next().await,
            Patience::Some => tokio::select! {
                biased;
                item = feed.next() => item,
                () = &mut *wait => None,
            },
            Patience::None => feed.next().now_or_never().flatten(),
        };
        match item {
            Some(Item::Told(_, update)) => return Ok(Some(update)),
            Some(Item::Heartbeat) => {}
            Some(Item::Refused(problem)) => return Err(problem),
            Some(Item::Stopping) | None => return Ok(None),
        }
    }
}
