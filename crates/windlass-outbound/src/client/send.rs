//! A request on its way: judged, sent, followed through redirects, its answer bounded.
//!
//! It repeats nothing, and it does not know what the answer is for.

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

/// How long a connection may take to come about: TLS over a slow line takes some seconds.
const CONNECT_WITHIN: Duration = Duration::from_secs(10);
/// How long a connection that nobody uses is kept.
const IDLE: Duration = Duration::from_secs(30);
/// Connections to one host that are kept for the next request.
const IDLE_PER_HOST: usize = 4;

/// What a request may cost.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// Time in all, redirects and body included.
    pub within: Duration,
    /// Bytes of the answer's body, unpacked; what is beyond is not read.
    pub max_bytes: usize,
}

impl Default for Limits {
    fn default() -> Self {
        Self { within: Duration::from_secs(30), max_bytes: 1024 * 1024 }
    }
}

/// A request.
#[derive(Clone)]
pub struct Request {
    /// The method.
    pub method: Method,
    /// Where it goes.
    pub url: Url,
    /// Headers. Those that say who asks belong into `credentials`.
    pub headers: HeaderMap,
    /// Headers that are sent to the origin of `url` alone, over TLS or inside.
    pub credentials: HeaderMap,
    /// The body.
    pub body: Option<Bytes>,
    /// What it may cost.
    pub limits: Limits,
    /// What is done about redirects.
    pub redirects: Redirects,
    /// A port that is called although [`Reach::ports`] does not have it: whoever configured the system wrote it.
    pub named_port: Option<u16>,
}

impl Request {
    /// A request without anything beside its address.
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

/// An answer.
#[derive(Clone, Debug)]
pub struct Response {
    /// Where it came from, redirects followed.
    pub url: Url,
    /// Its status.
    pub status: StatusCode,
    /// Its headers.
    pub headers: HeaderMap,
    /// Its body, as far as it came.
    pub body: Body,
}

impl Response {
    /// Where it leads to, where it is a redirect that was not followed.
    pub fn leads_to(&self) -> Option<Url> {
        target(&self.url, self.status, &self.headers)
    }
}

/// The way out: rules, and a client that keeps to them.
#[derive(Clone)]
pub struct Outbound {
    shared: Arc<Shared>,
}

struct Shared {
    /// Built when it is first needed: it reads and parses the system's certificates, which takes longer than all else
    /// that a command does which calls no other system.
    http: OnceLock<reqwest::Client>,
    resolver: Arc<dyn Resolver>,
    reach: Arc<Reach>,
}

impl Outbound {
    /// A way out by these rules.
    pub fn new(reach: Reach) -> Self {
        Self::with_resolver(reach, Arc::new(SystemResolver))
    }

    /// The same with names looked up elsewhere.
    pub fn with_resolver(reach: Reach, resolver: Arc<dyn Resolver>) -> Self {
        Self { shared: Arc::new(Shared { http: OnceLock::new(), resolver, reach: Arc::new(reach) }) }
    }

    /// Which systems it calls.
    pub fn reach(&self) -> &Reach {
        &self.shared.reach
    }

    /// The client behind the rules, for protocols that need streams. It follows no redirect, and reaches no name whose
    /// address is refused; an address that is typed has to be judged before it is handed over.
    ///
    /// # Errors
    /// If the client cannot be built, for example because the system has no certificates.
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
            why: format!("the HTTP client cannot be built: {}", cause(&error)),
        })?;
        // Two first requests at once build two clients; both use the one that is stored.
        Ok(http.get_or_init(|| built).clone())
    }

    /// Reads an address and judges it as far as it can be judged before it is called.
    pub fn target(&self, text: &str) -> Result<Url, Refusal> {
        let url = Url::parse(text).map_err(|error| Refusal::Unreadable {
            text: text.chars().take(200).collect(),
            why: error.to_string(),
        })?;
        self.shared.reach.judge(&url, None)?;
        Ok(url)
    }

    /// Sends a request. Once there is a head of an answer, whatever comes of its body, there is an answer; an error
    /// says that there is none.
    pub async fn send(&self, request: Request) -> Result<Response, OutboundError> {
        let Request { method, url, headers, credentials, body, limits, redirects, named_port } = request;
        let mut travel = Travel { method, url, headers, credentials, body };
        let named = named_port.zip(plain(&travel.url));
        let mut alarm = pin!(tokio::time::sleep(limits.within));
        let mut hops = 0;
        loop {
            let host = plain(&travel.url).unwrap_or_default();
            // The port that was written down is that of one host.
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
                travel.go_on(status, to);
                continue;
            }
            let unpacker = Unpacker::new(&travel.method, status, &headers, limits.max_bytes);
            let body = read(response, unpacker, &limits, alarm).await;
            return Ok(Response { url: travel.url, status, headers, body });
        }
    }

    /// Sends one request and waits for the head of its answer.
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
                // How far it came is not known: it is polled before the alarm is.
                sent: Sent::Perhaps,
            }),
        }
    }
}

/// What the other side is told of who asks.
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
                unpacker.fail(format!("it took longer than {} ms", limits.within.as_millis()));
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

/// Why a request failed: what a rule of ours says of an address comes back from deep inside the client.
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

/// What lies at the bottom of an error. The words above it repeat the address, which may hold what must not be shown.
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

/// Where an address leads, for people: without its path, user and query, which may carry what must not be shown.
fn shown(url: &Url) -> String {
    url.origin().ascii_serialization()
}
