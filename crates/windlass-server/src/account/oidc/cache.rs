//! What was read of providers, and when they were last asked in vain.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};

use openidconnect::core::CoreProviderMetadata;

use super::fetch::Clients;

/// What was read of providers.
#[derive(Debug, Default)]
pub struct ProviderCache {
    pub(super) clients: OnceLock<Clients>,
    described: Mutex<HashMap<String, (u64, Arc<CoreProviderMetadata>)>>,
    /// When providers were last asked in vain.
    silent: Mutex<HashMap<String, u64>>,
}

impl ProviderCache {
    pub(super) fn described(&self) -> MutexGuard<'_, HashMap<String, (u64, Arc<CoreProviderMetadata>)>> {
        // Nothing is left halfway.
        self.described.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn silent(&self) -> MutexGuard<'_, HashMap<String, u64>> {
        self.silent.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
