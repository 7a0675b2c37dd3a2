//! The calls that a connection has in flight, so that what a server says in the middle of one finds it.
//!
//! It decides nothing: progress and questions go to whoever waits for the call.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use rmcp::RoleClient;
use rmcp::model::{ElicitRequestParams, ElicitResult, ProgressToken, RequestId, ServerResult};
use rmcp::service::{RequestHandle, ServiceError};
use tokio::sync::{mpsc, oneshot, watch};
use windlass_machine::RunId;

/// What a server says in the middle of a call.
pub(crate) enum Midway {
    /// It is at work: a short text without what the server was given.
    Progress(String),
    /// It asks somebody something, and waits.
    Asked(Box<Elicited>),
}

/// A question in the middle of a call. One that is dropped is answered with `cancel`.
pub(crate) struct Elicited {
    pub params: ElicitRequestParams,
    pub answer: oneshot::Sender<ElicitResult>,
}

/// Messages that may wait for a call: progress beyond it is dropped, as nobody reads that fast.
const MIDWAY_MAX: usize = 64;

/// The calls of one connection.
pub(crate) struct Calls {
    slots: Mutex<HashMap<RequestId, Slot>>,
    /// Counts registrations: a message may overtake that of its own call.
    registered: watch::Sender<u64>,
}

#[derive(Clone)]
struct Slot {
    token: ProgressToken,
    run: RunId,
    midway: mpsc::Sender<Midway>,
    /// Whether a question of it is open: another one cannot be told to be its.
    asks: bool,
    /// Whether it was given up. The server may ask on for a while, and nobody else is to be asked that.
    is_over: bool,
}

impl Default for Calls {
    fn default() -> Self {
        Self { slots: Mutex::default(), registered: watch::Sender::new(0) }
    }
}

impl Calls {
    /// Takes a request in; it is out again when what is returned is dropped, and cancelled unless it has ended.
    pub fn take(self: &Arc<Self>, request: RequestHandle<RoleClient>, run: RunId) -> InFlight {
        let (midway, messages) = mpsc::channel(MIDWAY_MAX);
        let slot = Slot { token: request.progress_token.clone(), run, midway, asks: false, is_over: false };
        self.slots().insert(request.id.clone(), slot);
        self.registered.send_modify(|count| *count += 1);
        InFlight { id: request.id.clone(), request: Some(request), messages, calls: self.clone() }
    }

    /// How many there are.
    pub fn count(&self) -> usize {
        self.slots().values().filter(|slot| !slot.is_over).count()
    }

    /// Passes progress on.
    pub fn progress(&self, token: &ProgressToken, text: String) {
        if let Some(slot) = self.slots().values().find(|slot| slot.token == *token) {
            // Full: there is newer progress than anybody reads.
            let _ = slot.midway.try_send(Midway::Progress(text));
        }
    }

    /// Passes a question on to the call that it belongs to. The error says why it belongs to none.
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
            .map_err(|_| "the call takes no more questions".to_owned())
    }

    /// The run for which a server asks in the middle of a call.
    pub async fn run(&self, request: Option<&RequestId>) -> Result<RunId, String> {
        let id = self.find(request).await?;
        let slots = self.slots();
        slots.get(&id).map(|slot| slot.run.clone()).ok_or_else(|| "the call has ended".into())
    }

    /// The call that a message belongs to: the one that it names, or else the only one there is. With several, none:
    /// nobody is asked what somebody else's call wants to know.
    async fn find(&self, request: Option<&RequestId>) -> Result<RequestId, String> {
        let mut registered = self.registered.subscribe();
        let found = async {
            loop {
                match self.found(request) {
                    Err(Missing::Yet) => {}
                    Err(Missing::Several) => {
                        return Err(
                            "several calls are running, and the server does not say which one asks".into()
                        );
                    }
                    Ok(id) => return Ok(id),
                }
                if registered.changed().await.is_err() {
                    return Err("the connection is gone".into());
                }
            }
        };
        let in_time = tokio::time::timeout(OVERTAKEN, found).await;
        in_time.unwrap_or_else(|_| Err("no call is running that it could belong to".into()))
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
        // Each change is one insertion, removal or flag.
        self.slots.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

enum Missing {
    Yet,
    Several,
}

/// How long a server may take to notice that a call was given up.
const UNNOTICED: std::time::Duration = std::time::Duration::from_secs(60);
/// How long a message waits for the call that it has overtaken: the time between two lines of code.
const OVERTAKEN: std::time::Duration = std::time::Duration::from_secs(1);

/// A request that was sent and not answered yet. Dropped, it is cancelled.
pub(crate) struct InFlight {
    id: RequestId,
    request: Option<RequestHandle<RoleClient>>,
    messages: mpsc::Receiver<Midway>,
    calls: Arc<Calls>,
}

/// What came next of a call.
pub(crate) enum Came {
    /// The answer, or that none will come.
    Answer(Box<Result<ServerResult, ServiceError>>),
    /// Something before it.
    Midway(Midway),
}

impl InFlight {
    /// Waits for the next of it. May be dropped and called again.
    pub async fn next(&mut self) -> Came {
        let Some(request) = &mut self.request else {
            return Came::Answer(Box::new(Err(ServiceError::TransportClosed)));
        };
        tokio::select! {
            biased;
            // What was said before the answer is read before it.
            Some(message) = self.messages.recv() => Came::Midway(message),
            answer = &mut request.rx => {
                self.request = None;
                Came::Answer(Box::new(answer.unwrap_or(Err(ServiceError::TransportClosed))))
            }
        }
    }

    /// Whether its answer is there already. Where none will come, the connection is over, and what it held is given up.
    pub fn has_ended(&self) -> bool {
        self.request.as_ref().is_none_or(|request| !request.rx.is_empty())
    }

    /// Its question was answered: the next one is its again.
    pub fn goes_on(&self) {
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
            // A server that cannot be told is gone already.
            let _ = request.cancel(Some("it is no longer wanted".into())).await;
            tokio::time::sleep(UNNOTICED).await;
            calls.slots().remove(&id);
        });
    }
}
