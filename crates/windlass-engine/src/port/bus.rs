//! The bus port: live signals between those who drive threads and those who watch them.
//!
//! Nothing that must last lives here. A watcher that missed something reads the journal.

use std::fmt;
use std::str::FromStr;
use std::sync::Arc;

use futures_util::stream::BoxStream;
use serde::{Deserialize, Serialize};
use windlass_machine::{Attempt, CallKey, Event, Seq, ThreadId};

use super::journal::ThreadStatus;
use super::model::Delta;

/// Live signals.
pub trait Bus: Send + Sync {
    /// Tells whoever follows the thread; never blocks, and costs next to nothing while nobody does.
    fn publish(&self, thread: &ThreadId, signal: Signal);

    /// Publishes several signals in order, wakes each follower once, and empties the list. Never blocks.
    fn publish_all(&self, thread: &ThreadId, signals: &mut Vec<Signal>);

    /// Forgets the running message's fragments: its reply or its failure is recorded. A follower that comes later reads it in
    /// the journal; one that is reading the fragments still gets all of them.
    fn settle(&self, thread: &ThreadId);

    /// Follows a thread from now on: first the running message's fragments beyond those that `after` counts, as
    /// `backlog` says, then what comes. Each generation's fragments come in order, each once and none left out; where
    /// some are no longer there one by one, or were dropped because the follower was slow, a [`Signal::Snapshot`] has
    /// them all in their place. Where not even that is possible no more of the generation comes, and the event that
    /// ends it has the whole.
    fn follow(&self, thread: &ThreadId, after: Position, backlog: Backlog)
    -> BoxStream<'static, Arc<Signal>>;

    /// Wakes the owner of a thread, in whichever process it lives: its inbox has a row.
    fn wake(&self, thread: &ThreadId);

    /// Threads that someone wants woken in this process.
    fn wakes(&self) -> BoxStream<'static, ThreadId>;
}

/// The form in which a follower gets the fragments that were published before it subscribed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Backlog {
    /// One by one, as far as the bus still has them.
    #[default]
    Fragments,
    /// As one [`Signal::Snapshot`], so that a client that reconnects never shows less text than before.
    Snapshot,
}

/// Something that a watcher may want to see.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "signal", rename_all = "snake_case")]
pub enum Signal {
    /// The journal has grown.
    Appended {
        /// Position of the last event.
        seq: Seq,
        /// The events, the last of which has that position. Empty where only their number is known: read the journal.
        events: Arc<[Event]>,
        /// What the thread is doing now, where that is known.
        status: Option<ThreadStatus>,
    },
    /// A fragment of the reply to a model call.
    Delta {
        /// Position of the `step.started` that this generation belongs to.
        seq: Seq,
        /// Counts the fragments of the generation from 1, without a gap.
        number: u64,
        /// Which step and try.
        attempt: Attempt,
        /// The fragment.
        delta: Delta,
    },
    /// The reply so far, for a follower that cannot be given its fragments one by one.
    Snapshot {
        /// Position of the `step.started` that this generation belongs to.
        seq: Seq,
        /// Number of the newest fragment in it.
        number: u64,
        /// Which step and try.
        attempt: Attempt,
        /// Each block so far, as one fragment.
        parts: Arc<[Delta]>,
    },
    /// Progress of a running tool.
    Progress {
        /// Which call.
        call: CallKey,
        /// The tool's words.
        text: Arc<str>,
    },
    /// Driving the thread stopped before its run ended or waited; opening it again goes on.
    Stopped {
        /// Why.
        why: Arc<str>,
    },
    /// The watcher was too slow: signals other than fragments were dropped, and the journal knows what they said.
    Lagged,
}

/// Where a watcher stands, and goes on from after it was cut off. Written as `seq.delta`, or as `seq` alone.
///
/// Positions of one thread grow from update to update, so that each update has its own.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Position {
    /// The last event that it has.
    pub seq: Seq,
    /// How many fragments it has of the reply that was being generated then; 0 without one.
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

/// A text that is no position.
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
