//! The stream of a request: what a speaker says of a thread, as server-sent events, with a comment when it is silent.
//!
//! It belongs to the request alone. A client that leaves ends the stream, and the run goes on.

use std::collections::VecDeque;
use std::convert::Infallible;
use std::time::Duration;

use axum::body::Body;
use axum::response::{IntoResponse, Response};
use bytes::Bytes;
use futures::stream;
use http::{HeaderMap, HeaderName, HeaderValue, header};
use windlass::machine::{Seq, ThreadId};
use windlass::port::journal::ThreadStatus;
use windlass::port::model::Delta;
use windlass::{Backlog, Position, Update};
use windlass_server::http::Shared;
use windlass_server::http::problem::Problem;
use windlass_server::http::stream::feed::{Feed, Item, Reader};
use windlass_server::http::stream::frame::is_placed;
use windlass_server::http::stream::place::StreamPlace;

use super::history::History;
use super::reply::Said;
use super::speak::{DETACHED, Speaker};
use super::word::Word;
use crate::fill::filled;

/// How long it takes at most to find out what has come of a reply: a fast model never pauses.
const JOIN: Duration = Duration::from_secs(1);
/// How long its first fragment is waited for: where there is one, the store is asked first.
const JOIN_FIRST: Duration = Duration::from_millis(250);
/// After what pause no more of what had come is on its way: that lies in memory.
const JOIN_PAUSE: Duration = Duration::from_millis(5);

/// What a client's readers skip.
const SILENCE: &str = ":\n\n";

/// A request for a stream.
pub struct StreamRequest<'a> {
    /// The server.
    pub app: &'a Shared,
    /// The request's headers.
    pub headers: &'a HeaderMap,
    /// The place that the stream takes.
    pub place: StreamPlace,
}

/// A stream.
pub struct Live {
    app: Shared,
    thread: ThreadId,
    speaker: Speaker,
    feed: Feed,
    ready: VecDeque<String>,
    /// Whether a snapshot has yet to be told, with what has come of a reply that is under way.
    joins: bool,
    is_over: bool,
    _place: StreamPlace,
}

impl Live {
    /// Speaks of a thread from after an event on.
    pub fn open(request: StreamRequest<'_>, thread: &ThreadId, after: Seq, speaker: Speaker) -> Self {
        let StreamRequest { app, headers, place } = request;
        Self {
            feed: Feed::open(app, Reader::of(headers), thread, after.into(), Backlog::Fragments),
            app: app.clone(),
            thread: thread.clone(),
            ready: VecDeque::new(),
            joins: false,
            is_over: speaker.is_over(),
            speaker,
            _place: place,
        }
    }

