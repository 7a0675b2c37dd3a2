//! A reply read from server-sent events by a wire's decoder.
//!
//! The stream spawns no task. Dropping it closes the connection.

use std::collections::VecDeque;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};

use bytes::Bytes;
use futures::Stream;
use futures::future::BoxFuture;
use http::Request;
use windlass_engine::port::model::{Delta, ModelError, ModelEvent, Reply};
use windlass_machine::FailureClass;

use crate::failure;
use crate::stream::decoder::Decoder;
use crate::stream::sse::{EventReader, Flow};
use crate::transport::{ByteStream, Link, LinkOptions, Remainder};

/// Maximum size of a reply's body, in bytes. The engine limits the text; this limit also covers other
/// content, such as generated images.
const BODY_MAX_BYTES: usize = 128 * 1024 * 1024;

/// The stream of one call. It sends the request when it is first polled.
pub(crate) struct EventStream {
    state: State,
    reader: EventReader,
    decoder: Box<dyn Decoder>,
    deltas: VecDeque<Delta>,
    body_bytes: usize,
    remainder: Remainder,
    endpoint: Arc<LinkOptions>,
}

enum State {
    Opening(BoxFuture<'static, Result<ByteStream, ModelError>>),
    Reading(ByteStream),
    /// The reply has ended; the stream first emits the remaining deltas.
    Ended(Box<Result<Reply, ModelError>>),
    Done,
}

impl EventStream {
    /// Creates a stream that sends `request` and decodes the reply with `decoder`.
    pub(crate) fn new(
        link: Link,
        request: Request<Bytes>,
        endpoint: Arc<LinkOptions>,
        decoder: Box<dyn Decoder>,
    ) -> Self {
        let remainder = link.remainder();
        let opening = async move { link.open(request).await.map_err(failure::transport) };
        Self {
            state: State::Opening(Box::pin(opening)),
            reader: EventReader::default(),
            decoder,
            deltas: VecDeque::new(),
            body_bytes: 0,
            remainder,
            endpoint,
        }
    }

    /// Reads a chunk. Returns the outcome if the chunk ended the reply.
    fn read(&mut self, chunk: &[u8]) -> Option<Result<Reply, ModelError>> {
        self.body_bytes += chunk.len();
        if self.body_bytes > BODY_MAX_BYTES {
            let text = format!("the provider sent a reply of more than {BODY_MAX_BYTES} bytes");
            return Some(Err(ModelError::new(FailureClass::Malformed, text)));
        }
        let (decoder, deltas) = (&mut self.decoder, &mut self.deltas);
        let read = self.reader.read(chunk, &mut |name, data| decoder.event(name, data, deltas));
        match read {
            Ok(Flow::More) => None,
            Ok(Flow::End) => Some(self.decoder.finish()),
            Err(error) => Some(Err(error)),
        }
    }

    /// Ends the reply. The endpoint reads the rest of the body later, so that the connection can be reused.
    fn end(&mut self, outcome: Result<Reply, ModelError>) {
        let whole = outcome.is_ok();
        // Dropping the body moves its rest to `remainder`.
        self.state = State::Ended(Box::new(outcome));
        if whole {
            self.remainder.leave_to(&self.endpoint);
        } else {
            self.remainder.discard();
        }
    }
}

impl Stream for EventStream {
    type Item = Result<ModelEvent, ModelError>;

    fn poll_next(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        let this = self.get_mut();
        loop {
            if let Some(delta) = this.deltas.pop_front() {
                return Poll::Ready(Some(Ok(ModelEvent::Delta(delta))));
            }
            match &mut this.state {
                State::Opening(opening) => match ready!(opening.as_mut().poll(context)) {
                    Ok(body) => this.state = State::Reading(body),
                    Err(error) => this.state = State::Ended(Box::new(Err(error))),
                },
                State::Reading(body) => match ready!(body.as_mut().poll_next(context)) {
                    Some(Ok(chunk)) => {
                        if let Some(outcome) = this.read(&chunk) {
                            this.end(outcome);
                        }
                    }
                    Some(Err(error)) => this.state = State::Ended(Box::new(Err(failure::transport(error)))),
                    None => {
                        let outcome = this.decoder.finish();
                        this.state = State::Ended(Box::new(outcome));
                    }
                },
                State::Ended(_) => {
                    let State::Ended(outcome) = std::mem::replace(&mut this.state, State::Done) else {
                        continue;
                    };
                    let event = outcome.map(|reply| ModelEvent::Finished(Box::new(reply)));
                    return Poll::Ready(Some(event));
                }
                State::Done => return Poll::Ready(None),
            }
        }
    }
}
