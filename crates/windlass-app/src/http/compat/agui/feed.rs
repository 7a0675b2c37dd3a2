//! The stream of a request: what a speaker says of a thread, as server-sent events, with a comment when it is silent.
//!
//! It belongs to the request alone. A client that leaves ends the stream, and the run goes on.

use std::collections::VecDeque;
use std::convert::Infallible;

use axum::body::Body;
use axum::response::{IntoResponse, Response};
use bytes::Bytes;
use futures::stream;
use http::{HeaderMap, HeaderName, HeaderValue, header};
use windlass::Update;
use windlass::machine::{Seq, ThreadId};
use windlass::port::journal::ThreadStatus;

use super::history::History;
use super::reply::Said;
use super::speak::{DETACHED, Speaker};
use super::word::Word;
use crate::http::Shared;
use crate::http::compat::fill::filled;
use crate::http::problem::Problem;
use crate::http::stream::feed::{Feed, HEARTBEAT, Item, Reader};
use crate::http::stream::frame::is_placed;

/// What a client's readers skip.
const SILENCE: &str = ":\n\n";

/// A stream.
pub struct Live {
    app: Shared,
    thread: ThreadId,
    speaker: Speaker,
    feed: Feed,
    ready: VecDeque<String>,
    is_over: bool,
}

impl Live {
    /// Speaks of a thread from after an event on.
    pub fn open(app: &Shared, headers: &HeaderMap, thread: &ThreadId, after: Seq, speaker: Speaker) -> Self {
        Self {
            feed: Feed::open(app, Reader::of(headers), thread, after.into(), HEARTBEAT),
            app: app.clone(),
            thread: thread.clone(),
            ready: VecDeque::new(),
            is_over: speaker.is_over(),
            speaker,
        }
    }

    /// The answer to a request: some words at once, then what is said of the thread.
    pub fn respond(mut self, first: Vec<Said>) -> Response {
        self.ready.extend(first.into_iter().filter_map(|said| match said {
            Said::Word(word) => Some(word.frame(None)),
            Said::History(_) => None,
        }));
        let frames = stream::unfold(self, |mut live| async move {
            let frame = live.next().await?;
            Some((Ok::<_, Infallible>(Bytes::from(frame)), live))
        });
        let headers = [
            (header::CONTENT_TYPE, HeaderValue::from_static("text/event-stream")),
            (header::CACHE_CONTROL, HeaderValue::from_static("no-store")),
            // Asks proxies to hand on each event at once.
            (HeaderName::from_static("x-accel-buffering"), HeaderValue::from_static("no")),
        ];
        (headers, Body::from_stream(frames)).into_response()
    }

    async fn next(&mut self) -> Option<String> {
        loop {
            if let Some(frame) = self.ready.pop_front() {
                return Some(frame);
            }
            if self.is_over {
                return None;
            }
            let item = self.feed.next().await?;
            if let Err(problem) = self.take(item).await {
                let said = self.speaker.breaks(DETACHED, &problem.detail);
                // Nothing is read for these.
                self.say(said, None).await.ok();
            }
            self.is_over = self.speaker.is_over();
        }
    }

    async fn take(&mut self, item: Item) -> Result<(), Problem> {
        let mut of = None;
        let said = match item {
            Item::Told(_, Update::Status(ThreadStatus::Waiting)) => {
                let open = self.app.engine.interrupts(&self.thread).await?;
                // Somebody may have answered since.
                if open.is_empty() { Vec::new() } else { self.speaker.waits(&open) }
            }
            Item::Told(position, update) => {
                let update = filled(&self.app.engine, update).await;
                of = is_placed(&update).then_some(position);
                self.speaker.hear(&update)
            }
            Item::Heartbeat => {
                self.ready.push_back(SILENCE.to_owned());
                Vec::new()
            }
            Item::Stopping => {
                self.speaker.breaks(DETACHED, "the server stops; the run goes on when it is back")
            }
            Item::Refused(problem) => return Err(problem),
        };
        self.say(said, of).await
    }

    /// Writes words; the last one of an update has its position.
    async fn say(&mut self, said: Vec<Said>, of: Option<windlass::Position>) -> Result<(), Problem> {
        let last = said.len().saturating_sub(1);
        for (index, said) in said.into_iter().enumerate() {
            let word = match said {
                Said::Word(word) => word,
                Said::History(more) => {
                    let until = Some(self.feed.position().seq);
                    let history = History::read(&self.app.engine, &self.thread, until).await?;
                    let mut messages = history.messages();
                    messages.extend(more);
                    Word::MessagesSnapshot { messages }
                }
            };
            self.ready.push_back(word.frame(of.filter(|_| index == last)));
        }
        Ok(())
    }
}

/// Words alone: the answer to a request about a run that has ended, or waits.
pub fn told(words: Vec<Said>) -> Response {
    let frames: String = words
        .into_iter()
        .filter_map(|said| match said {
            Said::Word(word) => Some(word.frame(None)),
            Said::History(_) => None,
        })
        .collect();
    let headers = [
        (header::CONTENT_TYPE, HeaderValue::from_static("text/event-stream")),
        (header::CACHE_CONTROL, HeaderValue::from_static("no-store")),
    ];
    (headers, frames).into_response()
}
