//! The requests that a server has not answered, and the errors that replace unreadable answers.
//!
//! Both stream transports (a process and HTTP+SSE) use this module. The protocol library drops a message that
//! it cannot parse, so that the request would time out. The module never retries a request.

use std::collections::{HashSet, VecDeque};
use std::sync::Arc;

use rmcp::RoleClient;
use rmcp::model::{ClientNotification, ErrorCode, ErrorData, JsonRpcMessage, RequestId};
use rmcp::service::{RxJsonRpcMessage, TxJsonRpcMessage};

use crate::health::{Log, OUR_OWN};
use crate::wire::lines::{Line, Recipient, Unreadable};

/// The error code of a request whose outcome is unknown, because an unreadable message may have been its
/// answer. The protocol reserves no code near this one.
pub(crate) const OUTCOME_UNKNOWN: ErrorCode = ErrorCode(i32::MIN);

/// Maximum number of logged lines outside the protocol. A server may print endless logs to stdout, which must
/// not displace its stderr lines.
const STRAYS_MAX: usize = 20;

/// The open requests of one connection.
pub(crate) struct PendingRequests {
    open: HashSet<RequestId>,
    /// Errors to deliver in place of unreadable answers.
    synthetic_errors: VecDeque<RxJsonRpcMessage<RoleClient>>,
    /// Number of lines outside the protocol that were logged.
    strays: usize,
    log: Arc<Log>,
}

impl PendingRequests {
    pub fn new(log: Arc<Log>) -> Self {
        Self { open: HashSet::new(), synthetic_errors: VecDeque::new(), strays: 0, log }
    }

    /// Records a request before it is sent. A cancelled request no longer needs an answer.
    pub fn record_request(&mut self, item: &TxJsonRpcMessage<RoleClient>) {
        match item {
            JsonRpcMessage::Request(request) => {
                self.open.insert(request.id.clone());
            }
            JsonRpcMessage::Notification(sent) => {
                if let ClientNotification::CancelledNotification(cancelled) = &sent.notification
                    && let Some(id) = &cancelled.params.request_id
                {
                    self.open.remove(id);
                }
            }
            JsonRpcMessage::Response(_) | JsonRpcMessage::Error(_) => {}
        }
    }

    /// Returns the next error that replaces an unreadable answer.
    pub fn next_error(&mut self) -> Option<RxJsonRpcMessage<RoleClient>> {
        self.synthetic_errors.pop_front()
    }

    /// Processes a line of the server. Returns a message to deliver. The errors of an unreadable line are
    /// returned by [`Self::next_error`].
    pub fn receive(&mut self, line: Line) -> Option<RxJsonRpcMessage<RoleClient>> {
        match line {
            Line::Message(message) => {
                match &*message {
                    JsonRpcMessage::Response(response) => drop(self.close_request(&response.id)),
                    JsonRpcMessage::Error(error) => {
                        if let Some(id) = &error.id {
                            self.close_request(id);
                        }
                    }
                    JsonRpcMessage::Request(_) | JsonRpcMessage::Notification(_) => {}
                }
                Some(*message)
            }
            Line::Unreadable(unreadable) => {
                self.fail_requests(unreadable);
                None
            }
        }
    }

    /// Removes the request that an answer belongs to and returns its
    /// id. Some servers return a number as a text.
    fn close_request(&mut self, id: &RequestId) -> Option<RequestId> {
        if let Some(id) = self.open.take(id) {
            return Some(id);
        }
        let RequestId::String(text) = id else { return None };
        self.open.take(&RequestId::Number(text.parse().ok()?))
    }

