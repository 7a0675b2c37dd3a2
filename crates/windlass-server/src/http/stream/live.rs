//! Streaming routes: server-sent events, or one JSON object per line if the client accepts `application/x-ndjson`.

use std::convert::Infallible;
use std::sync::Arc;

use axum::body::Body;
use axum::extract::State;
use axum::response::{IntoResponse, Response};
use bytes::Bytes;
use http::{HeaderMap, HeaderValue, StatusCode, header};
use serde::Deserialize;
use utoipa::{IntoParams, ToSchema};
use windlass::machine::{Fact, Principal, RunId, Seq, ThreadId};
use windlass::port::journal::ThreadStatus;
use windlass::{Backlog, EngineError, Position, Status, Update};

use super::feed::{Feed, Item, Reader};
use super::frame::{self, Format};
use super::place::StreamPlace;
use super::position;
use crate::http::Shared;
use crate::http::api::{ApiRouter, routes};
use crate::http::caller::Caller;
use crate::http::input::{Path, Query};
use crate::http::problem::Problem;
use crate::http::stream::json;

pub fn routes() -> ApiRouter {
    ApiRouter::new().routes(routes!(thread)).routes(routes!(run))
}

/// Query parameters of a thread's stream.
#[derive(Debug, Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
struct Begin {
    /// Send what follows this `id`; `0` starts at the beginning of the thread. The header `Last-Event-ID` takes
    /// precedence.
    after: Option<String>,
    /// Form of the running reply's deltas that were generated before the request.
    #[serde(default)]
    #[param(inline)]
    backlog: Form,
}

/// Form of deltas that were generated before a request.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
enum Form {
    /// Individually, as far as the server still has them.
    #[default]
    Fragments,
    /// As one `message.snapshot`, so that the client can show the whole text at once.
    Snapshot,
}

impl From<Form> for Backlog {
    fn from(form: Form) -> Self {
        match form {
            Form::Fragments => Self::Fragments,
            Form::Snapshot => Self::Snapshot,
        }
    }
}

/// Query parameters of a run's stream.
#[derive(Debug, Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
struct BeginRun {
    /// Send what follows this `id`; `0` starts at the beginning of the thread. The header `Last-Event-ID` takes
    /// precedence.
    after: Option<String>,
    /// What happens to the run if the client disconnects before its end.
    #[serde(default)]
    #[param(inline)]
    on_leave: OnLeave,
}

/// What happens to a run if its client disconnects.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
enum OnLeave {
    /// The run continues.
    #[default]
    Keep,
    /// The run is cancelled, as by `POST /runs/{run}/cancel`. For clients whose runs no other client will follow.
    Cancel,
}

/// Stream the updates of a conversation, without an end
///
/// Each event has its wire name as `event` and one JSON object as `data`. Events with an `id` belong to the thread:
/// journal events, and between them the deltas of the current reply, numbered from 1 for each `step.started`. A
/// `message.snapshot` replaces all earlier deltas of its reply, a `step.failed` invalidates them, and a `step.replied`
/// contains the complete reply. A `step.failed` that will be retried contains the maximum number of attempts
/// (`attempts_max`). Its `retry_at` is the start of the next attempt, in milliseconds since the Unix epoch; at once if
/// absent. Its `attempt` is the number of the failed attempt, 1 if absent. A client that reconnects sends the last
/// `id` as `Last-Event-ID`; the stream then continues without gaps or duplicates.
#[utoipa::path(get, path = "/threads/{thread}/stream", tag = "streams",
    params(("thread" = String, Path, description = "the thread's id"), Begin,
        ("last-event-id" = Option<String>, Header, description = "the last `id` that the client received")),
    responses((status = 200, content_type = "text/event-stream", body = String,
            description = "events; with `Accept: application/x-ndjson`, one JSON object per line, its `id` \
                as `position`"),
        (status = 401, body = Problem), (status = 404, body = Problem),
        (status = 429, body = Problem, description = "`too_many_streams`: the caller has reached the limit \
            of open streams")))]
