//! An established connection to a server.
//!
//! `connect` makes it, `core` supervises it.

use std::sync::Arc;

use rmcp::model::ServerPeerInfo;
use rmcp::{Peer, RoleClient};

use crate::core::calls::Calls;

/// A server that answers.
pub(crate) struct Connection {
    pub peer: Peer<RoleClient>,
    pub calls: Arc<Calls>,
    pub info: ServerPeerInfo,
    /// Tells connections apart: a held call belongs to one.
    pub number: u64,
}
