//! An established connection to a server.
//!
//! `connect` creates it, `core` supervises it.

use std::sync::Arc;

use rmcp::model::ServerPeerInfo;
use rmcp::{Peer, RoleClient};

use crate::core::calls::Calls;

/// An open connection.
pub(crate) struct Connection {
    pub peer: Peer<RoleClient>,
    pub calls: Arc<Calls>,
    pub info: ServerPeerInfo,
    /// Distinguishes connections, because a held call belongs to one of them.
    pub number: u64,
}
