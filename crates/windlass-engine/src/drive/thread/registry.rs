//! The registry of driven threads. The registry delivers an input
//! to the driver of its thread, in this process or another.
//!
//! Several processes may share one store. If another live process holds the thread, the input goes to the thread's
//! inbox; the owner is woken, and the sender waits for the outcome.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tokio::sync::{mpsc, oneshot};
use tokio_util::sync::CancellationToken;
use windlass_machine::{Input, InputId, ThreadId};

use super::actor::Actor;
use super::actors::ActorServices;
use super::backoff::{Backoffs, Openings};
use super::claim::{Claimed, Claims, OwnClaim};
use super::driven::{DrivenThread, Lease};
use super::ended::LEAVING;
use super::mail::{Decided, Letter, Mail};
use super::mailbox::Mailbox;
use crate::drive::contents::Contents;
use crate::drive::journal::store::Restored;
use crate::drive::policy::prune::Pruner;
use crate::error::{EngineError, SlowDriver};
use crate::port::journal::{Epoch, Head, InboxOutcome, Journal, Posted, StoreError};

/// Timeout of a sender that waits for the thread's driver, in milliseconds.
const ANSWER_WITHIN_MS: u64 = 5_000;

/// Interval in milliseconds at which a waiting sender polls.
pub(super) const LOOK_EVERY_MS: u64 = 50;

/// The start data of an actor, in addition to the folded thread.
struct Opened {
    is_new: bool,
    inbox: bool,
    first: Option<Mail>,
}

/// The process that drives a thread.
pub(crate) enum Driver {
    /// This process.
    Here(mpsc::Sender<Mail>),
    /// Another live process.
    Elsewhere {
        /// Name of the process's node.
        node: String,
    },
}

/// The reason why mail was not delivered.
enum Undelivered {
    /// Another live process, with this node name, drives the thread.
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

/// The actors of an engine, by thread.
pub(crate) type Actors = HashMap<ThreadId, mpsc::Sender<Mail>>;

/// The threads that an engine drives, and the delivery of mail to them.
pub(crate) struct ThreadRegistry {
    pub(super) services: Arc<ActorServices>,
    contents: Arc<Contents>,
    actors: Mutex<Actors>,
    pub(super) claims: Claims,
    /// Limits the number of threads that are opened because they need a driver.
    pub(super) openings: Openings,
    /// Threads that could not be opened or driven here, until their next retry.
    pub(super) backoffs: Backoffs,
    /// Cancelled when this process stops driving threads.
    pub leaving: CancellationToken,
    pub(super) pruner: Pruner,
}

impl ThreadRegistry {
    /// Creates a registry. Its sweep opens no further threads while the registry drives `driven_max` threads.
    pub(crate) fn new(
        services: Arc<ActorServices>,
        contents: Arc<Contents>,
        pruner: Pruner,
        driven_max: usize,
    ) -> Arc<Self> {
        Arc::new(Self {
            services,
            contents,
            actors: Mutex::default(),
            claims: Claims::default(),
            openings: Openings::new(driven_max),
            backoffs: Backoffs::default(),
            leaving: CancellationToken::new(),
            pruner,
        })
    }

    pub(crate) fn actors(&self) -> MutexGuard<'_, Actors> {
        // No code panics while the lock is held.
        self.actors.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn journal(&self) -> &dyn Journal {
        &*self.services.store.journal
    }

    /// Delivers an input to the owner of its thread, and waits until the outcome is durable.
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

