//! The stream of a request: what a speaker says, as server-sent events, with a heartbeat in between.
//!
//! It belongs to the request alone. A client that leaves ends the stream, and the run goes on. (CF-11)

use std::collections::VecDeque;
use std::convert::Infallible;
use std::sync::Arc;

use axum::body::Body;
use axum::response::{IntoResponse, Response};
use bytes::Bytes;
use futures::future::BoxFuture;
use futures::stream::{self, BoxStream};
use futures::{Stream, StreamExt};
use http::header;
use windlass::port::clock::Clock;
use windlass::port::journal::StoreError;
use windlass::{Engine, Update};

use super::fill::filled;
use super::speak::Speaker;
use super::word::{Word, heartbeat};

/// After how long without an event a stream says that it is alive. (SK-E2)
pub const HEARTBEAT_MS: u64 = 60_000;

/// A thread's updates.
pub type Updates = BoxStream<'static, Result<Update, StoreError>>;

struct Feed {
    speaker: Speaker,
    updates: Updates,
    clock: Arc<dyn Clock>,
    ready: VecDeque<Word>,
    /// When silence has lasted too long.
    idle: Option<BoxFuture<'static, ()>>,
    is_over: bool,
}

/// The answer to a request: some words at once, then what is said of a thread. (SK-E27)
pub fn respond(engine: &Engine, speaker: Speaker, first: Vec<Word>, updates: Updates) -> Response {
    let engine = engine.clone();
    let updates = updates.then(move |update| {
        let engine = engine.clone();
        async move {
            match update {
                Ok(update) => Ok(filled(&engine, update).await),
                Err(error) => Err(error),
            }
        }
    });
    let frames = frames(speaker, first, updates.boxed(), crate::place::clock());
    let headers = [
        (header::CONTENT_TYPE, "text/event-stream; charset=utf-8"),
        (header::CACHE_CONTROL, "no-cache"),
        (header::CONNECTION, "keep-alive"),
        // What a proxy such as nginx needs to be told, or it keeps the events back.
        (header::HeaderName::from_static("x-accel-buffering"), "no"),
    ];
    let body = Body::from_stream(frames.map(|frame| Ok::<_, Infallible>(Bytes::from(frame))));
    (headers, body).into_response()
}

/// The events of a stream as they go out.
pub fn frames(
    speaker: Speaker,
    first: Vec<Word>,
    updates: Updates,
    clock: Arc<dyn Clock>,
) -> impl Stream<Item = String> {
    let feed = Feed { speaker, updates, clock, ready: first.into(), idle: None, is_over: false };
    stream::unfold(feed, |mut feed| async move { Some((feed.next().await?.frame(), feed)) })
}

impl Feed {
    async fn next(&mut self) -> Option<Word> {
        loop {
            if let Some(word) = self.ready.pop_front() {
                self.idle = None;
                return Some(word);
            }
            if self.is_over {
                return None;
            }
            let clock = &self.clock;
            let idle = self.idle.get_or_insert_with(|| clock.sleep_ms(HEARTBEAT_MS));
            tokio::select! {
                biased;
                update = self.updates.next() => self.take(update),
                () = idle => {
                    self.idle = None;
                    return Some(heartbeat(self.clock.now()));
                }
            }
        }
    }

    fn take(&mut self, update: Option<Result<Update, StoreError>>) {
        let now = self.clock.now();
        match update {
            Some(Ok(update)) => {
                self.ready.extend(self.speaker.hear(&update, now));
                self.is_over = self.speaker.is_over();
            }
            Some(Err(error)) => {
                tracing::warn!(%error, "a stream ends because its thread cannot be read");
                self.ready.push_back(self.speaker.breaks(now, "the conversation cannot be read now"));
                self.is_over = true;
            }
            None => self.is_over = true,
        }
    }
}
