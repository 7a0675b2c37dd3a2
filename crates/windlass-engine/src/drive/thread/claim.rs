//! The right to drive a thread: claimed in the store, renewed if it has a lease, and released at the end.
//!
//! This module opens no threads. A process that does not renew in time, for example because it was suspended, loses
//! its threads to other processes. Its drivers then end, and the store rejects their late appends by the epoch.

use std::collections::{HashMap, HashSet};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};

use tokio::sync::OwnedMutexGuard;
use windlass_machine::ThreadId;

use super::mail::Mail;
use super::registry::{LOOK_EVERY_MS, ThreadRegistry};
use crate::error::EngineError;
use crate::port::journal::{Claim, Due, Epoch, Head, StoreError};

/// Number of renewal intervals in a lease. Two renewals in a row
/// may fail, because a third follows before the lease ends.
const PARTS: u64 = 4;

/// The claims of an engine.
#[derive(Default)]
pub(super) struct Claims {
    pub opening: Opening,
    /// Threads that this node still holds only because the store failed to release them.
    kept: Mutex<Vec<(ThreadId, Epoch)>>,
}

impl Claims {
    fn kept(&self) -> MutexGuard<'_, Vec<(ThreadId, Epoch)>> {
        // No code panics while the lock is held.
        self.kept.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A thread that cannot get a driver until this guard is dropped. Input from this process waits; input from other
/// processes stays in the inbox and is processed afterwards.
pub(crate) struct SetAside {
    registry: Arc<ThreadRegistry>,
    thread: ThreadId,
    epoch: Epoch,
    opening: Option<OwnedMutexGuard<()>>,
}

impl Drop for SetAside {
    fn drop(&mut self) {
        let (registry, thread, epoch) = (self.registry.clone(), self.thread.clone(), self.epoch);
        let opening = self.opening.take();
        // Without a runtime, the process is ending or has closed the store, which ends the claim.
        let Ok(runtime) = tokio::runtime::Handle::try_current() else { return };
        runtime.spawn(async move {
            registry.give_back(&thread, epoch).await;
            drop(opening);
            registry.services.bus.wake(&thread);
        });
    }
}

pub(super) enum Claimed {
    Taken(OwnClaim),
    /// Another live process, with this node name, drives the thread.
    Held {
        node: String,
    },
}

/// The right to drive a thread. It is released on drop unless a driver keeps it.
pub(super) struct OwnClaim {
    registry: Option<Arc<ThreadRegistry>>,
    thread: ThreadId,
    pub head: Head,
    /// Whether the thread's inbox has rows.
    pub inbox: bool,
}

impl OwnClaim {
    fn new(registry: Arc<ThreadRegistry>, Due { thread, head, inbox }: Due) -> Self {
        registry.services.store.leases.hold(&thread, head.epoch);
        Self { registry: Some(registry), thread, head, inbox }
    }

    pub(super) fn thread(&self) -> &ThreadId {
        &self.thread
    }

    /// Transfers the claim to a driver.
    pub(super) fn keep(mut self) -> Epoch {
        self.registry = None;
        self.head.epoch
    }
}

impl Drop for OwnClaim {
    fn drop(&mut self) {
        let Some(registry) = self.registry.take() else { return };
        let (thread, epoch) = (self.thread.clone(), self.head.epoch);
        // Without a runtime, the process is ending or has closed the store, which ends the claim.
        let Ok(runtime) = tokio::runtime::Handle::try_current() else { return };
        runtime.spawn(async move { registry.give_back(&thread, epoch).await });
    }
}

impl ThreadRegistry {
    /// Claims a thread. The claim runs in its own task, so that it is released even if the caller is dropped.
    pub(super) async fn claim(self: &Arc<Self>, thread: &ThreadId) -> Result<Claimed, EngineError> {
        let (registry, thread) = (self.clone(), thread.clone());
        let claimed = tokio::spawn(async move {
            Ok::<_, EngineError>(match registry.journal().claim(&thread).await? {
                Claim::Held { node } => Claimed::Held { node },
                Claim::Taken { head, inbox } => {
                    Claimed::Taken(OwnClaim::new(registry, Due { thread, head, inbox }))
                }
            })
        });
        claimed.await.unwrap_or_else(|error| {
            let why = format!("the claim ended early: {error}");
            Err(StoreError::Unavailable { why }.into())
        })
    }

