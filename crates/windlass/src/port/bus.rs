//! The bus port: live signals between those who drive threads and those who watch them.
//!
//! Nothing that must last lives here. A watcher that missed something reads the journal.

use std::sync::Arc;

use futures::stream::BoxStream;
use serde::{Deserialize, Serialize};
use windlass_machine::{Attempt, CallKey, Seq, ThreadId};

use super::model::Delta;

/// Live signals.
pub trait Bus: Send + Sync {
    /// Tells whoever follows the thread; never blocks, and costs next to nothing while nobody does.
    fn publish(&self, thread: &ThreadId, signal: Signal);

    /// Forgets the running message's fragments: its reply or its failure is recorded. Whoever follows from
    /// now on reads it in the journal.
    fn settle(&self, thread: &ThreadId);

    /// Follows a thread from now on, first the running message's fragments so far, then what comes.
    fn follow(&self, thread: &ThreadId) -> BoxStream<'static, Signal>;

    /// Wakes the owner of a thread, in whichever process it lives: its inbox has a row.
    fn wake(&self, thread: &ThreadId);

    /// Threads that someone wants woken in this process.
    fn wakes(&self) -> BoxStream<'static, ThreadId>;
}

/// Something that a watcher may want to see.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "signal", rename_all = "snake_case")]
pub enum Signal {
    /// The journal has grown to this position.
    Appended {
        /// The last event.
        seq: Seq,
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
    /// Progress of a running tool.
    Progress {
        /// Which call.
        call: CallKey,
        /// The tool's words.
        text: Arc<str>,
    },
    /// The watcher was too slow: signals were dropped, and the journal knows what they said.
    Lagged,
}
