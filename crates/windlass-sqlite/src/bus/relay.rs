//! Relays threads that this process follows and another process drives: one relay per
//! thread, for any number of followers.
//!
//! Each second, one query returns the owners and heads of the followed threads. After an owner dies, the query runs
//! every 100 ms for three seconds, because another process may resume the run soon. Signals of a thread that another
//! node drives are relayed from that node's socket. If the last position of a thread has advanced, this module
//! publishes `Appended`, possibly twice.

use std::collections::{HashMap, HashSet};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::sync::Notify;
use tokio::task::JoinHandle;
use windlass_engine::bus::LocalBus;
use windlass_engine::port::bus::{Bus, Signal};
use windlass_machine::{Seq, ThreadId};

use super::Owners;
use super::net;
use crate::node::Node;

/// Interval of the query for followed threads.
const LOOK: Duration = Duration::from_secs(1);

/// Maximum time that a query for newly followed threads waits for more of them.
const LOOK_TOGETHER: Duration = Duration::from_millis(10);

/// Interval of the query just after an owner died.
const LOOK_SOON: Duration = Duration::from_millis(100);

/// Number of queries at the short interval: about three seconds, in which a person or a supervisor resumes the run.
const LOOKS_SOON: u32 = 30;

/// The relays of one process.
pub(super) struct Relays {
    local: Arc<LocalBus>,
    node: Arc<Node>,
    owners: Arc<dyn Owners>,
    look: Arc<Look>,
    followed: HashMap<ThreadId, Followed>,
    /// Number of remaining queries at the short interval.
    soon: u32,
}

/// Threads for which the owner must be looked up at once.
#[derive(Default)]
pub(super) struct Look {
    threads: Mutex<HashSet<ThreadId>>,
    notify: Notify,
}

impl Look {
    /// Requests a lookup of one thread.
    pub fn soon(&self, thread: &ThreadId) {
        self.threads().insert(thread.clone());
        self.notify.notify_one();
    }

    fn threads(&self) -> MutexGuard<'_, HashSet<ThreadId>> {
        // Each operation on the set is atomic, so a panic cannot leave it inconsistent.
        self.threads.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A followed thread as of the last query.
#[derive(Default)]
struct Followed {
    head: Seq,
    relay: Option<Relay>,
}

struct Relay {
    holder: String,
    task: JoinHandle<()>,
}

impl Drop for Relay {
    fn drop(&mut self) {
        self.task.abort();
    }
}

impl Relays {
    /// Relays the threads that `local` follows; `look` requests immediate lookups.
    pub fn new(local: Arc<LocalBus>, node: Arc<Node>, owners: Arc<dyn Owners>, look: Arc<Look>) -> Self {
        Self { local, node, owners, look, followed: HashMap::new(), soon: 0 }
    }

    /// Runs the queries until the task is aborted.
    pub async fn run(mut self) {
        let mut pause = std::pin::pin!(tokio::time::sleep(LOOK));
        loop {
            tokio::select! {
                () = self.look.notify.notified() => {
                    // A thousand simultaneous followers share one query.
                    tokio::time::sleep(LOOK_TOGETHER).await;
                    let threads: Vec<ThreadId> = self.look.threads().drain().collect();
                    self.ask(&threads).await;
                    if self.soon == 0 {
                        continue;
                    }
                }
                () = &mut pause => {
                    self.soon = self.soon.saturating_sub(1);
                    self.look_at_all().await;
                }
            }
            pause.set(tokio::time::sleep(if self.soon > 0 { LOOK_SOON } else { LOOK }));
        }
    }

    async fn look_at_all(&mut self) {
        let threads = self.local.followed();
        let followed: HashSet<&ThreadId> = threads.iter().collect();
        self.followed.retain(|thread, known| {
            let stays = followed.contains(thread);
            if !stays && known.relay.is_some() {
                // No follower of the thread is left in this process, so its relay ends. Drop the relayed fragments:
                // nothing else in this process drops them.
                self.local.settle(thread);
            }
            stays
        });
        self.ask(&threads).await;
    }

    async fn ask(&mut self, threads: &[ThreadId]) {
        if threads.is_empty() {
            return;
        }
        // If the store does not respond, the query is repeated in a second.
        let Ok(found) = self.owners.owners(threads).await else { return };
        for (thread, holder, head) in found {
            match holder {
                Some(id) if id == self.node.id() => drop(self.followed.remove(&thread)),
                holder => self.update(thread, holder, head),
            }
        }
    }

    /// Updates a thread that this node does not own.
    fn update(&mut self, thread: ThreadId, holder: Option<String>, head: Seq) {
        let followed = self.followed.entry(thread.clone()).or_default();
        let holder = holder.filter(|id| self.node.is_alive(id));
        if followed.relay.take_if(|relay| holder.as_ref() != Some(&relay.holder)).is_some() {
            self.soon = LOOKS_SOON;
        }
        followed.relay.take_if(|relay| relay.task.is_finished());
        if let Some(holder) = holder
            && followed.relay.is_none()
        {
            let (local, node) = (Arc::clone(&self.local), Arc::clone(&self.node));
            let (thread, id, look) = (thread.clone(), holder.clone(), Arc::clone(&self.look));
            let task = tokio::spawn(async move {
                // The connection breaks when the node dies; the next query detects that.
                let _ = net::relay(node.folder(), &id, &thread, &local).await;
                // A dying process closes its socket before it releases its lock.
                tokio::time::sleep(LOOK_SOON / 2).await;
                // A live node has no free slot; retry in a second.
                if !node.is_alive(&id) {
                    look.soon(&thread);
                }
            });
            followed.relay = Some(Relay { holder, task });
        }
        // Also if a relay exists: it does not signal events appended before it was connected.
        if head > followed.head {
            self.local.relay(&thread, Signal::Appended { seq: head, events: Arc::from([]), status: None });
        }
        followed.head = head;
    }
}