    /// Claims up to `limit` threads that need a driver and have none, except those in `except`. Like
    /// [`claim`](Self::claim), the operation runs in its own task.
    pub(super) async fn claim_due(
        self: &Arc<Self>,
        except: Vec<ThreadId>,
        limit: usize,
    ) -> Result<Vec<OwnClaim>, EngineError> {
        let registry = self.clone();
        let claimed = tokio::spawn(async move {
            let due = registry.journal().claim_due(&except, limit).await?;
            Ok::<_, EngineError>(due.into_iter().map(|due| OwnClaim::new(registry.clone(), due)).collect())
        });
        claimed.await.unwrap_or_else(|error| {
            let why = format!("the claims ended early: {error}");
            Err(StoreError::Unavailable { why }.into())
        })
    }

    /// Claims an idle thread exclusively, so that it cannot get a
    /// driver. Returns `None` if the thread is being driven or opened.
    pub(crate) async fn set_aside(
        self: &Arc<Self>,
        thread: &ThreadId,
    ) -> Result<Option<SetAside>, EngineError> {
        let opening = tokio::select! {
            opening = self.claims.opening.lock(thread) => opening,
            // Another task is opening the thread or has set it aside.
            () = self.services.clock.sleep_ms(LOOK_EVERY_MS) => return Ok(None),
        };
        if self.actor(thread).is_some() {
            return Ok(None);
        }
        match self.claim(thread).await? {
            Claimed::Held { .. } => Ok(None),
            Claimed::Taken(claim) => Ok(Some(SetAside {
                registry: self.clone(),
                thread: thread.clone(),
                epoch: claim.keep(),
                opening: Some(opening),
            })),
        }
    }

    async fn renew_claims(self: &Arc<Self>) {
        let held = self.services.store.leases.all();
        if held.is_empty() {
            return;
        }
        match self.journal().renew(&held).await {
            Ok(lost) => {
                let lost: HashSet<ThreadId> = lost.into_iter().collect();
                for (thread, epoch) in held.iter().filter(|(thread, _)| lost.contains(thread)) {
                    self.services.store.leases.let_go(thread, *epoch);
                    self.lapse(thread, *epoch);
                }
            }
            Err(error) => tracing::warn!(%error, "the claims of threads could not be renewed; retrying soon"),
        }
    }

    /// Stops the driver of a lapsed claim.
    fn lapse(&self, thread: &ThreadId, epoch: Epoch) {
        let Some(mailbox) = self.actor(thread) else { return };
        let thread = thread.clone();
        // If the mailbox is full, the send waits for the driver. The driver's next append is rejected in any case.
        tokio::spawn(async move {
            if mailbox.send(Mail::Lapsed(epoch)).await.is_err() {
                tracing::debug!(%thread, "the driver of a claim that has lapsed has ended already");
            }
        });
    }

    /// Releases a claim. If the store fails, the release is retried every second.
    pub(super) async fn give_back(&self, thread: &ThreadId, epoch: Epoch) {
        self.services.store.leases.let_go(thread, epoch);
        if let Err(error) = self.journal().release(thread, epoch).await {
            tracing::warn!(%thread, %error, "the thread could not be given back yet");
            self.claims.kept().push((thread.clone(), epoch));
        }
    }

    pub(super) async fn give_back_kept(&self) {
        let kept = std::mem::take(&mut *self.claims.kept());
        for (thread, epoch) in kept {
            self.give_back(&thread, epoch).await;
        }
    }
}

/// Renews all claims before their leases end, until the engine and its drivers are dropped.
pub(crate) async fn renew(registry: Weak<ThreadRegistry>, lease_ms: u64) {
    loop {
        let Some(this) = registry.upgrade() else { return };
        let clock = this.services.clock.clone();
        drop(this);
        clock.sleep_ms((lease_ms / PARTS).max(1)).await;
        let Some(this) = registry.upgrade() else { return };
        this.renew_claims().await;
    }
}

/// Locks by thread id, so that a thread is not opened twice concurrently.
#[derive(Default)]
pub(super) struct Opening(Mutex<HashMap<ThreadId, Arc<tokio::sync::Mutex<()>>>>);

impl Opening {
    /// Whether the lock of a thread is held or awaited.
    pub(super) fn is_under_way(&self, thread: &ThreadId) -> bool {
        self.locks().get(thread).is_some_and(|lock| Arc::strong_count(lock) > 1)
    }

    fn locks(&self) -> MutexGuard<'_, HashMap<ThreadId, Arc<tokio::sync::Mutex<()>>>> {
        // No code panics while the lock is held.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) async fn lock(&self, thread: &ThreadId) -> OwnedMutexGuard<()> {
        let lock = {
            let mut locks = self.locks();
            // Removes locks that are neither held nor awaited.
            locks.retain(|_, lock| Arc::strong_count(lock) > 1);
            locks.entry(thread.clone()).or_default().clone()
        };
        lock.lock_owned().await
    }
}
