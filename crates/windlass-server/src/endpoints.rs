//! Model endpoints that clients bring for their own runs: a URL and an API key. (ZE-C7)
//!
//! This process keeps endpoints only in memory. A run records the endpoint's name, which contains neither the URL nor
//! the key. After a restart, the client must send the endpoint again. The URLs come from requests, so the process calls
//! only hosts that `[outbound]` allows.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use windlass::machine::{Digest, FailureClass, ModelName, Principal};
use windlass::models::{Auth, ProviderCatalog, ProviderConfig, WireKind};
use windlass::outbound::Outbound;
use windlass::port::model::{Model, ModelError, Models};
use windlass::secret::Secret;

/// Prefix of the provider part of such a model's name; hexadecimal digits follow.
const PREFIX: &str = "client-endpoint-";
/// Number of hexadecimal digits in the name of an endpoint, enough to avoid collisions.
const DIGITS: usize = 16;
/// Maximum number of endpoints of one user, and of all users. Each endpoint uses a few KiB. Above the maximum, the
/// oldest endpoints are evicted.
const USER_MAX: usize = 8;
const ALL_MAX: usize = 1_024;
/// Maximum length of a URL, of a key and of a model's name, in bytes.
const URL_MAX_BYTES: usize = 2_048;
const KEY_MAX_BYTES: usize = 8_192;
const NAME_MAX_BYTES: usize = 256;

/// An endpoint of a client.
#[derive(Clone)]
pub struct ClientEndpoint {
    /// Base URL in the form that OpenAI's SDK uses, ending in `/v1`.
    pub url: String,
    /// API key; `None` if the endpoint requires none.
    pub key: Option<Secret>,
}

impl std::fmt::Debug for ClientEndpoint {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let key = self.key.as_ref().map(|_| "a key");
        f.debug_struct("ClientEndpoint").field("url", &self.url).field("key", &key).finish()
    }
}

/// The reason why an endpoint is rejected. No message contains a key.
#[derive(Debug, thiserror::Error)]
pub enum EndpointError {
    /// The settings do not allow client endpoints.
    #[error("this server does not allow endpoints of clients")]
    Off,
    /// The outbound rules do not allow the URL.
    #[error("calling `{url}` is not allowed: {why}")]
    Refused {
        url: String,
        /// Reason.
        why: String,
    },
    /// A value is too long or contains control characters.
    #[error("the {what} must have 1 to {max_bytes} bytes and no control characters")]
    Unfit {
        /// Name of the value.
        what: &'static str,
        /// Maximum length, in bytes.
        max_bytes: usize,
    },
}

/// The endpoints of clients, newest last.
pub struct ClientEndpoints {
    out: Option<Outbound>,
    known: Mutex<VecDeque<Known>>,
}

struct Known {
    /// The provider part of the names of this endpoint's models.
    provider: String,
    owner: (String, Principal),
    models: ProviderCatalog,
}

impl ClientEndpoints {
    /// Creates an empty set that connects through `out`; `None` rejects all endpoints.
    pub fn new(out: Option<Outbound>) -> Self {
        Self { out, known: Mutex::default() }
    }

    /// Returns whether a model's name belongs to a client endpoint. The name is not a secret, so requests may not
    /// select such a model.
    pub fn names(model: &ModelName) -> bool {
        let provider = model.as_str().split_once('/').map_or("", |(provider, _)| provider);
        provider
            .strip_prefix(PREFIX)
            .is_some_and(|rest| rest.len() == DIGITS && rest.bytes().all(|byte| byte.is_ascii_hexdigit()))
    }

    /// Stores an endpoint of a user. Returns the name with which a run calls a model of the endpoint. If the user
    /// already has an endpoint with this URL, replaces its key.
    pub fn open(
        &self,
        workspace: &str,
        user: &Principal,
        endpoint: &ClientEndpoint,
        model: &str,
    ) -> Result<ModelName, EndpointError> {
        let out = self.out.as_ref().ok_or(EndpointError::Off)?;
        check("URL", &endpoint.url, URL_MAX_BYTES)?;
        check("model's name", model, NAME_MAX_BYTES)?;
        endpoint.key.as_ref().map_or(Ok(()), |key| check("key", key.expose(), KEY_MAX_BYTES))?;
        let refused = |why: String| {
            let url = crate::text::first_line(&endpoint.url, 200);
            EndpointError::Refused { url, why }
        };
        let url = out.target(&endpoint.url).map_err(|refusal| refused(refusal.to_string()))?;
        if url.query().is_some() || url.fragment().is_some() {
            return Err(refused(
                "it must not have a query or a fragment, because the model's path is appended".into(),
            ));
        }
        if url.scheme() == "http" && !out.reach().is_inside(&url) {
            return Err(refused(
                "it must use https, because it receives the conversation and the key".into(),
            ));
        }
        let owner = (workspace.to_owned(), user.clone());
        let digest = Digest::default().chain(&(workspace, user, url.as_str())).to_string();
        let provider = format!("{PREFIX}{}", &digest[..DIGITS]);
        let config = ProviderConfig {
            wire: Some(WireKind::OpenaiChat),
            base_url: Some(endpoint.url.clone()),
            api_key: endpoint.key.clone(),
            auth: Auth::Bearer,
            ..ProviderConfig::default()
        };
        // No variable of this process's environment may affect or reach the endpoint.
        let models = ProviderCatalog::builder().provider(&provider, config).variables(|_| None);
        let http = out.client().map_err(|error| refused(error.to_string()))?;
        let models = models.http_client(http).build().map_err(|error| refused(error.to_string()))?;
        let name = ModelName::from(format!("{provider}/{model}").as_str());
        self.keep(Known { provider, owner, models });
        Ok(name)
    }

