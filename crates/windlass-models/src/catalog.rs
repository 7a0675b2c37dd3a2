//! Finds models by name: splits `provider/model`, determines the URL and
//! the key, and reports a missing URL or key.
//!
//! This module sends no request. All models share one HTTP client.

use std::collections::{BTreeMap, HashMap};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};

use windlass_engine::port::model::{Model, ModelError, Models};
use windlass_machine::{FailureClass, ModelName};

use super::cloud::{self, Cloud};
use super::config::{ProviderConfig, Secret, WireKind};
use super::demo::{DEMO_MODEL, DemoModel};
use super::provider::ProviderModel;
use crate::provider::endpoint::{CONNECT_TIMEOUT, Endpoint, Lookup};
use crate::provider::preset::{self, Preset};

/// The provider of a name without a slash. (SK-L1)
const DEFAULT_PROVIDER: &str = "openai";

/// Every configured or built-in provider, over one HTTP client.
#[derive(Clone)]
pub struct ProviderCatalog {
    providers: Arc<BTreeMap<String, ProviderConfig>>,
    /// Created with the first model, because the client reads and parses the system's certificates.
    http: Arc<OnceLock<reqwest::Client>>,
    lookup: Lookup,
    resolved: Arc<Mutex<HashMap<ModelName, Arc<ProviderModel>>>>,
}

/// Vertex's location for all regions, as in Google's SDK.
const VERTEX_LOCATION: &str = "global";

/// Maximum number of cached models. Names come from configurations and users, so there are few. Above this
/// limit, each run resolves its model again.
const RESOLVED_MAX: usize = 256;

/// Builds a [`ProviderCatalog`].
pub struct ProviderCatalogBuilder {
    providers: BTreeMap<String, ProviderConfig>,
    http: Option<reqwest::Client>,
    lookup: Lookup,
}

/// The availability of a provider, for listings and checks.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ProviderStatus {
    /// The part of a model's name before the slash.
    pub name: String,
    /// The environment variable of the provider's key.
    pub key_variable: String,
    /// Whether both the URL and the key are available.
    pub ready: bool,
}

impl ProviderCatalog {
    /// Starts a catalogue that reads keys from the process's environment.
    pub fn builder() -> ProviderCatalogBuilder {
        ProviderCatalogBuilder {
            providers: BTreeMap::new(),
            http: None,
            lookup: Arc::new(|name| std::env::var(name).ok().filter(|value| !value.trim().is_empty())),
        }
    }

    /// Lists the known and configured providers, by name.
    pub fn providers(&self) -> Vec<ProviderStatus> {
        let mut names: Vec<&str> = preset::all().iter().map(|preset| preset.name).collect();
        names.extend(self.providers.keys().map(String::as_str));
        names.sort_unstable();
        names.dedup();
        names
            .into_iter()
            .map(|name| ProviderStatus {
                name: name.to_owned(),
                key_variable: key_variables(name).swap_remove(0),
                ready: self.endpoint(name).is_ok_and(|endpoint| {
                    endpoint.preset.cloud.is_none_or(|cloud| cloud.signed_in(&*self.lookup))
                }),
            })
            .collect()
    }

    /// Returns the URL of a provider; `None` if the provider is unknown, has no URL or lacks its key.
    pub fn address(&self, provider: &str) -> Option<String> {
        self.endpoint(provider).ok()?.base_url
    }

    fn http(&self) -> Result<reqwest::Client, ModelError> {
        if let Some(http) = self.http.get() {
            return Ok(http.clone());
        }
        let built = reqwest::Client::builder()
            .user_agent(concat!("windlass/", env!("CARGO_PKG_VERSION")))
            .connect_timeout(CONNECT_TIMEOUT)
            // On a redirect to another host, the client drops only `Authorization`, and would
            // send a key in another header to that host.
            .redirect(reqwest::redirect::Policy::none())
            .build()
            .map_err(|error| config_error(format!("cannot build the HTTP client: {error}")))?;
        Ok(self.http.get_or_init(|| built).clone())
    }