    /// Sends mail to the actor of a thread. Starts an actor if the
    /// thread has none. Returns the mail if the delivery fails.
    async fn deliver(self: &Arc<Self>, thread: &ThreadId, mail: Mail) -> Result<(), (Mail, Undelivered)> {
        let mut mail = Some(mail);
        loop {
            let opened = self.open_with(thread, &mut mail).await;
            // The started actor has taken the mail.
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

    /// Delivers the first message of a new thread. No other process
    /// knows the thread's id, so the thread needs no claim.
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
        self.start(thread, Epoch(1), restored, Opened { is_new: true, inbox: false, first });
        outcome.await.unwrap_or_else(|_| Err(gone(thread)))
    }

    /// Delivers an input through the thread's inbox, which deduplicates it by id.
    pub(crate) async fn post(
        self: &Arc<Self>,
        thread: &ThreadId,
        id: &InputId,
        letter: Letter,
    ) -> Result<Decided, EngineError> {
        for (blob, bytes) in letter.blobs {
            self.contents.put(&blob, bytes).await?;
        }
        let mut posted = Some(self.leave(thread, id, &letter.input).await?);
        let from_ms = self.services.clock.monotonic_ms();
        let (mut pause_ms, mut is_first) = (1, true);
        loop {
            match posted {
                Some(Posted::Consumed(InboxOutcome::Accepted(accepted))) => return Ok(Ok(*accepted)),
                Some(Posted::Consumed(InboxOutcome::Rejected(reject))) => return Ok(Err(reject)),
                Some(Posted::Waiting) => {}
                // The thread was deleted with its inbox. Opening the thread would create it again.
                None => return Err(EngineError::NoThread(thread.clone())),
            }
            // The owner may have died in the meantime: this process then takes over the thread and finds the row.
            let driver = match std::mem::take(&mut is_first) || !self.is_backing_off(thread) {
                true => match self.open(thread).await? {
                    Driver::Here(mailbox) => {
                        // If the mailbox is full, the next iteration tries again.
                        let _ = mailbox.try_send(Mail::Inbox);
                        SlowDriver::ThisProcess
                    }
                    Driver::Elsewhere { node } => SlowDriver::AnotherProcess { node },
                },
                // The thread's driver has just failed.
                false => SlowDriver::ThisProcess,
            };
            if self.services.clock.monotonic_ms().saturating_sub(from_ms) >= ANSWER_WITHIN_MS {
                return Err(EngineError::Pending { thread: thread.clone(), driver });
            }
            self.services.clock.sleep_ms(pause_ms).await;
            pause_ms = LOOK_EVERY_MS.min(2 * pause_ms);
            posted = self.journal().posted(thread, id).await?;
        }
    }

    /// Adds an input to a thread's inbox and wakes the driver. Does not drive the thread.
    pub(crate) async fn leave(
        &self,
        thread: &ThreadId,
        id: &InputId,
        input: &Input,
    ) -> Result<Posted, StoreError> {
        let posted = self.journal().post(thread, id, input).await?;
        self.services.bus.wake(thread);
        Ok(posted)
    }

    /// Returns the thread's actor. Starts an actor if no other live process holds the thread.
    pub(crate) async fn open(self: &Arc<Self>, thread: &ThreadId) -> Result<Driver, EngineError> {
        self.open_with(thread, &mut None).await
    }

    /// Like [`open`](Self::open), but a started actor receives `first` before anything else.
    async fn open_with(
        self: &Arc<Self>,
        thread: &ThreadId,
        first: &mut Option<Mail>,
    ) -> Result<Driver, EngineError> {
        if let Some(mailbox) = self.actor(thread) {
            return Ok(Driver::Here(mailbox));
        }
        // If two tasks open the same thread, the second waits and finds the first task's actor. Copying a folder may
        // keep a thread set aside for minutes.
        let _opening = tokio::select! {
            opening = self.claims.opening.lock(thread) => opening,
            () = self.services.clock.sleep_ms(ANSWER_WITHIN_MS) => {
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
            Claimed::Taken(claim) => self.drive(claim, first).await.map(Driver::Here),
        }
    }

    /// Opens a thread that was claimed because it needs a driver.
    /// Does nothing if an input has already opened the thread.
    pub(super) async fn open_claimed(self: &Arc<Self>, claim: OwnClaim) -> Result<(), EngineError> {
        let _opening = self.claims.opening.lock(claim.thread()).await;
        if self.actor(claim.thread()).is_some() {
            return Ok(());
        }
        if self.leaving.is_cancelled() {
            return Err(left(claim.thread()));
        }
        self.drive(claim, &mut None).await.map(drop)
    }

    /// Folds a claimed thread and starts its driver.
    async fn drive(
        self: &Arc<Self>,
        claim: OwnClaim,
        first: &mut Option<Mail>,
    ) -> Result<mpsc::Sender<Mail>, EngineError> {
        let thread = claim.thread().clone();
        match self.restored(&thread, &claim.head, first).await {
            Ok(restored) => {
                let opened = Opened { is_new: false, inbox: claim.inbox, first: first.take() };
                Ok(self.start(&thread, claim.keep(), restored, opened))
            }
            Err(error) => {
                // Another process, perhaps of a newer build, may be able to open the thread.
                self.give_back(&thread, claim.keep()).await;
                Err(error)
            }
        }
    }

    /// Folds a thread for a driver that starts with this mail.
    async fn restored(
        &self,
        thread: &ThreadId,
        head: &Head,
        first: &mut Option<Mail>,
    ) -> Result<Restored, EngineError> {
        let (folded, is_cancel) = match first {
            Some(Mail::Input(letter)) => (letter.folded.take(), matches!(letter.input, Input::Cancel { .. })),
            Some(Mail::Landed(_) | Mail::Inbox | Mail::Lapsed(_)) | None => (None, false),
        };
        self.services.store.restore_reached(thread, head, folded, is_cancel).await
    }

    /// Delivers mail that an actor could not take to the next actor.
    pub(super) async fn forward(self: &Arc<Self>, thread: &ThreadId, mail: Mail) {
        if let Err((Mail::Input(letter), why)) = self.deliver(thread, mail).await
            && let Some(reply) = letter.reply
        {
            let _ = reply.send(Err(why.into_error(thread)));
        }
    }

    /// Returns the thread's actor if it accepts mail. An actor that panicked leaves a closed mailbox behind.
    pub(super) fn actor(&self, thread: &ThreadId) -> Option<mpsc::Sender<Mail>> {
        self.actors().get(thread).filter(|mailbox| !mailbox.is_closed()).cloned()
    }

    fn start(
        self: &Arc<Self>,
        thread: &ThreadId,
        epoch: Epoch,
        restored: Restored,
        opened: Opened,
    ) -> mpsc::Sender<Mail> {
        let mailbox = Mailbox::new(opened.inbox);
        let sender = mailbox.sender.clone();
        // The new mailbox is empty, so the send cannot fail.
        opened.first.into_iter().for_each(|mail| drop(sender.try_send(mail)));
        let lease = Lease { epoch, is_new: opened.is_new };
        let driven =
            DrivenThread::new(self.services.clone(), thread.clone(), lease, restored, sender.clone());
        let actor = Actor::new(self.clone(), mailbox, driven);
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
