//! A provider's address, key and settings, resolved from the configuration.
//!
//! This module sends no request.

use std::sync::Arc;
use std::time::Duration;

use crate::config::{ProviderConfig, Secret, WireKind};
use crate::provider::preset::Preset;

/// Maximum time to open a connection. Providers accept connections in well under a second, or not at all.
pub(crate) const CONNECT_TIMEOUT: Duration = Duration::from_secs(15);

/// Returns the value of an environment variable.
pub(crate) type Lookup = Arc<dyn Fn(&str) -> Option<String> + Send + Sync>;

/// A provider with address and key.
pub(crate) struct Endpoint {
    /// The part of the model's name before the slash.
    pub provider: String,
    /// The built-in settings.
    pub preset: &'static Preset,
    /// The configured settings.
    pub config: ProviderConfig,
    /// The URL; `None` if the cloud's SDK determines it.
    pub base_url: Option<String>,
    /// The key.
    pub api_key: Option<Secret>,
    /// `api-version` of Azure deployments.
    pub api_version: Option<String>,
    /// Looks up environment variables.
    #[cfg(feature = "bedrock")]
    pub lookup: Lookup,
}

impl Endpoint {
    /// Returns the wire of a model at this endpoint.
    pub(crate) fn kind(&self, model: &str) -> WireKind {
        let usual = || self.preset.cloud.map_or(self.preset.wire, |cloud| cloud.wire(model));
        self.config.wire.unwrap_or_else(usual)
    }
}

#[cfg(all(test, feature = "testing"))]
impl Endpoint {
    /// Creates the endpoint of a built-in provider, or of an unnamed one.
    pub(crate) fn sample(provider: &str, wire: WireKind) -> Self {
        let preset = crate::provider::preset::by_name(provider);
        let preset = preset.unwrap_or(&crate::provider::preset::UNNAMED);
        Self {
            provider: provider.to_owned(),
            preset,
            config: ProviderConfig { wire: Some(wire), ..ProviderConfig::default() },
            base_url: Some(preset.base_url.unwrap_or("http://localhost/v1").to_owned()),
            api_key: Some(Secret::new("key")),
            api_version: (provider == "azure").then(|| crate::provider::preset::AZURE_API_VERSION.to_owned()),
            #[cfg(feature = "bedrock")]
            lookup: Arc::new(|_| None),
        }
    }
}
