//! Who drives a thread: this process where it can, else the one that holds it.
//!
//! Several processes may share one store. An input for a thread that another live process holds is
//! left in its inbox, the owner is woken, and the sender waits for the outcome.

use std::collections::HashMap;
use std::sync::Arc;

use tokio::sync::{OwnedMutexGuard, mpsc, oneshot};
use windlass_machine::{Input, InputId, Seq, ThreadClock, ThreadId};

use super::actor::Actor;
use super::flight::InFlight;
use super::folded::Restored;
use super::spend::Spending;
use super::{Decided, Deps, Letter, MAILBOX, Mail};
use crate::error::{EngineError, SlowDriver};
use crate::port::journal::{Claim, Epoch, Head, InboxOutcome, Posted, StoreError};

/// How long a sender waits for whoever drives the thread. (design: "Inbox")
const ANSWER_WITHIN_MS: u64 = 5_000;

/// How often it looks.
const LOOK_EVERY_MS: u64 = 50;

/// Why a thread is not driven here.
pub(super) const LEAVING: &str = "this process is about to end; another one goes on";

/// What an actor begins with beside the thread.
struct Opened {
    is_new: bool,
    inbox: bool,
    first: Option<Mail>,
}

/// A thread that nobody drives until this is dropped: what comes for it in this process waits, and what other processes
/// leave for it is found afterwards.
pub(crate) struct SetAside {
    deps: Arc<Deps>,
    thread: ThreadId,
    epoch: Epoch,
    opening: Option<OwnedMutexGuard<()>>,
}

impl Drop for SetAside {
    fn drop(&mut self) {
        let (deps, thread, epoch) = (self.deps.clone(), self.thread.clone(), self.epoch);
        let opening = self.opening.take();
        // Where the runtime has ended, the process ends or has left the store, and with it the claim.
        let Ok(runtime) = tokio::runtime::Handle::try_current() else { return };
        runtime.spawn(async move {
            deps.give_back(&thread, epoch).await;
            drop(opening);
            deps.bus.wake(&thread);
        });
    }
}

/// The outcome of a claim.
enum Claimed {
    Taken(OwnClaim),
    /// Another live process, this node, drives the thread.
    Held {
        node: String,
    },
}

/// The right to drive a thread, released when dropped unless a driver keeps it.
struct OwnClaim {
    deps: Option<Arc<Deps>>,
    thread: ThreadId,
    head: Head,
    inbox: bool,
}

impl OwnClaim {
    /// Hands the right over to a driver.
    fn keep(mut self) -> Head {
        self.deps = None;
        self.head
    }
}

impl Drop for OwnClaim {
    fn drop(&mut self) {
        let Some(deps) = self.deps.take() else { return };
        let (thread, epoch) = (self.thread.clone(), self.head.epoch);
        // Where the runtime has ended, the process ends or has left the store, and with it the claim.
        let Ok(runtime) = tokio::runtime::Handle::try_current() else { return };
        runtime.spawn(async move { deps.give_back(&thread, epoch).await });
    }
}

/// Where a thread is driven.
pub(crate) enum Driver {
    /// Here.
    Here(mpsc::Sender<Mail>),
    /// In another live process.
    Elsewhere {
        /// Its node.
        node: String,
    },
}

/// Why mail was not delivered.
enum Undelivered {
    /// Another live process, this node, drives the thread.
    Elsewhere(String),
    Failed(EngineError),
}

impl Undelivered {
    fn into_error(self, thread: &ThreadId) -> EngineError {
        match self {
            Self::Elsewhere(node) => {
                let why = format!("node `{node}` took it over");
                EngineError::Stopped { thread: thread.clone(), why }
            }
            Self::Failed(error) => error,
        }
    }
}

