//! A server's requests for completions (sampling). Requests are rejected unless the configuration allows them
//! and a handler is set. They may nest at most three levels deep.
//!
//! The handler selects the model and its limits.

use std::collections::{HashMap, VecDeque};
use std::sync::{Arc, Mutex, PoisonError};

use async_trait::async_trait;
use rmcp::model::{CreateMessageRequestParams, CreateMessageResult, SamplingMessage};
use serde_json::Value;
use windlass_machine::RunId;

/// Maximum nesting depth of completions. A completion's run may call a tool whose
/// server requests another completion. (LM-P5)
pub const SAMPLING_MAX_DEPTH: u32 = 3;

/// Handles a server's requests for completions. (LM-P4)
#[async_trait]
pub trait SamplingHandler: Send + Sync {
    /// Returns the completion. An error is sent to the server.
    async fn sample(
        &self,
        request: SamplingRequest,
        context: SamplingContext,
    ) -> Result<SamplingReply, String>;
}

/// A server's request for a completion.
#[derive(Clone, Debug, PartialEq)]
pub struct SamplingRequest {
    /// The parameters of `sampling/createMessage`, in the protocol's shape.
    pub params: Value,
}

/// The origin of a request for a completion.
#[derive(Clone)]
pub struct SamplingContext {
    /// The name of the server that sent the request.
    pub server: String,
    /// The run whose call the request belongs to.
    pub run: RunId,
    /// The nesting depth: 1 for a call of a run that a user started, plus one for each enclosing completion.
    pub depth: u32,
    depths: Arc<Depths>,
}

impl SamplingContext {
    /// Registers a run as part of this completion. Requests of the servers of its tools are one level deeper.
    pub fn nests(&self, run: &RunId) {
        self.depths.set(run, self.depth);
    }
}

/// The completion that the handler returns.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SamplingReply {
    /// The model that produced the completion.
    pub model: String,
    /// The text of the completion.
    pub text: String,
    /// Why the completion ended, as in the protocol: `endTurn`, `maxTokens`, `stopSequence`.
    pub stop_reason: String,
}

/// Nesting depth by run.
#[derive(Default)]
pub(crate) struct Depths(Mutex<(HashMap<RunId, u32>, VecDeque<RunId>)>);

/// Maximum number of remembered runs. Far fewer run at the same time.
const MAX_RUNS: usize = 10_000;

impl Depths {
    fn set(&self, run: &RunId, depth: u32) {
        let (depths, order) = &mut *self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if depths.insert(run.clone(), depth).is_none() {
            order.push_back(run.clone());
        }
        while order.len() > MAX_RUNS {
            if let Some(oldest) = order.pop_front() {
                depths.remove(&oldest);
            }
        }
    }

    fn of(&self, run: &RunId) -> u32 {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).0.get(run).copied().unwrap_or(0)
    }
}

/// Handles the requests of one server.
#[derive(Clone)]
pub(crate) struct Sampling {
    pub server: String,
    pub handler: Arc<dyn SamplingHandler>,
    pub depths: Arc<Depths>,
}

impl Sampling {
    /// Produces a completion. The error is sent to the server.
    pub async fn complete(
        &self,
        params: CreateMessageRequestParams,
        run: RunId,
    ) -> Result<CreateMessageResult, String> {
        let depth = self.depths.of(&run) + 1;
        if depth > SAMPLING_MAX_DEPTH {
            return Err(format!("sampling requests can nest at most {SAMPLING_MAX_DEPTH} levels deep"));
        }
        let params = serde_json::to_value(params).map_err(|error| error.to_string())?;
        let context =
            SamplingContext { server: self.server.clone(), run, depth, depths: self.depths.clone() };
        let reply = self.handler.sample(SamplingRequest { params }, context).await?;
        let message = SamplingMessage::assistant_text(reply.text);
        Ok(CreateMessageResult::new(message, reply.model).with_stop_reason(reply.stop_reason))
    }
}
