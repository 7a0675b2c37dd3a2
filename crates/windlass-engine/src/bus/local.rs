//! The bus of one process: rings of fragments, followers and wake-ups.
//!
//! A bus between several processes wraps this bus and relays the signals
//! of other processes. This module uses no sockets and no store.

use std::collections::hash_map::{DefaultHasher, Entry};
use std::collections::{HashMap, HashSet, VecDeque};
use std::hash::{Hash, Hasher};
use std::pin::Pin;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll};

use futures_util::stream::BoxStream;
use futures_util::{Stream, StreamExt};
use tokio::sync::Notify;
use windlass_machine::ThreadId;

use super::channel::{Channel, Source, Wakers};
use crate::port::bus::{Backlog, Bus, Position, Signal};

/// Number of locks that threads are distributed over, so that a
/// thread with a thousand followers delays few other threads.
const SHARDS: usize = 64;
/// Maximum number of pending wake-ups. Further wake-ups are dropped: the drivers poll their inboxes each second and
/// find the row without a wake-up.
const WAKES: usize = 4096;

/// The bus of one process. Clones share it.
#[derive(Clone, Default)]
pub struct LocalBus(Arc<Local>);

impl LocalBus {
    /// Creates a bus without followers.
    pub fn new() -> Self {
        Self::default()
    }

    /// Publishes a signal from another process. Only followers in this process receive it.
    pub fn relay(&self, thread: &ThreadId, signal: Signal) {
        self.0.publish_from(Source::Elsewhere, thread, [signal]);
    }

    /// Subscribes to a thread for another process, which receives no relayed signals.
    pub fn follow_from_afar(&self, thread: &ThreadId, backlog: Backlog) -> BoxStream<'static, Arc<Signal>> {
        self.0.follow_for(thread, true, Position::default(), backlog)
    }

    /// Returns the form in which to request the backlog of a thread from the owner's process.
    pub fn relayed_backlog(&self, thread: &ThreadId) -> Backlog {
        self.0.shard(thread).get(thread).map_or(Backlog::Fragments, Channel::relayed_backlog)
    }

    /// Returns the threads that have a follower in this process.
    pub fn followed(&self) -> Vec<ThreadId> {
        let mut threads = Vec::new();
        for shard in &self.0.shards {
            let shard = locked(shard);
            let followed = shard.iter().filter(|(_, channel)| channel.is_followed_here());
            threads.extend(followed.map(|(thread, _)| thread.clone()));
        }
        threads
    }
}

impl Bus for LocalBus {
    /// Sends a signal to the thread's followers, and keeps fragments for later followers.
    fn publish(&self, thread: &ThreadId, signal: Signal) {
        self.0.publish_from(Source::Here, thread, [signal]);
    }

    /// Takes the thread's lock once for all signals.
    fn publish_all(&self, thread: &ThreadId, signals: &mut Vec<Signal>) {
        self.0.publish_from(Source::Here, thread, signals.drain(..));
    }

    /// Drops the thread's fragments.
    fn settle(&self, thread: &ThreadId) {
        self.0.change(thread, Channel::settle);
    }

    /// Reads the end of the log and the ring under one lock, so that no signal is lost between them.
    fn follow(
        &self,
        thread: &ThreadId,
        after: Position,
        backlog: Backlog,
    ) -> BoxStream<'static, Arc<Signal>> {
        self.0.follow_for(thread, false, after, backlog)
    }

    /// Enqueues a wake-up, unless a wake-up for the thread is pending.
    fn wake(&self, thread: &ThreadId) {
        let mut waiting = locked(&self.0.wakes.waiting);
        let (order, known) = &mut *waiting;
        if order.len() < WAKES && known.insert(thread.clone()) {
            order.push_back(thread.clone());
            self.0.wakes.notify.notify_one();
        }
    }

    /// Returns the wake-ups of this process, including those from before this call. Several streams share them.
    fn wakes(&self) -> BoxStream<'static, ThreadId> {
        let wakes = Arc::clone(&self.0.wakes);
        futures_util::stream::unfold(wakes, |wakes| async move {
            loop {
                if let Some(thread) = wakes.take() {
                    return Some((thread, wakes));
                }
                // A wake-up since the check has left a permit, so this call returns immediately.
                wakes.notify.notified().await;
            }
        })
        .boxed()
    }
}

