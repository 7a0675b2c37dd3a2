//! What reaches a thread's driver: inputs, outcomes of commands, and the news that the inbox has rows.
//!
//! It says nothing of what they mean.

use tokio::sync::oneshot;
use windlass_machine::{BlobRef, Input, InputId, Reject};

use crate::drive::journal::store::FoldedThread;
use crate::error::EngineError;
use crate::port::journal::{Accepted, Epoch};

/// What reaches an actor.
pub(crate) enum Mail {
    /// An input, with the sender that waits for its outcome.
    Input(Box<Letter>),
    /// The outcome of a command that was in flight.
    Landed(Box<Letter>),
    /// The inbox has rows.
    Inbox,
    /// The claim of this epoch has lapsed: another process may drive the thread.
    Lapsed(Epoch),
}

/// An input on its way to a machine.
pub(crate) struct Letter {
    pub input: Input,
    /// Blobs that it names and that are not stored yet, each below the size that travels in an append.
    pub blobs: Vec<(BlobRef, bytes::Bytes)>,
    /// The inbox row that it came from.
    pub row: Option<InputId>,
    /// The sender that waits for its outcome.
    pub reply: Option<oneshot::Sender<Result<Decided, EngineError>>>,
    /// The sender's span in the log.
    pub asked: tracing::Span,
    /// The thread as the sender has folded it. A driver that opens the thread begins with it, if nothing was appended
    /// since.
    pub folded: Option<FoldedThread>,
}

/// What an input led to, once it is durable.
pub(crate) type Decided = Result<Accepted, Reject>;

impl Letter {
    pub(crate) fn plain(input: Input) -> Self {
        Self {
            input,
            blobs: Vec::new(),
            row: None,
            reply: None,
            asked: tracing::Span::current(),
            folded: None,
        }
    }
}
