//! `[server]`: addresses, access and limits of the server.

use std::collections::BTreeMap;
use std::net::SocketAddr;

use http::Uri;
use serde::Deserialize;
use windlass::machine::ModelName;
use windlass::outbound::Host;

use super::dialect::DialectsFile;
use super::operate::{Range, ServerLimits, TlsFile};
use super::reference::Reference;
use crate::account::{Registration, Role};
use crate::trouble::Trouble;

/// `[server]`.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct ServerFile {
    /// Address to listen on.
    pub listen: Option<SocketAddr>,
    /// Public URLs of the server.
    pub public_urls: Option<Vec<String>>,
    /// Origins of other web pages that may use the server.
    pub cors: Option<Vec<String>>,
    /// Trusted proxies, whose forwarding headers name the client and the scheme.
    pub proxies: Option<Vec<Range>>,
    /// Internal hosts that integrations may call, in addition to public `https` hosts.
    pub internal_hosts: Option<Vec<Host>>,
    /// Whether administrators may add MCP servers that are local programs.
    pub mcp_commands: Option<bool>,
    /// Certificate and key, if the server itself terminates TLS.
    pub tls: Option<TlsFile>,
    /// Reference to the token with which monitoring systems read the metrics.
    pub metrics_token: Option<Reference>,
    pub limits: ServerLimits,
    /// The users who may register: `open`, `invite`, `closed`.
    pub registration: Option<Registration>,
    /// Model that generates titles of new threads.
    pub title_model: TitleModel,
    /// Dialects to serve.
    pub dialect: DialectsFile,
    /// OpenID Connect providers, by the name in their URL.
    pub oidc: BTreeMap<String, OidcFile>,
}

/// `title_model`: the model that generates titles of new threads.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(from = "String")]
pub enum TitleModel {
    /// The model of the thread's first run.
    #[default]
    Runs,
    /// This model.
    Named(ModelName),
    /// No model (`"none"`): the title is the beginning of the first message.
    None,
}

impl From<String> for TitleModel {
    fn from(name: String) -> Self {
        match name.as_str() {
            "none" => Self::None,
            name => Self::Named(ModelName::from(name)),
        }
    }
}

impl TitleModel {
    fn or(self, weaker: Self) -> Self {
        match self {
            Self::Runs => weaker,
            Self::Named(_) | Self::None => self,
        }
    }

    /// Returns the configured model, if any.
    pub fn named(&self) -> Option<&ModelName> {
        match self {
            Self::Named(model) => Some(model),
            Self::Runs | Self::None => None,
        }
    }
}

/// `[server.oidc.<name>]`.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct OidcFile {
    /// Issuer URL, exactly as the provider reports it.
    pub issuer: String,
    /// Client id of this server at the provider.
    pub client_id: String,
    /// Reference to the client secret; `None` for a public client.
    pub client_secret: Option<Reference>,
    /// Scopes in addition to `openid`. Default: `email` and `profile`.
    pub scopes: Option<Vec<String>>,
    /// Allowed domains of verified email addresses of new accounts. An empty list allows any domain.
    #[serde(default)]
    pub domains: Vec<String>,
    /// Role of new accounts; `None` creates no accounts.
    pub role: Option<Role>,
    /// Workspace of the users who sign in with this provider. Default: the default workspace.
    pub workspace: Option<String>,
    /// Whether a verified email address signs in to the existing account with that address.
    #[serde(default)]
    pub link_by_email: bool,
}

impl ServerFile {
    /// Merges two layers, key by key; `self` takes precedence.
    pub fn over(self, weaker: Self) -> Self {
        Self {
            listen: self.listen.or(weaker.listen),
            public_urls: self.public_urls.or(weaker.public_urls),
            cors: self.cors.or(weaker.cors),
            registration: self.registration.or(weaker.registration),
            title_model: self.title_model.or(weaker.title_model),
            // The stronger layer replaces a provider as a whole, because a mixture of two definitions would be
            // meaningless.
            oidc: weaker.oidc.into_iter().chain(self.oidc).collect(),
            proxies: self.proxies.or(weaker.proxies),
            internal_hosts: self.internal_hosts.or(weaker.internal_hosts),
            mcp_commands: self.mcp_commands.or(weaker.mcp_commands),
            tls: self.tls.or(weaker.tls),
            metrics_token: self.metrics_token.or(weaker.metrics_token),
            limits: self.limits.over(weaker.limits),
            dialect: self.dialect.over(weaker.dialect),
        }
    }

    pub fn registration(&self) -> Registration {
        self.registration.unwrap_or_default()
    }

    /// Parses the public URLs.
    pub fn public_urls(&self) -> Result<Vec<Uri>, Trouble> {
        let read = |url: &String| {
            let uri =
                url.parse::<Uri>().ok().filter(|uri| uri.scheme().is_some() && uri.authority().is_some());
            uri.ok_or_else(|| {
                Trouble::usage(format!("`{url}` in `[server] public_urls` is not a URL"))
                    .hint("write a URL such as `https://agents.example.com`")
            })
        };
        self.public_urls.iter().flatten().map(read).collect()
    }