impl Deps {
    /// Brings an input to its thread's owner and waits until its outcome is durable.
    pub(crate) async fn send(
        self: &Arc<Self>,
        thread: &ThreadId,
        id: &InputId,
        mut letter: Letter,
    ) -> Result<Decided, EngineError> {
        let (reply, outcome) = oneshot::channel();
        letter.reply = Some(reply);
        match self.deliver(thread, Mail::Input(Box::new(letter))).await {
            Ok(()) => outcome.await.unwrap_or_else(|_| Err(gone(thread))),
            Err((Mail::Input(letter), Undelivered::Elsewhere(_))) => self.post(thread, id, *letter).await,
            Err((_, why)) => Err(why.into_error(thread)),
        }
    }

    /// Puts mail into the mailbox of a thread's actor, and starts one where nobody drives the thread. What cannot be
    /// delivered comes back.
    async fn deliver(self: &Arc<Self>, thread: &ThreadId, mail: Mail) -> Result<(), (Mail, Undelivered)> {
        let mut mail = Some(mail);
        loop {
            let opened = self.open_with(thread, &mut mail).await;
            // The actor that was started has it.
            let Some(back) = mail.take() else { return Ok(()) };
            match opened {
                Ok(Driver::Here(mailbox)) => match mailbox.send(back).await {
                    Ok(()) => return Ok(()),
                    // The actor retired in between: open the thread again.
                    Err(mpsc::error::SendError(back)) => mail = Some(back),
                },
                Ok(Driver::Elsewhere { node }) => return Err((back, Undelivered::Elsewhere(node))),
                Err(error) => return Err((back, Undelivered::Failed(error))),
            }
        }
    }

    /// Brings a message to a thread that is made for it: nobody else knows its id, so nobody has to be asked for it.
    pub(crate) async fn send_first(
        self: &Arc<Self>,
        thread: &ThreadId,
        mut letter: Letter,
    ) -> Result<Decided, EngineError> {
        if self.leaving.is_cancelled() {
            return Err(left(thread));
        }
        let (reply, outcome) = oneshot::channel();
        letter.reply = Some(reply);
        let restored = Restored::new(thread)?;
        let first = Some(Mail::Input(Box::new(letter)));
        let head = Head { epoch: Epoch(1), ..Head::default() };
        self.start(thread, head, restored, Opened { is_new: true, inbox: false, first });
        outcome.await.unwrap_or_else(|_| Err(gone(thread)))
    }

    /// Brings an input through its thread's inbox, which takes the same id once however often it is sent.
    pub(crate) async fn post(
        self: &Arc<Self>,
        thread: &ThreadId,
        id: &InputId,
        letter: Letter,
    ) -> Result<Decided, EngineError> {
        for (blob, bytes) in letter.blobs {
            self.blobs.put(&blob, bytes).await?;
        }
        let mut posted = Some(self.leave(thread, id, &letter.input).await?);
        let from_ms = self.clock.monotonic_ms();
        let (mut pause_ms, mut is_first) = (1, true);
        loop {
            match posted {
                Some(Posted::Consumed(InboxOutcome::Accepted(accepted))) => return Ok(Ok(*accepted)),
                Some(Posted::Consumed(InboxOutcome::Rejected(reject))) => return Ok(Err(reject)),
                Some(Posted::Waiting) => {}
                // The thread was deleted with its inbox: opening it would create it again.
                None => return Err(EngineError::NoThread(thread.clone())),
            }
            // The owner may have died meanwhile: then this process takes over and finds the row.
            let driver = match std::mem::take(&mut is_first) || !self.is_backing_off(thread) {
                true => match self.open(thread).await? {
                    Driver::Here(mailbox) => {
                        // Where the mailbox is full, the next round tries again.
                        let _ = mailbox.try_send(Mail::Inbox);
                        SlowDriver::ThisProcess
                    }
                    Driver::Elsewhere { node } => SlowDriver::AnotherProcess { node },
                },
                // Its driver has just failed.
                false => SlowDriver::ThisProcess,
            };
            if self.clock.monotonic_ms().saturating_sub(from_ms) >= ANSWER_WITHIN_MS {
                return Err(EngineError::Pending { thread: thread.clone(), driver });
            }
            self.clock.sleep_ms(pause_ms).await;
            pause_ms = LOOK_EVERY_MS.min(2 * pause_ms);
            posted = self.journal.posted(thread, id).await?;
        }
    }

