//! A connection to a server that answers.
//!
//! It is made in `connect`, and what keeps it going is in `core`.

use std::sync::Arc;

use rmcp::model::ServerPeerInfo;
use rmcp::{Peer, RoleClient};

use super::calls::Calls;

/// A server that answers.
pub(super) struct Connection {
    pub peer: Peer<RoleClient>,
    pub calls: Arc<Calls>,
    pub info: ServerPeerInfo,
    /// Tells connections apart: a held call belongs to one.
    pub number: u64,
}
