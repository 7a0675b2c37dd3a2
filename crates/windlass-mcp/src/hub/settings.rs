//! Settings and dependencies of a hub.
//!
//! The settings of each server are separate.

use std::sync::Arc;

use windlass_engine::clock::SystemClock;
use windlass_engine::port::clock::Clock;
use windlass_outbound::{Reach, Resolver, SystemResolver};

use crate::core::sampling::SamplingHandler;
use crate::hub::known::KnownServer;
use crate::oauth::{MemoryTokens, TokenStore};

/// Settings and dependencies of a hub.
pub struct HubConfig {
    /// The clock for pauses and timeouts.
    pub clock: Arc<dyn Clock>,
    /// The addresses that may be called. A configured server address may be internal and use any port; the
    /// addresses of the server's sign-in may not.
    pub reach: Reach,
    /// Resolves host names.
    pub resolver: Arc<dyn Resolver>,
    /// Stores tokens.
    pub tokens: Arc<dyn TokenStore>,
    /// Handles requests for completions; `None` rejects them. (LM-P4)
    pub sampling: Option<Arc<dyn SamplingHandler>>,
    /// Tool names that servers cannot use, in addition to [`ENGINE_NAMES`](windlass_engine::tool::ENGINE_NAMES).
    pub reserved: Vec<String>,
    /// Tools recalled from an earlier process. Their names stay with their servers, independent
    /// of the order in which the servers connect.
    pub known: Vec<KnownServer>,
}

impl Default for HubConfig {
    fn default() -> Self {
        Self {
            clock: Arc::new(SystemClock::new()),
            reach: Reach::default(),
            resolver: Arc::new(SystemResolver),
            tokens: Arc::new(MemoryTokens::default()),
            sampling: None,
            reserved: Vec::new(),
            known: Vec::new(),
        }
    }
}
