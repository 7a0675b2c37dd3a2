//! The stream of a request in a dialect: what its speaker says of a thread, as server-sent events.
//!
//! It belongs to the request alone: a client that leaves ends the stream, and the run goes on. (CF-11)

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

/// Says what happens in a thread in a dialect's words: a pure mapping, one for each stream.
pub trait Speaker: Send + 'static {
    /// The frames that tell an update. Texts that are stored apart are filled in before.
    fn hear(&mut self, update: &Update, now: Timestamp) -> Vec<String>;

    /// The frames that tell that the thread can no longer be followed.
    fn breaks(&self, why: &str) -> Vec<String>;

    /// Whether everything was said.
    fn is_over(&self) -> bool;
}

/// A comment, which keeps proxies from closing a silent stream and which clients skip.
const ALIVE: &str = ": alive\n\n";

/// A thread from an event on, for whoever sent these headers.
pub fn feed(app: &Shared, headers: &HeaderMap, thread: &ThreadId, from: Seq) -> Feed {
    let after = Seq(from.0.saturating_sub(1));
    Feed::open(app, Reader::of(headers), thread, after.into(), Backlog::Fragments)
}

/// The answer to a request: some frames at once, then what is said of a thread.
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
        // Asks proxies to hand on each event at once. (ZE-S9)
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
            Item::Stopping => self.breaks("the server stops; the run goes on when it is back"),
            Item::Refused(problem) => self.breaks(&problem.detail),
        }
    }

    fn breaks(&mut self, why: &str) {
        self.ready.extend(self.speaker.breaks(why));
        self.is_over = true;
    }
}