    /// Rejects providers that users cannot sign in with, and limits of dialects that are out of range.
    pub fn check(&self) -> Result<(), Trouble> {
        self.dialect.check()?;
        if let Some(name) = self.oidc.keys().next()
            && !cfg!(feature = "openid")
        {
            return Err(Trouble::usage(format!(
                "`[server.oidc.{name}]`: this build does not support OpenID Connect"
            ))
            .hint("build with the default features, or with `--features openid`"));
        }
        self.oidc.iter().try_for_each(|(name, provider)| provider.check(name))
    }
}

impl OidcFile {
    fn check(&self, name: &str) -> Result<(), Trouble> {
        let place = format!("server.oidc.{name}");
        if !name.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"-_".contains(&byte)) {
            return Err(Trouble::usage(format!(
                "`{place}`: the name is used in a URL and has invalid characters"
            ))
            .hint("use letters, digits, `-` and `_`"));
        }
        let issuer = self.issuer.parse::<Uri>().ok();
        let here = |host: &str| host == "localhost" || host == "[::1]" || host.starts_with("127.");
        let safe = issuer.is_some_and(|issuer| match issuer.scheme_str() {
            Some("https") => true,
            Some("http") => issuer.host().is_some_and(here),
            Some(_) | None => false,
        });
        if !safe {
            return Err(Trouble::usage(format!(
                "`{place}.issuer` is `{}`, which is not an https URL",
                self.issuer
            ))
            .hint("write the issuer exactly as in the provider's metadata"));
        }
        let secret = self.client_secret.as_ref();
        secret.map_or(Ok(()), |secret| secret.resolve(&format!("{place}.client_secret")).map(drop))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn refused(text: &str) -> String {
        let file: Result<ServerFile, _> = toml::from_str(text);
        match file {
            Err(error) => error.message().to_owned(),
            Ok(file) => file.check().map_or_else(|trouble| trouble.parts().0.to_owned(), |()| "taken".into()),
        }
    }

    #[test]
    fn an_unusable_sign_in_provider_is_rejected() {
        let provider = |name: &str, more: &str| format!("[oidc.{name}]\nclient_id = 'c'\n{more}\n");
        assert_eq!(refused(&provider("a-1", "issuer = 'https://id.example.com/x'")), "taken");
        assert_eq!(refused(&provider("a", "issuer = 'http://127.0.0.1:9'")), "taken");
        insta::assert_snapshot!([
            refused(&provider("a", "issuer = 'http://id.example.com'")),
            refused(&provider("a", "issuer = 'id'")),
            refused(&provider("\"a/b\"", "issuer = 'https://id.example.com'")),
            refused(&provider("a", "issuer = 'https://i.example.com'\nclient_secret = 'sk-12345'")),
            refused(&provider("a", "issuer = 'https://i.example.com'\nclient_secret = 'env:WINDLASS_TEST_NOT_SET'")),
            refused(&provider("a", "issuer = 'https://i.example.com'\nrole = 'owner'")),
            refused("registration = 'free'"),
        ]
        .join("\n"), @r"
        `server.oidc.a.issuer` is `http://id.example.com`, which is not an https URL
        `server.oidc.a.issuer` is `id`, which is not an https URL
        `server.oidc.a/b`: the name is used in a URL and has invalid characters
        a file must not contain a literal secret; write `env:NAME` or `file:PATH` to refer to it
        `server.oidc.a.client_secret` refers to the variable WINDLASS_TEST_NOT_SET, which is not set
        unknown variant `owner`, expected one of `viewer`, `member`, `admin`
        unknown variant `free`, expected one of `open`, `invite`, `closed`
        ");
    }

    #[test]
    fn an_empty_list_of_a_stronger_layer_takes_that_of_a_weaker_one_away() {
        let file = |text: &str| toml::from_str::<ServerFile>(text).unwrap();
        let weaker = || {
            file(
                "public_urls = ['https://a.example']\ncors = ['https://b.example']\nproxies = ['10.0.0.7']\n\
                 internal_hosts = ['10.0.0.0/8']\n",
            )
        };
        let lists = |file: ServerFile| {
            let urls = file.public_urls().unwrap().len();
            let count = [file.cors.map(|all| all.len()), file.proxies.map(|all| all.len())];
            (urls, count, file.internal_hosts.map(|all| all.len()))
        };
        assert_eq!(lists(file("").over(weaker())), (1, [Some(1), Some(1)], Some(1)));
        let empty = file("public_urls = []\ncors = []\nproxies = []\ninternal_hosts = []\n");
        assert_eq!(lists(empty.over(weaker())), (0, [Some(0), Some(0)], Some(0)));
    }

    #[test]
    fn a_stronger_layer_names_providers_beside_the_weaker_one() {
        let file = |text: &str| toml::from_str::<ServerFile>(text).unwrap();
        let weaker =
            file("registration = 'open'\n[oidc.a]\nissuer = 'https://a'\nclient_id = '1'\nrole = 'admin'\n");
        let stronger = file(
            "[oidc.a]\nissuer = 'https://b'\nclient_id = '2'\n[oidc.c]\nissuer = 'https://c'\nclient_id = '3'\n",
        );
        let both = stronger.over(weaker);
        assert_eq!(both.registration(), Registration::Open);
        let seen: Vec<_> =
            both.oidc.iter().map(|(name, one)| (name.as_str(), one.issuer.as_str(), one.role)).collect();
        assert_eq!(seen, [("a", "https://b", None), ("c", "https://c", None)]);
    }
}
