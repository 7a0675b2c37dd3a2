//! Calls that a server holds open while somebody is asked: older revisions ask in the middle of a call, and the call
//! itself waits. It lasts as long as this process, the connection and the server's patience do.
//!
//! What becomes of a call whose hold was lost is decided where the call goes on.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use rmcp::model::ElicitResult;
use tokio::sync::oneshot;
use tokio::task::AbortHandle;
use windlass_engine::port::clock::Clock;

use crate::core::calls::InFlight;

/// A call that waits, and where its question is answered. Dropped, the question is cancelled, and so is the call.
pub(crate) struct HeldCall {
    pub call: InFlight,
    pub answer: oneshot::Sender<ElicitResult>,
    /// The connection that it was made over.
    pub over: u64,
}

/// The calls of a server that wait, the oldest first.
#[derive(Clone)]
pub(crate) struct Held {
    calls: Arc<Mutex<VecDeque<Kept>>>,
    clock: Arc<dyn Clock>,
    patience_ms: u64,
}

struct Kept {
    ticket: u64,
    call: HeldCall,
    /// Gives the call up when the patience is over.
    expiry: AbortHandle,
}

/// Calls of one server that wait at most; the oldest one is given up for another. Each costs the server a request.
const MAX_HELD: usize = 64;

impl Held {
    pub fn new(clock: Arc<dyn Clock>, patience_ms: u64) -> Self {
        Self { calls: Arc::default(), clock, patience_ms }
    }

    /// Keeps a call; what it is fetched by.
    pub fn keep(&self, call: HeldCall) -> u64 {
        // Drawn, so that what another process kept is not mistaken for it.
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

    /// Fetches a call, once.
    pub fn take(&self, ticket: u64) -> Option<HeldCall> {
        let mut calls = self.calls();
        let at = calls.iter().position(|kept| kept.ticket == ticket)?;
        let kept = calls.remove(at)?;
        kept.expiry.abort();
        Some(kept.call)
    }

    /// Gives all of them up.
    pub fn clear(&self) {
        let all = std::mem::take(&mut *self.calls());
        all.iter().for_each(|kept| kept.expiry.abort());
    }

    /// How many of them have ended meanwhile, unnoticed by whoever will fetch them.
    pub fn ended(&self) -> usize {
        self.calls().iter().filter(|kept| kept.call.call.has_ended()).count()
    }

    fn calls(&self) -> MutexGuard<'_, VecDeque<Kept>> {
        // Each change is one insertion or removal.
        self.calls.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
