//! Calls that a server keeps open while a user answers, because older revisions ask during a call. Such a
//! call lasts at most as long as the process, the connection and the server's timeout.
//!
//! The caller decides the outcome of a call whose hold was lost.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use rmcp::model::ElicitResult;
use tokio::sync::oneshot;
use tokio::task::AbortHandle;
use windlass_engine::port::clock::Clock;

use crate::core::calls::InFlight;

/// A held call with the channel for its answer. Dropping it cancels the question and the call.
pub(crate) struct HeldCall {
    pub call: InFlight,
    pub answer: oneshot::Sender<ElicitResult>,
    /// The number of the connection that the call uses.
    pub over: u64,
}

/// The held calls of a server, oldest first.
#[derive(Clone)]
pub(crate) struct Held {
    calls: Arc<Mutex<VecDeque<Kept>>>,
    clock: Arc<dyn Clock>,
    patience_ms: u64,
}

struct Kept {
    ticket: u64,
    call: HeldCall,
    /// Cancels the call when its time limit is reached.
    expiry: AbortHandle,
}

/// Maximum number of held calls of a server. If the limit is reached, a further call cancels the oldest one.
/// Each held call keeps a request open at the server.
const MAX_HELD: usize = 64;

impl Held {
    pub fn new(clock: Arc<dyn Clock>, patience_ms: u64) -> Self {
        Self { calls: Arc::default(), clock, patience_ms }
    }

    /// Holds a call. Returns the ticket with which the caller can take the call.
    pub fn keep(&self, call: HeldCall) -> u64 {
        // The ticket is random, so that a ticket of another process does not match.
        let ticket = self.clock.random();
        let (held, patience_ms) = (self.clone(), self.patience_ms);
        let expiry = tokio::spawn(async move {
            held.clock.sleep_ms(patience_ms).await;
            drop(held.take(ticket));
        });
        let given_up = {
            let mut calls = self.calls();
            calls.push_back(Kept { ticket, call, expiry: expiry.abort_handle() });
            if calls.len() > MAX_HELD { calls.pop_front() } else { None }
        };
        if let Some(given_up) = given_up {
            given_up.expiry.abort();
        }
        ticket
    }

    /// Removes and returns a held call.
    pub fn take(&self, ticket: u64) -> Option<HeldCall> {
        let mut calls = self.calls();
        let at = calls.iter().position(|kept| kept.ticket == ticket)?;
        let kept = calls.remove(at)?;
        kept.expiry.abort();
        Some(kept.call)
    }

    /// Cancels all held calls.
    pub fn clear(&self) {
        let all = std::mem::take(&mut *self.calls());
        all.iter().for_each(|kept| kept.expiry.abort());
    }

    /// Returns the number of held calls whose response has arrived or will never arrive.
    pub fn ended(&self) -> usize {
        self.calls().iter().filter(|kept| kept.call.call.has_ended()).count()
    }

    fn calls(&self) -> MutexGuard<'_, VecDeque<Kept>> {
        // A panic cannot leave the list invalid: each change is one insertion or removal.
        self.calls.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
