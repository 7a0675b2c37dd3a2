//! The part of the bus within one process: rings, followers and wakes.
//!
//! It knows no sockets and no store.

use std::collections::hash_map::{DefaultHasher, Entry};
use std::collections::{HashMap, HashSet, VecDeque};
use std::hash::{Hash, Hasher};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use futures::StreamExt;
use futures::stream::BoxStream;
use tokio::sync::Notify;
use windlass_machine::ThreadId;

use super::follower::{Follower, Queue};
use super::ring::{Pushed, Ring};
use crate::port::bus::Signal;

/// Threads are spread over this many locks, so that a thread with a thousand followers holds up few others.
const SHARDS: usize = 16;
/// Wakes that wait for whoever drives. A lost one is found by the look into the inbox each second.
const WAKES: usize = 4096;

/// One process's bus.
#[derive(Default)]
pub(super) struct Local {
    shards: [Mutex<HashMap<ThreadId, Channel>>; SHARDS],
    followers: AtomicU64,
    wakes: Arc<Wakes>,
}

/// Where a signal comes from.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Source {
    Here,
    Elsewhere,
}

/// A thread that streams or is followed; any other costs nothing.
#[derive(Default)]
struct Channel {
    ring: Option<Box<Ring>>,
    followers: Vec<Followed>,
}

/// One follower.
struct Followed {
    number: u64,
    queue: Queue,
    /// Whether it is another process.
    is_far: bool,
}

impl Channel {
    fn is_idle(&self) -> bool {
        self.ring.is_none() && self.followers.is_empty()
    }
    /// What came from another process is not sent on to one: two that take a thread over from each other would send
    /// it round and round.
    fn tell(&self, signal: &Signal, from: Source) {
        for follower in &self.followers {
            if from == Source::Here || !follower.is_far {
                follower.queue.push(signal.clone());
            }
        }
    }
}

#[derive(Default)]
struct Wakes {
    waiting: Mutex<(VecDeque<ThreadId>, HashSet<ThreadId>)>,
    notify: Notify,
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
        let mut shard = self.shard(thread);
        let Signal::Delta { seq, number, attempt, delta } = &signal else {
            if let Some(channel) = shard.get(thread) {
                channel.tell(&signal, from);
            }
            return;
        };
        let channel = match shard.get_mut(thread) {
            Some(channel) => channel,
            None => shard.entry(thread.clone()).or_default(),
        };
        match channel.ring.get_or_insert_default().push(*seq, *attempt, *number, delta) {
            Pushed::Next => channel.tell(&signal, from),
            Pushed::Repeated => {}
            Pushed::AfterGap => {
                channel.tell(&Signal::Lagged, from);
                channel.tell(&signal, from);
            }
        }
    }

    /// Drops the thread's fragments.
    pub fn settle(&self, thread: &ThreadId) {
        let mut shard = self.shard(thread);
        if let Entry::Occupied(mut entry) = shard.entry(thread.clone()) {
            entry.get_mut().ring = None;
            if entry.get().is_idle() {
                entry.remove();
            }
        }
    }

    /// Follows: under one lock the fragments so far are copied and the queue is set up, so that nothing
    /// falls between.
    pub fn follow(self: &Arc<Self>, thread: &ThreadId) -> BoxStream<'static, Signal> {
        self.follow_for(thread, false)
    }

    /// The same for another process.
    pub fn follow_from_afar(self: &Arc<Self>, thread: &ThreadId) -> BoxStream<'static, Signal> {
        self.follow_for(thread, true)
    }

    fn follow_for(self: &Arc<Self>, thread: &ThreadId, is_far: bool) -> BoxStream<'static, Signal> {
        let number = self.followers.fetch_add(1, Ordering::Relaxed);
        let queue = Queue::default();
        let ring = {
            let mut shard = self.shard(thread);
            let channel = shard.entry(thread.clone()).or_default();
            channel.followers.push(Followed { number, queue: queue.clone(), is_far });
            channel.ring.clone()
        };
        let (local, thread) = (Arc::clone(self), thread.clone());
        let ended = move || local.unfollow(&thread, number);
        Follower::new(Box::new(ring.unwrap_or_default().replay()), queue, ended).boxed()
    }

    fn unfollow(&self, thread: &ThreadId, number: u64) {
        let mut shard = self.shard(thread);
        if let Entry::Occupied(mut entry) = shard.entry(thread.clone()) {
            entry.get_mut().followers.retain(|follower| follower.number != number);
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
            let followed =
                shard.iter().filter(|(_, channel)| channel.followers.iter().any(|follower| !follower.is_far));
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
