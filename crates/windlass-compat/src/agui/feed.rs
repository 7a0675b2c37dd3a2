//! The response stream of a request: encodes a thread's updates as server-sent events, with a comment as keep-alive.
//!
//! The stream belongs to the request. If the client disconnects, the stream ends and the run continues.

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

/// Maximum time spent collecting the fragments of a reply in progress. The limit is
/// needed because a fast model never pauses.
const JOIN: Duration = Duration::from_secs(1);
/// Maximum wait for the first fragment; the bus may have to read the store before it sends one.
const JOIN_FIRST: Duration = Duration::from_millis(250);
/// Pause after which all earlier fragments have arrived. The fragments are in memory, so a few milliseconds suffice.
const JOIN_PAUSE: Duration = Duration::from_millis(5);

/// A server-sent comment, which clients skip.
const SILENCE: &str = ":\n\n";

pub struct StreamRequest<'a> {
    pub app: &'a Shared,
    pub headers: &'a HeaderMap,
    /// The slot that the stream occupies until it ends.
    pub place: StreamPlace,
}

/// The open stream of one request.
pub struct Live {
    app: Shared,
    thread: ThreadId,
    speaker: Speaker,
    feed: Feed,
    ready: VecDeque<String>,
    /// Whether the stream must first send a snapshot that includes the reply in progress.
    joins: bool,
    is_over: bool,
    _place: StreamPlace,
}

impl Live {
    /// Opens a stream of the events after `after`.
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

    /// Marks the client as one that reconnects in the middle of a reply.
    pub fn joining(mut self) -> Self {
        self.joins = true;
        self.speaker.joins(true);
        self
    }

    /// Creates the HTTP response, which sends the first events at once, then streams the thread's updates.
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
            // Disables response buffering in proxies.
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
                // Cannot fail: encoding an error reads nothing from the store.
                self.say(said, self.feed.position(), false).await.ok();
            }
            self.is_over = self.speaker.is_over();
        }
    }

    /// Collects the fragments of a reply in progress, so that a reconnecting client receives them in the snapshot.
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
        // A timeout is no error: the response sends the items collected so far.
        tokio::time::timeout(JOIN, gather).await.ok();
        let mut gathered = Gathered::default();
        let mut is_history_sent = false;
        for item in items {
            if let Item::Told(position, update @ (Update::Delta { .. } | Update::Snapshot { .. })) = item {
                gathered.add(position, update);
                continue;
            }
            is_history_sent |= self.flush(&mut gathered, is_history_sent).await?;
            is_history_sent |= self.take(item).await?;
        }
        is_history_sent |= self.flush(&mut gathered, is_history_sent).await?;
        self.speaker.joins(false);
        if is_history_sent || self.speaker.is_over() {
            Ok(())
        } else {
            self.say(vec![Said::History(Vec::new())], self.feed.position(), false).await
        }
    }

    /// Sends the collected fragments, with a snapshot of all messages if none was sent yet. Returns whether a snapshot
    /// was sent.
    async fn flush(&mut self, gathered: &mut Gathered, is_history_sent: bool) -> Result<bool, Problem> {
        let Gathered { at, update: Some(update), .. } = std::mem::take(gathered) else {
            return Ok(is_history_sent);
        };
        let said = self.speaker.hear(&update);
        let is_history = said.iter().any(|said| matches!(said, Said::History(_)));
        self.say(said, at, false).await?;
        Ok(is_history_sent || is_history)
    }

    /// Encodes an item of the feed. Returns whether it was sent as a snapshot of all messages.
    async fn take(&mut self, item: Item) -> Result<bool, Problem> {
        let mut at = self.feed.position();
        let mut is_event = false;
        let said = match item {
            Item::Told(_, Update::Status(ThreadStatus::Waiting)) => {
                let open = self.app.engine.thread(&self.thread).interrupts().await?;
                // The interrupts may have been answered after the status was published.
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
            Item::Stopping => self
                .speaker
                .breaks(DETACHED, "the server is shutting down; the run resumes after it restarts"),
            Item::Refused(problem) => return Err(problem),
        };
        let is_history = said.iter().any(|said| matches!(said, Said::History(_)));
        self.say(said, at, is_event).await?;
        Ok(is_history)
    }

    /// Queues events. The last event of a journal entry or fragment has the entry's position. A snapshot has
    /// none, because it is sent on demand.
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

/// Collected fragments, merged into one update.
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

/// Merges a fragment into the block that it belongs to.
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

/// Creates a response of the given events alone, for a run that has ended or waits.
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
