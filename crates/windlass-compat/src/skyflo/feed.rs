//! The response stream of a request: encodes a thread's updates as server-sent events, with a heartbeat. If the client
//! disconnects, the stream ends and the run continues. (CF-11)
//!
//! The Command Center builds its cards in render steps. Events that arrive in one chunk are read within one step, and
//! the end of the stream then drops the cards of earlier events. So the stream pauses before events that the page acts
//! on at once.

use std::collections::VecDeque;
use std::convert::Infallible;
use std::sync::Arc;
use std::time::Duration;

use axum::body::Body;
use axum::response::{IntoResponse, Response};
use bytes::Bytes;
use http::{HeaderName, HeaderValue, header};
use windlass::Update;
use windlass::machine::{Fact, ThreadId, Timestamp};
use windlass::port::clock::Clock;
use windlass_server::http::Shared;
use windlass_server::http::stream::feed::{Feed, Item};
use windlass_server::http::stream::place::StreamPlace;

use super::speak::Speaker;
use super::word::{Word, heartbeat};
use crate::fill::filled;

/// Interval without events after which a heartbeat is sent. (SK-E2)
pub const HEARTBEAT: Duration = Duration::from_secs(60);

/// Minimum time in milliseconds between an event of [`PAUSED`] and its predecessor. A render step
/// takes several tens of milliseconds.
const PAUSE_MS: u64 = 150;

/// Events that are not sent in one chunk with their predecessor. `workflow_complete` follows `completed` at once,
/// because the page has already processed that event.
const PAUSED: &[&str] = &["tools.pending", "tool.result", "completed", "workflow_complete"];

struct Said {
    app: Shared,
    thread: ThreadId,
    feed: Feed,
    speaker: Speaker,
    clock: Arc<dyn Clock>,
    ready: VecDeque<Word>,
    /// The time of the last event that was sent. Some updates produce no event.
    said_at: Timestamp,
    /// The name of the last event.
    said: &'static str,
    is_over: bool,
    _place: StreamPlace,
}

/// Creates the HTTP response, which sends the first events at once, then streams the thread's updates. (SK-E27)
pub fn respond(
    app: &Shared,
    place: StreamPlace,
    thread: ThreadId,
    feed: Feed,
    speaker: Speaker,
    first: Vec<Word>,
) -> Response {
    let clock = windlass_server::clock::clock();
    let said_at = clock.now();
    let app = app.clone();
    let ready = first.into();
    let said =
        Said { app, thread, feed, speaker, clock, ready, said_at, said: "", is_over: false, _place: place };
    let frames = futures::stream::unfold(said, |mut said| async move {
        let frame = said.next().await?.frame();
        Some((Ok::<_, Infallible>(Bytes::from(frame)), said))
    });
    let headers = [
        (header::CONTENT_TYPE, HeaderValue::from_static("text/event-stream; charset=utf-8")),
        (header::CACHE_CONTROL, HeaderValue::from_static("no-cache")),
        (header::CONNECTION, HeaderValue::from_static("keep-alive")),
        // Disables response buffering in proxies.
        (HeaderName::from_static("x-accel-buffering"), HeaderValue::from_static("no")),
    ];
    (headers, Body::from_stream(frames)).into_response()
}

impl Said {
    async fn next(&mut self) -> Option<Word> {
        loop {
            if let Some(word) = self.ready.pop_front() {
                let pause_ms = pause_ms(self.said, word.name, self.clock.now().since(self.said_at));
                if pause_ms > 0 {
                    tokio::time::sleep(Duration::from_millis(pause_ms)).await;
                }
                (self.said_at, self.said) = (self.clock.now(), word.name);
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
                self.count_tools(&update).await;
                self.ready.extend(self.speaker.hear(&update, now));
                self.is_over = self.speaker.is_over();
                let silent_ms = u128::from(now.since(self.said_at));
                if self.ready.is_empty() && silent_ms >= HEARTBEAT.as_millis() {
                    self.ready.push_back(heartbeat(now));
                }
            }
            Item::Heartbeat => self.ready.push_back(heartbeat(now)),
            Item::Stopping => {
                self.breaks(now, "the server is shutting down; the run resumes after it restarts")
            }
            Item::Refused(problem) => self.breaks(now, &problem.detail),
        }
    }

    /// Counts the tools of a step before the step is announced. (SK-E3)
    async fn count_tools(&mut self, update: &Update) {
        let Update::Event(recorded) = update else { return };
        if !matches!(recorded.event.fact, Fact::StepStarted { .. }) {
            return;
        }
        match self.app.engine.thread(&self.thread).tools_shown(recorded.seq).await {
            Ok(count) => self.speaker.offer(count),
            Err(error) => {
                tracing::warn!(%error, thread = %self.thread, "the tools of a step could not be counted")
            }
        }
    }

    fn breaks(&mut self, now: Timestamp, why: &str) {
        self.ready.push_back(self.speaker.breaks(now, why));
        self.is_over = true;
    }
}

/// Returns the pause before an event in milliseconds, given its name, the previous event's name
/// and the time since the previous event.
fn pause_ms(before: &str, name: &str, since_ms: u64) -> u64 {
    let follows = before == "completed" && name == "workflow_complete";
    let pauses = PAUSED.contains(&name) && !follows;
    if pauses { PAUSE_MS.saturating_sub(since_ms) } else { 0 }
}

#[cfg(test)]
mod tests {
    use super::*;

    // rows: SK-E27
    #[test]
    fn events_that_a_page_acts_on_do_not_come_in_one_burst() {
        let burst = ["ready", "tools.pending", "tool.awaiting_approval", "workflow_complete"];
        let pauses: Vec<u64> = burst.windows(2).map(|pair| pause_ms(pair[0], pair[1], 2)).collect();
        assert_eq!(pauses, [148, 0, 148]);
        let end = ["tool.executing", "tool.result", "token", "completed", "workflow_complete"];
        let pauses: Vec<u64> = end.windows(2).map(|pair| pause_ms(pair[0], pair[1], 0)).collect();
        assert_eq!(pauses, [150, 0, 150, 0]);
        assert_eq!(pause_ms("token", "completed", 151), 0);
    }

    // rows: SK-E2
    #[test]
    fn a_silent_stream_says_each_minute_that_it_lives() {
        assert_eq!(HEARTBEAT.as_secs(), 60);
        assert_eq!(heartbeat(Timestamp(7)).frame(), "event: heartbeat\ndata: {\"timestamp\":7}\n\n");
    }
}
