//! What a client of a stream is to be told, typed: updates with their positions, heartbeats, and why it ends.
//!
//! Every dialect that streams reads a feed and writes its own events; nothing here knows a wire. Leaving a feed
//! leaves the run alone.

use std::pin::Pin;
use std::time::Duration;

use axum::extract::FromRequestParts;
use futures::StreamExt;
use futures::stream::BoxStream;
use http::{HeaderMap, Request, header};
use tokio::time::{Interval, MissedTickBehavior};
use tokio_util::sync::WaitForCancellationFutureOwned;
use windlass::machine::ThreadId;
use windlass::port::journal::StoreError;
use windlass::{Backlog, Position, Update};

use crate::http::Shared;
use crate::http::caller::{Caller, GuestsWelcome};
use crate::http::problem::Problem;

/// One thing to tell.
#[derive(Clone, Debug, PartialEq)]
// An item lives for a moment, and boxing the update would cost an allocation for each.
#[allow(clippy::large_enum_variant)]
pub enum Item {
    /// An update, and where the client stands with it.
    Told(Position, Update),
    /// Nothing has happened for the time that was agreed on.
    Heartbeat,
    /// The server stops; another one, or the same one later, goes on from the client's position.
    Stopping,
    /// The stream ends for this reason.
    Refused(Problem),
}

/// Whoever reads a stream, as the request said it.
#[derive(Clone, Debug)]
pub struct Reader {
    credentials: HeaderMap,
}

impl Reader {
    /// The reader who sent these headers; only what says who that is is kept.
    pub fn of(headers: &HeaderMap) -> Self {
        // The host decides how our cookies are called.
        let kept = [header::AUTHORIZATION, header::COOKIE, header::HOST].into_iter();
        let credentials = kept.flat_map(|name| {
            headers.get_all(&name).iter().map(move |value| (name.clone(), value.clone())).collect::<Vec<_>>()
        });
        Self { credentials: credentials.collect() }
    }

    /// Refuses where the reader may no longer read the thread.
    async fn look_again(&self, app: &Shared, thread: &ThreadId) -> Result<(), Problem> {
        let (mut parts, ()) = Request::new(()).into_parts();
        parts.headers = self.credentials.clone();
        // The route that opened the stream has asked whether guests may.
        parts.extensions.insert(GuestsWelcome);
        let caller = Caller::from_request_parts(&mut parts, app).await?;
        caller.reads()?;
        caller.reads_thread(app, thread).await.map(drop)
    }
}

/// A thread's updates for one client, from a position on.
pub struct Feed {
    app: Shared,
    reader: Reader,
    thread: ThreadId,
    updates: BoxStream<'static, Result<Update, StoreError>>,
    position: Position,
    heartbeat: Interval,
    look_again: Interval,
    /// Ready when the server stops. Kept, because each new one enters and leaves a list that all streams share.
    stopping: Pin<Box<WaitForCancellationFutureOwned>>,
    is_over: bool,
}

impl Feed {
    /// Feeds a thread that the reader may see. `backlog` is the form of the fragments that exist already.
    pub fn open(app: &Shared, reader: Reader, thread: &ThreadId, after: Position, backlog: Backlog) -> Self {
        Self {
            updates: app.engine.thread(thread).watch_from(after, backlog),
            app: app.clone(),
            reader,
            thread: thread.clone(),
            position: after,
            heartbeat: every(app.config.settings.server.limits.heartbeat()),
            look_again: every(app.config.settings.server.limits.look_again()),
            stopping: Box::pin(app.streams.stopping.clone().cancelled_owned()),
            is_over: false,
        }
    }

    /// Replaces the server's own heartbeat interval.
    pub fn beating(self, heartbeat: Duration) -> Self {
        Self { heartbeat: every(heartbeat), ..self }
    }

    /// The next item; `None` after one that ends the stream.
    pub async fn next(&mut self) -> Option<Item> {
        if self.is_over {
            return None;
        }
        let item = loop {
            // Updates may come without a pause.
            if self.app.streams.stopping.is_cancelled() {
                break Item::Stopping;
            }
            tokio::select! {
                biased;
                _ = self.look_again.tick() => {
                    // On the heap for its moment: a stream's memory is that of its largest step.
                    if let Err(problem) = Box::pin(self.reader.look_again(&self.app, &self.thread)).await {
                        break Item::Refused(problem);
                    }
                }
                update = self.updates.next() => break self.told(update),
                () = self.stopping.as_mut() => break Item::Stopping,
                _ = self.heartbeat.tick() => break Item::Heartbeat,
            }
        };
        self.heartbeat.reset();
        self.is_over = matches!(item, Item::Stopping | Item::Refused(_));
        Some(item)
    }

    /// Whether it has ended by itself.
    pub fn is_over(&self) -> bool {
        self.is_over
    }

    /// Where the client stands.
    pub fn position(&self) -> Position {
        self.position
    }

    fn told(&mut self, update: Option<Result<Update, StoreError>>) -> Item {
        match update {
            Some(Ok(update)) => {
                self.position.advance(&update);
                Item::Told(self.position, update)
            }
            Some(Err(error)) => Item::Refused(error.into()),
            // A watcher ends after an error alone.
            None => Item::Refused(Problem::internal("the watcher has ended")),
        }
    }
}

/// Ticks after each `period`, not at once.
fn every(period: Duration) -> Interval {
    let mut interval = tokio::time::interval(period);
    interval.set_missed_tick_behavior(MissedTickBehavior::Delay);
    interval.reset();
    interval
}
