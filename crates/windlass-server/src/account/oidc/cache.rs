//! Cached metadata of OpenID Connect providers, and the times of failed requests to these providers.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};

use openidconnect::core::CoreProviderMetadata;

use super::fetch::Clients;

#[derive(Debug, Default)]
pub struct ProviderCache {
    pub(super) clients: OnceLock<Clients>,
    described: Mutex<HashMap<String, (u64, Arc<CoreProviderMetadata>)>>,
    /// Time of the last failed request, by issuer.
    silent: Mutex<HashMap<String, u64>>,
}

impl ProviderCache {
    pub(super) fn described(&self) -> MutexGuard<'_, HashMap<String, (u64, Arc<CoreProviderMetadata>)>> {
        // Invariant: each change is a single operation, so a poisoned lock guards a consistent map.
        self.described.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn silent(&self) -> MutexGuard<'_, HashMap<String, u64>> {
        self.silent.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
