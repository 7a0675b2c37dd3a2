//! The tool port: a shape, an effect class, and a call.
//!
//! A tool never decides whether it may run and never retries itself. What the model should see is
//! a [`ToolOutput`], also when it went wrong.

use std::sync::Arc;

use async_trait::async_trait;
use bytes::Bytes;
use serde_json::Value;
use tokio_util::sync::CancellationToken;
use windlass_machine::{
    Answer, CallKey, EffectClass, EffectId, InterruptKind, RunId, Terms, ThreadId, ToolSpec,
};

/// Something that a model can ask for.
#[async_trait]
pub trait Tool: Send + Sync {
    /// Name, description, schema and annotations; the same for the tool's life.
    fn spec(&self) -> &ToolSpec;

    /// What may be done again when the outcome was lost. Annotations of built-in tools are trusted.
    fn effect_class(&self) -> EffectClass {
        EffectClass::from_annotations(self.spec().annotations)
    }

    /// Whether the hints are believed. A server's are where an administrator has said so.
    fn is_trusted(&self) -> bool {
        true
    }

    /// The server that the tool belongs to, where it is not the engine's own.
    fn server(&self) -> Option<&str> {
        None
    }

    /// What a call asks people, where asking is what the tool is for: it is asked at once, and the call starts with the
    /// reply in its context. Arguments that make no question give `None`: the call starts without one, and says why.
    fn asks(&self, _arguments: &Value) -> Option<Ask> {
        None
    }

    /// Whether the tool can tell beforehand what a call would do.
    fn previews(&self) -> bool {
        false
    }

    /// Tells what a call would do, for the people who are asked to approve it: a difference, a plan, a price. Changes
    /// nothing. The same state of the world gives the same text: it is asked for again before an approved call starts,
    /// and another text asks people again.
    async fn preview(&self, _context: CallContext, _arguments: Value) -> Result<String, String> {
        Err(format!("the tool `{}` cannot tell what it would do", self.spec().name))
    }

    /// Runs one call. `arguments` satisfy the schema. Panics and hangs are contained by the driver. So is a call that
    /// blocks its thread, on a runtime of several threads; one that is killed then goes on until it next awaits.
    async fn call(&self, context: CallContext, arguments: Value) -> ToolOutput;
}

/// Tools that come and go while the engine runs: those of servers, for example.
///
/// A name that another source or the engine itself has is left to whoever asks the source; a source gives each of its
/// own names once.
pub trait ToolSource: Send + Sync {
    /// The tools at hand now, sorted by name. One that cannot be reached at the moment stays in it: its calls say why.
    fn tools(&self) -> Arc<[Arc<dyn Tool>]>;

    /// Another number says that [`ToolSource::tools`] gives others than before. It is cheap: it is read often.
    fn version(&self) -> u64;
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
    /// What people said to what the call asked; `None` at its first start.
    pub reply: Option<ToolReply>,
    /// Progress for whoever watches; lost when nobody does, and never recorded. It also gives the call its full time
    /// again.
    pub progress: ProgressSender,
}

/// What people said to what a call asked.
#[derive(Clone, Debug, PartialEq)]
pub struct ToolReply {
    /// A reply, or that it was declined.
    pub answer: Answer,
    /// What the tool wanted back.
    pub state: Option<String>,
}

/// What a call asks people before it can go on.
#[derive(Clone, Debug, PartialEq)]
pub struct Ask {
    /// A question, a sign-in or a hand-off.
    pub kind: InterruptKind,
    /// Whose reply counts, and what silence means.
    pub terms: Terms,
    /// What the tool wants back with the reply; recorded.
    pub state: Option<String>,
}

/// Sends progress texts; never blocks, and nothing is kept where nobody watches.
#[derive(Clone, Default)]
pub struct ProgressSender(pub(crate) Option<Arc<dyn Fn(String) + Send + Sync>>);

impl ProgressSender {
    /// Sends to whoever wants to hear; it must not block.
    pub fn new(send: impl Fn(String) + Send + Sync + 'static) -> Self {
        Self(Some(Arc::new(send)))
    }

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
    /// What has to be asked first. The call then has no answer yet: it is started again with the reply.
    pub ask: Option<Box<Ask>>,
    /// Why nobody knows what became of the call: it was sent, and no answer came. What that means is decided by its
    /// effect class, as for a call that was killed.
    pub lost: Option<String>,
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
        Self { parts: vec![OutputPart::Text(text.into())], error: false, ask: None, lost: None }
    }
    /// No answer yet: people have to be asked first.
    pub fn ask(ask: Ask) -> Self {
        Self { parts: Vec::new(), error: false, ask: Some(Box::new(ask)), lost: None }
    }
    /// No answer, and none will come: the call was sent, and what became of it is not known.
    pub fn lost(reason: impl Into<String>) -> Self {
        Self { parts: Vec::new(), error: false, ask: None, lost: Some(reason.into()) }
    }
    /// An error that the model can read and react to.
    pub fn error(text: impl Into<String>) -> Self {
        Self { parts: vec![OutputPart::Text(text.into())], error: true, ask: None, lost: None }
    }
}
