//! Requests to a provider: TLS or this machine, no redirects, some seconds, bounded answers.

use std::time::Duration;

use futures::StreamExt;
use http::Uri;
use openidconnect::{HttpRequest, HttpResponse};

/// How long a request may take in all.
const WITHIN: Duration = Duration::from_secs(10);
/// Largest answer, in bytes: descriptions and keys have some KiB.
const ANSWER_MAX_BYTES: usize = 1024 * 1024;

/// Why a request to a provider failed.
#[derive(Debug, thiserror::Error)]
pub enum FetchError {
    /// It would go over the network in clear, or lead from a provider elsewhere to this machine.
    #[error("`{0}` is not https, or on this machine while the provider is not")]
    Clear(String),
    /// It failed on the way.
    #[error("the request failed")]
    Request(#[from] reqwest::Error),
    /// There is no end to it.
    #[error("the answer is larger than {ANSWER_MAX_BYTES} bytes")]
    TooLarge,
    /// It is no answer.
    #[error("the answer cannot be read")]
    Answer(#[from] http::Error),
}

/// The client that requests to providers go through.
pub fn client() -> reqwest::Result<reqwest::Client> {
    // A redirect could lead anywhere behind our network, and take the client's secret along.
    let client = reqwest::Client::builder().redirect(reqwest::redirect::Policy::none()).timeout(WITHIN);
    // Nothing here goes by a proxy of the environment, which would see codes and secrets.
    client.no_proxy().build()
}

/// Whether an address is on this machine.
fn is_here(uri: &Uri) -> bool {
    uri.host().is_some_and(|host| {
        let host = host.trim_start_matches('[').trim_end_matches(']');
        host == "localhost" || host.parse::<std::net::IpAddr>().is_ok_and(|address| address.is_loopback())
    })
}

/// Whether a provider may name an address: by TLS, or on this machine if the provider itself is there. One elsewhere does
/// not lead to what listens here.
fn may_call(issuer: &str, uri: &Uri) -> bool {
    let is_local = issuer.parse::<Uri>().is_ok_and(|issuer| is_here(&issuer));
    if is_here(uri) { is_local } else { uri.scheme_str() == Some("https") }
}

/// Sends a request to a provider, or to where its description leads, and reads the answer.
pub async fn fetch(
    client: reqwest::Client,
    issuer: String,
    request: HttpRequest,
) -> Result<HttpResponse, FetchError> {
    let uri = request.uri();
    if !may_call(&issuer, uri) {
        return Err(FetchError::Clear(uri.to_string()));
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
        for uri in
            ["http://id.example.com/jwks", "http://127.0.0.1:2375/x", "https://[::1]/x", "http://localhost/x"]
        {
            assert!(!may(far, uri), "{uri}");
        }
        assert!(!may(near, "http://id.example.com/jwks"));
    }
}
