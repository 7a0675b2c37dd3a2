//! Messages to a thread's driver: inputs, outcomes of commands, and inbox notifications.
//!
//! This module does not interpret the messages.

use tokio::sync::oneshot;
use windlass_machine::{BlobRef, Input, InputId, Reject};

use crate::drive::journal::store::FoldedThread;
use crate::error::EngineError;
use crate::port::journal::{Accepted, Epoch};

/// A message to an actor.
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

/// An input for the machine, with its origin.
pub(crate) struct Letter {
    pub input: Input,
    /// New blobs that the input references, each small enough to be stored by the append.
    pub blobs: Vec<(BlobRef, bytes::Bytes)>,
    /// The inbox row that the input came from.
    pub row: Option<InputId>,
    /// Channel to the sender that waits for the outcome.
    pub reply: Option<oneshot::Sender<Result<Decided, EngineError>>>,
    /// The sender's tracing span.
    pub asked: tracing::Span,
    /// The thread as folded by the sender. A driver that opens the
    /// thread starts from this fold if the thread has no newer events.
    pub folded: Option<FoldedThread>,
}

/// The durable outcome of an input.
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
