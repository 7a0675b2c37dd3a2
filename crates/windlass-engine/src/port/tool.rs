//! The tool port: a spec, an effect class, and a call.
//!
//! A tool never decides whether it may run, and never retries its own calls. It returns errors for the model as a
//! [`ToolOutput`]; a call without an answer yet returns another [`ToolOutcome`].

use std::sync::Arc;

use async_trait::async_trait;
use bytes::Bytes;
use serde_json::Value;
use tokio_util::sync::CancellationToken;
use windlass_machine::{
    Annotations, Answer, Area, CallKey, Digest, EffectClass, EffectId, InterruptKind, Rest, RunId, Terms,
    ThreadId, Timestamp, ToolSpec,
};

use super::background::Background;
use super::offload::OffloadedResults;

/// A tool that a model can call.
#[async_trait]
pub trait Tool: Send + Sync {
    /// Returns the name, description, schema and annotations. They must not change during the tool's life.
    fn spec(&self) -> &ToolSpec;

    /// Returns properties in addition to the spec. They must not change during the tool's life.
    fn traits(&self) -> ToolTraits<'_> {
        ToolTraits::default()
    }

    /// Returns the effects of a call with these arguments. Override this method for a tool whose effects depend on
    /// the arguments, such as a tool that both reads and writes. The result must depend on the arguments alone.
    fn conduct(&self, _arguments: &Value) -> Conduct {
        let spec = self.spec();
        Conduct { annotations: spec.annotations, class: self.traits().effect_class(spec), added: Vec::new() }
    }

    /// Returns why calls currently fail, for example because the server is down; `None` if the tool is available.
    /// Lists of tools show this text.
    fn unavailable(&self) -> Option<String> {
        None
    }

    /// Returns the server that a call with these arguments goes to, so that rules for
    /// that server apply. The result differs from [`ToolTraits::server`] only for an
    /// engine tool that reaches several servers. It must depend on the arguments alone.
    fn server_for(&self, _arguments: &Value) -> Option<String> {
        self.traits().server.map(str::to_owned)
    }

    /// Whether runs of a workspace are shown the tool. If a model calls
    /// the tool in another workspace, the tool itself answers the call.
    fn is_offered(&self, _workspace: &str) -> bool {
        true
    }

    /// Returns the manager of the tool's background commands, if the tool has such commands.
    fn background(&self) -> Option<Arc<dyn Background>> {
        None
    }

    /// Returns the question of a call, for a tool whose purpose is to ask people. The driver asks first and then
    /// starts the call with the reply. If the arguments contain no question, return `None`: the call then starts
    /// without a reply and reports the error.
    fn asks(&self, _arguments: &Value) -> Option<Ask> {
        None
    }

    /// Whether a call with these arguments leaves work running in its thread after it has returned, such as a
    /// background command. Such a call is rejected outside a conversation, because no component would end that work.
    fn outlives(&self, _arguments: &Value) -> bool {
        false
    }

    /// Describes the effects of a call for its approvers, if [`ToolTraits::previews`]: a diff, a plan or a price. The
    /// preview must have no effects, and the same state must give the same text. The driver requests the text again
    /// before an approved call starts. If the text differs, people have to approve again.
    async fn preview(&self, _context: CallContext, _arguments: Value) -> Result<String, String> {
        Err(format!("the tool `{}` cannot tell what it would do", self.spec().name))
    }

    /// Runs one call. `arguments` match the schema. The driver contains panics and hangs,
    /// and on a multi-threaded runtime also a call that blocks its thread. A call that
    /// blocks its thread continues after its timeout until its next await point.
    async fn call(&self, context: CallContext, arguments: Value) -> ToolOutcome;

    /// Notifies the tool that a deferred or asking call will never resume, because its run has ended. The tool may
    /// stop work that the call started elsewhere. `state` is the call's recorded state. The notification is best
    /// effort: it is sent once, never recorded, and omitted if the process dies.
    async fn let_go(&self, _state: &str) {}
}

/// Properties of a tool in addition to its spec. Set the fields that differ from [`default`](ToolTraits::default) and
/// end with `..ToolTraits::default()`, so that new fields do not break the code.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ToolTraits<'a> {
    /// Effect class of the calls; `None`: derived from the annotations.
    pub class: Option<EffectClass>,
    /// Arguments that are paths in the working folder, as JSON pointers. Rules judge the files that the paths resolve
    /// to. An approval covers those files, and the call's folder opens no other files under these paths.
    pub path_arguments: &'a [&'static str],
    /// Subject area; some modes withhold the tools of an area.
    pub area: Area,
    /// Whether some calls only read, depending on their arguments, although the annotations do not declare it. Modes
    /// without changes then show the tool and refuse its other calls.
    pub reads_too: bool,
    /// Whether the annotations are untrusted. A server's annotations
    /// are untrusted unless an administrator trusts the server.
    pub is_untrusted: bool,
    /// Name of the server that provides the tool; `None` for an engine tool.
    pub server: Option<&'a str>,
    /// The tool's name on its server, if it differs from the spec's name. Two servers may have tools of the same
    /// name.
    pub remote_name: Option<&'a str>,
    /// Whether the tool changes files only through the call's folder, which records each change. A call of another
    /// tool may change files without a record unless the call is pure; a restore therefore reports the call.
    pub records_changes: bool,
    /// Key of the tool's state in the thread, shared by all tools with the same key. The state belongs to the
    /// journal: a fork copies it, and a rollback reverts it.
    pub keeps: Option<&'a str>,
    /// Name of the toolset that the tool itself requests.
    pub toolset: Option<&'a str>,
    /// Whether the tool validates its own arguments. The driver then calls it even if they do not match the schema.
    pub checks_arguments: bool,
    /// Whether the tool returns complete offloaded results. Its own results are never offloaded.
    pub fetches: bool,
    /// Whether [`Tool::preview`] can describe a call before it runs.
    pub previews: bool,
    /// Whether each pure call only reads the working folder or the thread's tool state. Such a call uses no network,
    /// changes nothing, reports no progress, and never asks or defers. The driver may run it before its start is
    /// durable, and record start and result in one append.
    pub reads_locally: bool,
}

