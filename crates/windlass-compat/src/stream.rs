//! The response stream of a request: encodes a thread's updates as server-sent events of a dialect.
//!
//! The stream belongs to the request. If the client disconnects, the stream ends and the run continues. (CF-11)

use std::collections::VecDeque;
use std::convert::Infallible;
use std::sync::Arc;

use axum::body::Body;
use axum::response::{IntoResponse, Response};
use bytes::Bytes;
use http::{HeaderMap, HeaderName, HeaderValue, header};
use windlass::machine::{Seq, ThreadId, Timestamp};
use windlass::port::clock::Clock;
use windlass::{Backlog, Update};
use windlass_server::http::Shared;
use windlass_server::http::stream::feed::{Feed, Item, Reader};
use windlass_server::http::stream::place::StreamPlace;

use super::fill::filled;

/// Encodes a thread's updates for a dialect: a pure mapping with one encoder per stream.
pub trait Speaker: Send + 'static {
    /// Encodes an update as frames. The caller must fill in its offloaded texts first.
    fn hear(&mut self, update: &Update, now: Timestamp) -> Vec<String>;

    /// Returns the frames for a thread that can no longer be followed.
    fn breaks(&self, why: &str) -> Vec<String>;

    /// Whether the stream's last frame was sent.
    fn is_over(&self) -> bool;
}

/// A server-sent comment. It keeps proxies from closing an idle stream, and clients skip it.
const ALIVE: &str = ": alive\n\n";

/// Returns a thread's feed from an event on, for the client that sent these headers.
pub fn feed(app: &Shared, headers: &HeaderMap, thread: &ThreadId, from: Seq) -> Feed {
    let after = Seq(from.0.saturating_sub(1));
    Feed::open(app, Reader::of(headers), thread, after.into(), Backlog::Fragments)
}

/// Creates the HTTP response, which sends the first frames at once, then streams the thread's updates.
pub fn respond(
    app: &Shared,
    place: StreamPlace,
    feed: Feed,
    speaker: impl Speaker,
    first: Vec<String>,
) -> Response {
    let clock = windlass_server::clock::clock();
    let said =
        Said { app: app.clone(), feed, speaker, clock, ready: first.into(), is_over: false, _place: place };
    let frames = futures::stream::unfold(said, |mut said| async move {
        let frame = said.next().await?;
        Some((Ok::<_, Infallible>(Bytes::from(frame)), said))
    });
    let headers = [
        (header::CONTENT_TYPE, HeaderValue::from_static("text/event-stream; charset=utf-8")),
        (header::CACHE_CONTROL, HeaderValue::from_static("no-cache")),
        (header::CONNECTION, HeaderValue::from_static("keep-alive")),
        // Disables response buffering in proxies. (ZE-S9)
        (HeaderName::from_static("x-accel-buffering"), HeaderValue::from_static("no")),
    ];
    (headers, Body::from_stream(frames)).into_response()
}

struct Said<S> {
    app: Shared,
    feed: Feed,
    speaker: S,
    clock: Arc<dyn Clock>,
    ready: VecDeque<String>,
    is_over: bool,
    _place: StreamPlace,
}

impl<S: Speaker> Said<S> {
    async fn next(&mut self) -> Option<String> {
        loop {
            if let Some(frame) = self.ready.pop_front() {
                return Some(frame);
            }
            if self.is_over || self.speaker.is_over() {
                return None;
            }
            let item = self.feed.next().await?;
            self.take(item).await;
        }
    }

    async fn take(&mut self, item: Item) {
        match item {
            Item::Told(_, update) => {
                let update = filled(&self.app.engine, update).await;
                self.ready.extend(self.speaker.hear(&update, self.clock.now()));
            }
            Item::Heartbeat => self.ready.push_back(ALIVE.to_owned()),
            Item::Stopping => self.breaks("the server is shutting down; the run resumes after it restarts"),
            Item::Refused(problem) => self.breaks(&problem.detail),
        }
    }

    fn breaks(&mut self, why: &str) {
        self.ready.extend(self.speaker.breaks(why));
        self.is_over = true;
    }
}
