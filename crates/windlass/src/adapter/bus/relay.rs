//! Threads that are followed here and driven elsewhere: one relay each, however many follow.
//!
//! Each second one query tells who holds the followed threads and where they stand. What another
//! node holds is relayed from its socket; a head that grew is told as `Appended`, perhaps once more.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;
use std::time::Duration;

use tokio::sync::Notify;
use tokio::task::JoinHandle;
use windlass_machine::{Seq, ThreadId};

use super::Owners;
use super::local::Local;
use super::net;
use crate::adapter::node::Node;
use crate::port::bus::Signal;

/// How often the journal is asked about followed threads.
const LOOK: Duration = Duration::from_secs(1);

/// The relays of one process.
pub(super) struct Relays {
    local: Arc<Local>,
    node: Arc<Node>,
    owners: Arc<dyn Owners>,
    look: Arc<Notify>,
    followed: HashMap<ThreadId, Followed>,
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
    pub fn new(local: Arc<Local>, node: Arc<Node>, owners: Arc<dyn Owners>, look: Arc<Notify>) -> Self {
        Self { local, node, owners, look, followed: HashMap::new() }
    }

    /// Looks until it is aborted.
    pub async fn run(mut self) {
        loop {
            // Whichever comes first; running out of time is the usual way.
            let _ = tokio::time::timeout(LOOK, self.look.notified()).await;
            self.look_once().await;
        }
    }

    async fn look_once(&mut self) {
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
        if threads.is_empty() {
            return;
        }
        // A store that does not answer now is asked again in a second.
        let Ok(found) = self.owners.owners(&threads).await else { return };
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
        followed.relay.take_if(|relay| relay.task.is_finished() || holder.as_ref() != Some(&relay.holder));
        if let Some(holder) = holder
            && followed.relay.is_none()
        {
            let (local, node) = (Arc::clone(&self.local), Arc::clone(&self.node));
            let (thread, id) = (thread.clone(), holder.clone());
            let task = tokio::spawn(async move {
                // It breaks off when the node dies; the next look finds out.
                let _ = net::relay(node.folder(), &id, &thread, &local).await;
            });
            followed.relay = Some(Relay { holder, task });
        }
        // Also beside a relay: what was appended before it was connected, nobody else tells.
        if head > followed.head {
            self.local.publish(&thread, Signal::Appended { seq: head });
        }
        followed.head = head;
    }
}