impl ToolTraits<'_> {
    /// Returns the effect class of a tool with this spec.
    pub fn effect_class(&self, spec: &ToolSpec) -> EffectClass {
        self.class.unwrap_or_else(|| EffectClass::from_annotations(spec.annotations))
    }
}

/// The effects of one call.
#[derive(Clone, Debug, PartialEq)]
pub struct Conduct {
    /// Hints about the call's effects.
    pub annotations: Annotations,
    /// Determines whether the call may be repeated after its outcome was lost.
    pub class: EffectClass,
    /// Names and digests of the call's further inputs besides its arguments, such as the target address. An approval
    /// is bound to them. Must not contain digests of secrets.
    pub added: Vec<(String, Digest)>,
}

/// A source of tools that change while the engine runs, such as the tools of servers.
///
/// If several sources or the engine provide the same name, the code that reads the source resolves the conflict.
/// Within a source, names must be unique.
pub trait ToolSource: Send + Sync {
    /// Returns the current tools, sorted by name. A temporarily unreachable tool stays in the list; its calls return
    /// an error.
    fn tools(&self) -> Arc<[Arc<dyn Tool>]>;

    /// Returns a number that changes whenever [`ToolSource::tools`]
    /// changes. Must be cheap, because the driver reads it often.
    fn version(&self) -> u64;
}

/// Context of a call, in addition to its arguments.
#[derive(Clone)]
pub struct CallContext {
    /// The tenant of the thread.
    pub workspace: Arc<str>,
    /// Thread of the call.
    pub thread: ThreadId,
    /// Run of the call.
    pub run: RunId,
    /// Step and index of the call.
    pub call: CallKey,
    /// Stable id of the effect; the same for every start of the call.
    pub effect_id: EffectId,
    /// The effect class that was recorded when the call was allowed, including an administrator's override. `None`
    /// without a verdict: for a preview, and for a read of another call's outcome.
    pub class: Option<EffectClass>,
    /// Cancelled when the call should end; the driver kills the call 5 s later.
    pub cancel: CancellationToken,
    /// The working folder; `None` if the thread has none.
    pub folder: Option<Arc<crate::tool::WorkingFolder>>,
    /// Time of this start of the call.
    pub now: Timestamp,
    /// Time zone for times shown to the model, as an offset from UTC in minutes.
    pub utc_offset_minutes: Option<i32>,
    /// The tool's state in the thread, if the tool has stored a state. The state only changes during a pure call,
    /// because pure calls may run in parallel with other calls.
    pub kept: Option<String>,
    /// Access to complete offloaded results, for a tool that fetches them.
    pub results: OffloadedResults,
    /// The reply to the call's question; `None` at the first start.
    pub reply: Option<ToolReply>,
    /// The state of a deferred call that resumes; `None` at the first start, and if `reply` is set.
    pub resumed: Option<ToolResumed>,
    /// Sends progress to watchers. Progress is never recorded, and is lost if no watcher is connected. Each report
    /// restarts the call's timeout.
    pub progress: ProgressSender,
}

/// The reply to a call's question.
#[derive(Clone, Debug, PartialEq)]
pub struct ToolReply {
    /// The answer, or that people declined to answer.
    pub answer: Answer,
    /// The state that the tool returned with the question.
    pub state: Option<String>,
}

/// State of a deferred call when it resumes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ToolResumed {
    /// Number of times that the call was deferred.
    pub times: u32,
    /// The state that the tool returned with the deferral.
    pub state: Option<String>,
}

/// A request to resume a call later. During the delay the call has no task, memory or process. A call may be deferred
/// 10,000 times, for at most a year each; a longer delay is cut to a year.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Deferral {
    /// Delay in milliseconds.
    pub after_ms: u64,
    /// Data that the tool gets back when the call resumes; recorded in the journal.
    pub state: Option<String>,
    /// Determines whether the rest of the call may be repeated if its outcome is lost. A call that only polls work
    /// that was started elsewhere returns [`Rest::Repeatable`], with any effect class.
    pub rest: Rest,
}

