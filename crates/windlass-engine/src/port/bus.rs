//! The bus port: live signals from drivers to watchers.
//!
//! Signals are not durable. A watcher that missed signals reads the journal.

use std::fmt;
use std::str::FromStr;
use std::sync::Arc;

use futures_util::stream::BoxStream;
use serde::{Deserialize, Serialize};
use windlass_machine::{Attempt, CallKey, Event, Seq, ThreadId};

use super::journal::ThreadStatus;
use super::model::Delta;

/// Publishes and delivers live signals.
pub trait Bus: Send + Sync {
    /// Sends a signal to all followers of the thread. Never blocks, and is almost free without followers.
    fn publish(&self, thread: &ThreadId, signal: Signal);

    /// Publishes several signals in order, wakes each follower once, and empties the list. Never blocks.
    fn publish_all(&self, thread: &ThreadId, signals: &mut Vec<Signal>);

    /// Drops the fragments of the running message, because its reply or failure is now recorded. A later follower
    /// reads the message from the journal. A current follower still receives all fragments.
    fn settle(&self, thread: &ThreadId);

    /// Subscribes to a thread. The stream begins with the running message's fragments after the position, in the form
    /// that `backlog` requests. The fragments of a generation arrive in order, without duplicates or gaps. If
    /// fragments are no longer available one by one, or a slow follower missed fragments, a [`Signal::Snapshot`]
    /// replaces them. If no snapshot is possible either, the rest of the generation is omitted; the event that ends
    /// the generation has the whole reply.
    fn follow(&self, thread: &ThreadId, after: Position, backlog: Backlog)
    -> BoxStream<'static, Arc<Signal>>;

    /// Notifies the owner of a thread, in any process, that the thread's inbox has a row.
    fn wake(&self, thread: &ThreadId);

    /// Returns the threads for which this process receives wake-ups.
    fn wakes(&self) -> BoxStream<'static, ThreadId>;
}

/// The form in which a follower gets the fragments that were published before it subscribed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Backlog {
    /// One by one, if the bus still has them.
    #[default]
    Fragments,
    /// As one [`Signal::Snapshot`], so that a client that reconnects never shows less text than before.
    Snapshot,
}

/// A live update for watchers.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "signal", rename_all = "snake_case")]
pub enum Signal {
    /// Events were appended to the journal.
    Appended {
        /// Position of the last event.
        seq: Seq,
        /// The events; the last one is at that position. Empty if only the position is known: read the journal.
        events: Arc<[Event]>,
        /// The thread's status after the append, if known.
        status: Option<ThreadStatus>,
    },
    /// A fragment of a model's reply.
    Delta {
        /// Position of the `step.started` event of this generation.
        seq: Seq,
        /// Number of the fragment in its generation, counted from 1 without gaps.
        number: u64,
        /// Step and attempt of the model call.
        attempt: Attempt,
        /// The fragment itself.
        delta: Delta,
    },
    /// The received part of a reply, for a follower that cannot receive the fragments one by one.
    Snapshot {
        /// Position of the `step.started` event of this generation.
        seq: Seq,
        /// Number of the newest fragment that the snapshot includes.
        number: u64,
        /// Step and attempt of the model call.
        attempt: Attempt,
        /// The received blocks, each as one fragment.
        parts: Arc<[Delta]>,
    },
    /// Progress reported by a running tool.
    Progress {
        /// The call that reports it.
        call: CallKey,
        /// Text from the tool.
        text: Arc<str>,
    },
    /// The driver stopped before the run ended or waited. Opening the thread again resumes it.
    Stopped {
        /// The cause, for display.
        why: Arc<str>,
    },
    /// The watcher was too slow: signals other than fragments were dropped. The journal has their content.
    Lagged,
}

/// The position of a watcher, from which it resumes. Written as `seq.delta`, or as `seq` alone.
///
/// Positions of one thread increase from update to update, so each update has a unique position.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Position {
    /// The last event that the watcher has received.
    pub seq: Seq,
    /// Number of received fragments of the reply that was in progress at that event; 0 without such a reply.
    pub delta: u64,
}

impl From<Seq> for Position {
    fn from(seq: Seq) -> Self {
        Self { seq, delta: 0 }
    }
}

impl fmt::Display for Position {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "{}.{}", self.seq, self.delta)
    }
}

/// The text is not a valid position.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("`{0}` is no position in a thread; it is written as `seq` or `seq.delta`, for example `12.3`")]
pub struct NoPosition(String);

impl FromStr for Position {
    type Err = NoPosition;

    fn from_str(text: &str) -> Result<Self, NoPosition> {
        let number = |digits: &str| match digits.bytes().all(|byte| byte.is_ascii_digit()) {
            true => digits.parse().map_err(|_| NoPosition(text.to_owned())),
            false => Err(NoPosition(text.to_owned())),
        };
        let (seq, delta) = text.split_once('.').unwrap_or((text, "0"));
        Ok(Self { seq: Seq(number(seq)?), delta: number(delta)? })
    }
}
