//! A server's wish for a completion: off unless it is allowed and somebody handles it, and no deeper than three.
//!
//! Which model answers, and what may be spent on it, is the handler's.

use std::collections::{HashMap, VecDeque};
use std::sync::{Arc, Mutex, PoisonError};

use async_trait::async_trait;
use rmcp::model::{CreateMessageRequestParams, CreateMessageResult, SamplingMessage};
use serde_json::Value;
use windlass_machine::RunId;

/// How deep completions may nest that servers ask for: a completion whose run calls a tool whose server asks for one.
/// (LM-P5)
pub const SAMPLING_MAX_DEPTH: u32 = 3;

/// Answers a server's wish for a completion. (LM-P4)
#[async_trait]
pub trait SamplingHandler: Send + Sync {
    /// Gives the completion. The error is told to the server.
    async fn sample(
        &self,
        request: SamplingRequest,
        context: SamplingContext,
    ) -> Result<SamplingReply, String>;
}

/// What a server wants completed.
#[derive(Clone, Debug, PartialEq)]
pub struct SamplingRequest {
    /// The parameters of `sampling/createMessage`, as the protocol has them.
    pub params: Value,
}

/// Who asks, and for what.
#[derive(Clone)]
pub struct SamplingContext {
    /// The server.
    pub server: String,
    /// The run whose call it is asked for.
    pub run: RunId,
    /// 1 for a call of a run that people started; one more for each completion around it.
    pub depth: u32,
    depths: Arc<Depths>,
}

impl SamplingContext {
    /// Says that a run is part of this completion: what its tools' servers ask for is one deeper.
    pub fn nests(&self, run: &RunId) {
        self.depths.set(run, self.depth);
    }
}

/// A completion.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SamplingReply {
    /// The model that gave it.
    pub model: String,
    /// Its text.
    pub text: String,
    /// Why it ended, in the protocol's words: `endTurn`, `maxTokens`, `stopSequence`.
    pub stop_reason: String,
}

/// How deep runs are nested in completions.
#[derive(Default)]
pub(crate) struct Depths(Mutex<(HashMap<RunId, u32>, VecDeque<RunId>)>);

/// Nested runs that are remembered: far more than run at once.
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

/// What a server that may ask for completions is answered with.
#[derive(Clone)]
pub(crate) struct Sampling {
    pub server: String,
    pub handler: Arc<dyn SamplingHandler>,
    pub depths: Arc<Depths>,
}

impl Sampling {
    /// Has a completion made. The error is told to the server.
    pub async fn complete(
        &self,
        params: CreateMessageRequestParams,
        run: RunId,
    ) -> Result<CreateMessageResult, String> {
        let depth = self.depths.of(&run) + 1;
        if depth > SAMPLING_MAX_DEPTH {
            return Err(format!("completions nest {SAMPLING_MAX_DEPTH} deep at most"));
        }
        let params = serde_json::to_value(params).map_err(|error| error.to_string())?;
        let context =
            SamplingContext { server: self.server.clone(), run, depth, depths: self.depths.clone() };
        let reply = self.handler.sample(SamplingRequest { params }, context).await?;
        let message = SamplingMessage::assistant_text(reply.text);
        Ok(CreateMessageResult::new(message, reply.model).with_stop_reason(reply.stop_reason))
    }
}
