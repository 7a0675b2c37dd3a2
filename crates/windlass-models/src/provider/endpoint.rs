//! A provider's address, key and settings, resolved from the configuration.
//!
//! It makes no request.

use std::sync::Arc;
use std::time::Duration;

use crate::config::{ProviderConfig, Secret, WireKind};
use crate::provider::preset::Preset;

/// Time to open a connection. Providers answer in well under a second, or not at all.
pub(crate) const CONNECT_TIMEOUT: Duration = Duration::from_secs(15);

/// Finds a variable.
pub(crate) type Lookup = Arc<dyn Fn(&str) -> Option<String> + Send + Sync>;

/// A provider with address and key.
pub(crate) struct Endpoint {
    /// The part of the model's name before the slash.
    pub provider: String,
    /// What the table says of it.
    pub preset: &'static Preset,
    /// What the configuration says of it.
    pub config: ProviderConfig,
    /// The address; `None` where the cloud's SDK knows it.
    pub base_url: Option<String>,
    /// The key.
    pub api_key: Option<Secret>,
    /// `api-version` of Azure deployments.
    pub api_version: Option<String>,
    /// Finds variables.
    #[cfg(feature = "bedrock")]
    pub lookup: Lookup,
}

impl Endpoint {
    /// The wire that a model speaks here.
    pub(crate) fn kind(&self, model: &str) -> WireKind {
        let usual = || self.preset.cloud.map_or(self.preset.wire, |cloud| cloud.wire(model));
        self.config.wire.unwrap_or_else(usual)
    }
}
