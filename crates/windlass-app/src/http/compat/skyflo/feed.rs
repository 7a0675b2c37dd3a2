//! The stream of a request: what a speaker says of a thread, as server-sent events, with a heartbeat in between.
//!
//! It belongs to the request alone. A client that leaves ends the stream, and the run goes on. (CF-11)

use std::collections::VecDeque;
use std::convert::Infallible;
use std::sync::Arc;
use std::time::Duration;

use axum::body::Body;
use axum::response::{IntoResponse, Response};
use bytes::Bytes;
use http::{HeaderName, HeaderValue, header};
use windlass::machine::Timestamp;
use windlass::port::clock::Clock;

use super::fill::filled;
use super::speak::Speaker;
use super::word::{Word, heartbeat};
use crate::http::Shared;
use crate::http::stream::feed::{Feed, Item};
use crate::http::stream::place::StreamPlace;

/// After how long without an event a stream says that it is alive. (SK-E2)
pub const HEARTBEAT: Duration = Duration::from_secs(60);

struct Said {
    app: Shared,
    feed: Feed,
    speaker: Speaker,
    clock: Arc<dyn Clock>,
    ready: VecDeque<Word>,
    /// When something was said last: not all that happens in a thread is told.
    said_at: Timestamp,
    is_over: bool,
    _place: StreamPlace,
}

/// The answer to a request: some words at once, then what is said of a thread. (SK-E27)
pub fn respond(app: &Shared, place: StreamPlace, feed: Feed, speaker: Speaker, first: Vec<Word>) -> Response {
    let clock = crate::place::clock();
    let said_at = clock.now();
    let app = app.clone();
    let ready = first.into();
    let said = Said { app, feed, speaker, clock, ready, said_at, is_over: false, _place: place };
    let frames = futures::stream::unfold(said, |mut said| async move {
        let frame = said.next().await?.frame();
        Some((Ok::<_, Infallible>(Bytes::from(frame)), said))
    });
    let headers = [
        (header::CONTENT_TYPE, HeaderValue::from_static("text/event-stream; charset=utf-8")),
        (header::CACHE_CONTROL, HeaderValue::from_static("no-cache")),
        (header::CONNECTION, HeaderValue::from_static("keep-alive")),
        // Asks proxies to hand on each event at once.
        (HeaderName::from_static("x-accel-buffering"), HeaderValue::from_static("no")),
    ];
    (headers, Body::from_stream(frames)).into_response()
}

impl Said {
    async fn next(&mut self) -> Option<Word> {
        loop {
            if let Some(word) = self.ready.pop_front() {
                self.said_at = self.clock.now();
                return Some(word);
            }
            if self.is_over {
                return None;
            }
            let item = self.feed.next().await?;
            self.take(item).await;
        }
    }

    async fn take(&mut self, item: Item) {
        let now = self.clock.now();
        match item {
            Item::Told(_, update) => {
                let update = filled(&self.app.engine, update).await;
                self.ready.extend(self.speaker.hear(&update, now));
                self.is_over = self.speaker.is_over();
                let silent_ms = u128::from(now.since(self.said_at));
                if self.ready.is_empty() && silent_ms >= HEARTBEAT.as_millis() {
                    self.ready.push_back(heartbeat(now));
                }
            }
            Item::Heartbeat => self.ready.push_back(heartbeat(now)),
            Item::Stopping => self.breaks(now, "the server stops; the run goes on when it is back"),
            Item::Refused(problem) => self.breaks(now, &problem.detail),
        }
    }

    fn breaks(&mut self, now: Timestamp, why: &str) {
        self.ready.push_back(self.speaker.breaks(now, why));
        self.is_over = true;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    // rows: SK-E2
    #[test]
    fn a_silent_stream_says_each_minute_that_it_lives() {
        assert_eq!(HEARTBEAT.as_secs(), 60);
        assert_eq!(heartbeat(Timestamp(7)).frame(), "event: heartbeat\ndata: {\"timestamp\":7}\n\n");
    }
}
