//! Who drives a thread: this process where it can, else the one that holds it.
//!
//! Several processes may share one store. An input for a thread that another live process holds is
//! left in its inbox, the owner is woken, and the sender waits for the outcome.

use std::sync::Arc;

use futures::StreamExt;
use tokio::sync::{mpsc, oneshot};
use windlass_machine::{CorruptJournal, Input, InputId, Machine, Seq, Snapshot, ThreadId};

use super::actor::Actor;
use super::{Accepted, Deps, Letter, MAILBOX, Mail};
use crate::error::EngineError;
use crate::port::journal::{Claim, Head, InboxOutcome, Posted, StoreError};

/// How long a sender waits for another process. (design: "Inbox")
const ANSWER_WITHIN_MS: u64 = 5_000;

/// How often it looks.
const LOOK_EVERY_MS: u64 = 50;

/// How often the inboxes of threads that this process drives are looked at when nobody woke it.
const SWEEP_EVERY_MS: u64 = 1_000;

/// Events read from a journal at a time.
const PAGE: usize = 512;

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

impl Deps {
    /// Brings an input to its thread's owner and waits until its outcome is durable.
    pub(crate) async fn send(
        self: &Arc<Self>,
        thread: &ThreadId,
        id: &InputId,
        letter: Letter,
    ) -> Result<Accepted, EngineError> {
        let mut letter = Some(letter);
        loop {
            match self.open(thread).await? {
                Driver::Here(mailbox) => {
                    let (reply, outcome) = oneshot::channel();
                    // Present in the first round, and put back where the mailbox was closed.
                    let Some(mut mail) = letter.take() else {
                        return Err(EngineError::Stopped {
                            thread: thread.clone(),
                            why: "it kept closing".into(),
                        });
                    };
                    mail.reply = Some(reply);
                    match mailbox.send(Mail::Input(Box::new(mail))).await {
                        Ok(()) => {
                            let stopped = || EngineError::Stopped {
                                thread: thread.clone(),
                                why: "its driver went away".into(),
                            };
                            return outcome.await.unwrap_or_else(|_| Err(stopped()));
                        }
                        // The actor retired in between: open the thread again.
                        Err(mpsc::error::SendError(Mail::Input(back))) => letter = Some(*back),
                        Err(mpsc::error::SendError(Mail::Inbox)) => {}
                    }
                }
                Driver::Elsewhere { node } => {
                    let Some(letter) = letter.take() else {
                        return Err(EngineError::Pending { thread: thread.clone(), node });
                    };
                    return self.post(thread, id, letter, node).await;
                }
            }
        }
    }

