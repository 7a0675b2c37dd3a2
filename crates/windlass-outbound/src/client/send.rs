//! Sends a request: checks it against the rules, follows redirects, and limits the response.
//!
//! The module retries no request and does not interpret the response.

use std::error::Error as _;
use std::future::Future;
use std::pin::{Pin, pin};
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use bytes::Bytes;
use http::header::{ACCEPT_ENCODING, USER_AGENT};
use http::{HeaderMap, HeaderValue, Method, StatusCode};
use reqwest::Url;
use reqwest::redirect::Policy;

use super::body::{Body, Unpacker};
use super::error::{OutboundError, Refusal, Sent};
use super::host::plain;
use super::reach::Reach;
use super::redirect::{MAX_REDIRECTS, Redirects, Travel, target};
use super::resolve::{Guarded, Resolver, SystemResolver};

/// Maximum time to connect. TLS over a slow line takes some seconds.
const CONNECT_WITHIN: Duration = Duration::from_secs(10);
/// Maximum time that an idle connection is kept.
const IDLE: Duration = Duration::from_secs(30);
/// Maximum number of idle connections kept per host.
const IDLE_PER_HOST: usize = 4;

/// Limits of a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// Maximum time of the whole request, including redirects and body.
    pub within: Duration,
    /// Maximum size of the decompressed body, in bytes. The rest of a larger body is not read.
    pub max_bytes: usize,
}

impl Default for Limits {
    fn default() -> Self {
        Self { within: Duration::from_secs(30), max_bytes: 1024 * 1024 }
    }
}

/// An HTTP request with its limits.
#[derive(Clone)]
pub struct Request {
    /// The HTTP method.
    pub method: Method,
    /// The URL. The rules check it before it is called.
    pub url: Url,
    /// Headers without credentials. They are sent to redirect targets too.
    pub headers: HeaderMap,
    /// Headers that are sent only to the origin of `url`, and only over TLS or to internal hosts.
    pub credentials: HeaderMap,
    /// The body; `None` if the request has no body.
    pub body: Option<Bytes>,
    /// Limits of time and size.
    pub limits: Limits,
    /// How to handle redirects.
    pub redirects: Redirects,
    /// A port that is allowed in addition to [`Reach::ports`], because the operator configured it.
    pub named_port: Option<u16>,
}

impl Request {
    /// Creates a request without headers and body.
    pub fn new(method: Method, url: Url) -> Self {
        Self {
            method,
            url,
            headers: HeaderMap::new(),
            credentials: HeaderMap::new(),
            body: None,
            limits: Limits::default(),
            redirects: Redirects::default(),
            named_port: None,
        }
    }
}

/// The response to a request.
#[derive(Clone, Debug)]
pub struct Response {
    /// The URL after redirects.
    pub url: Url,
    /// The HTTP status of the last response.
    pub status: StatusCode,
    /// The headers of the last response.
    pub headers: HeaderMap,
    /// The body as far as it was received.
    pub body: Body,
}

impl Response {
    /// Returns the target, if this response is a redirect that was not followed.
    pub fn leads_to(&self) -> Option<Url> {
        target(&self.url, self.status, &self.headers)
    }
}

/// The HTTP client with its rules.
#[derive(Clone)]
pub struct Outbound {
    shared: Arc<Shared>,
}

struct Shared {
    /// Created when it is first needed: the client parses the system's certificates, which takes longer than
    /// a whole command that sends no request.
    http: OnceLock<reqwest::Client>,
    resolver: Arc<dyn Resolver>,
    reach: Arc<Reach>,
}

impl Outbound {
    /// Creates a client with these rules and the system's resolver.
    pub fn new(reach: Reach) -> Self {
        Self::with_resolver(reach, Arc::new(SystemResolver))
    }

    /// Creates a client with another resolver.
    pub fn with_resolver(reach: Reach, resolver: Arc<dyn Resolver>) -> Self {
        Self { shared: Arc::new(Shared { http: OnceLock::new(), resolver, reach: Arc::new(reach) }) }
    }

    /// Returns the rules of this client.
    pub fn reach(&self) -> &Reach {
        &self.shared.reach
    }

    /// Returns the inner client, for protocols that need streams. The inner client follows no redirect and
    /// rejects names with forbidden addresses. The caller must check literal addresses.
    ///
    /// # Errors
    /// Fails if the client cannot be created, for example because the system has no certificates.
    pub fn client(&self) -> Result<reqwest::Client, OutboundError> {
        let Shared { http, resolver, reach } = &*self.shared;
        if let Some(client) = http.get() {
            return Ok(client.clone());
        }
        let guarded = Guarded { resolver: resolver.clone(), reach: reach.clone() };
        let built = reqwest::Client::builder()
            .redirect(Policy::none())
            .no_proxy()
            .referer(false)
            .dns_resolver(Arc::new(guarded))
            .connect_timeout(CONNECT_WITHIN)
            .pool_idle_timeout(IDLE)
            .pool_max_idle_per_host(IDLE_PER_HOST)
            .build();
        let built = built.map_err(|error| OutboundError::Unreachable {
            host: "any host".to_owned(),
            why: format!("cannot build the HTTP client: {}", cause(&error)),
        })?;
        // Concurrent first requests create two clients; both use the one that is stored.
        Ok(http.get_or_init(|| built).clone())
    }

