//! HTTP for the transports: headers requested before each call, one retry after 401, tokens of a sign-in, and a mode
//! with POST only.
//!
//! A request that may have reached the server is not repeated, except after 401, which
//! means that the server did not execute it.

use std::collections::HashMap;
use std::net::IpAddr;
use std::panic::AssertUnwindSafe;
use std::sync::Arc;

use futures::stream::BoxStream;
use futures::{FutureExt, StreamExt};
use http::header::{AUTHORIZATION, HeaderName, HeaderValue};
use reqwest::{StatusCode, Url};
use rmcp::model::{ClientJsonRpcMessage, ServerJsonRpcMessage};
use rmcp::transport::streamable_http_client::{
    SseError, StreamableHttpClient, StreamableHttpError, StreamableHttpPostResponse,
};
use sse_stream::Sse;
use windlass_outbound::{Host, Outbound, Ports, Reach, Refusal, Resolver};

use crate::config::{self, HeadersFor, HeadersProvider};
use crate::health::Log;
use crate::mask::{Masks, is_secret_name};
use crate::oauth::SignIn;
use crate::wire::events::{MAX_EVENT_BYTES, request_id, with_errors};

/// Creates the outbound client for one server: the program's rules, plus
/// the addresses that the operator configured.
pub(crate) fn way_to(
    http: &config::Http,
    rules: &Reach,
    resolver: Arc<dyn Resolver>,
) -> Result<Outbound, String> {
    let url = Url::parse(&http.url).map_err(|error| error.to_string())?;
    let host = url.host_str().unwrap_or_default().trim_start_matches('[').trim_end_matches(']');
    let own: Host = host.parse()?;
    let mut rules = rules.clone();
    if http.named {
        if !rules.allow_hosts.is_empty() {
            rules.allow_hosts.push(own.clone());
        }
        rules.internal_hosts.push(own);
    }
    // A local server of a developer may use an authorization server on the same host, at any port.
    let is_local = host == "localhost" || host.parse::<IpAddr>().is_ok_and(|address| address.is_loopback());
    if is_local && http.named {
        rules.ports = Ports::Any;
    }
    let way = Outbound::with_resolver(rules, resolver);
    way.reach().judge(&url, url.port().filter(|_| http.named)).map_err(|refusal| refusal.to_string())?;
    // Any configured header may identify the caller.
    let says_who = !http.headers.is_empty()
        || http.headers_provider.is_some()
        || http.oauth.is_some()
        || url.query_pairs().any(|(name, _)| is_secret_name(&name));
    if says_who && url.scheme() == "http" && !way.reach().is_inside(&url) {
        return Err(Refusal::Clear { host: host.to_owned() }.to_string());
    }
    Ok(way)
}

type Failure = StreamableHttpError<reqwest::Error>;
type Headers = HashMap<HeaderName, HeaderValue>;

/// The HTTP client of one server.
#[derive(Clone)]
pub(crate) struct ServerHttp {
    pub http: reqwest::Client,
    pub own: Arc<OwnHeaders>,
    pub sign_in: Option<Arc<SignIn>>,
    pub post_only: bool,
    pub log: Arc<Log>,
}

/// The headers of a server's requests.
pub(crate) struct OwnHeaders {
    fixed: Vec<(HeaderName, HeaderValue)>,
    provider: Option<Arc<dyn HeadersProvider>>,
    masks: Arc<Masks>,
}

impl OwnHeaders {
    /// Parses the headers. The error names the header, never its value.
    pub fn new(http: &config::Http, masks: Arc<Masks>) -> Result<Self, String> {
        Ok(Self { fixed: config::headers(&http.headers)?, provider: http.headers_provider.clone(), masks })
    }

    /// Returns the headers of the next request.
    pub async fn now(&self, why: HeadersFor) -> Result<Vec<(HeaderName, HeaderValue)>, String> {
        let mut headers = self.fixed.clone();
        if let Some(provider) = &self.provider {
            // The provider is code of the host program and may panic. A panic fails this request and not the server's
            // task.
            let given = AssertUnwindSafe(provider.headers(why)).catch_unwind().await;
            let given = given.map_err(|_| "the provider of its headers panicked".to_owned())??;
            // Values from a provider are always treated as secret.
            self.masks.remember(given.iter().map(|(_, value)| value.as_str()));
            let given = config::headers(&given)?;
            // The provider's headers override the fixed ones.
            headers.retain(|(name, _)| given.iter().all(|(other, _)| other != name));
            headers.extend(given);
        }
        Ok(headers)
    }

    pub fn can_refresh(&self) -> bool {
        self.provider.is_some()
    }
}

impl ServerHttp {
    /// Sends a request. If the server refuses it, retries once with fresh headers or a fresh token.
    pub async fn reacting<T, F>(
        &self,
        headers: Headers,
        request: impl Fn(Option<String>, Headers) -> F,
    ) -> Result<T, Failure>
    where
        F: Future<Output = Result<T, Failure>>,
    {
        let token = match &self.sign_in {
            Some(sign_in) => sign_in.token().await?,
            None => None,
        };
        let first = request(token.clone(), self.with_own(headers.clone(), HeadersFor::Request).await?).await;
        let refused = match first {
            Err(refused) if is_unauthorized(&refused) => refused,
            other => return self.remembering(other),
        };
        let fresh = match (&self.sign_in, &token) {
            (Some(sign_in), Some(sent)) => sign_in.fresh_token(sent).await?,
            (Some(_), None) | (None, _) => None,
        };
        if fresh.is_none() && !self.own.can_refresh() {
            return self.remembering(Err(refused));
        }
        let again = request(fresh.or(token), self.with_own(headers, HeadersFor::Refused).await?).await;
        self.remembering(again)
    }

