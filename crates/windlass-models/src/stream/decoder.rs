//! The interface of a wire's decoder of replies.
//!
//! A decoder is pure: it reads events and returns deltas and the reply. The stream around it owns the connection.

use std::collections::VecDeque;

use windlass_engine::port::model::{Delta, ModelError, Reply};

use crate::stream::sse::Flow;

/// Reads the events of one reply.
pub(crate) trait Decoder: Send {
    /// Reads one event and appends deltas for the live display. The reply ends with the first error.
    fn event(&mut self, name: &str, data: &[u8], deltas: &mut VecDeque<Delta>) -> Result<Flow, ModelError>;

    /// Returns the reply after the provider or the connection has ended it. A reply that the provider did not end is an
    /// error of class `Truncated`.
    fn finish(&mut self) -> Result<Reply, ModelError>;
}