    /// Parses a URL and checks it before its name is resolved.
    pub fn target(&self, text: &str) -> Result<Url, Refusal> {
        let url = Url::parse(text).map_err(|error| Refusal::Unreadable {
            text: text.chars().take(200).collect(),
            why: error.to_string(),
        })?;
        self.shared.reach.judge(&url, None)?;
        Ok(url)
    }

    /// Sends a request. Once the head of a response has arrived, returns the response even if the body fails.
    /// An error means that no response arrived.
    pub async fn send(&self, request: Request) -> Result<Response, OutboundError> {
        let Request { method, url, headers, credentials, body, limits, redirects, named_port } = request;
        let mut travel = Travel { method, url, headers, credentials, body };
        let named = named_port.zip(plain(&travel.url));
        let mut alarm = pin!(tokio::time::sleep(limits.within));
        let mut hops = 0;
        loop {
            let host = plain(&travel.url).unwrap_or_default();
            // The configured port is allowed for this host only.
            let port = named.as_ref().filter(|(_, named)| *named == host).map(|(port, _)| *port);
            let response = self.head(&travel, &host, port, &limits, alarm.as_mut()).await?;
            let (status, headers) = (response.status(), response.headers().clone());
            if let (Redirects::Follow(check), Some(to)) = (&redirects, target(&travel.url, status, &headers))
                && check(&travel.url, &to)
            {
                hops += 1;
                if hops > MAX_REDIRECTS {
                    return Err(OutboundError::Redirects { max: MAX_REDIRECTS, to: shown(&to) });
                }
                travel.follow_redirect(status, to);
                continue;
            }
            let unpacker = Unpacker::new(&travel.method, status, &headers, limits.max_bytes);
            let body = read(response, unpacker, &limits, alarm).await;
            return Ok(Response { url: travel.url, status, headers, body });
        }
    }

    /// Sends one request and waits for the head of the response.
    async fn head(
        &self,
        travel: &Travel,
        host: &str,
        port: Option<u16>,
        limits: &Limits,
        alarm: Pin<&mut impl Future<Output = ()>>,
    ) -> Result<reqwest::Response, OutboundError> {
        self.shared.reach.judge(&travel.url, port)?;
        let is_clear = travel.url.scheme() == "http" && !self.shared.reach.is_inside(&travel.url);
        if is_clear && !travel.credentials.is_empty() {
            return Err(Refusal::Clear { host: host.to_owned() }.into());
        }
        let mut headers = travel.headers.clone();
        for (name, value) in &travel.credentials {
            let mut value = value.clone();
            value.set_sensitive(true);
            headers.insert(name.clone(), value);
        }
        headers.insert(ACCEPT_ENCODING, HeaderValue::from_static("gzip"));
        headers.entry(USER_AGENT).or_insert(HeaderValue::from_static(AGENT));
        let mut request = self.client()?.request(travel.method.clone(), travel.url.clone()).headers(headers);
        if let Some(body) = &travel.body {
            request = request.body(body.clone());
        }
        tokio::select! {
            biased;
            answered = request.send() => answered.map_err(|error| failed(host, &error)),
            () = alarm => Err(OutboundError::Timeout {
                host: host.to_owned(),
                within_ms: limits.within.as_millis() as u64,
                // The request is polled before the timer, so it is unknown whether the request was sent.
                sent: Sent::Perhaps,
            }),
        }
    }
}

/// The `User-Agent` header.
const AGENT: &str = concat!("windlass/", env!("CARGO_PKG_VERSION"));

async fn read(
    mut response: reqwest::Response,
    mut unpacker: Unpacker,
    limits: &Limits,
    mut alarm: Pin<&mut impl Future<Output = ()>>,
) -> Body {
    while !unpacker.is_done() {
        let chunk = tokio::select! {
            biased;
            chunk = response.chunk() => chunk,
            () = alarm.as_mut() => {
                unpacker.fail(format!("it exceeded the time limit of {} ms", limits.within.as_millis()));
                break;
            }
        };
        match chunk {
            Ok(Some(chunk)) => unpacker.push(&chunk),
            Ok(None) => break,
            Err(error) => unpacker.fail(cause(&error)),
        }
    }
    unpacker.finish()
}

/// Converts a failure. The client's error contains a rejection by the rules as a deeply nested cause.
fn failed(host: &str, error: &reqwest::Error) -> OutboundError {
    let mut source = error.source();
    while let Some(inner) = source {
        if let Some(refusal) = inner.downcast_ref::<Refusal>() {
            return OutboundError::Refused(refusal.clone());
        }
        source = inner.source();
    }
    let (host, why) = (host.to_owned(), cause(error));
    if error.is_connect() || error.is_builder() {
        OutboundError::Unreachable { host, why }
    } else {
        OutboundError::Broken { host, why }
    }
}

/// Returns the innermost cause. The outer messages repeat the URL, which may contain secrets.
fn cause(error: &reqwest::Error) -> String {
    let mut bottom: &dyn std::error::Error = error;
    while let Some(inner) = bottom.source() {
        bottom = inner;
    }
    match bottom.downcast_ref::<reqwest::Error>() {
        Some(_) => "the request failed".to_owned(),
        None => bottom.to_string(),
    }
}

/// Returns the origin of a URL, for users. Path, user and query may contain secrets.
fn shown(url: &Url) -> String {
    url.origin().ascii_serialization()
}
