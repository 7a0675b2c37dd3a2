//! `[server]`: where the server listens and who may come.

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
    /// The address to listen at.
    pub listen: Option<SocketAddr>,
    /// The addresses that people reach the server by.
    pub public_urls: Option<Vec<String>>,
    /// Origins of pages elsewhere that may use the server.
    pub cors: Option<Vec<String>>,
    /// Proxies whose word counts on who asks and by which scheme.
    pub proxies: Option<Vec<Range>>,
    /// Systems inside that integrations may call, beside what is public and speaks https.
    pub internal_hosts: Option<Vec<Host>>,
    /// Whether administrators may add tool servers that are programs, which then run on this machine.
    pub mcp_commands: Option<bool>,
    /// The certificate, where the server speaks TLS itself.
    pub tls: Option<TlsFile>,
    /// What reads the metrics from elsewhere, beside administrators.
    pub metrics_token: Option<Reference>,
    /// What the server bears.
    pub limits: ServerLimits,
    /// Who may register: `open`, `invite`, `closed`.
    pub registration: Option<Registration>,
    /// The model that makes titles of new conversations.
    pub title_model: TitleModel,
    /// The interfaces of other products that are served beside the API.
    pub dialect: DialectsFile,
    /// Providers that people sign in by, by the name in their address.
    pub oidc: BTreeMap<String, OidcFile>,
}

/// `title_model`: which model makes titles of new conversations.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(from = "String")]
pub enum TitleModel {
    /// The one that the first run has.
    #[default]
    Runs,
    /// This one.
    Named(ModelName),
    /// None (`"none"`): a title is the first words of the first message.
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

    /// The model that the settings name.
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
    /// The provider's address, exactly as it names itself.
    pub issuer: String,
    /// What the provider calls this server.
    pub client_id: String,
    /// The client's secret, by reference; none for a public client.
    pub client_secret: Option<Reference>,
    /// What is asked for beside `openid`; `email` and `profile` unless something else is said.
    pub scopes: Option<Vec<String>>,
    /// Domains of verified addresses that new accounts may have; none named means any.
    #[serde(default)]
    pub domains: Vec<String>,
    /// What new accounts may do; without it nobody gets an account by signing in.
    pub role: Option<Role>,
    /// The workspace; the first one unless something else is said.
    pub workspace: Option<String>,
    /// Whether whoever has the verified address of an account gets that account.
    #[serde(default)]
    pub link_by_email: bool,
}

impl ServerFile {
    /// This layer over a weaker one, key by key.
    pub fn over(self, weaker: Self) -> Self {
        Self {
            listen: self.listen.or(weaker.listen),
            public_urls: self.public_urls.or(weaker.public_urls),
            cors: self.cors.or(weaker.cors),
            registration: self.registration.or(weaker.registration),
            title_model: self.title_model.or(weaker.title_model),
            // A provider as a whole: half of one with half of another would be a third.
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

    /// Who may register.
    pub fn registration(&self) -> Registration {
        self.registration.unwrap_or_default()
    }

    /// The addresses that people reach the server by.
    pub fn public_urls(&self) -> Result<Vec<Uri>, Trouble> {
        let read = |url: &String| {
            let uri =
                url.parse::<Uri>().ok().filter(|uri| uri.scheme().is_some() && uri.authority().is_some());
            uri.ok_or_else(|| {
                Trouble::usage(format!("`{url}` in `[server] public_urls` is no address"))
                    .hint("write it as `https://agents.example.com`")
            })
        };
        self.public_urls.iter().flatten().map(read).collect()
    }

    /// Rejects providers without a working sign-in, and limits of dialects that are out of range.
    pub fn check(&self) -> Result<(), Trouble> {
        self.dialect.check()?;
        if let Some(name) = self.oidc.keys().next()
            && !cfg!(feature = "openid")
        {
            return Err(Trouble::usage(format!(
                "`[server.oidc.{name}]`: this build has no sign-in by OpenID Connect"
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
            return Err(Trouble::usage(format!("`{place}`: the name stands in an address"))
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
                "`{place}.issuer` is `{}`, which is no https address",
                self.issuer
            ))
            .hint("write the issuer exactly as the provider's description names it"));
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
    fn a_provider_nobody_could_sign_in_by_is_refused() {
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
        `server.oidc.a.issuer` is `http://id.example.com`, which is no https address
        `server.oidc.a.issuer` is `id`, which is no https address
        `server.oidc.a/b`: the name stands in an address
        a secret must not stand in a file; write `env:NAME` or `file:PATH`, which say where it is
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
