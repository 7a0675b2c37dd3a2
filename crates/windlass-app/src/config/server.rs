//! `[server]`: where the server listens and who may come.

use std::net::SocketAddr;

use http::Uri;
use serde::Deserialize;

use super::operate::{Range, ServerLimits, TlsFile};
use super::reference::Reference;
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
    /// Proxies whose word counts on who asks and by which scheme.
    pub proxies: Vec<Range>,
    /// The certificate, where the server speaks TLS itself.
    pub tls: Option<TlsFile>,
    /// What reads the metrics from elsewhere, beside administrators.
    pub metrics_token: Option<Reference>,
    /// What the server bears.
    pub limits: ServerLimits,
}

impl ServerFile {
    /// This layer over a weaker one, key by key.
    pub fn over(self, weaker: Self) -> Self {
        let first = |own: Vec<String>, below| if own.is_empty() { below } else { own };
        Self {
            listen: self.listen.or(weaker.listen),
            public_urls: first(self.public_urls, weaker.public_urls),
            cors: first(self.cors, weaker.cors),
            proxies: if self.proxies.is_empty() { weaker.proxies } else { self.proxies },
            tls: self.tls.or(weaker.tls),
            metrics_token: self.metrics_token.or(weaker.metrics_token),
            limits: self.limits.over(weaker.limits),
        }
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
