//! `[outbound]`, `[web]` and `[api.<name>]`: external hosts that agents may reach, and the credentials for them.
//!
//! Secrets appear only as references. Windlass reads them when it is about to send a request.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use serde::Deserialize;
use windlass::outbound::{Host, Ports, Reach};
use windlass::secret::{Secret, SecretSource};
use windlass::tool::api::{Auth, MAX_BODY_BYTES, MAX_RESPONSE_BYTES, Service, TIMEOUT_MS};
use windlass::tool::web::Provider;

use super::reference::Reference;
use crate::trouble::Trouble;

/// `[outbound]`: rules for the hosts that tools may call.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct OutboundFile {
    /// The only allowed hosts. Default: all public hosts.
    pub allow_hosts: Option<Vec<Host>>,
    /// Denied hosts.
    pub deny_hosts: Vec<Host>,
    /// Allowed hosts that are not public.
    pub internal_hosts: Option<Vec<Host>>,
    /// Allowed ports. Default: 80 and 443.
    pub ports: Option<Vec<u16>>,
}

/// `[web]`: the tools WebFetch and WebSearch.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct WebFile {
    /// Whether WebFetch is offered. Default: true.
    pub fetch: Option<bool>,
    /// Hosts that WebFetch reads without approval.
    pub hosts: Option<Vec<Host>>,
    /// The search engine.
    pub search: Option<SearchFile>,
}

/// `[web.search]`.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct SearchFile {
    /// The search engine, or `off`.
    provider: EngineWord,
    /// Base URL, if it differs from the engine's standard URL.
    base_url: Option<String>,
    /// Reference to the API key.
    api_key: Option<Reference>,
}

/// `provider = "duckduckgo" | "searxng" | "brave" | "tavily" | "off"`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
enum EngineWord {
    DuckDuckGo,
    SearXng,
    Brave,
    Tavily,
    Off,
}

/// The search engine to offer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Search {
    /// No search.
    Off,
    /// The default engine, because the settings configure none.
    Usual,
    /// A configured engine.
    Chosen(Provider),
}

/// `[api.<name>]`: an HTTP API that agents may call with ApiCall.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ApiFile {
    base_url: String,
    description: Option<String>,
    #[serde(default)]
    auth: AuthFile,
    #[serde(default)]
    allowed_paths: Vec<String>,
    #[serde(default)]
    allowed_methods: Vec<String>,
    #[serde(default)]
    headers: BTreeMap<String, String>,
    max_body_bytes: Option<usize>,
    max_response_bytes: Option<usize>,
    timeout_ms: Option<u64>,
    #[serde(default)]
    idempotency_keys: bool,
    /// Path of its OpenAPI description, relative to the folder of the configuration file.
    openapi: Option<PathBuf>,
}

/// The `auth` table of an API.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(tag = "type", rename_all = "lowercase", deny_unknown_fields)]
enum AuthFile {
    #[default]
    None,
    Bearer {
        token: Reference,
    },
    Header {
        name: String,
        value: Reference,
    },
    Basic {
        user: Reference,
        password: Reference,
    },
}

impl OutboundFile {
    /// Merges two layers; `self` takes precedence. Hosts that the weaker layer denies stay denied.
    pub fn over(self, weaker: Self) -> Self {
        Self {
            allow_hosts: self.allow_hosts.or(weaker.allow_hosts),
            deny_hosts: weaker.deny_hosts.into_iter().chain(self.deny_hosts).collect(),
            internal_hosts: self.internal_hosts.or(weaker.internal_hosts),
            ports: self.ports.or(weaker.ports),
        }
    }

    /// Converts to the rules of the outbound guard.
    pub fn reach(&self) -> Reach {
        Reach {
            allow_hosts: self.allow_hosts.clone().unwrap_or_default(),
            deny_hosts: self.deny_hosts.clone(),
            internal_hosts: self.internal_hosts.clone().unwrap_or_default(),
            ports: match self.ports.as_deref() {
                None | Some([]) => Ports::Usual,
                Some(ports) => Ports::Only(ports.to_vec()),
            },
        }
    }
}

impl WebFile {
    /// Merges two layers, key by key. The stronger layer replaces a search engine as a whole, because the key belongs
    /// to the engine's address.
    pub fn over(self, weaker: Self) -> Self {
        Self {
            fetch: self.fetch.or(weaker.fetch),
            hosts: self.hosts.or(weaker.hosts),
            search: self.search.or(weaker.search),
        }
    }

    pub fn fetches(&self) -> bool {
        self.fetch.unwrap_or(true)
    }

