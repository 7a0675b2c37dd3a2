//! Models by name: splits `provider/model`, finds address and key, and says what is missing.
//!
//! It makes no request. One HTTP client serves every model that it hands out.

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

/// Every provider that is configured or known by name, over one HTTP client.
#[derive(Clone)]
pub struct ProviderCatalog {
    providers: Arc<BTreeMap<String, ProviderConfig>>,
    /// Built by the first model that is resolved: it reads and parses the system's certificates.
    http: Arc<OnceLock<reqwest::Client>>,
    lookup: Lookup,
    resolved: Arc<Mutex<HashMap<ModelName, Arc<ProviderModel>>>>,
}

/// Where Vertex answers for everyone, as its SDK has it.
const VERTEX_LOCATION: &str = "global";

/// Resolved models that are kept. Names come from configurations and people, so they are few; beyond that they are
/// resolved for each run.
const RESOLVED_MAX: usize = 256;

/// Builds a [`ProviderCatalog`].
pub struct ProviderCatalogBuilder {
    providers: BTreeMap<String, ProviderConfig>,
    http: Option<reqwest::Client>,
    lookup: Lookup,
}

/// Whether a provider can be called, for listings and checks.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ProviderStatus {
    /// The part of a model's name before the slash.
    pub name: String,
    /// The variable that its key is expected in.
    pub key_variable: String,
    /// Whether address and key are there.
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

    /// The address at which a provider is called; `None` where it has none, is not known, or lacks its key.
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
            // The client takes only `Authorization` off where a redirect leaves the host: a key in a header of
            // another name would go along.
            .redirect(reqwest::redirect::Policy::none())
            .build()
            .map_err(|error| config_error(format!("cannot build the HTTP client: {error}")))?;
        Ok(self.http.get_or_init(|| built).clone())
    }

    fn resolved(&self) -> MutexGuard<'_, HashMap<ModelName, Arc<ProviderModel>>> {
        // Nothing panics while the lock is held.
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

    /// The address: as configured, else from a variable, else the provider's own.
    ///
    /// A configured key or header is bound to the address that it was configured with, so that it does not follow to
    /// one that a variable names; a key from a variable does, as in the providers' SDKs.
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
                        "the configured key and headers of provider `{provider}` are not sent to the address in \
                         {name}\nconfigure the `base_url` that they are for, or unset {name}"
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
                // It becomes part of a host's name, to which the account's token is sent.
                if !location.chars().all(|c| c.is_ascii_alphanumeric() || c == '-') {
                    let message =
                        format!("GOOGLE_CLOUD_LOCATION=`{location}` is no location, as `europe-west1` is");
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
        // An own endpoint may take no key, or take it in a header of its own.
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
            return Err(config_error(format!("model name `{name}` has nothing after the provider")));
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
    /// Configures a provider; a name that the built-in table lacks becomes one of its own.
    pub fn provider(mut self, name: impl Into<String>, config: ProviderConfig) -> Self {
        self.providers.insert(name.into(), config);
        self
    }

    /// Uses the caller's HTTP client: proxies, certificates, middleware of its own. (LM-G7) Its redirect policy
    /// counts too: one that leaves the host takes the keys in providers' own headers along.
    pub fn http_client(mut self, client: reqwest::Client) -> Self {
        self.http = Some(client);
        self
    }

    /// Looks variables up elsewhere than in the process's environment.
    pub fn variables(mut self, lookup: impl Fn(&str) -> Option<String> + Send + Sync + 'static) -> Self {
        self.lookup = Arc::new(lookup);
        self
    }

    /// Builds the catalogue. It cannot fail so far: the HTTP client is built when the first model is resolved, and a
    /// provider is checked when one of its models is.
    pub fn build(self) -> Result<ProviderCatalog, ModelError> {
        let http = OnceLock::new();
        if let Some(client) = self.http {
            // The cell is new.
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

/// The variables that name a provider's address, tried in order: ours, then those of its own SDK.
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

/// Single-letter edits between two words (Levenshtein's distance).
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
