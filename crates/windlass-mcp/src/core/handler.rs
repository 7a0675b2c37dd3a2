//! Handles the messages that a server sends without a request: progress, changed lists, log
//! lines, questions and requests for completions.
//!
//! Routes a question to its call, and rejects requests that the client does not support.

use std::sync::Arc;

use rmcp::ErrorData;
use rmcp::handler::client::ClientHandler;
use rmcp::model::{
    ClientCapabilities, ClientConfig, CreateMessageRequestParams, CreateMessageResult, ElicitRequestParams,
    ElicitResult, ElicitationAction, ElicitationCapability, ErrorCode, FormElicitationCapability,
    Implementation, JsonObject, ListRootsResult, LoggingMessageNotificationParam, ProgressNotificationParam,
    ProtocolVersion, SamplingCapability, TASKS_EXTENSION_ID, UrlElicitationCapability,
};
use rmcp::service::{InboundStreamOrigin, NotificationContext, RequestContext, RoleClient};
use tokio::sync::{Notify, oneshot};

use crate::core::calls::{Calls, Elicited};
use crate::core::sampling::Sampling;
use crate::health::Log;
use crate::mask::Masks;

/// The client side of one connection.
pub(crate) struct Handler {
    pub calls: Arc<Calls>,
    pub log: Arc<Log>,
    pub masks: Arc<Masks>,
    pub lists_changed: Arc<Notify>,
    pub sampling: Option<Sampling>,
}

impl Handler {
    /// Returns the request that a message belongs to; `None` if the transport does not report it.
    fn origin(context: &RequestContext<RoleClient>) -> Option<Result<&rmcp::model::RequestId, ErrorData>> {
        match context.extensions.get::<InboundStreamOrigin>()? {
            InboundStreamOrigin::OutboundRequest(id) => Some(Ok(id)),
            // A separate stream belongs to no call, but older servers ask questions on it.
            InboundStreamOrigin::Unassociated => None,
        }
    }

    fn capabilities(&self) -> ClientCapabilities {
        let mut capabilities = ClientCapabilities::default();
        let form = FormElicitationCapability::new().with_schema_validation(true);
        let elicitation =
            ElicitationCapability::new().with_form(form).with_url(UrlElicitationCapability::new());
        capabilities.elicitation = Some(elicitation);
        let tasks = (TASKS_EXTENSION_ID.to_owned(), JsonObject::new());
        capabilities.extensions = Some([tasks].into());
        if self.sampling.is_some() {
            capabilities.sampling = Some(SamplingCapability::default());
        }
        capabilities
    }
}

impl ClientHandler for Handler {
    fn get_info(&self) -> ClientConfig {
        // tidy: not our name
        let software = Implementation::new("windlass", env!("CARGO_PKG_VERSION"));
        ClientConfig::new(self.capabilities(), software)
            .with_protocol_version(ProtocolVersion::LATEST_WITH_INITIALIZE)
    }

    async fn create_elicitation(
        &self,
        params: ElicitRequestParams,
        context: RequestContext<RoleClient>,
    ) -> Result<ElicitResult, ErrorData> {
        let origin = Self::origin(&context).transpose()?;
        let (answer, answered) = oneshot::channel();
        let asked = match self.masks.said(params) {
            Ok(params) => self.calls.ask(origin, Elicited { params, answer }).await,
            Err(why) => Err(why),
        };
        if let Err(why) = asked {
            self.log.push(&format!("[windlass] rejected a question: {why}"));
            return Ok(ElicitResult::new(ElicitationAction::Cancel));
        }
        tokio::select! {
            answer = answered => Ok(answer.unwrap_or_else(|_| ElicitResult::new(ElicitationAction::Cancel))),
            () = context.ct.cancelled() => Ok(ElicitResult::new(ElicitationAction::Cancel)),
        }
    }

    async fn create_message(
        &self,
        params: CreateMessageRequestParams,
        context: RequestContext<RoleClient>,
    ) -> Result<CreateMessageResult, ErrorData> {
        let Some(sampling) = &self.sampling else {
            let message = "sampling is not enabled for this server";
            return Err(ErrorData::new(ErrorCode::METHOD_NOT_FOUND, message, None));
        };
        let refused = |why: String| ErrorData::new(ErrorCode::INVALID_REQUEST, why, None);
        let origin = Self::origin(&context).transpose()?;
        let run = self.calls.run(origin).await.map_err(refused)?;
        let params = self.masks.said(params).map_err(refused)?;
        sampling.complete(params, run).await.map_err(refused)
    }

    async fn list_roots(&self, _context: RequestContext<RoleClient>) -> Result<ListRootsResult, ErrorData> {
        Err(ErrorData::new(ErrorCode::METHOD_NOT_FOUND, "roots are not supported", None))
    }

    async fn on_progress(&self, params: ProgressNotificationParam, _: NotificationContext<RoleClient>) {
        let figure = match params.total {
            Some(total) if total > 0.0 => format!("{:.0} %", 100.0 * params.progress / total),
            Some(_) | None => format!("{}", params.progress),
        };
        let text = match params.message {
            // The text is redacted and truncated before it is queued: a server may send
            // more text, and more often, than users see.
            Some(message) => format!("{} ({figure})", self.masks.beginning(&message, PROGRESS_MAX_BYTES)),
            None => figure,
        };
        self.calls.progress(&params.progress_token, text);
    }

    async fn on_logging_message(
        &self,
        params: LoggingMessageNotificationParam,
        _: NotificationContext<RoleClient>,
    ) {
        self.log.push(&format!("[{:?}] {}", params.level, params.data));
    }

    async fn on_tool_list_changed(&self, _: NotificationContext<RoleClient>) {
        self.lists_changed.notify_one();
    }
}

/// Maximum size of a progress text, in bytes. The driver has the same limit.
pub(crate) const PROGRESS_MAX_BYTES: usize = 4 * 1024;
