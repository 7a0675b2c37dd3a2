//! HTTP requests to a provider: TLS or loopback only, without redirects, with a timeout and a size limit.

use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;
use std::time::Duration;

use futures::StreamExt;
use openidconnect::{HttpRequest, HttpResponse};
use reqwest::Client;
use reqwest::dns::{Addrs, Name, Resolve, Resolving};
use windlass::outbound::Url;

/// Total timeout of a request.
const WITHIN: Duration = Duration::from_secs(10);
/// Maximum response size, in bytes. Metadata and keys are a few KiB.
const ANSWER_MAX_BYTES: usize = 1024 * 1024;

/// The reason why a request to a provider failed.
#[derive(Debug, thiserror::Error)]
pub enum FetchError {
    /// The request would be unencrypted, or a remote provider's metadata points to this machine.
    #[error("`{0}` does not use https, or is on this machine although the provider is not")]
    Clear(String),
    #[error("the request failed")]
    Request(#[from] reqwest::Error),
    #[error("the response is larger than {ANSWER_MAX_BYTES} bytes")]
    TooLarge,
    /// The response is not valid HTTP.
    #[error("the response is not valid HTTP")]
    Answer(#[from] http::Error),
}

/// HTTP clients for requests to providers.
#[derive(Debug)]
pub struct Clients {
    /// For providers on this machine.
    local: Client,
    /// For all other providers; resolves no name to this machine.
    remote: Client,
}

impl Clients {
    pub fn new() -> reqwest::Result<Self> {
        let builder = || {
            // A redirect could lead to our internal network and forward the client secret.
            let builder = Client::builder().redirect(reqwest::redirect::Policy::none()).timeout(WITHIN);
            // Ignore proxies from the environment: they would see codes and secrets.
            builder.no_proxy()
        };
        let remote = builder().dns_resolver(Arc::new(Elsewhere)).build()?;
        Ok(Self { local: builder().build()?, remote })
    }

    pub fn of(&self, issuer: &str) -> Client {
        if is_local(issuer) { self.local.clone() } else { self.remote.clone() }
    }
}

/// A resolver that returns only addresses that are not on this machine.
struct Elsewhere;

impl Resolve for Elsewhere {
    fn resolve(&self, name: Name) -> Resolving {
        Box::pin(async move {
            let all = tokio::net::lookup_host((name.as_str(), 0)).await?;
            let found: Vec<SocketAddr> = all.filter(|address| !is_own(address.ip())).collect();
            if found.is_empty() {
                return Err(format!("`{}` is on this machine, but the provider is not", name.as_str()).into());
            }
            let found: Addrs = Box::new(found.into_iter());
            Ok(found)
        })
    }
}

/// Returns whether a connection to an address stays on this machine. The unspecified address connects to loopback.
fn is_own(address: IpAddr) -> bool {
    let address = address.to_canonical();
    address.is_loopback() || address.is_unspecified()
}

/// Returns whether a URL's host is a literal address or name of this machine.
fn is_here(url: &Url) -> bool {
    // The URL parser has normalized all notations of an IP address, such as `127.1`.
    let host = url.host_str().unwrap_or_default();
    let host = host.trim_start_matches('[').trim_end_matches(']').trim_end_matches('.');
    host == "localhost" || host.ends_with(".localhost") || host.parse().is_ok_and(is_own)
}

fn is_local(issuer: &str) -> bool {
    Url::parse(issuer).is_ok_and(|issuer| is_here(&issuer))
}

/// Returns whether a provider's metadata may name a URL. The URL needs TLS, or may be on this machine if the provider
/// is on this machine, too. A remote provider must not direct requests to local services. [`Clients`] reject names that
/// resolve to this machine.
fn may_call(issuer: &str, url: &Url) -> bool {
    if is_here(url) { is_local(issuer) } else { url.scheme() == "https" }
}

/// Sends a request to a provider, or to a URL of its metadata, and reads the response.
pub async fn fetch(client: Client, issuer: String, request: HttpRequest) -> Result<HttpResponse, FetchError> {
    let uri = request.uri().to_string();
    if !Url::parse(&uri).is_ok_and(|url| may_call(&issuer, &url)) {
        return Err(FetchError::Clear(uri));
    }
    let response = client.execute(request.try_into()?).await?;
    let mut answer = http::Response::builder().status(response.status());
    for (name, value) in response.headers() {
        answer = answer.header(name, value);
    }
    let mut body = Vec::new();
    let mut chunks = response.bytes_stream();
    while let Some(chunk) = chunks.next().await {
        let chunk = chunk?;
        if body.len() + chunk.len() > ANSWER_MAX_BYTES {
            return Err(FetchError::TooLarge);
        }
        body.extend_from_slice(&chunk);
    }
    Ok(answer.body(body)?)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_provider_elsewhere_does_not_lead_here() {
        let may = |issuer: &str, uri: &str| may_call(issuer, &uri.parse().unwrap());
        let (far, near) = ("https://id.example.com", "http://127.0.0.1:8080/realm");
        assert!(may(far, "https://keys.example.com/jwks") && may(near, "http://127.0.0.1:8080/jwks"));
        assert!(may(near, "http://localhost:9/x") && may(near, "https://keys.example.com/jwks"));
        for uri in [
            "http://id.example.com/jwks",
            "http://127.0.0.1:2375/x",
            "https://[::1]/x",
            "http://localhost/x",
            "https://127.1/x",
            "https://2130706433/x",
            "https://0x7f.1/x",
            "https://0.0.0.0/x",
            "https://[::]/x",
            "https://[::ffff:127.0.0.1]/x",
            "https://localhost./x",
            "https://a.localhost/x",
        ] {
            assert!(!may(far, uri), "{uri}");
        }
        assert!(!may(near, "http://id.example.com/jwks"));
    }

    #[tokio::test]
    async fn a_name_of_this_machine_does_not_resolve_for_a_provider_elsewhere() {
        // For the resolver, `localhost` is an ordinary name; the hosts file defines its address.
        let found = Elsewhere.resolve("localhost".parse().unwrap()).await;
        assert_eq!(
            found.map(|_| ()).unwrap_err().to_string(),
            "`localhost` is on this machine, but the provider is not"
        );
    }
}