    /// Fails the request whose answer is unreadable. If the answer has no id, the outcome of every open
    /// request is unknown. One of them was answered, and the others may still be running.
    fn fail_requests(&mut self, Unreadable { recipient, why }: Unreadable) {
        let is_answer = recipient != Recipient::None;
        let failed = match recipient {
            Recipient::Request(id) => {
                let answered = format!("the server responded, but the response cannot be parsed: {why}");
                let error = ErrorData::new(ErrorCode::PARSE_ERROR, answered, None);
                self.close_request(&id).map(|id| (id, error)).into_iter().collect()
            }
            Recipient::UnknownRequest => {
                let unknown = format!("the server sent a response without a readable id: {why}");
                let error = ErrorData::new(OUTCOME_UNKNOWN, unknown, None);
                self.open.drain().map(|id| (id, error.clone())).collect()
            }
            Recipient::None if self.strays == STRAYS_MAX => return,
            Recipient::None => {
                self.strays += 1;
                Vec::new()
            }
        };
        let kind = if is_answer { "a response" } else { "a line" };
        if is_answer {
            tracing::warn!(%why, requests = failed.len(), "cannot parse a response of a tool server");
        } else {
            tracing::debug!(%why, "a line of a tool server is not a message");
        }
        self.log.push(&format!("{OUR_OWN}cannot parse {kind} of the server: {why}"));
        let errors = failed.into_iter().map(|(id, error)| JsonRpcMessage::error(error, Some(id)));
        self.synthetic_errors.extend(errors);
    }
}

#[cfg(test)]
mod tests {
    use std::borrow::Cow;

    use rmcp::model::{ClientRequest, PingRequest};

    use super::*;
    use crate::mask::Masks;
    use crate::{McpServer, Stdio, Transport};

    fn pending(ids: impl IntoIterator<Item = i64>) -> PendingRequests {
        let server = McpServer::new("s", Transport::Stdio(Stdio::new("sh", [""; 0])));
        let mut pending = PendingRequests::new(Arc::new(Log::masking(Arc::new(Masks::of(&server)))));
        for id in ids {
            let ping = ClientRequest::PingRequest(PingRequest::default());
            pending.record_request(&JsonRpcMessage::request(ping, RequestId::Number(id)));
        }
        pending
    }

    fn unreadable(recipient: Recipient) -> Line {
        Line::Unreadable(Unreadable { recipient, why: Cow::Borrowed("it is not JSON") })
    }

    /// Returns the ids and codes of the errors that replace answers.
    fn errors(pending: &mut PendingRequests) -> Vec<(RequestId, ErrorCode)> {
        let next = || match pending.next_error()? {
            JsonRpcMessage::Error(error) => Some((error.id?, error.error.code)),
            other => panic!("{other:?}"),
        };
        let mut errors: Vec<_> = std::iter::from_fn(next).collect();
        errors.sort_by_key(|(id, _)| id.to_string());
        errors
    }

    #[test]
    fn an_unreadable_answer_fails_its_own_request_alone() {
        for id in [RequestId::Number(7), RequestId::String("7".into())] {
            let mut pending = pending([6, 7]);
            assert!(pending.receive(unreadable(Recipient::Request(id))).is_none());
            assert_eq!(errors(&mut pending), [(RequestId::Number(7), ErrorCode::PARSE_ERROR)]);
            assert_eq!(pending.open, HashSet::from([RequestId::Number(6)]));
        }
    }

    #[test]
    fn an_answer_without_an_id_leaves_the_outcome_of_every_request_unknown() {
        let mut pending = pending([6, 7]);
        pending.receive(unreadable(Recipient::UnknownRequest));
        let unknown = [6, 7].map(|id| (RequestId::Number(id), OUTCOME_UNKNOWN));
        assert_eq!(errors(&mut pending), unknown);
        // An unreadable answer to a closed request fails no other request.
        pending.receive(unreadable(Recipient::Request(RequestId::Number(6))));
        assert_eq!(errors(&mut pending), []);
    }

    #[test]
    fn lines_outside_the_protocol_are_logged_a_few_times() {
        let mut pending = pending([7]);
        for _ in 0..600 {
            pending.receive(unreadable(Recipient::None));
        }
        assert_eq!(pending.log.lines().len(), STRAYS_MAX);
        pending.receive(unreadable(Recipient::Request(RequestId::Number(7))));
        assert_eq!(pending.log.lines().len(), STRAYS_MAX + 1);
    }
}