    /// Remembers the challenge of a response that requires a sign-in.
    fn remembering<T>(&self, answer: Result<T, Failure>) -> Result<T, Failure> {
        let challenge = match &answer {
            Err(Failure::AuthRequired(refused)) => Some(&refused.www_authenticate_header),
            Err(Failure::InsufficientScope(refused)) => Some(&refused.www_authenticate_header),
            Ok(_) | Err(_) => None,
        };
        if let (Some(sign_in), Some(challenge)) = (&self.sign_in, challenge) {
            sign_in.challenged(challenge);
        }
        answer
    }

    async fn with_own(&self, mut headers: Headers, why: HeadersFor) -> Result<Headers, Failure> {
        let own = self.own.now(why).await.map_err(|why| Failure::Io(std::io::Error::other(why)))?;
        headers.extend(own);
        if self.sign_in.is_some() {
            headers.remove(&AUTHORIZATION);
        }
        Ok(headers)
    }
}

/// Whether the server answered 401, with or without a challenge.
pub(crate) fn is_unauthorized(failure: &Failure) -> bool {
    match failure {
        Failure::AuthRequired(_) => true,
        Failure::Client(error) => error.status() == Some(StatusCode::UNAUTHORIZED),
        Failure::UnexpectedServerResponse(text) => text.starts_with("HTTP 401"),
        _ => false,
    }
}

impl StreamableHttpClient for ServerHttp {
    type Error = reqwest::Error;

    async fn post_message(
        &self,
        uri: Arc<str>,
        message: ClientJsonRpcMessage,
        session: Option<Arc<str>>,
        auth: Option<String>,
        headers: Headers,
    ) -> Result<StreamableHttpPostResponse, Failure> {
        self.post_message_with_max_sse_event_size(uri, message, session, auth, headers, MAX_EVENT_BYTES).await
    }

    async fn post_message_with_max_sse_event_size(
        &self,
        uri: Arc<str>,
        message: ClientJsonRpcMessage,
        session: Option<Arc<str>>,
        _auth: Option<String>,
        headers: Headers,
        max_event_bytes: usize,
    ) -> Result<StreamableHttpPostResponse, Failure> {
        let session = session.filter(|_| !self.post_only);
        let asked = request_id(&message);
        let response = self
            .reacting(headers, |token, headers| {
                let (uri, message, session) = (uri.clone(), message.clone(), session.clone());
                async move {
                    let http = &self.http;
                    http.post_message_with_max_sse_event_size(
                        uri,
                        message,
                        session,
                        token,
                        headers,
                        max_event_bytes,
                    )
                    .await
                }
            })
            .await?;
        let response = match response {
            StreamableHttpPostResponse::Sse(events, session) => {
                StreamableHttpPostResponse::Sse(with_errors(events, asked, self.log.clone()), session)
            }
            other => other,
        };
        if self.post_only { whole(response).await } else { Ok(response) }
    }

    async fn delete_session(
        &self,
        uri: Arc<str>,
        session: Arc<str>,
        _auth: Option<String>,
        headers: Headers,
    ) -> Result<(), Failure> {
        self.reacting(headers, |token, headers| {
            let (uri, session) = (uri.clone(), session.clone());
            async move { self.http.delete_session(uri, session, token, headers).await }
        })
        .await
    }

    async fn get_stream(
        // tidy: not our name
        &self,
        uri: Arc<str>,
        session: Option<Arc<str>>,
        last_event: Option<String>,
        auth: Option<String>,
        headers: Headers,
    ) -> Result<BoxStream<'static, Result<Sse, SseError>>, Failure> {
        self.get_stream_with_max_sse_event_size(uri, session, last_event, auth, headers, MAX_EVENT_BYTES)
            .await
    }

    async fn get_stream_with_max_sse_event_size(
        // tidy: not our name
        &self,
        uri: Arc<str>,
        session: Option<Arc<str>>,
        last_event: Option<String>,
        _auth: Option<String>,
        headers: Headers,
        max_event_bytes: usize,
    ) -> Result<BoxStream<'static, Result<Sse, SseError>>, Failure> {
        if self.post_only {
            return Err(Failure::ServerDoesNotSupportSse);
        }
        let events = self
            .reacting(headers, |token, headers| {
                let (uri, session, last_event) = (uri.clone(), session.clone(), last_event.clone());
                async move {
                    let http = &self.http;
                    http.get_stream_with_max_sse_event_size(
                        uri,
                        session,
                        last_event,
                        token,
                        headers,
                        max_event_bytes,
                    )
                    .await
                }
            })
            .await?;
        Ok(with_errors(events, None, self.log.clone()))
    }
}

/// Reduces the response of a POST: only the response to the request is
/// used from a stream, and no session is kept.
async fn whole(response: StreamableHttpPostResponse) -> Result<StreamableHttpPostResponse, Failure> {
    match response {
        StreamableHttpPostResponse::Json(message, _) => Ok(StreamableHttpPostResponse::Json(message, None)),
        StreamableHttpPostResponse::Sse(mut events, _) => {
            while let Some(event) = events.next().await {
                let data = event?.data.unwrap_or_default();
                if data.trim().is_empty() {
                    continue;
                }
                let message: ServerJsonRpcMessage = serde_json::from_str(&data)?;
                if matches!(message, ServerJsonRpcMessage::Response(_) | ServerJsonRpcMessage::Error(_)) {
                    return Ok(StreamableHttpPostResponse::Json(message, None));
                }
            }
            Err(Failure::UnexpectedEndOfStream)
        }
        other => Ok(other),
    }
}
