//! Requests to a provider: TLS or this machine, no redirects, some seconds, bounded answers.

use std::time::Duration;

use futures::StreamExt;
use openidconnect::{HttpRequest, HttpResponse};

/// How long a request may take in all.
const WITHIN: Duration = Duration::from_secs(10);
/// Largest answer, in bytes: descriptions and keys have some KiB.
const ANSWER_MAX_BYTES: usize = 1024 * 1024;

/// Why a request to a provider failed.
#[derive(Debug, thiserror::Error)]
pub enum FetchError {
    /// It would go over the network in clear.
    #[error("`{0}` is neither https nor on this machine")]
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
    reqwest::Client::builder().redirect(reqwest::redirect::Policy::none()).timeout(WITHIN).build()
}

/// Sends a request and reads the answer.
pub async fn fetch(client: reqwest::Client, request: HttpRequest) -> Result<HttpResponse, FetchError> {
    let uri = request.uri();
    let here = uri.host().is_some_and(|host| {
        let host = host.trim_start_matches('[').trim_end_matches(']');
        host == "localhost" || host.parse::<std::net::IpAddr>().is_ok_and(|address| address.is_loopback())
    });
    if uri.scheme_str() != Some("https") && !here {
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
