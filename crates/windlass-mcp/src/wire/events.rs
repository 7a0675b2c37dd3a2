//! SSE events of Streamable HTTP. An unreadable response is replaced by a JSON-RPC error, because the protocol library
//! drops it and the request would time out.

use std::sync::Arc;

use futures::StreamExt;
use futures::stream::BoxStream;
use rmcp::model::{
    ClientJsonRpcMessage, ErrorCode, ErrorData, JsonRpcMessage, RequestId, ServerJsonRpcMessage,
};
use rmcp::transport::streamable_http_client::SseError;
use sse_stream::Sse;

use crate::health::{Log, OUR_OWN};
use crate::wire::lines::{Line, Recipient, Unreadable, parse_message};

/// Maximum size of an SSE event, in bytes; the same as the library's limit for a line over stdio.
pub(crate) const MAX_EVENT_BYTES: usize = 16 * 1024 * 1024;

/// The events of a server.
pub(crate) type Events = BoxStream<'static, Result<Sse, SseError>>;

/// Returns the id of a message that is a request.
pub(crate) fn request_id(message: &ClientJsonRpcMessage) -> Option<RequestId> {
    match message {
        JsonRpcMessage::Request(request) => Some(request.id.clone()),
        JsonRpcMessage::Notification(_) | JsonRpcMessage::Response(_) | JsonRpcMessage::Error(_) => None,
    }
}

/// Replaces unreadable responses by errors. `asked` is the request of the POST; `None` for a GET stream.
pub(crate) fn with_errors(events: Events, asked: Option<RequestId>, log: Arc<Log>) -> Events {
    let readable = move |event: Result<Sse, SseError>| match event {
        Ok(event) => Ok(readable(event, asked.as_ref(), &log)),
        Err(error) => match (&asked, is_too_large(&error)) {
            (Some(id), true) => {
                let why = format!("it is longer than {MAX_EVENT_BYTES} bytes");
                Ok(error_event(id.clone(), &why, &log))
            }
            _ => Err(error),
        },
    };
    events.map(readable).boxed()
}

fn readable(event: Sse, asked: Option<&RequestId>, log: &Log) -> Sse {
    let is_message = event.event.as_deref().is_none_or(|name| name == "message");
    let data = event.data.as_deref().unwrap_or_default().trim();
    if !is_message || data.is_empty() {
        return event;
    }
    let Line::Unreadable(Unreadable { recipient, why }) = parse_message(data.as_bytes()) else {
        return event;
    };
    let failed = match (recipient, asked) {
        // Some servers return a number as a text.
        (Recipient::Request(id), Some(asked)) if id.to_string() == asked.to_string() => asked.clone(),
        (Recipient::Request(id), _) => id,
        (Recipient::UnknownRequest, Some(asked)) => asked.clone(),
        (Recipient::UnknownRequest, None) | (Recipient::None, _) => return event,
    };
    Sse { id: event.id, retry: event.retry, ..error_event(failed, &why, log) }
}

/// Creates the error event for a request whose response is unreadable.
fn error_event(id: RequestId, why: &str, log: &Log) -> Sse {
    tracing::warn!(why, "cannot parse a response of a tool server");
    log.push(&format!("{OUR_OWN}cannot parse a response of the server: {why}"));
    let text = format!("the server responded, but the response cannot be parsed: {why}");
    let error: ServerJsonRpcMessage =
        JsonRpcMessage::error(ErrorData::new(ErrorCode::PARSE_ERROR, text, None), Some(id));
    // Cannot fail: the error has a number and short texts.
    let data = serde_json::to_string(&error).unwrap_or_default();
    Sse { data: Some(data), ..Sse::default() }
}

/// Whether an event was larger than the limit. The library does not name the error's type.
fn is_too_large(error: &SseError) -> bool {
    error.to_string().contains("exceeded the maximum size")
}
