//! HTTP+SSE, the transport of protocol 2024-11-05: one event stream from the server, and POST to the URL that
//! the stream's first event names. (LM-P1)
//!
//! A broken stream ends the connection: the transport neither resumes the stream nor sends a request again.

use std::collections::HashMap;
use std::sync::Arc;

use futures::StreamExt;
use futures::stream::BoxStream;
use rmcp::RoleClient;
use rmcp::service::{RxJsonRpcMessage, TxJsonRpcMessage};
use rmcp::transport::Transport;
use rmcp::transport::streamable_http_client::{SseError, StreamableHttpClient, StreamableHttpError};
use sse_stream::Sse;

use crate::health::Log;
use crate::wire::events::MAX_EVENT_BYTES;
use crate::wire::http::ServerHttp;
use crate::wire::lines::parse_message;
use crate::wire::pending::PendingRequests;

type Failure = StreamableHttpError<reqwest::Error>;

/// An open stream, and the address for requests.
pub(crate) struct SseTransport {
    http: ServerHttp,
    endpoint: Arc<str>,
    events: BoxStream<'static, Result<Sse, SseError>>,
    pending: PendingRequests,
}

impl SseTransport {
    /// Opens the stream and waits for the URL of requests. Unreadable events are reported in `log`.
    pub async fn open(http: ServerHttp, url: &str, log: Arc<Log>) -> Result<Self, Failure> {
        let uri: Arc<str> = Arc::from(url);
        let mut events = http
            .get_stream_with_max_sse_event_size(uri, None, None, None, HashMap::new(), MAX_EVENT_BYTES)
            .await?;
        while let Some(event) = events.next().await {
            let event = event?;
            if event.event.as_deref() == Some("endpoint") {
                let endpoint = address(url, event.data.as_deref().unwrap_or_default().trim())?;
                return Ok(Self { http, endpoint, events, pending: PendingRequests::new(log) });
            }
        }
        Err(Failure::UnexpectedEndOfStream)
    }
}

/// Returns the URL that a server named. The URL must have the server's own origin,
/// because requests contain the server's headers.
fn address(url: &str, named: &str) -> Result<Arc<str>, Failure> {
    let wrong = |why: String| Failure::UnexpectedServerResponse(why.into());
    let own = reqwest::Url::parse(url).map_err(|error| wrong(error.to_string()))?;
    let address = own.join(named).map_err(|error| wrong(format!("invalid URL `{named}`: {error}")))?;
    if address.origin() != own.origin() {
        return Err(wrong(format!("the server sent a URL of a different origin: `{named}`")));
    }
    Ok(Arc::from(address.as_str()))
}

impl Transport<RoleClient> for SseTransport {
    type Error = Failure;

    fn send(
        &mut self,
        item: TxJsonRpcMessage<RoleClient>,
    ) -> impl Future<Output = Result<(), Self::Error>> + Send + 'static {
        self.pending.record_request(&item);
        let (http, endpoint) = (self.http.clone(), self.endpoint.clone());
        async move {
            match http.post_message(endpoint, item, None, None, HashMap::new()).await {
                // The response arrives over the stream; some servers
                // answer the POST with the text `Accepted`.
                Ok(_) | Err(Failure::UnexpectedContentType(_)) => Ok(()),
                Err(error) => Err(error),
            }
        }
    }

    async fn receive(&mut self) -> Option<RxJsonRpcMessage<RoleClient>> {
        loop {
            if let Some(error) = self.pending.next_error() {
                return Some(error);
            }
            let event = match self.events.next().await? {
                Ok(event) => event,
                Err(error) => {
                    tracing::debug!(%error, "the stream was interrupted");
                    return None;
                }
            };
            if event.event.as_deref().is_some_and(|name| name != "message") {
                continue;
            }
            let line = parse_message(event.data.unwrap_or_default().trim().as_bytes());
            if let Some(message) = self.pending.receive(line) {
                return Some(message);
            }
        }
    }

    async fn close(&mut self) -> Result<(), Self::Error> {
        self.events = futures::stream::empty().boxed();
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_server_names_only_addresses_of_its_own() {
        let own = "http://127.0.0.1:9/sse";
        assert_eq!(&*address(own, "/messages?session=1").unwrap(), "http://127.0.0.1:9/messages?session=1");
        for other in ["http://127.0.0.1:10/messages", "https://127.0.0.1:9/m", "//elsewhere/m"] {
            assert!(address(own, other).is_err(), "{other}");
        }
    }
}
