//! Streams that stay open: server-sent events, or one JSON object a line for clients that ask for it.

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

/// The routes.
pub fn routes() -> ApiRouter {
    ApiRouter::new().routes(routes!(thread)).routes(routes!(run))
}

/// Where to begin.
#[derive(Debug, Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
struct Begin {
    /// Tell what comes after this `id`; `0` begins with the thread. The header `Last-Event-ID` counts before it.
    after: Option<String>,
    /// The form of the running reply's fragments that were generated before the request.
    #[serde(default)]
    #[param(inline)]
    backlog: Form,
}

/// The form of fragments that were generated before a request.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
enum Form {
    /// One by one, as far as the server has them.
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

/// Where to begin, and what leaving means.
#[derive(Debug, Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
struct BeginRun {
    /// Tell what comes after this `id`; `0` begins with the thread. The header `Last-Event-ID` counts before it.
    after: Option<String>,
    /// What becomes of the run when the client goes away before it has ended.
    #[serde(default)]
    #[param(inline)]
    on_leave: OnLeave,
}

/// What becomes of a run whose client goes away.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
enum OnLeave {
    /// It goes on.
    #[default]
    Keep,
    /// It is stopped, as by `POST /runs/{run}/cancel`; for clients that nobody else answers for.
    Cancel,
}

/// What happens in a conversation, from a position on, without an end
///
/// Each event has its wire name as `event` and one JSON object as `data`. Those with an `id` are the thread's: events
/// of the journal, and between them the fragments of the reply that is being generated, numbered from 1 for each
/// `step.started`. `message.snapshot` takes the place of all fragments of its reply so far; `step.failed` makes them
/// void; `step.replied` has the whole. A `step.failed` that is retried says how many attempts there are at most
/// (`attempts_max`) and when the next one begins (`retry_at`, in milliseconds since the Unix epoch; at once if absent); the
/// failed one is its `attempt`, 1 if absent. A client that comes back sends the last `id` as `Last-Event-ID`, and is told
/// neither less nor anything twice.
#[utoipa::path(get, path = "/threads/{thread}/stream", tag = "streams",
    params(("thread" = String, Path, description = "the thread's id"), Begin,
        ("last-event-id" = Option<String>, Header, description = "the last `id` that the client has")),
    responses((status = 200, content_type = "text/event-stream", body = String,
            description = "events; with `Accept: application/x-ndjson` one JSON object a line, its `id` as `position`"),
        (status = 401, body = Problem), (status = 404, body = Problem),
        (status = 429, body = Problem, description = "`too_many_streams`: the caller has all of its streams open")))]
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

/// What happens in a run's conversation, until the run has ended or waits for a person
///
/// It begins with the run unless a position is given, and its last event is `outcome`: how the run stands. Leaving it
/// leaves the run alone, unless `on_leave` says otherwise.
#[utoipa::path(get, path = "/runs/{run}/stream", tag = "streams",
    params(("run" = String, Path, description = "the run's id"), BeginRun,
        ("last-event-id" = Option<String>, Header, description = "the last `id` that the client has")),
    responses((status = 200, content_type = "text/event-stream", body = String,
            description = "events; with `Accept: application/x-ndjson` one JSON object a line, its `id` as `position`"),
        (status = 204, description = "the run has ended, and the client has it all"),
        (status = 401, body = Problem), (status = 404, body = Problem),
        (status = 429, body = Problem, description = "`too_many_streams`: the caller has all of its streams open")))]
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
        // Read after the run's row: if the run has ended, its end is not after this.
        let head = caller.thread(&app, &row.thread).await?.head;
        last = row.view.status.map(|_| head);
        given = position(&headers, begin.after.as_deref(), head)?;
    }
    let has_all = last.is_some_and(|last| given.is_some_and(|at| at.seq == last));
    if headers.contains_key(super::LAST_EVENT_ID) && has_all {
        // Clients of server-sent events come back when a stream ends, until they are told this.
        return Ok(StatusCode::NO_CONTENT.into_response());
    }
    let after = given.unwrap_or_else(|| Seq(row.view.from.0.saturating_sub(1)).into());
    let place = StreamPlace::take(&app, &caller)?;
    let feed = Feed::open(&app, Reader::of(&headers), &row.thread, after, Backlog::Fragments);
    let mut live = Live::open(&app, &headers, &row.thread, feed, End::WithRun { run, last }, place);
    live.stopped_by = (begin.on_leave == OnLeave::Cancel).then(|| caller.user().clone());
    Ok(live.respond())
}

/// When a stream ends by itself.
enum End {
    Never,
    /// With a run; where that has ended, no later than with the event that was the thread's last one then.
    WithRun {
        run: RunId,
        last: Option<Seq>,
    },
}

/// One client's stream.
struct Live {
    app: Shared,
    feed: Feed,
    frames: Arc<frame::Thread>,
    format: Format,
    end: End,
    is_over: bool,
    /// In whose name the run is stopped when the client goes away.
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
                tracing::warn!(%run, %error, "the run of a client that went away could not be stopped");
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
        let frames = futures::stream::unfold(self, |mut live| async move {
            let frame = live.next().await?;
            Some((Ok::<_, Infallible>(frame), live))
        });
        let headers = [
            (header::CONTENT_TYPE, HeaderValue::from_static(format.media_type())),
            (header::CACHE_CONTROL, HeaderValue::from_static("no-store")),
            // Asks proxies to hand on each event at once.
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
            // The outcome follows at once, in the same bytes.
            Ok(true) => [told, self.outcome().await].concat().into(),
            Err(error) => self.failed(error),
        }
    }

    /// Whether a run that had ended before has been told to its end.
    fn has_all(&self) -> bool {
        match &self.end {
            End::Never | End::WithRun { last: None, .. } => false,
            End::WithRun { last: Some(last), .. } => self.feed.position().seq >= *last,
        }
    }

    /// Whether the run ends or waits with an update.
    async fn ends_with(&mut self, update: &Update) -> Result<bool, EngineError> {
        let End::WithRun { run, .. } = &self.end else { return Ok(false) };
        // On the heap for its moment: a stream's memory is that of its largest step.
        let stands = async || Ok::<_, EngineError>(Box::pin(self.app.engine.run(run).status()).await?.status);
        Ok(match update {
            Update::Event(recorded) => {
                let mine = recorded.event.run.as_ref() == Some(run);
                mine && matches!(recorded.event.fact, Fact::RunFinished { .. })
            }
            // Somebody may have answered since, and it may be another run that waits.
            Update::Status(ThreadStatus::Waiting) => stands().await? == Status::Paused,
            // The run before it did not end well, and nothing sends its message.
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

/// Server-sent events, unless the client asks for lines.
fn wanted(headers: &HeaderMap) -> Format {
    let accepts = headers.get_all(header::ACCEPT).iter().filter_map(|value| value.to_str().ok());
    let mut types = accepts.flat_map(|value| value.split(','));
    let is_lines = |media_type: &str| {
        media_type.split(';').next().unwrap_or_default().trim() == Format::Ndjson.media_type()
    };
    if types.any(is_lines) { Format::Ndjson } else { Format::Sse }
}
