//! The calls in flight on a connection. Routes progress and questions to the call that they belong to.
//!
//! This module makes no decision; the waiting call handles each message.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use rmcp::RoleClient;
use rmcp::model::{ElicitRequestParams, ElicitResult, ProgressToken, RequestId, ServerResult};
use rmcp::service::{RequestHandle, ServiceError};
use tokio::sync::{mpsc, oneshot, watch};
use windlass_machine::RunId;

/// A message that the server sends during a call.
pub(crate) enum Midway {
    /// A redacted progress text.
    Progress(String),
    /// A question that the server waits for.
    Asked(Box<Elicited>),
}

/// A question during a call. If the question is dropped, the server receives the answer `cancel`.
pub(crate) struct Elicited {
    pub params: ElicitRequestParams,
    pub answer: oneshot::Sender<ElicitResult>,
}

/// Maximum number of messages that wait for a call. Further progress is
/// dropped, because no user reads that fast.
const MIDWAY_MAX: usize = 64;

/// The calls of one connection.
pub(crate) struct Calls {
    slots: Mutex<HashMap<RequestId, Slot>>,
    /// Counts registrations. A message may arrive before its call is
    /// registered, and waits for this count to change.
    registered: watch::Sender<u64>,
}

#[derive(Clone)]
struct Slot {
    token: ProgressToken,
    run: RunId,
    midway: mpsc::Sender<Midway>,
    /// Whether a question of this call is open. A second question could not be attributed to the call.
    asks: bool,
    /// Whether the call was abandoned. The server may continue to ask for a while, and
    /// such a question belongs to no other call.
    is_over: bool,
}

impl Default for Calls {
    fn default() -> Self {
        Self { slots: Mutex::default(), registered: watch::Sender::new(0) }
    }
}

impl Calls {
    /// Registers a request. Dropping the returned handle removes the
    /// request, and cancels it unless it has ended.
    pub fn take(self: &Arc<Self>, request: RequestHandle<RoleClient>, run: RunId) -> InFlight {
        let (midway, messages) = mpsc::channel(MIDWAY_MAX);
        let slot = Slot { token: request.progress_token.clone(), run, midway, asks: false, is_over: false };
        self.slots().insert(request.id.clone(), slot);
        self.registered.send_modify(|count| *count += 1);
        InFlight { id: request.id.clone(), request: Some(request), messages, calls: self.clone() }
    }

    /// Returns the number of calls in flight.
    pub fn count(&self) -> usize {
        self.slots().values().filter(|slot| !slot.is_over).count()
    }

    /// Routes a progress text to its call.
    pub fn progress(&self, token: &ProgressToken, text: String) {
        if let Some(slot) = self.slots().values().find(|slot| slot.token == *token) {
            // If the queue is full, newer progress is dropped.
            let _ = slot.midway.try_send(Midway::Progress(text));
        }
    }

    /// Routes a question to its call. The error states why the question belongs to none.
    pub async fn ask(&self, request: Option<&RequestId>, asked: Elicited) -> Result<(), String> {
        let midway = {
            let id = self.find(request).await?;
            let mut slots = self.slots();
            let slot = slots.get_mut(&id).ok_or("the call has ended")?;
            slot.asks = true;
            slot.midway.clone()
        };
        midway
            .try_send(Midway::Asked(Box::new(asked)))
            .map_err(|_| "the call accepts no more questions".to_owned())
    }

    /// Returns the run whose call a server's request belongs to.
    pub async fn run(&self, request: Option<&RequestId>) -> Result<RunId, String> {
        let id = self.find(request).await?;
        let slots = self.slots();
        slots.get(&id).map(|slot| slot.run.clone()).ok_or_else(|| "the call has ended".into())
    }