struct Local {
    shards: [Mutex<HashMap<ThreadId, Channel>>; SHARDS],
    followers: AtomicU64,
    wakes: Arc<Wakes>,
}

#[derive(Default)]
struct Wakes {
    waiting: Mutex<(VecDeque<ThreadId>, HashSet<ThreadId>)>,
    notify: Notify,
}

impl Default for Local {
    fn default() -> Self {
        let shards = std::array::from_fn(|_| Mutex::default());
        Self { shards, followers: AtomicU64::default(), wakes: Arc::default() }
    }
}

impl Local {
    fn publish_from(&self, from: Source, thread: &ThreadId, signals: impl IntoIterator<Item = Signal>) {
        let wakers = {
            let mut shard = self.shard(thread);
            let mut has_news = false;
            for signal in signals {
                let is_kept = matches!(signal, Signal::Delta { .. } | Signal::Snapshot { .. });
                let channel = match shard.get_mut(thread) {
                    Some(channel) => channel,
                    None if is_kept => shard.entry(thread.clone()).or_default(),
                    None => continue,
                };
                has_news |= channel.publish(from, signal);
            }
            let Some(channel) = shard.get_mut(thread) else { return };
            let wakers = has_news.then(|| channel.take_wakers());
            if channel.is_idle() {
                shard.remove(thread);
            }
            wakers
        };
        // Wake outside the lock, because a woken task acquires it.
        let Some(Wakers { first, others }) = wakers else { return };
        first.into_iter().chain(others).for_each(std::task::Waker::wake);
    }

    fn follow_for(
        self: &Arc<Self>,
        thread: &ThreadId,
        is_far: bool,
        after: Position,
        backlog: Backlog,
    ) -> BoxStream<'static, Arc<Signal>> {
        let mut shard = self.shard(thread);
        // Count under the lock, so that a channel's followers have increasing numbers.
        let number = self.followers.fetch_add(1, Ordering::Relaxed);
        shard.entry(thread.clone()).or_default().add(number, is_far, after, backlog);
        drop(shard);
        Follower { local: Arc::clone(self), thread: thread.clone(), number }.boxed()
    }

    /// Changes a thread's channel, and removes the channel if it is no longer needed.
    fn change(&self, thread: &ThreadId, change: impl FnOnce(&mut Channel)) {
        let mut shard = self.shard(thread);
        if let Entry::Occupied(mut entry) = shard.entry(thread.clone()) {
            change(entry.get_mut());
            if entry.get().is_idle() {
                entry.remove();
            }
        }
    }

    fn shard(&self, thread: &ThreadId) -> MutexGuard<'_, HashMap<ThreadId, Channel>> {
        let mut hasher = DefaultHasher::new();
        thread.hash(&mut hasher);
        locked(&self.shards[hasher.finish() as usize % SHARDS])
    }
}

/// The stream of one follower. It does not end in normal operation, because a channel exists while it has followers.
struct Follower {
    local: Arc<Local>,
    thread: ThreadId,
    number: u64,
}

impl Stream for Follower {
    type Item = Arc<Signal>;

    fn poll_next(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<Arc<Signal>>> {
        match self.local.shard(&self.thread).get_mut(&self.thread) {
            Some(channel) => channel.poll(self.number, context),
            // A channel exists as long as it has followers.
            None => Poll::Ready(None),
        }
    }
}

impl Drop for Follower {
    fn drop(&mut self) {
        self.local.change(&self.thread, |channel| channel.remove(self.number));
    }
}

impl Wakes {
    fn take(&self) -> Option<ThreadId> {
        let mut waiting = locked(&self.waiting);
        let thread = waiting.0.pop_front()?;
        waiting.1.remove(&thread);
        Some(thread)
    }
}

/// No operation leaves these values inconsistent, so a poisoned lock is safe to use.
fn locked<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