    fn keep(&self, new: Known) {
        let mut known = self.known();
        known.retain(|one| one.provider != new.provider);
        let own = known.iter().filter(|one| one.owner == new.owner).count();
        let oldest = match own >= USER_MAX {
            true => known.iter().position(|one| one.owner == new.owner),
            false => (known.len() >= ALL_MAX).then_some(0),
        };
        oldest.and_then(|at| known.remove(at));
        known.push_back(new);
    }

    /// Returns the model with a name, or `None` if the name does not belong to a client endpoint.
    pub fn resolve(&self, name: &ModelName) -> Option<Result<Arc<dyn Model>, ModelError>> {
        if !Self::names(name) {
            return None;
        }
        let provider = name.as_str().split_once('/').map_or("", |(provider, _)| provider);
        let models = self.known().iter().find(|one| one.provider == provider).map(|one| one.models.clone());
        Some(match models {
            Some(models) => models.resolve(name),
            None => Err(ModelError::new(
                FailureClass::Config,
                "this process does not know the endpoint that the client sent for the run\nsend another \
                 request with `llm_config`",
            )),
        })
    }

    fn known(&self) -> MutexGuard<'_, VecDeque<Known>> {
        // Invariant: each change is complete before the lock is released, so a poisoned lock guards a whole list.
        self.known.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn check(what: &'static str, text: &str, max_bytes: usize) -> Result<(), EndpointError> {
    let is_fit = !text.is_empty() && text.len() <= max_bytes && !text.chars().any(char::is_control);
    if is_fit { Ok(()) } else { Err(EndpointError::Unfit { what, max_bytes }) }
}

#[cfg(test)]
mod tests {
    use windlass::outbound::Reach;

    use super::*;

    fn endpoints() -> ClientEndpoints {
        let inside = Reach { internal_hosts: vec!["127.0.0.1".parse().unwrap()], ..Reach::default() };
        ClientEndpoints::new(Some(Outbound::new(inside)))
    }

    fn at(url: &str) -> ClientEndpoint {
        ClientEndpoint { url: url.into(), key: Some(Secret::new("sk-sentinel")) }
    }

    fn open(endpoints: &ClientEndpoints, user: &str, url: &str) -> Result<ModelName, String> {
        let user = Principal::from(user);
        endpoints.open("default", &user, &at(url), "gpt-x").map_err(|error| error.to_string())
    }

    // rows: ZE-C7
    #[test]
    fn only_addresses_that_tools_may_call_are_taken() {
        let endpoints = endpoints();
        assert!(open(&endpoints, "ann", "https://llm.example.com/v1").is_ok());
        assert!(open(&endpoints, "ann", "http://127.0.0.1/v1").is_ok());
        for (url, why) in [
            ("http://llm.example.com/v1", "it must use https"),
            ("https://10.0.0.7/v1", "is not allowed"),
            ("https://169.254.169.254/latest", "is not allowed"),
            ("https://llm.example.com:8443/v1", "is not allowed"),
            ("https://user:word@llm.example.com/v1", "is not allowed"),
            ("file:///etc/passwd", "is not allowed"),
            ("", "the URL must have 1 to"),
        ] {
            let error = open(&endpoints, "ann", url).unwrap_err();
            assert!(error.contains(why) && !error.contains("sentinel"), "{url}: {error}");
        }
        let off = open(&ClientEndpoints::new(None), "ann", "https://llm.example.com/v1").unwrap_err();
        assert_eq!(off, "this server does not allow endpoints of clients");
    }

    #[test]
    fn a_name_holds_neither_address_nor_key_and_is_its_users_own() {
        let endpoints = endpoints();
        let name = open(&endpoints, "ann", "https://llm.example.com/v1").unwrap();
        assert!(ClientEndpoints::names(&name) && name.as_str().ends_with("/gpt-x"), "{name}");
        assert!(!name.as_str().contains("example") && !name.as_str().contains("sentinel"));
        assert_ne!(open(&endpoints, "bob", "https://llm.example.com/v1").unwrap(), name);
        assert_eq!(open(&endpoints, "ann", "https://llm.example.com/v1").unwrap(), name);
        assert!(endpoints.resolve(&name).unwrap().is_ok());
        for other in ["openai/gpt-x", "client-endpoint-/x", "client-endpoint-0123456789abcdeg/x", "gpt-x"] {
            assert!(endpoints.resolve(&ModelName::from(other)).is_none(), "{other}");
        }
        // Another process does not have the endpoint, and the error tells the user what to do.
        let elsewhere = ClientEndpoints::new(None);
        let error = elsewhere.resolve(&name).unwrap().err().unwrap();
        assert!(error.to_string().contains("`llm_config`"), "{error}");
        assert_eq!(
            format!("{:?}", at("https://a/v1")),
            r#"ClientEndpoint { url: "https://a/v1", key: Some("a key") }"#
        );
    }

    #[test]
    fn the_newest_endpoints_of_a_user_are_kept() {
        let endpoints = endpoints();
        let name = |nth: usize| open(&endpoints, "ann", &format!("https://llm{nth}.example.com/v1")).unwrap();
        let first = name(0);
        let other = open(&endpoints, "bob", "https://llm.example.com/v1").unwrap();
        let rest: Vec<ModelName> = (1..=USER_MAX).map(name).collect();
        assert!(endpoints.resolve(&first).unwrap().is_err());
        assert!(rest.iter().chain([&other]).all(|name| endpoints.resolve(name).unwrap().is_ok()));
    }
}