async fn thread(
    State(app): State<Shared>,
    caller: Caller,
    headers: HeaderMap,
    Path(thread): Path<ThreadId>,
    Query(begin): Query<Begin>,
) -> Result<Response, Problem> {
    caller.reads()?;
    let row = caller.reads_thread(&app, &thread).await?;
    let after = position(&headers, begin.after.as_deref(), row.head)?.unwrap_or_default();
    let place = StreamPlace::take(&app, &caller)?;
    let feed = Feed::open(&app, Reader::of(&headers), &thread, after, begin.backlog.into());
    Ok(Live::open(&app, &headers, &thread, feed, End::Never, place).respond())
}

/// Stream the updates of a run's conversation, until the run ends or waits for a person
///
/// The stream starts at the run unless a position is given. Its last event is `outcome`, the current outcome of the
/// run. A disconnect does not affect the run unless `on_leave` is `cancel`.
#[utoipa::path(get, path = "/runs/{run}/stream", tag = "streams",
    params(("run" = String, Path, description = "the run's id"), BeginRun,
        ("last-event-id" = Option<String>, Header, description = "the last `id` that the client received")),
    responses((status = 200, content_type = "text/event-stream", body = String,
            description = "events; with `Accept: application/x-ndjson`, one JSON object per line, its `id` \
                as `position`"),
        (status = 204, description = "the run has ended, and the client has received everything"),
        (status = 401, body = Problem), (status = 404, body = Problem),
        (status = 429, body = Problem, description = "`too_many_streams`: the caller has reached the limit \
            of open streams")))]
async fn run(
    State(app): State<Shared>,
    caller: Caller,
    headers: HeaderMap,
    Path(run): Path<RunId>,
    Query(begin): Query<BeginRun>,
) -> Result<Response, Problem> {
    caller.reads()?;
    if begin.on_leave == OnLeave::Cancel {
        caller.runs()?;
    }
    let row = caller.run(&app, &run).await?;
    let names_position = headers.contains_key(super::LAST_EVENT_ID) || begin.after.is_some();
    let (mut last, mut given) = (None, None);
    if row.view.status.is_some() || names_position {
        // Read the head after the run's row: if the run has ended, its last event is at or before this position.
        let head = caller.thread(&app, &row.thread).await?.head;
        last = row.view.status.map(|_| head);
        given = position(&headers, begin.after.as_deref(), head)?;
    }
    let has_all = last.is_some_and(|last| given.is_some_and(|at| at.seq == last));
    if headers.contains_key(super::LAST_EVENT_ID) && has_all {
        // Clients of server-sent events reconnect when a stream ends, until they receive this status.
        return Ok(StatusCode::NO_CONTENT.into_response());
    }
    let after = given.unwrap_or_else(|| Seq(row.view.from.0.saturating_sub(1)).into());
    let place = StreamPlace::take(&app, &caller)?;
    let feed = Feed::open(&app, Reader::of(&headers), &row.thread, after, Backlog::Fragments);
    let mut live = Live::open(&app, &headers, &row.thread, feed, End::WithRun { run, last }, place);
    live.stopped_by = (begin.on_leave == OnLeave::Cancel).then(|| caller.user().clone());
    Ok(live.respond())
}

/// The condition that ends a stream.
enum End {
    Never,
    /// The stream ends with a run. If the run had ended before the request, `last` is the thread's last event at that
    /// time, and the stream ends at that event at the latest.
    WithRun {
        run: RunId,
        last: Option<Seq>,
    },
}

/// The stream of one client.
struct Live {
    app: Shared,
    feed: Feed,
    frames: Arc<frame::Thread>,
    format: Format,
    end: End,
    is_over: bool,
    /// The principal that cancels the run if the client disconnects; `None` to keep the run.
    stopped_by: Option<Principal>,
    _place: StreamPlace,
}

impl Drop for Live {
    fn drop(&mut self) {
        let has_left = !self.is_over && !self.feed.is_over();
        let (Some(by), End::WithRun { run, last: None }, true) =
            (self.stopped_by.take(), &self.end, has_left)
        else {
            return;
        };
        let (engine, run) = (self.app.engine.clone(), run.clone());
        tokio::spawn(async move {
            if let Err(error) = engine.run(&run).cancel(by).await {
                tracing::warn!(%run, %error, "the run of a disconnected client could not be cancelled");
            }
        });
    }
}

impl Live {
    fn open(
        app: &Shared,
        headers: &HeaderMap,
        thread: &ThreadId,
        feed: Feed,
        end: End,
        place: StreamPlace,
    ) -> Self {
        Self {
            feed,
            frames: app.streams.frames.of(thread),
            app: app.clone(),
            format: wanted(headers),
            end,
            is_over: false,
            stopped_by: None,
            _place: place,
        }
    }