    /// Leaves an input in the inbox of a thread that another process drives.
    async fn post(
        self: &Arc<Self>,
        thread: &ThreadId,
        id: &InputId,
        letter: Letter,
        node: String,
    ) -> Result<Accepted, EngineError> {
        for (blob, bytes) in letter.blobs {
            self.blobs.put(&blob, bytes).await?;
        }
        self.leave(thread, id, &letter.input).await?;
        let until = self.clock.now().plus_ms(ANSWER_WITHIN_MS);
        loop {
            match self.journal.posted(thread, id).await? {
                Some(Posted::Consumed(InboxOutcome::Accepted(seq))) => return Ok(Ok(seq)),
                Some(Posted::Consumed(InboxOutcome::Rejected(reject))) => return Ok(Err(reject)),
                Some(Posted::Waiting) | None => {}
            }
            if self.clock.now() >= until {
                return Err(EngineError::Pending { thread: thread.clone(), node });
            }
            self.clock.sleep_until(self.clock.now().plus_ms(LOOK_EVERY_MS)).await;
            // The owner may have died meanwhile: then this process takes over and finds the row.
            if let Driver::Here(mailbox) = self.open(thread).await? {
                let _ = mailbox.send(Mail::Inbox).await;
            }
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
        if let Some(mailbox) = self.actor(thread) {
            return Ok(Driver::Here(mailbox));
        }
        // Two tasks may open the same thread: the second waits and finds the first one's actor.
        let _opening = self.opening.lock(thread).await;
        if let Some(mailbox) = self.actor(thread) {
            return Ok(Driver::Here(mailbox));
        }
        match self.journal.claim(thread).await? {
            Claim::Held { node } => Ok(Driver::Elsewhere { node }),
            Claim::Taken(head) => {
                let machine = self.restore(thread, &head).await?;
                Ok(Driver::Here(self.start(thread, head, machine)))
            }
        }
    }

    /// The thread's actor, where one takes mail. One that panicked has left a closed mailbox behind.
    fn actor(&self, thread: &ThreadId) -> Option<mpsc::Sender<Mail>> {
        self.actors().get(thread).filter(|mailbox| !mailbox.is_closed()).cloned()
    }

    fn start(self: &Arc<Self>, thread: &ThreadId, head: Head, machine: Machine) -> mpsc::Sender<Mail> {
        let (sender, mailbox) = mpsc::channel(MAILBOX);
        let actor = Actor {
            deps: self.clone(),
            thread: thread.clone(),
            epoch: head.epoch,
            machine,
            mailbox,
            sender: sender.clone(),
            in_flight: Vec::new(),
            step_seq: Seq::default(),
            rejudged: None,
            since_snapshot: 0,
            snapshot_bytes: 0,
        };
        self.actors().insert(thread.clone(), sender.clone());
        tokio::spawn(actor.run());
        sender
    }

    /// Folds a thread's journal, from its snapshot where there is a usable one.
    pub(crate) async fn restore(&self, thread: &ThreadId, head: &Head) -> Result<Machine, EngineError> {
        if head.seq == Seq::default() {
            return Ok(Machine::restore(thread.clone(), None, [])?);
        }
        let stored = self.journal.snapshot(thread).await?;
        let snapshot = stored
            .map(|stored| Snapshot { fold: stored.fold, seq: stored.seq, bytes: stored.bytes.to_vec() })
            .filter(|snapshot| snapshot.is_usable() && snapshot.seq <= head.seq);
        let from = snapshot.as_ref().map(|snapshot| snapshot.seq).unwrap_or_default();
        let mut machine = Machine::restore(thread.clone(), snapshot.as_ref(), [])?;
        let mut after = from;
        while after < head.seq {
            let page = self.journal.read(thread, after, PAGE).await?;
            let Some(last) = page.last() else {
                let why = format!("the journal of thread `{thread}` ends at {after}, not at {}", head.seq);
                return Err(StoreError::Corrupt { why }.into());
            };
            after = last.seq;
            page.iter().for_each(|recorded| machine.apply(&recorded.event));
        }
        match &machine.state().thread {
            Some(found) if found != thread => {
                Err(CorruptJournal::OtherThread { wanted: thread.clone(), found: found.clone() }.into())
            }
            Some(_) | None => Ok(machine),
        }
    }

    /// Looks after the inboxes of the threads that this process drives, until the engine is dropped; with
    /// `attend`, also of those that nobody drives.
    pub(crate) async fn sweep(deps: std::sync::Weak<Self>, attend: bool) {
        let Some(mut wakes) = deps.upgrade().map(|deps| deps.bus.wakes()) else { return };
        loop {
            let Some(this) = deps.upgrade() else { return };
            let clock = this.clock.clone();
            drop(this);
            let woken = tokio::select! {
                woken = wakes.next() => woken,
                () = clock.sleep_until(clock.now().plus_ms(SWEEP_EVERY_MS)) => None,
            };
            let Some(this) = deps.upgrade() else { return };
            let threads = match woken {
                Some(thread) => vec![thread],
                None if attend || !this.actors().is_empty() => match this.journal.waiting_inboxes().await {
                    Ok(threads) => threads,
                    Err(error) => {
                        tracing::warn!(%error, "the inboxes could not be read");
                        continue;
                    }
                },
                None => continue,
            };
            for thread in threads {
                this.poke(&thread, attend).await;
            }
        }
    }

    async fn poke(self: &Arc<Self>, thread: &ThreadId, attend: bool) {
        if let Some(mailbox) = self.actor(thread) {
            let _ = mailbox.try_send(Mail::Inbox);
        } else if attend && let Err(error) = self.open(thread).await {
            tracing::warn!(%thread, %error, "the thread could not be opened");
        }
    }
}

/// Locks by thread, so that one thread is opened once at a time.
#[derive(Default)]
pub(crate) struct Opening(std::sync::Mutex<std::collections::HashMap<ThreadId, Arc<tokio::sync::Mutex<()>>>>);

impl Opening {
    async fn lock(&self, thread: &ThreadId) -> tokio::sync::OwnedMutexGuard<()> {
        let lock = {
            // Nothing panics while the lock is held.
            let mut locks = self.0.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
            // Locks that nobody holds or waits for are let go.
            locks.retain(|_, lock| Arc::strong_count(lock) > 1);
            locks.entry(thread.clone()).or_default().clone()
        };
        lock.lock_owned().await
    }
}