    fn resolved(&self) -> MutexGuard<'_, HashMap<ModelName, Arc<ProviderModel>>> {
        // No code panics while it holds the lock.
        self.resolved.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn endpoint(&self, provider: &str) -> Result<Endpoint, ModelError> {
        let configured = self.providers.get(provider);
        let preset = match (preset::by_name(provider), configured) {
            (Some(preset), _) => preset,
            (None, Some(_)) => &preset::UNNAMED,
            (None, None) => return Err(unknown_provider(provider)),
        };
        if let Some(cloud) = preset.cloud {
            cloud.built_in()?;
        }
        let config = configured.cloned().unwrap_or_default();
        let base_url = self.base_url(provider, preset, &config)?;
        let api_key = self.api_key(provider, preset, &config)?;
        let api_version = config.api_version.clone().or_else(|| {
            (provider == "azure").then(|| {
                (self.lookup)("AZURE_API_VERSION").unwrap_or_else(|| preset::AZURE_API_VERSION.to_owned())
            })
        });
        Ok(Endpoint {
            provider: provider.to_owned(),
            preset,
            config,
            base_url,
            api_key,
            api_version,
            #[cfg(feature = "bedrock")]
            lookup: Arc::clone(&self.lookup),
        })
    }

    /// Returns the configured URL, that of an environment variable, or the provider's default, in this order.
    ///
    /// A configured key or header is sent only to the configured or default URL, never to a URL from a
    /// variable. A key from a variable is sent to any of these URLs, as in the providers' SDKs.
    fn base_url(
        &self,
        provider: &str,
        preset: &Preset,
        config: &ProviderConfig,
    ) -> Result<Option<String>, ModelError> {
        let variables = address_variables(provider);
        let told = variables.iter().find_map(|name| Some((name, (self.lookup)(name)?)));
        let address = match (&config.base_url, told) {
            (Some(configured), _) => Some(configured.clone()),
            (None, Some((name, address))) => {
                let own = preset.base_url.is_some_and(|own| same_address(own, &address));
                if !own && (config.api_key.is_some() || !config.headers.is_empty()) {
                    return Err(config_error(format!(
                        "the configured key and headers of provider `{provider}` are not sent to the address \
                         in {name}\nset `base_url` to the address they belong to, or unset {name}"
                    )));
                }
                Some(address)
            }
            (None, None) => preset.base_url.map(str::to_owned),
        };
        match (preset.cloud, address) {
            // The SDK knows the address of each region.
            (Some(Cloud::Bedrock), address) => Ok(address),
            (Some(Cloud::Vertex), host) => {
                let project = (self.lookup)("GOOGLE_CLOUD_PROJECT").ok_or_else(|| {
                    config_error(format!("provider `{provider}` has no project: set GOOGLE_CLOUD_PROJECT"))
                })?;
                let location = (self.lookup)("GOOGLE_CLOUD_LOCATION");
                let location = location.as_deref().unwrap_or(VERTEX_LOCATION);
                // The location becomes part of the host name that receives the account's token.
                if !location.chars().all(|c| c.is_ascii_alphanumeric() || c == '-') {
                    let message = format!(
                        "GOOGLE_CLOUD_LOCATION=`{location}` is not a valid location; use a name such as \
                         `europe-west1`"
                    );
                    return Err(config_error(message));
                }
                Ok(Some(cloud::vertex_address(host, &project, location)))
            }
            (None, Some(address)) => Ok(Some(address)),
            (None, None) if config.wire == Some(WireKind::Converse) => Ok(None),
            (None, None) => Err(config_error(format!(
                "provider `{provider}` has no address: configure its `base_url` or set {}",
                variables[0]
            ))),
        }
    }

    fn api_key(
        &self,
        provider: &str,
        preset: &Preset,
        config: &ProviderConfig,
    ) -> Result<Option<Secret>, ModelError> {
        let variables = key_variables(provider);
        let key = config
            .api_key
            .clone()
            .or_else(|| variables.iter().find_map(|name| (self.lookup)(name)).map(Secret::new));
        // A custom endpoint may need no key, or may receive it in a separate header.
        let own = preset.name.is_empty() || !config.headers.is_empty();
        if key.is_none() && !preset.key_optional && !own {
            return Err(config_error(format!(
                "no key for provider `{provider}`: set {} or configure its `api_key`",
                variables.join(" or ")
            )));
        }
        Ok(key)
    }
}

