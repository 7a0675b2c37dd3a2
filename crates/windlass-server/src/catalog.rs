//! The models that an open store can call: configured providers, and endpoints that clients bring for their own runs.

use std::sync::{Arc, PoisonError, RwLock};

use windlass::machine::ModelName;
use windlass::models::ProviderCatalog;
use windlass::outbound::Outbound;
use windlass::port::model::{Model, ModelError, Models};

use crate::config::Settings;
use crate::endpoints::ClientEndpoints;

/// The available providers. A command can replace them, because it may learn only later which models it needs.
pub struct Catalog {
    providers: RwLock<ProviderCatalog>,
    /// Endpoints that clients of the server bring for their own runs.
    pub endpoints: ClientEndpoints,
}

impl Catalog {
    pub fn open(settings: &Settings, used: &[ModelName]) -> anyhow::Result<Self> {
        let takes_endpoints = settings.server.dialect.zeus.client_endpoints();
        let out = takes_endpoints.then(|| Outbound::new(settings.outbound.reach()));
        let providers = RwLock::new(settings.catalog(used)?);
        Ok(Self { providers, endpoints: ClientEndpoints::new(out) })
    }

    /// Returns the current providers.
    pub fn now(&self) -> ProviderCatalog {
        // Invariant: a poisoned lock still guards a whole catalog.
        self.providers.read().unwrap_or_else(PoisonError::into_inner).clone()
    }

    pub fn replace(&self, catalog: ProviderCatalog) {
        *self.providers.write().unwrap_or_else(PoisonError::into_inner) = catalog;
    }
}

impl Models for Catalog {
    fn resolve(&self, name: &ModelName) -> Result<Arc<dyn Model>, ModelError> {
        self.endpoints.resolve(name).unwrap_or_else(|| self.now().resolve(name))
    }
}