    /// Returns the search engine to offer.
    pub fn search(&self) -> Result<Search, Trouble> {
        let Some(SearchFile { provider, base_url, api_key }) = self.search.clone() else {
            return Ok(Search::Usual);
        };
        let needed = |what: &str, hint: &str| {
            Trouble::usage(format!("`web.search.{what}` is missing")).hint(hint.to_owned())
        };
        let key = |api_key: Option<Reference>| {
            let key = api_key.map(|key| key.to_string());
            key.ok_or_else(|| needed("api_key", "write `env:NAME` or `file:PATH` to refer to the key"))
        };
        Ok(Search::Chosen(match provider {
            EngineWord::Off => return Ok(Search::Off),
            EngineWord::DuckDuckGo => Provider::DuckDuckGo { base_url },
            EngineWord::SearXng => Provider::SearXng {
                base_url: base_url
                    .ok_or_else(|| needed("base_url", "write the URL of your SearXNG instance"))?,
                api_key: api_key.map(|key| key.to_string()),
            },
            EngineWord::Brave => Provider::Brave { base_url, api_key: key(api_key)? },
            EngineWord::Tavily => Provider::Tavily { base_url, api_key: key(api_key)? },
        }))
    }
}

impl ApiFile {
    /// Resolves the path of the OpenAPI description against the folder of the configuration file.
    pub fn locate(&mut self, file: &Path) {
        if let (Some(path), Some(folder)) = (&mut self.openapi, file.parent()) {
            *path = folder.join(&*path);
        }
    }

    /// Builds the service for the tool. Reads the OpenAPI description now, so that Windlass reports errors at startup.
    pub fn service(&self, name: &str) -> Result<Service, Trouble> {
        let openapi = match &self.openapi {
            None => None,
            Some(path) => Some(std::fs::read_to_string(path).map_err(|error| {
                Trouble::usage(format!("cannot read `{}`: {error}", path.display()))
                    .hint(format!("the path is set in `api.{name}.openapi`"))
            })?),
        };
        let auth = match &self.auth {
            AuthFile::None => Auth::None,
            AuthFile::Bearer { token } => Auth::Bearer { token_ref: token.to_string() },
            AuthFile::Header { name, value } => {
                Auth::Header { name: name.clone(), value_ref: value.to_string() }
            }
            AuthFile::Basic { user, password } => {
                Auth::Basic { user_ref: user.to_string(), pass_ref: password.to_string() }
            }
        };
        Ok(Service {
            description: self.description.clone(),
            auth,
            allowed_paths: self.allowed_paths.clone(),
            allowed_methods: self.allowed_methods.clone(),
            headers: self.headers.clone(),
            max_body_bytes: self.max_body_bytes.unwrap_or(MAX_BODY_BYTES),
            max_response_bytes: self.max_response_bytes.unwrap_or(MAX_RESPONSE_BYTES),
            timeout_ms: self.timeout_ms.unwrap_or(TIMEOUT_MS),
            idempotency_keys: self.idempotency_keys,
            openapi,
            ..Service::new(name, self.base_url.as_str())
        })
    }

    /// Returns the references to the API's secrets.
    pub fn references(&self) -> Vec<&Reference> {
        match &self.auth {
            AuthFile::None => Vec::new(),
            AuthFile::Bearer { token } => vec![token],
            AuthFile::Header { value, .. } => vec![value],
            AuthFile::Basic { user, password } => vec![user, password],
        }
    }
}

/// Resolves secret references for each request, so that a changed secret applies immediately.
#[derive(Clone, Copy, Debug)]
pub struct Kept;

impl SecretSource for Kept {
    fn secret(&self, reference: &str) -> Result<Secret, String> {
        let known =
            Reference::parse(reference).ok_or_else(|| "the reference to its secret is invalid".to_owned())?;
        known.resolve("its secret").map_err(|trouble| trouble.parts().0.to_owned())
    }
}

#[cfg(test)]
mod tests {
    use super::super::{ConfigFile, parse};
    use super::*;

    fn layer(text: &str) -> ConfigFile {
        parse(Path::new("/etc/windlass/windlass.toml"), text).unwrap()
    }

    fn refused(text: &str) -> String {
        let trouble = parse(Path::new("windlass.toml"), text).unwrap_err();
        let (message, hints) = trouble.parts();
        hints.iter().fold(message.to_owned(), |all, hint| format!("{all} | {hint}"))
    }

