//! Connects to a server once: transport, handshake and list of tools.
//!
//! Both protocol revisions are tried. A server that supports `server/discover` is used without a session, an
//! older one with `initialize`. The supervisor retries failed connections.

use std::error::Error;
use std::sync::Arc;
use std::time::Duration;

use rmcp::model::ProtocolVersion;
use rmcp::service::{ClientInitializeError, RunningService, ServiceError};
use rmcp::transport::common::client_side_sse::ExponentialBackoff;
use rmcp::transport::streamable_http_client::{
    StreamableHttpClientTransport, StreamableHttpClientTransportConfig, StreamableHttpError,
};
use rmcp::{ClientCacheConfig, ClientLifecycleMode, RoleClient, serve_client_with_lifecycle};
use tokio::sync::Notify;

use crate::config::{Http, Transport};
use crate::core::Core;
use crate::core::calls::Calls;
use crate::core::connection::Connection;
use crate::core::handler::Handler;
use crate::list::{self, Listed};
use crate::wire::child::{ChildTransport, End};
use crate::wire::http::{OwnHeaders, ServerHttp, is_unauthorized};
use crate::wire::sse::SseTransport;

/// A new connection with the tasks that keep it open.
pub(crate) struct Opened {
    pub connection: Arc<Connection>,
    pub service: RunningService<RoleClient, Handler>,
    pub listed: Listed,
    pub lists_changed: Arc<Notify>,
    pub end: Arc<End>,
}

/// Why a connection failed.
#[derive(Debug)]
pub(crate) enum Failed {
    /// A sign-in is required.
    SignIn,
    /// The server may respond later.
    Unavailable(String),
    /// The server does not support this revision; the caller should try the other one.
    OtherLifecycle(String),
}

/// The handshake.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Lifecycle {
    /// `server/discover`, or `initialize` if the server does not support it.
    Auto,
    /// `initialize` only.
    Initialize,
}

/// Connects and lists the tools within the connection timeout.
pub(crate) async fn open(core: &Core, lifecycle: Lifecycle) -> Result<Opened, Failed> {
    let limit_ms = core.config.timeouts.connect_ms;
    let end = Arc::new(End::default());
    let opened = tokio::select! {
        biased;
        opened = opened(core, lifecycle, end.clone()) => opened,
        () = core.clock.sleep_ms(limit_ms) => {
            Err(Failed::Unavailable(format!("it did not respond within {limit_ms} ms")))
        }
    };
    match opened {
        Err(Failed::Unavailable(why)) => Err(Failed::Unavailable(core.with_last_words(why, &end).await)),
        Err(Failed::OtherLifecycle(why)) => {
            Err(Failed::OtherLifecycle(core.with_last_words(why, &end).await))
        }
        other => other,
    }
}

async fn opened(core: &Core, lifecycle: Lifecycle, end: Arc<End>) -> Result<Opened, Failed> {
    let (calls, lists_changed) = (Arc::new(Calls::default()), Arc::new(Notify::new()));
    let handler = Handler {
        calls: calls.clone(),
        log: core.log.clone(),
        masks: core.masks.clone(),
        lists_changed: lists_changed.clone(),
        sampling: core.sampling.clone(),
    };
    let mode = match lifecycle {
        Lifecycle::Initialize => ClientLifecycleMode::Initialize,
        Lifecycle::Auto => ClientLifecycleMode::Auto {
            preferred_versions: vec![ProtocolVersion::V_2026_07_28],
            legacy_version: Some(ProtocolVersion::LATEST_WITH_INITIALIZE),
        },
    };
    let service = match &core.config.transport {
        Transport::Stdio(stdio) => {
            let started =
                ChildTransport::start(stdio, core.log.clone(), end.clone(), core.clock.clone()).await;
            let transport = started
                .map_err(|error| Failed::Unavailable(format!("cannot start `{}`: {error}", stdio.command)))?;
            serve_client_with_lifecycle(handler, transport, mode).await
        }
        Transport::Http(http) => {
            let mut config = StreamableHttpClientTransportConfig::with_uri(http.url.as_str());
            // A call that stays open for hours must not block other calls.
            config.max_concurrent_requests = MAX_CONCURRENT_POSTS;
            config.retry_config = Arc::new(resumptions());
            let transport = StreamableHttpClientTransport::with_client(client(core, http)?, config);
            serve_client_with_lifecycle(handler, transport, mode).await
        }
        Transport::Sse(http) => {
            let transport = SseTransport::open(client(core, http)?, &http.url, core.log.clone()).await;
            let transport = transport.map_err(|error| failed_http(&error))?;
            serve_client_with_lifecycle(handler, transport, ClientLifecycleMode::Initialize).await
        }
    };
    let service = service.map_err(|error| failed(&error, lifecycle))?;
    let peer = service.peer().clone();
    let cache = ClientCacheConfig::default().with_serve_stale_on_error(false);
    peer.set_response_cache_config(cache).await;
    let info = peer.peer_info().ok_or_else(|| Failed::Unavailable("it sent no server information".into()))?;
    let listed = if info.capabilities.tools.is_some() {
        list::tools(&peer, &core.masks).await.map_err(|error| failed_service(&error))?
    } else {
        Listed::default()
    };
    let info = Arc::unwrap_or_clone(info);
    let connection = Arc::new(Connection { peer, calls, info, number: core.next_number() });
    Ok(Opened { connection, service, listed, lists_changed, end })
}