    /// Leaves an input in a thread's inbox and wakes whoever drives it; drives nothing.
    pub(crate) async fn leave(
        &self,
        thread: &ThreadId,
        id: &InputId,
        input: &Input,
    ) -> Result<Posted, StoreError> {
        let posted = self.journal.post(thread, id, input).await?;
        self.bus.wake(thread);
        Ok(posted)
    }

    /// Finds the thread's actor, or starts one where no other live process holds the thread.
    pub(crate) async fn open(self: &Arc<Self>, thread: &ThreadId) -> Result<Driver, EngineError> {
        self.open_with(thread, &mut None).await
    }

    /// As [`open`](Self::open); an actor that is started finds `first` in its mailbox before it does anything.
    async fn open_with(
        self: &Arc<Self>,
        thread: &ThreadId,
        first: &mut Option<Mail>,
    ) -> Result<Driver, EngineError> {
        if let Some(mailbox) = self.actor(thread) {
            return Ok(Driver::Here(mailbox));
        }
        // Two tasks may open the same thread: the second waits and finds the first one's actor. A thread that is set aside
        // while its folder is copied may stay so for minutes.
        let _opening = tokio::select! {
            opening = self.opening.lock(thread) => opening,
            () = self.clock.sleep_ms(ANSWER_WITHIN_MS) => {
                let (thread, driver) = (thread.clone(), SlowDriver::ThisProcess);
                return Err(EngineError::Pending { thread, driver });
            }
        };
        if let Some(mailbox) = self.actor(thread) {
            return Ok(Driver::Here(mailbox));
        }
        if self.leaving.is_cancelled() {
            return Err(left(thread));
        }
        match self.claim(thread).await? {
            Claimed::Held { node } => Ok(Driver::Elsewhere { node }),
            Claimed::Taken(claim) => match self.restore_reached(thread, &claim.head, first.as_mut()).await {
                Ok(restored) => {
                    let opened = Opened { is_new: false, inbox: claim.inbox, first: first.take() };
                    Ok(Driver::Here(self.start(thread, claim.keep(), restored, opened)))
                }
                Err(error) => {
                    // Another process, perhaps of a newer build, can do what this one cannot.
                    self.give_back(thread, claim.keep().epoch).await;
                    Err(error)
                }
            },
        }
    }

    /// Claims a thread. The claim is made in a task of its own: a caller that stops waiting in the middle holds nothing.
    async fn claim(self: &Arc<Self>, thread: &ThreadId) -> Result<Claimed, EngineError> {
        let (deps, thread) = (self.clone(), thread.clone());
        let claimed = tokio::spawn(async move {
            Ok::<_, EngineError>(match deps.journal.claim(&thread).await? {
                Claim::Held { node } => Claimed::Held { node },
                Claim::Taken { head, inbox } => {
                    Claimed::Taken(OwnClaim { deps: Some(deps), thread, head, inbox })
                }
            })
        });
        claimed.await.unwrap_or_else(|error| {
            let why = format!("the claim ended early: {error}");
            Err(StoreError::Unavailable { why }.into())
        })
    }

    /// Takes a thread that nobody drives, so that nobody can; `None` where somebody does.
    pub(crate) async fn set_aside(
        self: &Arc<Self>,
        thread: &ThreadId,
    ) -> Result<Option<SetAside>, EngineError> {
        let opening = tokio::select! {
            opening = self.opening.lock(thread) => opening,
            // The thread is being opened, or set aside by another caller.
            () = self.clock.sleep_ms(LOOK_EVERY_MS) => return Ok(None),
        };
        if self.actor(thread).is_some() {
            return Ok(None);
        }
        match self.claim(thread).await? {
            Claimed::Held { .. } => Ok(None),
            Claimed::Taken(claim) => Ok(Some(SetAside {
                deps: self.clone(),
                thread: thread.clone(),
                epoch: claim.keep().epoch,
                opening: Some(opening),
            })),
        }
    }

