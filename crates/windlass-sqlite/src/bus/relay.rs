//! Threads that are followed here and driven elsewhere: one relay each, however many follow.
//!
//! Each second one query tells who holds the followed threads and where they stand, and more often for
//! a while after a holder died: somebody may go on at once. What another node holds is relayed from
//! its socket; a head that grew is told as `Appended`, perhaps once more.

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

/// How often the journal is asked about followed threads.
const LOOK: Duration = Duration::from_secs(1);

/// How long a look at newly followed threads waits for more of them.
const LOOK_TOGETHER: Duration = Duration::from_millis(10);

/// How often just after a holder died.
const LOOK_SOON: Duration = Duration::from_millis(100);

/// For how many looks that goes on: about three seconds, in which a person or a supervisor goes on with the run.
const LOOKS_SOON: u32 = 30;

/// The relays of one process.
pub(super) struct Relays {
    local: Arc<LocalBus>,
    node: Arc<Node>,
    owners: Arc<dyn Owners>,
    look: Arc<Look>,
    followed: HashMap<ThreadId, Followed>,
    /// Looks that come soon.
    soon: u32,
}

/// Threads whose owner is looked for at once.
#[derive(Default)]
pub(super) struct Look {
    threads: Mutex<HashSet<ThreadId>>,
    notify: Notify,
}

impl Look {
    /// Asks for a look at one thread.
    pub fn soon(&self, thread: &ThreadId) {
        self.threads().insert(thread.clone());
        self.notify.notify_one();
    }

    fn threads(&self) -> MutexGuard<'_, HashSet<ThreadId>> {
        // Nothing leaves the set halfway.
        self.threads.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A followed thread as the last look found it.
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
    /// Relays for what `local` follows; `look` asks for a look at once.
    pub fn new(local: Arc<LocalBus>, node: Arc<Node>, owners: Arc<dyn Owners>, look: Arc<Look>) -> Self {
        Self { local, node, owners, look, followed: HashMap::new(), soon: 0 }
    }

    /// Looks until it is aborted.
    pub async fn run(mut self) {
        let mut pause = std::pin::pin!(tokio::time::sleep(LOOK));
        loop {
            tokio::select! {
                () = self.look.notify.notified() => {
                    // A thousand followers that come at once share one look.
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
                // Fragments that came from elsewhere: nobody else drops them here.
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
        // A store that does not answer now is asked again in a second.
        let Ok(found) = self.owners.owners(threads).await else { return };
        for (thread, holder, head) in found {
            match holder {
                Some(id) if id == self.node.id() => drop(self.followed.remove(&thread)),
                holder => self.update(thread, holder, head),
            }
        }
    }

    /// Follows up on a thread that this node does not hold.
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
                // It breaks off when the node dies; the next look finds out.
                let _ = net::relay(node.folder(), &id, &thread, &local).await;
                // A dying process closes its socket and lets go of its lock one after the other.
                tokio::time::sleep(LOOK_SOON / 2).await;
                // A node that lives has no room: it is asked again in a second.
                if !node.is_alive(&id) {
                    look.soon(&thread);
                }
            });
            followed.relay = Some(Relay { holder, task });
        }
        // Also beside a relay: what was appended before it was connected, nobody else tells.
        if head > followed.head {
            self.local.relay(&thread, Signal::Appended { seq: head, events: Arc::from([]), status: None });
        }
        followed.head = head;
    }
}