    #[test]
    fn a_stronger_layer_cannot_allow_what_is_denied_below() {
        let user = layer(
            "[outbound]\ndeny_hosts = ['evil.example']\ninternal_hosts = ['10.0.0.0/8']\nports = [443]\n\
             [web]\nfetch = false\nhosts = ['docs.rs']\n[web.search]\nprovider = 'brave'\napi_key = 'env:BRAVE'\n\
             [api.a]\nbase_url = 'https://a.example'\nauth = { type = 'bearer', token = 'env:A' }\n\
             [api.b]\nbase_url = 'https://b.example'\n",
        );
        let folder = layer(
            "[outbound]\ndeny_hosts = ['*.bad.example']\n[web.search]\nprovider = 'duckduckgo'\n\
             [api.a]\nbase_url = 'https://elsewhere.example'\nopenapi = 'a.yaml'\n",
        );
        let both = folder.over(user);
        let reach = both.outbound.reach();
        assert_eq!(reach.deny_hosts.len(), 2);
        assert_eq!((reach.internal_hosts.len(), &reach.ports), (1, &Ports::Only(vec![443])));
        assert!(!both.web.fetches());
        assert_eq!(both.web.search().unwrap(), Search::Chosen(Provider::DuckDuckGo { base_url: None }));
        // Windlass sends a secret only to the address that is configured with it.
        assert!(both.api["a"].references().is_empty());
        assert_eq!(both.api["a"].openapi.as_deref(), Some(Path::new("/etc/windlass/a.yaml")));
        assert_eq!(both.api.len(), 2);
    }

    #[test]
    fn an_empty_list_of_a_stronger_layer_takes_that_of_a_weaker_one_away() {
        let denied = "[outbound]\ndeny_hosts = ['evil.example']\n";
        let user = format!(
            "{denied}allow_hosts = ['a.example']\ninternal_hosts = ['10.0.0.0/8']\nports = [8443]\n\
             [web]\nhosts = ['docs.rs']\n"
        );
        let silent = layer("").over(layer(&user));
        assert_eq!(silent.outbound.reach(), layer(&user).outbound.reach());
        assert_eq!(silent.web.hosts, layer(&user).web.hosts);
        let empty = "[outbound]\ndeny_hosts = []\nallow_hosts = []\ninternal_hosts = []\nports = []\n[web]\nhosts = []\n";
        let empty = layer(empty).over(layer(&user));
        // Denied hosts are the exception: the stronger layer cannot remove them.
        assert_eq!(empty.outbound.reach(), layer(denied).outbound.reach());
        assert_eq!(empty.web.hosts, Some(vec![]));
    }

    #[test]
    fn what_stands_wrong_is_named() {
        insta::assert_snapshot!([
            refused("[api.a]\nbase_url = 'https://a'\nauth = { type = 'bearer', token = 'sk-12345' }\n"),
            refused("[api.a]\nbase_url = 'https://a'\nauth = { type = 'oauth' }\n"),
            refused("[api.a]\nbase_url = 'https://a'\nallowed_path = ['/x']\n"),
            refused("[outbound]\nallow_hosts = ['https://a.example/']\n"),
            refused("[web.search]\nprovider = 'google'\n"),
        ]
        .join("\n"), @r"
        windlass.toml:3: a file must not contain a literal secret | write `env:NAME` or `file:PATH` to refer to it
        windlass.toml:3: unknown variant `oauth`, expected one of `none`, `bearer`, `header`, `basic`
        windlass.toml:3: unknown key `allowed_path` | did you mean `allowed_paths`?
        windlass.toml:2: `https://a.example/` is not a valid host | write `docs.example.com`, `*.example.com` or a range such as `10.0.0.0/8`
        windlass.toml:2: unknown variant `google`, expected one of `duckduckgo`, `searxng`, `brave`, `tavily`, `off`
        ");
        let missing = |text: &str| layer(text).web.search().unwrap_err().parts().0.to_owned();
        assert_eq!(missing("[web.search]\nprovider = 'brave'\n"), "`web.search.api_key` is missing");
        assert_eq!(missing("[web.search]\nprovider = 'searxng'\n"), "`web.search.base_url` is missing");
    }

    #[test]
    fn a_secret_is_read_when_it_is_needed() {
        let base = tempfile::tempdir().unwrap();
        let path = base.path().join("token");
        let reference = format!("file:{}", path.display());
        let said = Kept.secret(&reference).err().unwrap();
        assert!(said.contains("cannot be read"), "{said}");
        for text in ["one", "two\n"] {
            std::fs::write(&path, text).unwrap();
            assert_eq!(Kept.secret(&reference).unwrap().expose(), text.trim());
        }
        let said = Kept.secret("env:WINDLASS_TEST_NO_SUCH_TOKEN").err().unwrap();
        assert!(said.contains("WINDLASS_TEST_NO_SUCH_TOKEN"), "{said}");
    }
}
