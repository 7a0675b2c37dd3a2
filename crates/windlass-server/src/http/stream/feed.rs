//! The items of a stream for one client: updates with positions, heartbeats, and the reason for the end.
//!
//! Every dialect that streams reads a feed and encodes its own events. The feed knows no wire format. Dropping a feed
//! does not affect the run.

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

/// An item of a stream.
#[derive(Clone, Debug, PartialEq)]
// An item is short-lived, and a boxed update would cost an allocation for each item.
#[allow(clippy::large_enum_variant)]
pub enum Item {
    /// An update, and the client's position after it.
    Told(Position, Update),
    /// A heartbeat: no update has arrived for the heartbeat interval.
    Heartbeat,
    /// The server is shutting down. The client can continue from its position after a restart, or at another server.
    Stopping,
    /// The stream ends because of this problem.
    Refused(Problem),
}

/// The credentials of a stream's client, for later checks.
#[derive(Clone, Debug)]
pub struct Reader {
    credentials: HeaderMap,
}

impl Reader {
    /// Extracts the headers that authenticate the client, and drops all other headers.
    pub fn of(headers: &HeaderMap) -> Self {
        // The host determines the names of our cookies.
        let kept = [header::AUTHORIZATION, header::COOKIE, header::HOST].into_iter();
        let credentials = kept.flat_map(|name| {
            headers.get_all(&name).iter().map(move |value| (name.clone(), value.clone())).collect::<Vec<_>>()
        });
        Self { credentials: credentials.collect() }
    }

    /// Returns an error if the client may no longer read the thread.
    async fn look_again(&self, app: &Shared, thread: &ThreadId) -> Result<(), Problem> {
        let (mut parts, ()) = Request::new(()).into_parts();
        parts.headers = self.credentials.clone();
        // The route that opened the stream has already checked whether it admits guests.
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
    /// Becomes ready when the server stops. The feed keeps this future across calls, because each new future would
    /// enter and leave a list that all streams share.
    stopping: Pin<Box<WaitForCancellationFutureOwned>>,
    is_over: bool,
}

impl Feed {
    /// Opens a feed of a thread that the client may read. `backlog` is the form of deltas that were generated earlier.
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

    /// Overrides the server's heartbeat interval.
    pub fn beating(self, heartbeat: Duration) -> Self {
        Self { heartbeat: every(heartbeat), ..self }
    }

    /// Returns the next item, or `None` after an item that ended the stream.
    pub async fn next(&mut self) -> Option<Item> {
        if self.is_over {
            return None;
        }
        let item = loop {
            // Updates may arrive without a pause, so check for shutdown first.
            if self.app.streams.stopping.is_cancelled() {
                break Item::Stopping;
            }
            tokio::select! {
                biased;
                _ = self.look_again.tick() => {
                    // Boxed because this check is rare: without the box, it would increase the size of every stream's
                    // future.
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

    /// Returns whether the feed itself has ended the stream.
    pub fn is_over(&self) -> bool {
        self.is_over
    }

    /// Returns the client's position after the last item.
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
            // A watcher of the engine ends only after an error.
            None => Item::Refused(Problem::internal("the watcher has ended")),
        }
    }
}

/// Creates an interval whose first tick is after one `period`.
fn every(period: Duration) -> Interval {
    let mut interval = tokio::time::interval(period);
    interval.set_missed_tick_behavior(MissedTickBehavior::Delay);
    interval.reset();
    interval
}
