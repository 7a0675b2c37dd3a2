//! The part of the bus within one process: rings, followers and wakes.
//!
//! It knows no sockets and no store.

use std::collections::hash_map::{DefaultHasher, Entry};
use std::collections::{HashMap, HashSet, VecDeque};
use std::hash::{Hash, Hasher};
use std::pin::Pin;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll};

use futures::stream::BoxStream;
use futures::{Stream, StreamExt};
use tokio::sync::Notify;
use windlass_machine::ThreadId;

use super::channel::{Channel, Source};
use crate::port::bus::{Backlog, Position, Signal};

/// Threads are spread over this many locks, so that a thread with a thousand followers holds up few others.
const SHARDS: usize = 64;
/// Wakes that wait for whoever drives. A lost one is found by the look into the inbox each second.
const WAKES: usize = 4096;

/// One process's bus.
pub(super) struct Local {
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
    /// Tells the thread's followers, and keeps fragments for those who come later.
    pub fn publish(&self, thread: &ThreadId, signal: Signal) {
        self.publish_from(Source::Here, thread, signal);
    }

    /// The same for what another process has told.
    pub fn relay(&self, thread: &ThreadId, signal: Signal) {
        self.publish_from(Source::Elsewhere, thread, signal);
    }

    fn publish_from(&self, from: Source, thread: &ThreadId, signal: Signal) {
        let wakers = {
            let mut shard = self.shard(thread);
            let is_kept = matches!(signal, Signal::Delta { .. } | Signal::Snapshot { .. });
            let channel = match shard.get_mut(thread) {
                Some(channel) => channel,
                None if is_kept => shard.entry(thread.clone()).or_default(),
                None => return,
            };
            let wakers = channel.publish(from, signal);
            if channel.is_idle() {
                shard.remove(thread);
            }
            wakers
        };
        // Outside the lock: whoever is woken takes it.
        wakers.into_iter().for_each(std::task::Waker::wake);
    }

    /// Drops the thread's fragments.
    pub fn settle(&self, thread: &ThreadId) {
        self.change(thread, Channel::settle);
    }

    /// Follows: under one lock it is noted where the log ends and what the ring has, so that nothing falls between.
    pub fn follow(
        self: &Arc<Self>,
        thread: &ThreadId,
        after: Position,
        backlog: Backlog,
    ) -> BoxStream<'static, Arc<Signal>> {
        self.follow_for(thread, false, after, backlog)
    }

    /// Follows on behalf of another process.
    pub fn follow_from_afar(
        self: &Arc<Self>,
        thread: &ThreadId,
        backlog: Backlog,
    ) -> BoxStream<'static, Arc<Signal>> {
        self.follow_for(thread, true, Position::default(), backlog)
    }

    /// The form in which to request the backlog of a thread from the owner's process.
    pub fn relayed_backlog(&self, thread: &ThreadId) -> Backlog {
        self.shard(thread).get(thread).map_or(Backlog::Fragments, Channel::relayed_backlog)
    }

    fn follow_for(
        self: &Arc<Self>,
        thread: &ThreadId,
        is_far: bool,
        after: Position,
        backlog: Backlog,
    ) -> BoxStream<'static, Arc<Signal>> {
        let mut shard = self.shard(thread);
        // Drawn under the lock, so that a channel's followers have growing numbers.
        let number = self.followers.fetch_add(1, Ordering::Relaxed);
        shard.entry(thread.clone()).or_default().add(number, is_far, after, backlog);
        drop(shard);
        Follower { local: Arc::clone(self), thread: thread.clone(), number }.boxed()
    }

    /// Changes a thread's channel, and forgets it where nobody needs it any more.
    fn change(&self, thread: &ThreadId, change: impl FnOnce(&mut Channel)) {
        let mut shard = self.shard(thread);
        if let Entry::Occupied(mut entry) = shard.entry(thread.clone()) {
            change(entry.get_mut());
            if entry.get().is_idle() {
                entry.remove();
            }
        }
    }

    /// Threads that somebody in this process follows.
    pub fn followed(&self) -> Vec<ThreadId> {
        let mut threads = Vec::new();
        for shard in &self.shards {
            let shard = locked(shard);
            let followed = shard.iter().filter(|(_, channel)| channel.is_followed_here());
            threads.extend(followed.map(|(thread, _)| thread.clone()));
        }
        threads
    }

    /// Leaves a wake for whoever drives in this process; one that waits already is enough.
    pub fn wake(&self, thread: &ThreadId) {
        let mut waiting = locked(&self.wakes.waiting);
        let (order, known) = &mut *waiting;
        if order.len() < WAKES && known.insert(thread.clone()) {
            order.push_back(thread.clone());
            self.wakes.notify.notify_one();
        }
    }

    /// The wakes of this process, also those from before this call; several streams share them.
    pub fn wakes(&self) -> BoxStream<'static, ThreadId> {
        let wakes = Arc::clone(&self.wakes);
        futures::stream::unfold(wakes, |wakes| async move {
            loop {
                if let Some(thread) = wakes.take() {
                    return Some((thread, wakes));
                }
                // A wake since then has left its permit: this returns at once.
                wakes.notify.notified().await;
            }
        })
        .boxed()
    }

    fn shard(&self, thread: &ThreadId) -> MutexGuard<'_, HashMap<ThreadId, Channel>> {
        let mut hasher = DefaultHasher::new();
        thread.hash(&mut hasher);
        locked(&self.shards[hasher.finish() as usize % SHARDS])
    }
}

/// A follower's end. It never ends by itself.
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
            // A channel stays for as long as it has followers.
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

/// No call leaves these halfway, so that a panic elsewhere spoils nothing.
fn locked<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