    /// Finds the call that a message belongs to: the call that it names, or the only call in flight. Returns
    /// an error if several are in flight, so that no question reaches the wrong user.
    async fn find(&self, request: Option<&RequestId>) -> Result<RequestId, String> {
        let mut registered = self.registered.subscribe();
        let found = async {
            loop {
                match self.found(request) {
                    Err(Missing::Yet) => {}
                    Err(Missing::Several) => {
                        return Err(
                            "several calls are running, and the server does not say which one its request \
                             belongs to"
                                .into(),
                        );
                    }
                    Ok(id) => return Ok(id),
                }
                if registered.changed().await.is_err() {
                    return Err("the connection is closed".into());
                }
            }
        };
        let in_time = tokio::time::timeout(OVERTAKEN, found).await;
        in_time.unwrap_or_else(|_| Err("it belongs to no running call".into()))
    }

    fn found(&self, request: Option<&RequestId>) -> Result<RequestId, Missing> {
        let slots = self.slots();
        match request {
            Some(id) if slots.contains_key(id) => Ok(id.clone()),
            Some(_) => Err(Missing::Yet),
            None => {
                let mut free = slots.iter().filter(|(_, slot)| !slot.asks).map(|(id, _)| id);
                match (free.next(), free.next()) {
                    (Some(id), None) if slots.get(id).is_some_and(|slot| slot.is_over) => Err(Missing::Yet),
                    (Some(id), None) => Ok(id.clone()),
                    (Some(_), Some(_)) => Err(Missing::Several),
                    (None, _) => Err(Missing::Yet),
                }
            }
        }
    }

    fn slots(&self) -> MutexGuard<'_, HashMap<RequestId, Slot>> {
        // A panic cannot leave the map invalid: each change is one insertion, removal or flag.
        self.slots.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

enum Missing {
    Yet,
    Several,
}

/// Maximum time that a server may take to process a cancellation.
const UNNOTICED: std::time::Duration = std::time::Duration::from_secs(60);
/// Maximum time that a message waits for its call to be registered. The
/// registration directly follows the sending.
const OVERTAKEN: std::time::Duration = std::time::Duration::from_secs(1);

/// A request without a response. Dropping it cancels the request.
pub(crate) struct InFlight {
    id: RequestId,
    request: Option<RequestHandle<RoleClient>>,
    messages: mpsc::Receiver<Midway>,
    calls: Arc<Calls>,
}

/// The next message about a call.
pub(crate) enum Came {
    /// The response, or an error if no response will arrive.
    Answer(Box<Result<ServerResult, ServiceError>>),
    /// A message before the response.
    Midway(Midway),
}

impl InFlight {
    /// Waits for the next message. Cancel safe.
    pub async fn next(&mut self) -> Came {
        let Some(request) = &mut self.request else {
            return Came::Answer(Box::new(Err(ServiceError::TransportClosed)));
        };
        tokio::select! {
            biased;
            // Messages sent before the response are delivered before it.
            Some(message) = self.messages.recv() => Came::Midway(message),
            answer = &mut request.rx => {
                self.request = None;
                Came::Answer(Box::new(answer.unwrap_or(Err(ServiceError::TransportClosed))))
            }
        }
    }

    /// Whether the response has arrived. If the connection has ended, no response will
    /// arrive, and its held calls are abandoned.
    pub fn has_ended(&self) -> bool {
        self.request.as_ref().is_none_or(|request| !request.rx.is_empty())
    }

    /// Marks the call's question as answered, so that the next question can be attributed to the call.
    pub fn mark_answered(&self) {
        if let Some(slot) = self.calls.slots().get_mut(&self.id) {
            slot.asks = false;
        }
    }
}

impl Drop for InFlight {
    fn drop(&mut self) {
        let (Some(request), Ok(runtime)) = (self.request.take(), tokio::runtime::Handle::try_current())
        else {
            self.calls.slots().remove(&self.id);
            return;
        };
        if let Some(slot) = self.calls.slots().get_mut(&self.id) {
            (slot.is_over, slot.asks) = (true, false);
        }
        let (calls, id) = (self.calls.clone(), self.id.clone());
        runtime.spawn(async move {
            // If the notification fails, the server is already disconnected.
            let _ = request.cancel(Some("the call was cancelled".into())).await;
            tokio::time::sleep(UNNOTICED).await;
            calls.slots().remove(&id);
        });
    }
}
