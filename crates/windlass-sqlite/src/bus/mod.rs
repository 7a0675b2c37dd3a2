//! The bus among the processes on one store: the in-process bus, and a socket for each process.
//!
//! A thread that another process drives is relayed from that process's socket. If that process dies, the followers stay
//! connected, poll the journal's head each second, and follow the next owner. The bus persists nothing.

mod net;
mod relay;

use std::sync::Arc;

use async_trait::async_trait;
use futures::stream::BoxStream;
use windlass_engine::bus::LocalBus;
use windlass_engine::port::bus::{Backlog, Bus, Position, Signal};
use windlass_engine::port::journal::StoreError;
use windlass_machine::{Seq, ThreadId};

use self::net::Network;
use super::SqliteStore;
use super::node::Node;

/// Finds the owners of threads.
#[async_trait]
pub trait Owners: Send + Sync {
    /// Returns, for each of these threads that exists, its last position and the node that owns it, if any.
    async fn owners(&self, threads: &[ThreadId]) -> Result<Vec<(ThreadId, Option<String>, Seq)>, StoreError>;
}

#[async_trait]
impl Owners for SqliteStore {
    async fn owners(&self, threads: &[ThreadId]) -> Result<Vec<(ThreadId, Option<String>, Seq)>, StoreError> {
        Self::owners(self, threads).await
    }
}

/// The bus endpoint of one process that shares a store with other processes.
pub struct SocketBus {
    local: Arc<LocalBus>,
    network: Network,
}

impl SocketBus {
    /// Listens on the node's socket. Needs a tokio runtime, in which the bus's tasks run until the bus is dropped.
    pub fn open(node: Arc<Node>, owners: Arc<dyn Owners>) -> Result<Self, StoreError> {
        let local = Arc::<LocalBus>::default();
        let network = Network::open(Arc::clone(&local), node, owners)?;
        Ok(Self { local, network })
    }
}

impl Bus for SocketBus {
    fn publish(&self, thread: &ThreadId, signal: Signal) {
        self.local.publish(thread, signal);
    }

    fn publish_all(&self, thread: &ThreadId, signals: &mut Vec<Signal>) {
        self.local.publish_all(thread, signals);
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
        self.network.look_for(thread);
        followed
    }

    fn wake(&self, thread: &ThreadId) {
        self.network.wake(thread);
    }

    fn wakes(&self) -> BoxStream<'static, ThreadId> {
        self.local.wakes()
    }
}
