//! A follower's bounded queue: the publisher never waits for whoever reads.
//!
//! What does not fit is dropped with a word, and the journal has it.

use std::collections::VecDeque;
use std::pin::Pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll, Waker};

use futures::Stream;

use crate::port::bus::Signal;

/// Signals that a follower may be behind: several seconds of a fast model, about 100 KiB at most.
const QUEUE: usize = 1024;

/// The publisher's end.
#[derive(Clone, Default)]
pub(super) struct Queue(Arc<Mutex<State>>);

#[derive(Default)]
struct State {
    signals: VecDeque<Signal>,
    waker: Option<Waker>,
}

impl Queue {
    /// Hands a signal over. A follower with a full queue loses all that it had not read: it has to look
    /// into the journal anyway, and goes on from here.
    pub fn push(&self, signal: Signal) {
        let waker = {
            let mut state = self.state();
            if state.signals.len() >= QUEUE {
                state.signals.clear();
                state.signals.push_back(Signal::Lagged);
            }
            state.signals.push_back(signal);
            state.waker.take()
        };
        if let Some(waker) = waker {
            waker.wake();
        }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        // Nothing leaves the state halfway.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The reader's end: first what was there, then what comes. Never ends by itself.
pub(super) struct Follower<E: Fn() + Send + Unpin> {
    replay: Option<Box<dyn Iterator<Item = Signal> + Send>>,
    queue: Queue,
    ended: E,
}

impl<E: Fn() + Send + Unpin> Follower<E> {
    /// Reads `replay`, then the queue; calls `ended` when it is dropped.
    pub fn new(replay: Box<dyn Iterator<Item = Signal> + Send>, queue: Queue, ended: E) -> Self {
        Self { replay: Some(replay), queue, ended }
    }
}

impl<E: Fn() + Send + Unpin> Stream for Follower<E> {
    type Item = Signal;

    fn poll_next(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<Signal>> {
        if let Some(replay) = &mut self.replay {
            if let Some(signal) = replay.next() {
                return Poll::Ready(Some(signal));
            }
            self.replay = None;
        }
        let mut state = self.queue.state();
        if let Some(signal) = state.signals.pop_front() {
            return Poll::Ready(Some(signal));
        }
        state.waker = Some(context.waker().clone());
        Poll::Pending
    }
}

impl<E: Fn() + Send + Unpin> Drop for Follower<E> {
    fn drop(&mut self) {
        (self.ended)();
    }
}
