//! The live bus of one machine: followers in this process, and other processes on the same store.
//!
//! Within the process a signal is kept once for all who follow, for a bounded while. A thread that another
//! node drives is relayed from that node's socket; when the node dies, its followers stay, see what the
//! journal's head says each second, and go on with the next owner. Nothing here outlives the process.

mod channel;
mod local;
mod net;
mod relay;
mod ring;

use std::sync::Arc;

use async_trait::async_trait;
use futures::stream::BoxStream;
use windlass_machine::{Seq, ThreadId};

use self::local::Local;
use self::net::Network;
use super::node::Node;
use crate::port::bus::{Backlog, Bus, Position, Signal};
use crate::port::journal::StoreError;

/// Who holds which thread: the store's part of the bus.
#[async_trait]
pub trait Owners: Send + Sync {
    /// For each of some threads that exist: the node that holds it, and its last position.
    async fn owners(&self, threads: &[ThreadId]) -> Result<Vec<(ThreadId, Option<String>, Seq)>, StoreError>;
}

#[cfg(feature = "sqlite")]
#[async_trait]
impl Owners for super::sqlite::SqliteStore {
    async fn owners(&self, threads: &[ThreadId]) -> Result<Vec<(ThreadId, Option<String>, Seq)>, StoreError> {
        Self::owners(self, threads).await
    }
}

/// The bus of one process, alone or among others on one store.
pub struct LocalBus {
    local: Arc<Local>,
    network: Option<Network>,
}

impl LocalBus {
    /// A bus for this process alone.
    pub fn new() -> Self {
        Self { local: Arc::default(), network: None }
    }

    /// A bus among the nodes of one store: listens on this node's socket. Needs a tokio runtime, in which
    /// its tasks live until the bus is dropped.
    pub fn open(node: Arc<Node>, owners: Arc<dyn Owners>) -> Result<Self, StoreError> {
        let local = Arc::<Local>::default();
        let network = Network::open(Arc::clone(&local), node, owners)?;
        Ok(Self { local, network: Some(network) })
    }
}

impl Default for LocalBus {
    fn default() -> Self {
        Self::new()
    }
}

impl Bus for LocalBus {
    fn publish(&self, thread: &ThreadId, signal: Signal) {
        self.local.publish(thread, signal);
    }

    fn settle(&self, thread: &ThreadId) {
        self.local.settle(thread);
    }

    fn follow(
        &self,
        thread: &ThreadId,
        after: Position,
        backlog: Backlog,
    ) -> BoxStream<'static, Arc<Signal>> {
        let followed = self.local.follow(thread, after, backlog);
        if let Some(network) = &self.network {
            network.look_for(thread);
        }
        followed
    }

    fn wake(&self, thread: &ThreadId) {
        match &self.network {
            Some(network) => network.wake(thread),
            None => self.local.wake(thread),
        }
    }

    fn wakes(&self) -> BoxStream<'static, ThreadId> {
        self.local.wakes()
    }
}