impl Models for ProviderCatalog {
    fn resolve(&self, name: &ModelName) -> Result<Arc<dyn Model>, ModelError> {
        if name.as_str() == DEMO_MODEL {
            return Ok(Arc::new(DemoModel::default()));
        }
        if let Some(known) = self.resolved().get(name) {
            return Ok(known.clone());
        }
        let (provider, model) = name.as_str().split_once('/').unwrap_or((DEFAULT_PROVIDER, name.as_str()));
        if model.is_empty() {
            return Err(config_error(format!("model name `{name}` has no model after the provider")));
        }
        let model = Arc::new(ProviderModel::new(self.endpoint(provider)?, model, self.http()?)?);
        let mut resolved = self.resolved();
        if resolved.len() < RESOLVED_MAX {
            resolved.insert(name.clone(), model.clone());
        }
        Ok(model)
    }
}

impl ProviderCatalogBuilder {
    /// Configures a provider. A name that is not built in adds a provider.
    pub fn provider(mut self, name: impl Into<String>, config: ProviderConfig) -> Self {
        self.providers.insert(name.into(), config);
        self
    }

    /// Uses the caller's HTTP client, with its proxies, certificates and middleware. (LM-G7) The client must
    /// not follow redirects to other hosts, because reqwest forwards keys in custom headers.
    pub fn http_client(mut self, client: reqwest::Client) -> Self {
        self.http = Some(client);
        self
    }

    /// Reads variables from `lookup` instead of in the process's environment.
    pub fn variables(mut self, lookup: impl Fn(&str) -> Option<String> + Send + Sync + 'static) -> Self {
        self.lookup = Arc::new(lookup);
        self
    }

    /// Builds the catalogue. Does not fail yet: the HTTP client is built with the first model, and a provider is
    /// validated when one of its models is resolved.
    pub fn build(self) -> Result<ProviderCatalog, ModelError> {
        let http = OnceLock::new();
        if let Some(client) = self.http {
            // Cannot fail: the cell is new.
            let _ = http.set(client);
        }
        Ok(ProviderCatalog {
            providers: Arc::new(self.providers),
            http: Arc::new(http),
            lookup: self.lookup,
            resolved: Arc::default(),
        })
    }
}

fn same_address(one: &str, other: &str) -> bool {
    one.trim_end_matches('/') == other.trim_end_matches('/')
}

fn environment_name(provider: &str) -> String {
    provider.to_ascii_uppercase().replace(|c: char| !c.is_ascii_alphanumeric(), "_")
}

/// Returns the names of the variables of a provider's URL, in order:
/// Windlass's own, then those of the provider's SDK.
fn address_variables(provider: &str) -> Vec<String> {
    let own: &[&str] = match provider {
        "azure" => &["AZURE_ENDPOINT"],
        "bedrock" => &["AWS_ENDPOINT_URL_BEDROCK_RUNTIME", "AWS_ENDPOINT_URL"],
        _ => &[],
    };
    let ours = format!("{}_BASE_URL", environment_name(provider));
    std::iter::once(ours).chain(own.iter().map(|name| (*name).to_owned())).collect()
}

fn key_variables(provider: &str) -> Vec<String> {
    match preset::by_name(provider) {
        Some(preset) if !preset.keys.is_empty() => {
            preset.keys.iter().map(|name| (*name).to_owned()).collect()
        }
        Some(_) | None => vec![format!("{}_API_KEY", environment_name(provider))],
    }
}

fn unknown_provider(provider: &str) -> ModelError {
    let near = preset::all()
        .iter()
        .map(|preset| (edits(provider, preset.name), preset.name))
        .filter(|(edits, name)| *edits <= 2 && *edits < name.len())
        .min();
    let hint = near.map(|(_, name)| format!("; did you mean `{name}`?")).unwrap_or_default();
    config_error(format!(
        "unknown provider `{provider}`{hint}\nname a model as `provider/model`, or configure the provider with a `base_url`"
    ))
}

/// Returns the number of single-letter edits between two names (Levenshtein distance).
fn edits(one: &str, other: &str) -> usize {
    let mut row: Vec<usize> = (0..=other.len()).collect();
    for (at, letter) in one.bytes().enumerate() {
        let mut diagonal = std::mem::replace(&mut row[0], at + 1);
        for (column, expected) in other.bytes().enumerate() {
            let changed = diagonal + usize::from(letter != expected);
            diagonal = row[column + 1];
            row[column + 1] = changed.min(diagonal + 1).min(row[column] + 1);
        }
    }
    row[other.len()]
}

fn config_error(message: String) -> ModelError {
    ModelError::new(FailureClass::Config, message)
}