/// A question to people that a call needs before it can continue.
#[derive(Clone, Debug, PartialEq)]
pub struct Ask {
    /// A question, a sign-in or a hand-off.
    pub kind: InterruptKind,
    /// The approvers, and the action on expiry.
    pub terms: Terms,
    /// Data that the tool gets back with the reply; recorded in the journal.
    pub state: Option<String>,
}

/// Sends progress texts. Never blocks; texts are dropped if no watcher is connected.
#[derive(Clone, Default)]
pub struct ProgressSender(pub(crate) Option<Arc<dyn Fn(String) + Send + Sync>>);

impl ProgressSender {
    /// Creates a sender that calls `send`, which must not block.
    pub fn new(send: impl Fn(String) + Send + Sync + 'static) -> Self {
        Self(Some(Arc::new(send)))
    }

    /// Reports progress to the watchers.
    pub fn report(&self, text: impl Into<String>) {
        if let Some(send) = &self.0 {
            send(text.into());
        }
    }
}

/// The result of a started call.
#[derive(Clone, Debug, PartialEq)]
pub enum ToolOutcome {
    /// An answer, which may be an error.
    Done(ToolOutput),
    /// The call needs a reply from people. The driver starts it again with the reply.
    Ask(Box<Ask>),
    /// The call resumes later: the driver starts it again at that time. If the run is cancelled before, the driver
    /// does not start the call, and the call is in doubt unless it is pure.
    Defer(Box<Deferral>),
    /// The call was sent and got no answer, so its outcome is unknown. The effect class decides whether the call is
    /// repeated, as after a killed call. A deferred call is not resumed to reveal the outcome.
    Unknown {
        /// The reason for the missing answer.
        reason: String,
    },
}

impl ToolOutcome {
    /// Returns a text answer.
    pub fn text(text: impl Into<String>) -> Self {
        ToolOutput::text(text).into()
    }

    /// Returns an error that the model can read and react to.
    pub fn error(text: impl Into<String>) -> Self {
        ToolOutput::error(text).into()
    }

    /// Returns an error because the tool's backend is unavailable and the call had no effect.
    pub fn unavailable(text: impl Into<String>) -> Self {
        ToolOutput::unavailable(text).into()
    }

    /// Asks people a question before the call continues.
    pub fn ask(ask: Ask) -> Self {
        Self::Ask(Box::new(ask))
    }

    /// Defers the call.
    pub fn defer(deferral: Deferral) -> Self {
        Self::Defer(Box::new(deferral))
    }

    /// Returns the state that the tool gets back when the call is started again.
    pub fn state(&self) -> Option<&str> {
        match self {
            Self::Ask(ask) => ask.state.as_deref(),
            Self::Defer(deferral) => deferral.state.as_deref(),
            Self::Done(_) | Self::Unknown { .. } => None,
        }
    }

    /// Reports that the call was sent and its outcome is unknown.
    pub fn unknown(reason: impl Into<String>) -> Self {
        Self::Unknown { reason: reason.into() }
    }
}

impl From<ToolOutput> for ToolOutcome {
    fn from(output: ToolOutput) -> Self {
        Self::Done(output)
    }
}

/// A call's answer for the model.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct ToolOutput {
    /// Parts in display order. The driver drops the last parts if a result has too many.
    pub parts: Vec<OutputPart>,
    /// Whether the answer reports an error.
    pub error: bool,
    /// New state of the tool in the thread, at most 256 KiB; `None` leaves it unchanged. The state is recorded
    /// together with the answer or not at all, so that a call without other effects may be repeated.
    pub keep: Option<String>,
    /// Whether the call had no effect because the tool's backend
    /// is unavailable. The run then lists the tool as missing.
    pub unavailable: bool,
}

/// A part of an answer.
#[derive(Clone, Debug, PartialEq)]
pub enum OutputPart {
    /// Text; the driver truncates it to the maximum size of a result.
    Text(String),
    /// An image.
    Image {
        /// Media type, for example `image/png`.
        media_type: String,
        /// Content of the file.
        bytes: Bytes,
    },
    /// A document.
    File {
        /// Name shown to the model.
        name: String,
        /// Media type, for example `application/pdf`.
        media_type: String,
        /// Content of the file.
        bytes: Bytes,
    },
}

impl ToolOutput {
    /// Creates a text answer.
    pub fn text(text: impl Into<String>) -> Self {
        Self { parts: vec![OutputPart::Text(text.into())], ..Self::default() }
    }
    /// Adds a new state for the tool to keep in the thread.
    pub fn keeping(mut self, value: impl Into<String>) -> Self {
        self.keep = Some(value.into());
        self
    }
    /// Creates an error because the tool's backend is unavailable and the call had no effect.
    pub fn unavailable(text: impl Into<String>) -> Self {
        Self { unavailable: true, ..Self::error(text) }
    }
    /// Creates an error that the model can read and react to.
    pub fn error(text: impl Into<String>) -> Self {
        Self { parts: vec![OutputPart::Text(text.into())], error: true, ..Self::default() }
    }
}