    /// Gives up the right to drive a thread. Where the store fails, it is tried again each second.
    pub(super) async fn give_back(&self, thread: &ThreadId, epoch: Epoch) {
        if let Err(error) = self.journal.release(thread, epoch).await {
            tracing::warn!(%thread, %error, "the thread could not be given back yet");
            self.kept().push((thread.clone(), epoch));
        }
    }

    pub(super) async fn give_back_kept(&self) {
        let kept = std::mem::take(&mut *self.kept());
        for (thread, epoch) in kept {
            self.give_back(&thread, epoch).await;
        }
    }

    /// Brings mail that an actor could not take to the next one.
    pub(super) async fn forward(self: &Arc<Self>, thread: &ThreadId, mail: Mail) {
        if let Err((Mail::Input(letter), why)) = self.deliver(thread, mail).await
            && let Some(reply) = letter.reply
        {
            let _ = reply.send(Err(why.into_error(thread)));
        }
    }

    /// The thread's actor, where one takes mail. One that panicked has left a closed mailbox behind.
    pub(super) fn actor(&self, thread: &ThreadId) -> Option<mpsc::Sender<Mail>> {
        self.actors().get(thread).filter(|mailbox| !mailbox.is_closed()).cloned()
    }

    fn start(
        self: &Arc<Self>,
        thread: &ThreadId,
        head: Head,
        restored: Restored,
        opened: Opened,
    ) -> mpsc::Sender<Mail> {
        let (sender, mailbox) = mpsc::channel(MAILBOX);
        // The mailbox is empty.
        opened.first.into_iter().for_each(|mail| drop(sender.try_send(mail)));
        let (wall, monotonic_ms) = (self.clock.now(), self.clock.monotonic_ms());
        let thread_clock = ThreadClock::open(&restored.machine, wall, monotonic_ms);
        let actor = Actor {
            deps: self.clone(),
            thread: thread.clone(),
            epoch: head.epoch,
            machine: restored.machine,
            mailbox,
            sender: sender.clone(),
            is_new: opened.is_new,
            inbox: opened.inbox,
            in_flight: InFlight::new(sender.clone()),
            refused: Vec::new(),
            timer: None,
            thread_clock,
            step_seq: Seq::default(),
            lacks: None,
            is_taken_up: false,
            rejudged: Vec::new(),
            policy: None,
            uses_grants: false,
            spending: Spending::default(),
            since_snapshot: restored.since_snapshot,
            snapshot_bytes: restored.snapshot_bytes,
            span: tracing::Span::none(),
            asked: tracing::Span::none(),
        };
        self.actors().insert(thread.clone(), sender.clone());
        tokio::spawn(actor.run());
        sender
    }
}

fn left(thread: &ThreadId) -> EngineError {
    EngineError::Stopped { thread: thread.clone(), why: LEAVING.into() }
}

fn gone(thread: &ThreadId) -> EngineError {
    EngineError::Stopped { thread: thread.clone(), why: "its driver went away".into() }
}

/// Locks by thread, so that one thread is opened once at a time.
#[derive(Default)]
pub(crate) struct Opening(std::sync::Mutex<HashMap<ThreadId, Arc<tokio::sync::Mutex<()>>>>);

impl Opening {
    /// Whether somebody holds the lock of a thread, or waits for it.
    pub(super) fn is_under_way(&self, thread: &ThreadId) -> bool {
        self.locks().get(thread).is_some_and(|lock| Arc::strong_count(lock) > 1)
    }

    fn locks(&self) -> std::sync::MutexGuard<'_, HashMap<ThreadId, Arc<tokio::sync::Mutex<()>>>> {
        // Nothing panics while the lock is held.
        self.0.lock().unwrap_or_else(std::sync::PoisonError::into_inner)
    }

    async fn lock(&self, thread: &ThreadId) -> OwnedMutexGuard<()> {
        let lock = {
            let mut locks = self.locks();
            // Locks that nobody holds or waits for are let go.
            locks.retain(|_, lock| Arc::strong_count(lock) > 1);
            locks.entry(thread.clone()).or_default().clone()
        };
        lock.lock_owned().await
    }
}
