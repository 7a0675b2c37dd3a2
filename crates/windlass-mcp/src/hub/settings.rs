//! What a hub of servers works with: its surroundings, and what was known before.
//!
//! The servers themselves are configured one by one.

use std::sync::Arc;

use windlass_engine::clock::SystemClock;
use windlass_engine::port::clock::Clock;
use windlass_outbound::{Reach, Resolver, SystemResolver};

use crate::core::sampling::SamplingHandler;
use crate::hub::known::KnownServer;
use crate::oauth::{MemoryTokens, TokenStore};

/// What a hub works with.
pub struct HubConfig {
    /// The clock of pauses and time-outs.
    pub clock: Arc<dyn Clock>,
    /// Which systems may be called. The address of a server that is given counts as named: it may be inside, and at any
    /// port; where its sign-in leads to may not.
    pub reach: Reach,
    /// Who looks names up.
    pub resolver: Arc<dyn Resolver>,
    /// Where tokens are kept.
    pub tokens: Arc<dyn TokenStore>,
    /// Who answers servers that may ask for completions. (LM-P4)
    pub sampling: Option<Arc<dyn SamplingHandler>>,
    /// Names of tools that are not the servers' to take, beside [`ENGINE_NAMES`](windlass_engine::tool::ENGINE_NAMES).
    pub reserved: Vec<String>,
    /// What was known of servers in an earlier process. The names in it stay with those servers, whichever is there first.
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
