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
    /// The number of the connection. A held call belongs to one connection.
    pub number: u64,
}
