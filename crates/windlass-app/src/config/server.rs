//! `[server]`: where the server listens and who may come.

use std::collections::BTreeMap;
use std::net::SocketAddr;

use http::Uri;
use serde::Deserialize;

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
    pub public_urls: Vec<String>,
    /// Origins of pages elsewhere that may use the server.
    pub cors: Vec<String>,
    /// Who may register: `open`, `invite`, `closed`.
    pub registration: Option<Registration>,
    /// Providers that people sign in by, by the name in their address.
    pub oidc: BTreeMap<String, OidcFile>,
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
        let first = |own: Vec<String>, below| if own.is_empty() { below } else { own };
        Self {
            listen: self.listen.or(weaker.listen),
            public_urls: first(self.public_urls, weaker.public_urls),
            cors: first(self.cors, weaker.cors),
            registration: self.registration.or(weaker.registration),
            // A provider as a whole: half of one with half of another would be a third.
            oidc: weaker.oidc.into_iter().chain(self.oidc).collect(),
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
        self.public_urls.iter().map(read).collect()
    }
}