    /// The same for a client that comes back in the middle of a reply.
    pub fn joining(mut self) -> Self {
        self.joins = true;
        self.speaker.joins(true);
        self
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
            let taken = match std::mem::take(&mut self.joins) {
                true => self.join().await,
                false => {
                    let item = self.feed.next().await?;
                    self.take(item).await.map(drop)
                }
            };
            if let Err(problem) = taken {
                let said = self.speaker.breaks(DETACHED, &problem.detail);
                // Nothing is read for these.
                self.say(said, self.feed.position(), false).await.ok();
            }
            self.is_over = self.speaker.is_over();
        }
    }

    /// Gathers what has come of a reply that is under way, so that whoever comes back gets it in the snapshot and not
    /// in fragments.
    async fn join(&mut self) -> Result<(), Problem> {
        let mut items = Vec::new();
        let gather = async {
            let mut pause = JOIN_FIRST;
            while let Ok(Some(item)) = tokio::time::timeout(pause, self.feed.next()).await {
                if let Item::Told(_, Update::Delta { .. } | Update::Snapshot { .. }) = &item {
                    pause = JOIN_PAUSE;
                }
                items.push(item);
            }
        };
        // Either way there is nothing more to gather.
        tokio::time::timeout(JOIN, gather).await.ok();
        let mut gathered = Gathered::default();
        let mut is_told = false;
        for item in items {
            if let Item::Told(position, update @ (Update::Delta { .. } | Update::Snapshot { .. })) = item {
                gathered.add(position, update);
                continue;
            }
            is_told |= self.flush(&mut gathered, is_told).await?;
            is_told |= self.take(item).await?;
        }
        is_told |= self.flush(&mut gathered, is_told).await?;
        self.speaker.joins(false);
        if is_told || self.speaker.is_over() {
            Ok(())
        } else {
            self.say(vec![Said::History(Vec::new())], self.feed.position(), false).await
        }
    }

    /// Tells what was gathered; the first time, or before an event, with all messages. Returns whether they were told.
    async fn flush(&mut self, gathered: &mut Gathered, is_told: bool) -> Result<bool, Problem> {
        let Gathered { at, update: Some(update), .. } = std::mem::take(gathered) else {
            return Ok(is_told);
        };
        let said = self.speaker.hear(&update);
        let is_history = said.iter().any(|said| matches!(said, Said::History(_)));
        self.say(said, at, false).await?;
        Ok(is_told || is_history)
    }

    /// Says what is said of an item; returns whether all messages were told with it.
    async fn take(&mut self, item: Item) -> Result<bool, Problem> {
        let mut at = self.feed.position();
        let mut is_event = false;
        let said = match item {
            Item::Told(_, Update::Status(ThreadStatus::Waiting)) => {
                let open = self.app.engine.thread(&self.thread).interrupts().await?;
                // Somebody may have answered since.
                if open.is_empty() { Vec::new() } else { self.speaker.waits(&open) }
            }
            Item::Told(position, update) => {
                let update = filled(&self.app.engine, update).await;
                (at, is_event) = (position, is_placed(&update));
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
        let is_history = said.iter().any(|said| matches!(said, Said::History(_)));
        self.say(said, at, is_event).await?;
        Ok(is_history)
    }

    /// Writes words that are said at a place; the last one of an event or a fragment has its position. A snapshot is
    /// told whenever a client needs it, and has none.
    async fn say(&mut self, said: Vec<Said>, at: Position, is_event: bool) -> Result<(), Problem> {
        let last = said.len().saturating_sub(1);
        let is_placed = is_event && !said.iter().any(|said| matches!(said, Said::History(_)));
        for (index, said) in said.into_iter().enumerate() {
            let word = match said {
                Said::Word(word) => word,
                Said::History(more) => {
                    let history = History::read(&self.app.engine, &self.thread, at.seq).await?;
                    let mut messages = history.messages();
                    messages.extend(more);
                    Word::MessagesSnapshot { messages }
                }
            };
            self.ready.push_back(word.frame((is_placed && index == last).then_some(at)));
        }
        Ok(())
    }
}

/// Fragments as one.
#[derive(Default)]
struct Gathered {
    at: Position,
    update: Option<Update>,
}

impl Gathered {
    fn add(&mut self, at: Position, update: Update) {
        self.at = at;
        let before = match self.update.take() {
            Some(Update::Snapshot { parts, .. }) => parts.to_vec(),
            Some(_) | None => Vec::new(),
        };
        self.update = Some(match update {
            Update::Delta { seq, number, delta } => {
                Update::Snapshot { seq, number, parts: joined(before, delta).into() }
            }
            other => other,
        });
    }
}

/// A fragment put to the block that it belongs to.
fn joined(mut parts: Vec<Delta>, delta: Delta) -> Vec<Delta> {
    let place = |delta: &Delta| match delta {
        Delta::Text { part, .. } | Delta::Reasoning { part, .. } | Delta::Call { part, .. } => *part,
    };
    let Some(known) = parts.iter_mut().find(|known| place(known) == place(&delta)) else {
        parts.push(delta);
        return parts;
    };
    match (known, delta) {
        (Delta::Text { text, .. }, Delta::Text { text: more, .. })
        | (Delta::Reasoning { text, .. }, Delta::Reasoning { text: more, .. }) => {
            *text = format!("{text}{more}").into();
        }
        (Delta::Call { name, arguments, .. }, Delta::Call { name: later, arguments: more, .. }) => {
            *arguments = format!("{arguments}{more}").into();
            *name = name.take().or(later);
        }
        (
            Delta::Text { .. } | Delta::Reasoning { .. } | Delta::Call { .. },
            Delta::Text { .. } | Delta::Reasoning { .. } | Delta::Call { .. },
        ) => {}
    }
    parts
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