/// Maximum number of concurrent requests to one server, for the calls of many runs.
const MAX_CONCURRENT_POSTS: usize = 256;

/// Returns the attempts to resume a broken stream, if the server supports resumption: half a minute in total.
fn resumptions() -> ExponentialBackoff {
    let mut resumptions = ExponentialBackoff::default();
    (resumptions.max_times, resumptions.max_delay) = (Some(5), Some(Duration::from_secs(16)));
    resumptions
}

fn client(core: &Core, http: &Http) -> Result<ServerHttp, Failed> {
    let unavailable = |why: String| Failed::Unavailable(why);
    let way = core.way.as_ref().ok_or_else(|| unavailable("it has no URL".into()))?;
    Ok(ServerHttp {
        http: way.client().map_err(|error| unavailable(error.to_string()))?,
        own: Arc::new(OwnHeaders::new(http, core.masks.clone()).map_err(unavailable)?),
        sign_in: core.sign_in.clone(),
        post_only: http.post_only,
        log: core.log.clone(),
    })
}

/// Classifies a failed handshake.
fn failed(error: &ClientInitializeError, lifecycle: Lifecycle) -> Failed {
    if error.is_authorization_required() || refused_handshake(error) {
        return Failed::SignIn;
    }
    let why = told_handshake(error);
    match error {
        ClientInitializeError::NoCompatibleProtocolVersion { .. }
        | ClientInitializeError::ConnectionClosed(_)
        | ClientInitializeError::ExpectedInitResult(_)
        | ClientInitializeError::JsonRpcError(_)
            if lifecycle == Lifecycle::Auto =>
        {
            Failed::OtherLifecycle(why)
        }
        _ => Failed::Unavailable(why),
    }
}

fn refused_handshake(error: &ClientInitializeError) -> bool {
    match error {
        ClientInitializeError::TransportError { error, .. } => caused_by(&*error.error, is_sign_in),
        ClientInitializeError::LegacyFallbackFailed { fallback, .. } => refused_handshake(fallback),
        _ => false,
    }
}

fn told_handshake(error: &ClientInitializeError) -> String {
    match error {
        // The library includes type names in these messages.
        ClientInitializeError::TransportError { error, .. } => told(&*error.error),
        ClientInitializeError::LegacyFallbackFailed { fallback, .. } => told_handshake(fallback),
        other => told(other),
    }
}

/// Classifies a failed request.
pub(crate) fn failed_service(error: &ServiceError) -> Failed {
    if failed_over_http(error, is_sign_in) {
        return Failed::SignIn;
    }
    Failed::Unavailable(format!("cannot list its tools: {}", told_service(error)))
}

fn failed_http(error: &HttpFailure) -> Failed {
    if is_sign_in(error) { Failed::SignIn } else { Failed::Unavailable(told(error)) }
}

/// A failure of the HTTP transport.
pub(crate) type HttpFailure = StreamableHttpError<reqwest::Error>;

