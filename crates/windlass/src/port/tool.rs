//! The tool port: a shape, an effect class, and a call.
//!
//! A tool never decides whether it may run and never retries itself. What the model should see is
//! a [`ToolOutput`], also when it went wrong.

use std::sync::Arc;

use async_trait::async_trait;
use bytes::Bytes;
use serde_json::Value;
use tokio_util::sync::CancellationToken;
use windlass_machine::{CallKey, EffectClass, EffectId, RunId, ThreadId, ToolSpec};

/// Something that a model can ask for.
#[async_trait]
pub trait Tool: Send + Sync {
    /// Name, description, schema and annotations; the same for the tool's life.
    fn spec(&self) -> &ToolSpec;

    /// What may be done again when the outcome was lost. Annotations of built-in tools are trusted.
    fn effect_class(&self) -> EffectClass {
        EffectClass::from_annotations(self.spec().annotations)
    }

    /// Runs one call. `arguments` satisfy the schema. Panics and hangs are contained by the driver. So is a call that
    /// blocks its thread, on a runtime of several threads; one that is killed then goes on until it next awaits.
    async fn call(&self, context: CallContext, arguments: Value) -> ToolOutput;
}

/// What a call is given beside its arguments.
#[derive(Clone)]
pub struct CallContext {
    /// The thread that the call belongs to.
    pub thread: ThreadId,
    /// The run that the call belongs to.
    pub run: RunId,
    /// The call.
    pub call: CallKey,
    /// Stable id of the effect; the same however often the call is started.
    pub effect_id: EffectId,
    /// Fires when the call is to end; 5 s later it is killed.
    pub cancel: CancellationToken,
    /// The folder that tools work in, where there is one.
    pub folder: Option<Arc<crate::tool::WorkingFolder>>,
    /// Progress for whoever watches; lost when nobody does, and never recorded.
    pub progress: ProgressSender,
}

/// Sends progress texts; never blocks, and nothing is kept where nobody watches.
#[derive(Clone, Default)]
pub struct ProgressSender(pub(crate) Option<Arc<dyn Fn(String) + Send + Sync>>);

impl ProgressSender {
    /// Reports progress.
    pub fn report(&self, text: impl Into<String>) {
        if let Some(send) = &self.0 {
            send(text.into());
        }
    }
}

/// What a call answered, for the model.
#[derive(Clone, Debug, PartialEq)]
pub struct ToolOutput {
    /// The parts, in order; the driver leaves out the last ones of a result that has too many.
    pub parts: Vec<OutputPart>,
    /// Whether it went wrong.
    pub error: bool,
}

/// A part of an answer.
#[derive(Clone, Debug, PartialEq)]
pub enum OutputPart {
    /// Text; the driver shortens it to what a result may hold.
    Text(String),
    /// A picture.
    Image {
        /// For example `image/png`.
        media_type: String,
        /// The file's bytes.
        bytes: Bytes,
    },
    /// A document.
    File {
        /// The name shown to the model.
        name: String,
        /// For example `application/pdf`.
        media_type: String,
        /// The file's bytes.
        bytes: Bytes,
    },
}

impl ToolOutput {
    /// A text answer.
    pub fn text(text: impl Into<String>) -> Self {
        Self { parts: vec![OutputPart::Text(text.into())], error: false }
    }
    /// An error that the model can read and react to.
    pub fn error(text: impl Into<String>) -> Self {
        Self { parts: vec![OutputPart::Text(text.into())], error: true }
    }
}