    fn respond(self) -> Response {
        let format = self.format;
        // Boxed, because the state moves with each frame.
        let frames = futures::stream::unfold(Box::new(self), |mut live| async move {
            let frame = live.next().await?;
            Some((Ok::<_, Infallible>(frame), live))
        });
        let headers = [
            (header::CONTENT_TYPE, HeaderValue::from_static(format.media_type())),
            (header::CACHE_CONTROL, HeaderValue::from_static("no-store")),
            // Asks proxies not to buffer events.
            (header::HeaderName::from_static("x-accel-buffering"), HeaderValue::from_static("no")),
        ];
        (headers, Body::from_stream(frames)).into_response()
    }

    async fn next(&mut self) -> Option<Bytes> {
        if self.is_over {
            return None;
        }
        if self.has_all() {
            return Some(self.outcome().await);
        }
        match self.feed.next().await? {
            Item::Heartbeat => Some(self.format.heartbeat()),
            Item::Stopping => Some(self.format.stopping()),
            Item::Refused(problem) => Some(self.format.refused(&problem)),
            Item::Told(position, update) => Some(self.told(position, &update).await),
        }
    }

    async fn told(&mut self, position: Position, update: &Update) -> Bytes {
        let told = match self.frames.encode(&self.app.engine, self.format, position, update).await {
            Ok(frame) => frame,
            Err(error) => return self.failed(error),
        };
        match self.ends_with(update).await {
            Ok(false) => told,
            // The outcome follows immediately, in the same chunk.
            Ok(true) => [told, self.outcome().await].concat().into(),
            Err(error) => self.failed(error),
        }
    }

    /// Returns whether the client has received all of a run that had ended before the request.
    fn has_all(&self) -> bool {
        match &self.end {
            End::Never | End::WithRun { last: None, .. } => false,
            End::WithRun { last: Some(last), .. } => self.feed.position().seq >= *last,
        }
    }

    /// Returns whether the run ends or starts to wait with this update.
    async fn ends_with(&mut self, update: &Update) -> Result<bool, EngineError> {
        let End::WithRun { run, .. } = &self.end else { return Ok(false) };
        // Boxed because this read is rare: without the box, it would increase the size of every stream's future.
        let stands = async || Ok::<_, EngineError>(Box::pin(self.app.engine.run(run).status()).await?.status);
        Ok(match update {
            Update::Event(recorded) => {
                let mine = recorded.event.run.as_ref() == Some(run);
                mine && matches!(recorded.event.fact, Fact::RunFinished { .. })
            }
            // A person may have answered in the meantime, or another run of the thread may be waiting.
            Update::Status(ThreadStatus::Waiting) => stands().await? == Status::Paused,
            // The previous run failed, so this queued run does not start.
            Update::Status(ThreadStatus::Idle) => stands().await? == Status::Queued,
            Update::Status(ThreadStatus::Running | ThreadStatus::Sleeping) => false,
            Update::Delta { .. }
            | Update::Snapshot { .. }
            | Update::Progress { .. }
            | Update::Stopped { .. } => false,
        })
    }

    async fn outcome(&mut self) -> Bytes {
        self.is_over = true;
        let End::WithRun { run, .. } = &self.end else { return Bytes::new() };
        match Box::pin(self.app.engine.run(run).status()).await {
            Ok(outcome) => self.format.frame(None, &json::outcome(&outcome)),
            Err(error) => self.failed(error),
        }
    }

    fn failed(&mut self, error: EngineError) -> Bytes {
        self.is_over = true;
        self.format.refused(&error.into())
    }
}

/// Returns the requested format: server-sent events, unless the client accepts JSON lines.
fn wanted(headers: &HeaderMap) -> Format {
    let accepts = headers.get_all(header::ACCEPT).iter().filter_map(|value| value.to_str().ok());
    let mut types = accepts.flat_map(|value| value.split(','));
    let is_lines = |media_type: &str| {
        media_type.split(';').next().unwrap_or_default().trim() == Format::Ndjson.media_type()
    };
    if types.any(is_lines) { Format::Ndjson } else { Format::Sse }
}