/// Whether the failure requires a sign-in.
pub(crate) fn is_sign_in(error: &HttpFailure) -> bool {
    is_unauthorized(error) || matches!(error, StreamableHttpError::InsufficientScope(_))
}

/// Whether the request was not sent, because a token or a header was unavailable.
pub(crate) fn is_unasked(error: &HttpFailure) -> bool {
    matches!(error, StreamableHttpError::Io(_) | StreamableHttpError::Auth(_))
}

/// Whether the failure is a rate limit.
pub(crate) fn is_too_often(error: &HttpFailure) -> bool {
    status(error) == Some(429)
}

/// Whether the failure is a server error (5xx).
pub(crate) fn is_unserved(error: &HttpFailure) -> bool {
    status(error).is_some_and(|status| (500..600).contains(&status))
}

/// Whether the URL does not exist or the method is not supported.
pub(crate) fn is_unknown_there(error: &HttpFailure) -> bool {
    matches!(status(error), Some(404 | 405 | 501))
}

/// Whether the server responded at all.
pub(crate) fn is_answered(error: &ServiceError) -> bool {
    matches!(error, ServiceError::McpError(_) | ServiceError::UnexpectedResponse)
        || failed_over_http(error, |error| match error {
            StreamableHttpError::Client(error) => error.status().is_some(),
            StreamableHttpError::HttpStatus(_)
            | StreamableHttpError::UnexpectedServerResponse(_)
            | StreamableHttpError::UnexpectedContentType(_)
            | StreamableHttpError::ResponseBodyTooLarge { .. }
            | StreamableHttpError::Deserialize(_) => true,
            _ => false,
        })
}

fn status(error: &HttpFailure) -> Option<u16> {
    match error {
        StreamableHttpError::HttpStatus(error) => Some(error.status),
        StreamableHttpError::Client(error) => error.status().map(|status| status.as_u16()),
        // The library uses this text for most error statuses.
        StreamableHttpError::UnexpectedServerResponse(said) => {
            said.strip_prefix("HTTP ")?.split(' ').next()?.parse().ok()
        }
        _ => None,
    }
}

/// Whether a request failed over HTTP in a way that `is` matches.
pub(crate) fn failed_over_http(error: &ServiceError, is: impl Fn(&HttpFailure) -> bool) -> bool {
    match error {
        ServiceError::TransportSend(error) => caused_by(&*error.error, is),
        _ => false,
    }
}

fn caused_by(error: &(dyn Error + Send + Sync + 'static), is: impl Fn(&HttpFailure) -> bool) -> bool {
    let mut cause: Option<&(dyn Error + 'static)> = Some(error);
    while let Some(error) = cause {
        if error.downcast_ref::<HttpFailure>().is_some_and(&is) {
            return true;
        }
        cause = error.source();
    }
    false
}

/// Formats a failed request in plain text.
pub(crate) fn told_service(error: &ServiceError) -> String {
    match error {
        ServiceError::TransportSend(error) => told(&*error.error),
        ServiceError::TransportClosed => "the connection was lost".into(),
        other => told(other),
    }
}

/// Formats an error with its causes, without repetitions, short enough for one line.
fn told(error: &(dyn Error + 'static)) -> String {
    let mut text = without_address(&error.to_string());
    let mut cause = error.source();
    while let Some(error) = cause {
        let more = without_address(&error.to_string());
        if !text.contains(&more) {
            text.push_str(": ");
            text.push_str(&more);
        }
        cause = error.source();
    }
    text.truncate(text.floor_char_boundary(MAX_TOLD_BYTES));
    text
}

/// Removes the URL that `reqwest` appends to its messages, because its query may contain a key.
fn without_address(text: &str) -> String {
    match (text.find(" for url ("), text.rfind(')')) {
        (Some(from), Some(to)) if from < to => format!("{}{}", &text[..from], &text[to + 1..]),
        (Some(from), _) => text[..from].to_owned(),
        (None, _) => text.to_owned(),
    }
}

/// Maximum size of an error text, in bytes. An error may contain a whole page.
const MAX_TOLD_BYTES: usize = 500;
