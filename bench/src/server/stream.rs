//! Streams a reply as a body of server-sent events, one event per frame, each at its scheduled time.
//!
//! A stream is a position in prebuilt frames. All streams with the same text share its frames.

use std::convert::Infallible;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use hyper::body::{Body, Bytes, Frame};
use tokio::time::{Sleep, sleep};

use super::script::Script;
use super::stats::Stats;

/// The events of one reply.
#[derive(Debug, Default)]
pub struct Frames {
    /// Events before the first token, sent after the first delay only.
    pub head: Vec<Bytes>,
    /// Events for the tokens of a text or the fragments of arguments, each sent after the token delay.
    pub tokens: Arc<[Bytes]>,
    /// Events after the last token.
    pub tail: Vec<Bytes>,
}

/// Frames that are being sent.
#[derive(Debug)]
pub struct EventBody {
    frames: Frames,
    next: usize,
    token_delay: Duration,
    /// Only a script with delays needs a timer. Each deadline is computed from the previous one instead of from now, so
    /// that a late server catches up.
    timer: Option<Pin<Box<Sleep>>>,
    is_waiting: bool,
    stats: Arc<Stats>,
}

impl Frames {
    fn len(&self) -> usize {
        self.head.len() + self.tokens.len() + self.tail.len()
    }

    fn is_token(&self, index: usize) -> bool {
        (self.head.len()..self.head.len() + self.tokens.len()).contains(&index)
    }

    fn event(&self, index: usize) -> Option<Bytes> {
        let after_head = index.checked_sub(self.head.len());
        let event = match after_head {
            None => self.head.get(index),
            Some(index) if index < self.tokens.len() => self.tokens.get(index),
            Some(index) => self.tail.get(index - self.tokens.len()),
        };
        event.cloned()
    }
}

impl EventBody {
    /// Starts the timing of a reply.
    pub fn new(frames: Frames, script: &Script, stats: Arc<Stats>) -> EventBody {
        stats.stream_opened();
        let has_delay = !script.token_delay.is_zero() || !script.first_delay.is_zero();
        EventBody {
            frames,
            next: 0,
            token_delay: script.token_delay,
            timer: has_delay.then(|| Box::pin(sleep(script.first_delay))),
            is_waiting: !script.first_delay.is_zero(),
            stats,
        }
    }
}

impl Body for EventBody {
    type Data = Bytes;
    type Error = Infallible;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Infallible>>> {
        let body = &mut *self;
        if let Some(timer) = body.timer.as_mut().filter(|_| body.is_waiting) {
            ready!(timer.as_mut().poll(context));
            body.is_waiting = false;
        }
        let Some(event) = body.frames.event(body.next) else { return Poll::Ready(None) };
        body.next += 1;
        if let Some(timer) = &mut body.timer
            && !body.token_delay.is_zero()
            && body.frames.is_token(body.next)
        {
            let due = timer.deadline() + body.token_delay;
            timer.as_mut().reset(due);
            body.is_waiting = true;
        }
        body.stats.sent(event.len());
        Poll::Ready(Some(Ok(Frame::data(event))))
    }

    fn is_end_stream(&self) -> bool {
        self.next >= self.frames.len()
    }
}

impl Drop for EventBody {
    fn drop(&mut self) {
        self.stats.stream_closed();
    }
}
